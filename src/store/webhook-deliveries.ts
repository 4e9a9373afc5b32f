/**
 * What webhooks were told and are still to be told: deliveries of the queue, one per webhook and event, so that an event
 * which is found twice is told once. All webhooks that are told of an event share one message, whose id is the event's.
 */
import { sql, type Kysely } from 'kysely';
import { noteDue } from './destinations.ts';
import { HELD } from './deliveries.ts';
import { listed } from './rows.ts';
import { define, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { WebhookRow, AttemptRow, DeliveryRow, Tables } from './tables.ts';

/** Webhook deliveries are tried, and kept, for this long at most, ms. */
const KEPT_MS = 30 * 86_400_000;

const insertMessage = define<{ id: string; tenant: string; environment: 'live' | 'test'; at: number; until: number }>()(
  (db, value) =>
    db
      .insertInto('messages')
      .values({
        id: value('id'),
        tenant: value('tenant'),
        kind: 'webhook',
        domain: '',
        source: '{}',
        body: 'none',
        size: 0,
        encoding: '7bit',
        destinations: 1,
        environment: value('environment'),
        created_at: value('at'),
        expires_at: value('until'),
      })
      .onConflict((conflict) => conflict.column('id').doNothing()),
);

type NewDelivery = Pick<DeliveryRow, 'id' | 'message' | 'tenant' | 'recipient' | 'event'> & {
  webhook: string;
  at: number;
  until: number;
};

function insert(db: Kysely<Tables>, value: Placeholders<NewDelivery>) {
  return db.insertInto('deliveries').values({
    id: value('id'),
    message: value('message'),
    tenant: value('tenant'),
    recipient: value('recipient'),
    destination: value('webhook'),
    state: 'queued',
    attempts: 0,
    next_attempt_at: value('at'),
    begun: 0,
    created_at: value('at'),
    expires_at: value('until'),
    webhook: value('webhook'),
    event: value('event'),
  });
}

const insertNew = define<NewDelivery>()((db, value) =>
  insert(db, value).onConflict((conflict) =>
    conflict.columns(['webhook', 'event']).where('webhook', 'is not', null).doNothing(),
  ),
);

/** One that is being tried, or that the operator holds, stays as it is. */
const insertAgain = define<NewDelivery>()((db, value) =>
  insert(db, value).onConflict((conflict) =>
    conflict
      .columns(['webhook', 'event'])
      .where('webhook', 'is not', null)
      .doUpdateSet({
        state: 'queued',
        attempts: 0,
        next_attempt_at: value('at'),
        expires_at: value('until'),
        settled_at: null,
        last_reply: null,
      })
      .where('deliveries.state', '<>', 'sending')
      .where(sql<boolean>`coalesce(deliveries.next_attempt_at, 0) < ${sql.lit(HELD)}`),
  ),
);

const forgetAttempts = define<{ webhook: string; events: string }>()((db, value, dialect) =>
  db.deleteFrom('attempts').where('delivery', 'in', (eb) =>
    eb
      .selectFrom('deliveries')
      .select('id')
      .where('webhook', '=', value('webhook'))
      .where('event', 'in', listed(value('events'), dialect))
      .where('state', '<>', 'sending')
      .where(sql<boolean>`coalesce(next_attempt_at, 0) < ${sql.lit(HELD)}`),
  ),
);

/** A webhook that is told of an event, and the id of the delivery if there is none yet. */
export interface NewWebhookDelivery {
  readonly id: string;
  readonly event: string;
}

type Target = Pick<WebhookRow, 'id' | 'tenant' | 'url'> & { readonly environment: 'live' | 'test' };

/** The unit that tells a webhook of these events, as soon as it can be; of what has a delivery already nothing changes. */
export function enqueueForWebhook(target: Target, deliveries: readonly NewWebhookDelivery[], at: number): Statement[] {
  return unitOf(target, { deliveries, at, insertOne: insertNew });
}

/** The same, where a delivery that there is begins anew under its id. */
export function replayForWebhook(target: Target, deliveries: readonly NewWebhookDelivery[], at: number): Statement[] {
  const events = JSON.stringify(deliveries.map(({ event }) => event));
  return [
    forgetAttempts({ webhook: target.id, events }),
    ...unitOf(target, { deliveries, at, insertOne: insertAgain }),
  ];
}

function unitOf(
  { id: webhook, tenant, url, environment }: Target,
  {
    deliveries,
    at,
    insertOne,
  }: { deliveries: readonly NewWebhookDelivery[]; at: number; insertOne: (row: NewDelivery) => Statement },
): Statement[] {
  const until = at + KEPT_MS;
  const recipient = recipientOf({ id: webhook, url });
  const rows = deliveries.map(({ id, event }) => ({ id, event, message: messageOf(event) }));
  return [
    ...rows.map(({ message }) => insertMessage({ id: message, tenant, environment, at, until })),
    ...rows.map((row) => insertOne({ ...row, webhook, tenant, recipient, at, until })),
    noteDue({ name: webhook, due: at }),
  ];
}

/** The rest of an address may be a secret. */
function recipientOf({ id, url }: Pick<WebhookRow, 'id' | 'url'>): string {
  return URL.canParse(url) ? new URL(url).origin : id;
}

function messageOf(id: string): string {
  return `msg_${id.slice(id.indexOf('_') + 1)}`;
}

const insertSettled = define<NewDelivery & Pick<DeliveryRow, 'state' | 'last_reply'> & { settled_at: number }>()(
  (db, value) =>
    db.insertInto('deliveries').values({
      id: value('id'),
      message: value('message'),
      tenant: value('tenant'),
      recipient: value('recipient'),
      destination: value('webhook'),
      state: value('state'),
      attempts: 1,
      begun: 1,
      last_reply: value('last_reply'),
      created_at: value('at'),
      expires_at: value('until'),
      settled_at: value('settled_at'),
      webhook: value('webhook'),
      event: value('event'),
    }),
);
const insertAttempt = define<Pick<AttemptRow, 'delivery' | 'at' | 'outcome' | 'reply'>>()((db, value) =>
  db.insertInto('attempts').values({
    delivery: value('delivery'),
    number: 1,
    at: value('at'),
    outcome: value('outcome'),
    reply: value('reply'),
  }),
);

/** The unit that keeps a test: one attempt that is over. */
export function keepTest(
  { id: webhook, tenant, url, environment }: Target,
  test: { readonly id: string; readonly outcome: 'delivered' | 'bounced'; readonly reply: string },
  { at, now }: { readonly at: number; readonly now: number },
): Statement[] {
  const { id, outcome, reply } = test;
  const until = at + KEPT_MS;
  const message = messageOf(id);
  const row = { id, message, tenant, recipient: recipientOf({ id: webhook, url }), webhook, event: null, at, until };
  return [
    insertMessage({ id: message, tenant, environment, at, until }),
    insertSettled({ ...row, state: outcome, last_reply: reply, settled_at: now }),
    insertAttempt({ delivery: id, at: now, outcome, reply }),
  ];
}

const forget = define<{ before: number }>()((db, value) =>
  db
    .deleteFrom('messages')
    .where(sql<boolean>`kind = 'webhook'`)
    .where('created_at', '<', value('before')),
);

/** The statement that forgets webhook deliveries that are older than thirty days, whatever became of them. */
export function forgetWebhookDeliveries(now: number): Statement {
  return forget({ before: now - KEPT_MS });
}

const target = define<{ delivery: string }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhook')
    .selectAll('webhooks')
    .select('deliveries.event')
    .where('deliveries.id', '=', value('delivery')),
);

/** The webhook of a delivery, and the event that it is to be told of. */
export async function targetOfDelivery(
  store: Store,
  delivery: string,
): Promise<(WebhookRow & { readonly event: string | null }) | undefined> {
  const [row] = await store.select(target({ delivery }));
  return row;
}

/** A delivery as the webhook's owner sees it. */
export interface WebhookDelivery extends Pick<DeliveryRow, 'id' | 'webhook' | 'event' | 'attempts' | 'created_at'> {
  readonly state: 'pending' | 'delivered' | 'failed';
  readonly next_attempt_at: number | null;
  readonly last_attempt_at: number | null;
  /** Of the last answer; null where there was none. */
  readonly last_status: number | null;
  /** The status and the beginning of the last answer, or why there was none. */
  readonly last_result: string | null;
}

function withLastAttempt(db: Kysely<Tables>) {
  return db
    .selectFrom('deliveries')
    .leftJoin('attempts', (join) =>
      join.onRef('attempts.delivery', '=', 'deliveries.id').on('attempts.number', '=', (eb) =>
        eb
          .selectFrom('attempts as all')
          .select((max) => max.fn.max('all.number').as('number'))
          .whereRef('all.delivery', '=', 'deliveries.id'),
      ),
    )
    .selectAll('deliveries')
    .select(['attempts.at as tried_at', 'attempts.outcome', 'attempts.reply']);
}

type Selected = DeliveryRow & {
  readonly tried_at: number | null;
  readonly outcome: AttemptRow['outcome'] | null;
  readonly reply: string | null;
};

const recent = define<{ webhook: string; limit: number }>()((db, value) =>
  withLastAttempt(db)
    .leftJoin('events', 'events.id', 'deliveries.event')
    .select('events.type')
    .where('deliveries.webhook', '=', value('webhook'))
    .orderBy('deliveries.id', 'desc')
    .limit(value('limit')),
);
const ofEvents = define<{ tenant: string; events: string }>()((db, value, dialect) =>
  withLastAttempt(db)
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhook')
    .select('webhooks.url')
    .where('webhooks.tenant', '=', value('tenant'))
    .where('deliveries.event', 'in', listed(value('events'), dialect))
    .orderBy('deliveries.id'),
);

/** The newest deliveries of the webhook; `type` is null for a test, or where the event is gone. */
export async function recentDeliveries(
  store: Store,
  webhook: string,
  limit: number,
): Promise<(WebhookDelivery & { readonly type: string | null })[]> {
  const rows = await store.select(recent({ webhook, limit }));
  return rows.map((row) => ({ ...shown(row), type: row.type }));
}

export type Posted = WebhookDelivery & { readonly url: string };

/** What became of these events of a tenant at its webhooks. */
export async function postsOfEvents(store: Store, tenant: string, events: readonly string[]): Promise<Posted[]> {
  const rows = await store.select(ofEvents({ tenant, events: JSON.stringify(events) }));
  return rows.map((row) => ({ ...shown(row), url: row.url }));
}

function shown(row: Selected): WebhookDelivery {
  const { id, webhook, event, attempts, created_at, settled_at, next_attempt_at: next, tried_at, outcome, reply } = row;
  const [, status] = (outcome !== 'expired' && /^(\d{3})\b/.exec(reply ?? '')) || [];
  return {
    id,
    webhook,
    event,
    state: settled_at === null ? 'pending' : row.state === 'delivered' ? 'delivered' : 'failed',
    attempts,
    next_attempt_at: next === HELD ? null : next,
    last_attempt_at: tried_at,
    last_status: status === undefined ? null : Number(status),
    last_result: settled_at === null ? reply : row.last_reply,
    created_at,
  };
}
