/** Every try to deliver, one row each: when, where, over which TLS, and what the other side said. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { AttemptRow } from './tables.ts';

/** The statement that records an attempt. */
export const insertAttempt = define<AttemptRow>()((db, value) =>
  db
    .insertInto('attempts')
    .values({
      delivery: value('delivery'),
      number: value('number'),
      at: value('at'),
      host: value('host'),
      address: value('address'),
      tls: value('tls'),
      outcome: value('outcome'),
      reply: value('reply'),
    })
    // One that was taken back as interrupted after all ended: the first word stands.
    .onConflict((conflict) => conflict.doNothing()),
);

const ofMessage = define<{ message: string }>()((db, value) =>
  db
    .selectFrom('attempts')
    .innerJoin('deliveries', 'deliveries.id', 'attempts.delivery')
    .selectAll('attempts')
    .where('deliveries.message', '=', value('message'))
    .orderBy('attempts.delivery')
    .orderBy('attempts.number'),
);

/** All attempts of a message, by delivery and number. */
export function attemptsOfMessage(store: Store, message: string): Promise<AttemptRow[]> {
  return store.select(ofMessage({ message }));
}
