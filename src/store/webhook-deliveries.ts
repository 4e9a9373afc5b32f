/**
 * What each webhook has been told and is still to be told: one row per webhook and event, so that an event that is found
 * twice is told once. A try is written, with the time of the next one, before anybody is dialled; the number of the try
 * tells it from any other, so that of several daemons one has it, and a late end of an old try changes nothing.
 */
import { sql, type Kysely } from 'kysely';
import { define, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { WebhookDeliveryRow } from './tables-accounts.ts';
import type { Tables } from './tables.ts';

/** In words that the partial index knows. */
const pending = sql<boolean>`state = 'pending'`;

type NewDelivery = Pick<WebhookDeliveryRow, 'id' | 'webhook' | 'event' | 'created_at'>;

function insert(db: Kysely<Tables>, value: Placeholders<NewDelivery>) {
  return db.insertInto('webhook_deliveries').values({
    id: value('id'),
    webhook: value('webhook'),
    event: value('event'),
    state: 'pending',
    attempts: 0,
    next_attempt_at: value('created_at'),
    last_attempt_at: null,
    last_status: null,
    last_result: null,
    created_at: value('created_at'),
    settled_at: null,
  });
}

/** The statement that makes a delivery, due at once; where the event has one it stays as it is. */
export const insertDelivery = define<NewDelivery>()((db, value) =>
  insert(db, value).onConflict((conflict) => conflict.columns(['webhook', 'event']).doNothing()),
);

/** The same, where one that there is begins anew under its id. */
export const replayDelivery = define<NewDelivery>()((db, value) =>
  insert(db, value).onConflict((conflict) =>
    conflict
      .columns(['webhook', 'event'])
      .doUpdateSet({ state: 'pending', attempts: 0, next_attempt_at: value('created_at'), settled_at: null }),
  ),
);

/** The statement that keeps a test: one try that is over. */
export const insertTest = define<
  Pick<WebhookDeliveryRow, 'id' | 'webhook' | 'state' | 'last_status' | 'last_result'> & { at: number; now: number }
>()((db, value) =>
  db.insertInto('webhook_deliveries').values({
    id: value('id'),
    webhook: value('webhook'),
    event: null,
    state: value('state'),
    attempts: 1,
    next_attempt_at: null,
    last_attempt_at: value('at'),
    last_status: value('last_status'),
    last_result: value('last_result'),
    created_at: value('at'),
    settled_at: value('now'),
  }),
);

/** The statement that takes a due delivery for its next try; it touches no row where somebody else has it. */
export const claimDelivery = define<{ id: string; attempts: number; now: number; next: number }>()((db, value) =>
  db
    .updateTable('webhook_deliveries')
    .set((eb) => ({
      attempts: eb('attempts', '+', 1),
      next_attempt_at: value('next'),
      last_attempt_at: value('now'),
    }))
    .where('id', '=', value('id'))
    .where(pending)
    .where('attempts', '=', value('attempts'))
    .where('next_attempt_at', '<=', value('now')),
);

interface Tried extends Pick<WebhookDeliveryRow, 'id' | 'attempts' | 'last_status'> {
  last_result: string;
}

/** The statement that ends a delivery with this try. */
export const endDelivery = define<Tried & { state: 'delivered' | 'failed'; now: number }>()((db, value) =>
  db
    .updateTable('webhook_deliveries')
    .set({
      state: value('state'),
      next_attempt_at: null,
      last_status: value('last_status'),
      last_result: value('last_result'),
      settled_at: value('now'),
    })
    .where('id', '=', value('id'))
    .where(pending)
    .where('attempts', '=', value('attempts')),
);

/** The statement that puts a delivery off to its next try. */
export const putOffDelivery = define<Tried & { next: number }>()((db, value) =>
  db
    .updateTable('webhook_deliveries')
    .set({
      next_attempt_at: value('next'),
      last_status: value('last_status'),
      last_result: value('last_result'),
    })
    .where('id', '=', value('id'))
    .where(pending)
    .where('attempts', '=', value('attempts')),
);

/** The statement that forgets deliveries made before `before`. */
export const forgetDeliveries = define<{ before: number }>()((db, value) =>
  db.deleteFrom('webhook_deliveries').where('created_at', '<', value('before')),
);

export type DueDelivery = Pick<WebhookDeliveryRow, 'id' | 'event' | 'attempts'>;

const due = define<{ webhook: string; now: number; limit: number }>()((db, value) =>
  db
    .selectFrom('webhook_deliveries')
    .select(['id', 'event', 'attempts'])
    .where('webhook', '=', value('webhook'))
    .where(pending)
    .where('next_attempt_at', '<=', value('now'))
    .orderBy('next_attempt_at')
    .limit(value('limit')),
);
const recent = define<{ webhook: string; limit: number }>()((db, value) =>
  db
    .selectFrom('webhook_deliveries')
    .leftJoin('events', 'events.id', 'webhook_deliveries.event')
    .selectAll('webhook_deliveries')
    .select('events.type')
    .where('webhook_deliveries.webhook', '=', value('webhook'))
    .orderBy('webhook_deliveries.id', 'desc')
    .limit(value('limit')),
);

/** Up to `limit` due deliveries of the webhook, longest due first. */
export function dueDeliveries(
  store: Store,
  wanted: { readonly webhook: string; readonly now: number; readonly limit: number },
): Promise<DueDelivery[]> {
  return store.select(due(wanted));
}

/** The newest deliveries of the webhook; `type` is null for a test, or where the event is gone. */
export function recentDeliveries(
  store: Store,
  webhook: string,
  limit: number,
): Promise<(WebhookDeliveryRow & { type: string | null })[]> {
  return store.select(recent({ webhook, limit }));
}

/** How many are still to be made. */
export async function countPending({ read }: Store): Promise<number> {
  const { count } = await read
    .selectFrom('webhook_deliveries')
    .select((eb) => eb.fn.countAll().as('count'))
    .where(pending)
    .executeTakeFirstOrThrow();
  return Number(count);
}
