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

/** Of a recipient, or of all of a destination. */
export type RecentAttempt = AttemptRow & { readonly recipient: string; readonly message: string };

/** So many deliveries are looked through at most for those of one address: a table of millions is not. */
const NEWEST = 20_000;

const recent = define<{ recipient: string; destination: string; limit: number }>()((db, value) =>
  db
    .selectFrom((eb) =>
      eb
        .selectFrom('deliveries')
        .select(['id', 'message', 'recipient', 'destination'])
        .orderBy('id', 'desc')
        .limit(NEWEST)
        .as('newest'),
    )
    .innerJoin('attempts', 'attempts.delivery', 'newest.id')
    .selectAll('attempts')
    .select(['newest.recipient', 'newest.message'])
    .where((eb) =>
      eb.or([
        eb(eb.fn<string>('lower', ['newest.recipient']), '=', value('recipient')),
        eb('newest.destination', '=', value('destination')),
      ]),
    )
    .orderBy('attempts.at', 'desc')
    .orderBy('attempts.number', 'desc')
    .limit(value('limit')),
);

/** The last attempts to deliver to this address, among the newest 20,000 deliveries; newest first. */
export function recentAttemptsTo(store: Store, recipient: string, limit: number): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: recipient.toLowerCase(), destination: '', limit }));
}

/** The same to whatever address of the destination. */
export function recentAttemptsAt(store: Store, destination: string, limit: number): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: '', destination, limit }));
}

/** All attempts of a message, by delivery and number. */
export function attemptsOfMessage(store: Store, message: string): Promise<AttemptRow[]> {
  return store.select(ofMessage({ message }));
}
