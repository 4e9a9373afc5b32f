/** Who was sent an acknowledgment when: the cap that makes acknowledgments useless to a spammer lives in the database. */
import { define } from './statement.ts';

/**
 * The statement that notes an acknowledgment at `at`; it touches no row where the address had one after `since` from any
 * form of the tenant, so that with `expect` 1 its whole unit fails.
 */
export const acknowledge = define<{ tenant: string; address: string; at: number; since: number }>()((db, value) =>
  db
    .insertInto('acknowledged')
    .values({ tenant: value('tenant'), address: value('address'), at: value('at') })
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'address'])
        .doUpdateSet({ at: value('at') })
        .where('acknowledged.at', '<=', value('since')),
    ),
);

/** The statement that forgets acknowledgments before `before`. */
export const forgetAcknowledged = define<{ before: number }>()((db, value) =>
  db.deleteFrom('acknowledged').where('at', '<', value('before')),
);
