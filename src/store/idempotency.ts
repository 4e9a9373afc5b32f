/** Idempotency keys: who began a request, and what it was answered. `status` 0 means that it is still in progress. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { IdempotencyRow } from './tables.ts';

/**
 * The statement that begins a request; it touches no row while the key is taken: answered after `expired`, or begun after
 * `abandoned` and not yet answered (times in ms).
 */
export const claimKey = define<{
  scope: string;
  key: string;
  hash: string;
  now: number;
  expired: number;
  abandoned: number;
}>()((db, value) =>
  db
    .insertInto('idempotency_keys')
    .values({
      scope: value('scope'),
      key: value('key'),
      hash: value('hash'),
      status: 0,
      response: '',
      created_at: value('now'),
    })
    .onConflict((conflict) =>
      conflict
        .columns(['scope', 'key'])
        .doUpdateSet({ hash: value('hash'), status: 0, response: '', created_at: value('now') })
        .where((eb) =>
          eb.or([
            eb('idempotency_keys.created_at', '<=', value('expired')),
            eb.and([
              eb('idempotency_keys.status', '=', 0),
              eb('idempotency_keys.created_at', '<=', value('abandoned')),
            ]),
          ]),
        ),
    ),
);

/** The statement that stores the answer; it touches no row where the claim was taken over meanwhile. */
export const answerKey = define<Omit<IdempotencyRow, 'hash'>>()((db, value) =>
  db
    .updateTable('idempotency_keys')
    .set({ status: value('status'), response: value('response') })
    .where('scope', '=', value('scope'))
    .where('key', '=', value('key'))
    .where('created_at', '=', value('created_at'))
    .where('status', '=', 0),
);

/** The statement that gives a claim back, so that the key may be used again. */
export const releaseKey = define<Pick<IdempotencyRow, 'scope' | 'key' | 'created_at'>>()((db, value) =>
  db
    .deleteFrom('idempotency_keys')
    .where('scope', '=', value('scope'))
    .where('key', '=', value('key'))
    .where('created_at', '=', value('created_at'))
    .where('status', '=', 0),
);

/** The statement that forgets keys begun before `before`. */
export const forgetKeys = define<{ before: number }>()((db, value) =>
  db.deleteFrom('idempotency_keys').where('created_at', '<', value('before')),
);

const byKey = define<{ scope: string; key: string }>()((db, value) =>
  db.selectFrom('idempotency_keys').selectAll().where('scope', '=', value('scope')).where('key', '=', value('key')),
);

/** What is known of the key, or undefined. */
export async function findKey(store: Store, scope: string, key: string): Promise<IdempotencyRow | undefined> {
  const [row] = await store.select(byKey({ scope, key }));
  return row;
}
