/**
 * What webhooks were told and are still to be told: deliveries of the queue, one per webhook and event, so that an event
 * which is found twice is told once. All webhooks that are told of an event share one message, whose id is the event's.
 */
import { sql } from 'kysely';
import { HELD, insertAttempt } from './messages.ts';
import { noteDue } from './destinations.ts';
import { insertInto, listed, lister, newestFirst, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { AttemptRow, DeliveryRow, WebhookPostRow, WebhookRow } from './tables.ts';

/** Webhook deliveries are tried, and kept, for this long at most, ms. */
const KEPT_MS = 30 * 86_400_000;

const insertMessageRow = insertInto('messages', sql`on conflict (id) do nothing`);

type New = Pick<Target, 'tenant' | 'environment'> & { readonly id: string; readonly at: number };

/** The statement that makes the message of an event; all webhooks share it. */
function insertMessage({ at, ...row }: New): Statement {
  const empty = { kind: 'webhook', domain: '', source: '{}', body: 'none', size: 0, encoding: '7bit' } as const;
  return insertMessageRow({ ...row, ...empty, destinations: 1, created_at: at, expires_at: at + KEPT_MS });
}

function rowOf({ id: webhook, tenant, url }: Target, id: string, at: number) {
  // The rest of an address may be a secret.
  const recipient = URL.canParse(url) ? new URL(url).origin : webhook;
  const message = messageOf(id);
  const turn = { bulk: 0, flow: '' };
  return {
    tenant,
    recipient,
    webhook,
    message,
    destination: webhook,
    ...turn,
    created_at: at,
    expires_at: at + KEPT_MS,
  };
}

/** One that is being tried, or that the operator holds, stays as it is. */
const isFree = sql`deliveries.state <> 'sending' and coalesce(deliveries.next_attempt_at, 0) < ${sql.lit(HELD)}`;

const insertNew = insertInto('deliveries', sql`on conflict (webhook, event) where webhook is not null do nothing`);
const insertAgain = insertInto(
  'deliveries',
  sql`on conflict (webhook, event) where webhook is not null do update
    set state = 'queued', attempts = 0, next_attempt_at = excluded.next_attempt_at, expires_at = excluded.expires_at,
      settled_at = null, last_reply = null
    where ${isFree}`,
);
const insertSettled = insertInto('deliveries');

const forgetAttempts = query<{ webhook: string; events: readonly string[] }>(
  (value) => sql`delete from attempts where delivery in (
    select id from deliveries
    where webhook = ${value('webhook')} and event in ${listed(value('events'))} and ${isFree})`,
);

const forgetPosts = query<{ webhook: string; events: readonly string[] }>(
  (value) => sql`delete from webhook_posts where webhook = ${value('webhook')} and delivery in (
    select id from deliveries
    where webhook = ${value('webhook')} and event in ${listed(value('events'))} and ${isFree})`,
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
  const events = deliveries.map(({ event }) => event);
  return [
    forgetAttempts({ webhook: target.id, events }),
    forgetPosts({ webhook: target.id, events }),
    ...unitOf(target, { deliveries, at, insertOne: insertAgain }),
  ];
}

function unitOf(
  target: Target,
  { deliveries, at, insertOne }: { deliveries: readonly NewWebhookDelivery[]; at: number; insertOne: typeof insertNew },
): Statement[] {
  const { id: webhook, tenant, environment } = target;
  const unsent = { state: 'queued', attempts: 0, next_attempt_at: at, begun: 0 } as const;
  return [
    ...deliveries.map(({ event }) => insertMessage({ id: messageOf(event), tenant, environment, at })),
    ...deliveries.map(({ id, event }) => insertOne({ id, event, ...rowOf(target, event, at), ...unsent })),
    noteDue({ name: webhook, due: at }),
  ];
}

function messageOf(id: string): string {
  return `msg_${id.slice(id.indexOf('_') + 1)}`;
}

/** The unit that keeps a test: one attempt that is over. */
export function keepTest(
  target: Target,
  test: { readonly id: string; readonly outcome: 'delivered' | 'bounced'; readonly reply: string },
  { at, now }: { readonly at: number; readonly now: number },
): Statement[] {
  const { id, outcome, reply } = test;
  const { tenant, environment } = target;
  const over = { state: outcome, attempts: 1, begun: 1, last_reply: reply, settled_at: now };
  return [
    insertMessage({ id: messageOf(id), tenant, environment, at }),
    insertSettled({ id, event: null, ...rowOf(target, id, at), ...over }),
    insertAttempt({ delivery: id, number: 1, at: now, outcome, reply }),
  ];
}

const forget = query<{ before: number }>(
  (value) => sql`delete from messages where kind = 'webhook' and created_at < ${value('before')}`,
);

const forgetOldPosts = query<{ before: number }>(
  (value) => sql`delete from webhook_posts where at < ${value('before')}`,
);

/** The statements that forget webhook deliveries that are older than thirty days, whatever became of them. */
export function forgetWebhookDeliveries(now: number): Statement[] {
  const before = now - KEPT_MS;
  return [forget({ before }), forgetOldPosts({ before })];
}

/** Of each webhook what was sent and answered is kept of so many deliveries, those that began last. */
const MAX_KEPT_POSTS = 1000;

/** The statement that keeps what an attempt sent and was answered, unless the webhook is gone; a replay begins with 1 again. */
export const insertPost = query<WebhookPostRow>(
  (
    value,
  ) => sql`insert into webhook_posts (webhook, delivery, number, at, duration_ms, url, request_headers, status, headers,
      body, is_cut, error)
    select id, ${value('delivery')}, ${value('number')}, ${value('at')}, ${value('duration_ms')}, ${value('url')},
      ${value('request_headers')}, ${value('status')}, ${value('headers')}, ${value('body')}, ${value('is_cut')}, ${value('error')}
    from webhooks where id = ${value('webhook')}
    on conflict (webhook, delivery, number) do update set at = excluded.at, duration_ms = excluded.duration_ms,
      url = excluded.url, request_headers = excluded.request_headers, status = excluded.status,
      headers = excluded.headers, body = excluded.body, is_cut = excluded.is_cut, error = excluded.error`,
);

/** The statement that forgets what a webhook was sent and answered but for the newest deliveries (`MAX_KEPT_POSTS`). */
export const prunePosts = query<{ webhook: string }>(
  (value) => sql`delete from webhook_posts where webhook = ${value('webhook')} and delivery <= (
    select delivery from webhook_posts where webhook = ${value('webhook')}
    order by delivery desc limit 1 offset ${sql.lit(MAX_KEPT_POSTS)})`,
);

/** The statement that forgets what was sent and answered when webhooks were told of these events of a tenant. */
export const forgetPostsOfEvents = query<{ ids: readonly string[] }>(
  (value) => sql`delete from webhook_posts where (webhook, delivery) in (
    select deliveries.webhook, deliveries.id from events
      join webhooks on webhooks.tenant = events.tenant
      join deliveries on deliveries.webhook = webhooks.id and deliveries.event = events.id
    where events.id in ${listed(value('ids'))})`,
);

/** What the attempts of a delivery sent and were answered, in their order. */
export const postsOfDelivery = lister('webhook_posts', ['webhook', 'delivery'], sql`order by number`);

type DeliveryTarget = WebhookRow & { readonly event: string | null };

const target = reader(
  (delivery: string) => sql<DeliveryTarget>`select webhooks.*, deliveries.event
    from deliveries join webhooks on webhooks.id = deliveries.webhook where deliveries.id = ${delivery}`,
);

/** The webhook of a delivery, and the event that it is to be told of. */
export async function targetOfDelivery(store: Store, delivery: string): Promise<DeliveryTarget | undefined> {
  return (await target(store, delivery))[0];
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

type Selected = DeliveryRow & {
  readonly tried_at: number | null;
  readonly outcome: AttemptRow['outcome'] | null;
  readonly reply: string | null;
};

const lastAttempt = sql`attempts.at as tried_at, attempts.outcome, attempts.reply`;
const withLastAttempt = sql`deliveries left join attempts on attempts.delivery = deliveries.id
  and attempts.number = (select max(number) from attempts as others where others.delivery = deliveries.id)`;

const recent = reader(
  (webhook: string, limit: number) => sql<Selected & { readonly type: string | null }>`
    select deliveries.*, ${lastAttempt}, events.type
    from ${withLastAttempt} left join events on events.id = deliveries.event
    where deliveries.webhook = ${webhook} order by deliveries.id desc limit ${limit}`,
);
const among = reader(
  (ids: readonly string[]) => sql<Selected & { readonly type: string | null }>`
    select deliveries.*, ${lastAttempt}, events.type
    from ${withLastAttempt} left join events on events.id = deliveries.event
    where deliveries.id in ${listed(ids)} order by deliveries.id desc`,
);
const ofEvents = reader(
  (tenant: string, events: readonly string[]) => sql<Selected & { readonly url: string }>`
    select deliveries.*, ${lastAttempt}, webhooks.url
    from ${withLastAttempt} join webhooks on webhooks.id = deliveries.webhook
    where webhooks.tenant = ${tenant} and deliveries.event in ${listed(events)}
    order by deliveries.id`,
);

/** The newest deliveries of the webhook; `type` is null for a test, or where the event is gone. */
export async function recentDeliveries(
  store: Store,
  webhook: string,
  limit: number,
): Promise<(WebhookDelivery & { readonly type: string | null })[]> {
  const rows = await recent(store, webhook, limit);
  return rows.map((row) => ({ ...shown(row), type: row.type }));
}

/** Which deliveries of a webhook are listed. */
export interface WebhookDeliveryFilter {
  readonly webhook: string;
  readonly state?: WebhookDelivery['state'] | undefined;
  readonly event?: string | undefined;
}

function matching(store: Store, { webhook, state, event }: WebhookDeliveryFilter) {
  // The words of the partial indexes.
  let rows = store.read
    .selectFrom('deliveries')
    .where('webhook', '=', webhook)
    .where(sql<boolean>`webhook is not null`);
  if (event !== undefined) rows = rows.where('event', '=', event);
  switch (state) {
    case undefined:
      return rows;
    case 'pending':
      return rows.where(sql<boolean>`settled_at is null`);
    case 'delivered':
      return rows.where(sql<boolean>`state = 'delivered'`);
    case 'failed':
      return rows.where(sql<boolean>`state in ('bounced', 'expired', 'cancelled')`);
  }
}

/** One page of the deliveries of a webhook, newest first. */
export async function listWebhookDeliveries(
  store: Store,
  filter: WebhookDeliveryFilter,
  page: { readonly before: string | undefined; readonly limit: number },
): Promise<(WebhookDelivery & { readonly type: string | null })[]> {
  const ids = await newestFirst(matching(store, filter).select('id'), page);
  const rows = await among(
    store,
    ids.map(({ id }) => id),
  );
  return rows.map((row) => ({ ...shown(row), type: row.type }));
}

/** How many there are, counted up to a bound. */
export async function countWebhookDeliveries(
  store: Store,
  filter: WebhookDeliveryFilter,
  bound: number,
): Promise<number> {
  const some = matching(store, filter).select('id').limit(bound);
  const { count } = await store.read
    .selectFrom(some.as('some'))
    .select(sql<number>`count(*)`.as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

/** This delivery of the webhook, or undefined. */
export async function findWebhookDelivery(
  store: Store,
  webhook: string,
  id: string,
): Promise<(WebhookDelivery & { readonly type: string | null }) | undefined> {
  const [row] = await among(store, [id]);
  return row?.webhook === webhook ? { ...shown(row), type: row.type } : undefined;
}

export type Posted = WebhookDelivery & { readonly url: string };

/** What became of these events of a tenant at its webhooks. */
export async function postsOfEvents(store: Store, tenant: string, events: readonly string[]): Promise<Posted[]> {
  const rows = await ofEvents(store, tenant, events);
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
