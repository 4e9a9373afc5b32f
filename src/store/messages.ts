/**
 * Messages, their finished bytes, and their deliveries. A message is enqueued as data for its renderer; what was rendered is kept in chunks
 * once it must be sent again, so that every retry sends the same bytes. Of messages that are settled for long, first what
 * they say goes, then the record of who got them: what is not settled is not touched.
 */
import { sql, type Expression, type ExpressionBuilder, type RawBuilder, type SqlBool } from 'kysely';
import { lastId } from '../lib/ids.ts';
import { naming } from './blobs.ts';
import {
  countOf,
  deleteAmong,
  deleteFrom,
  DO_NOTHING,
  finder,
  insertInto,
  listed,
  lister,
  listerAmong,
  newestFirst,
  query,
  reader,
  update,
  type Many,
  type Placeholders,
  type Statement,
} from './statement.ts';
import type { Blob, Store } from './store.ts';
import type { AttemptRow, DeliveryRow, DeliveryState, MessageRow, Tables } from './tables.ts';

/** The largest piece of a stored body or attachment: what one delivery holds in memory of a large message. */
export const CHUNK_BYTES = 256 * 1024;

const insertMessageRow = insertInto('messages');

/** The statement that makes a message whose bytes are yet to be rendered. */
export function insertMessage(message: Omit<MessageRow, 'body' | 'size' | 'sender' | 'encoding'>): Statement {
  return insertMessageRow({ ...message, body: 'none', size: 0, sender: null, encoding: '7bit' });
}

/** The statement that changes what a message is made from, and how long it is tried. */
export const updateSource = update('messages', ['source', 'expires_at'], ['id']);

/** The message with this id, or undefined. */
export const findMessage = finder('messages', 'id');

const byIds = listerAmong('messages', 'id');

/** Those of these messages that there are, by id. */
export async function findMessages(store: Store, ids: readonly string[]): Promise<Map<string, MessageRow>> {
  return new Map((await byIds(store, ids)).map((row) => [row.id, row]));
}

/** Keeps bytes chunk by chunk, whatever pieces they come in; the answer is for the unit that writes their rows. */
export function putContent({ blobs }: Pick<Store, 'blobs'>, content: readonly Uint8Array[]): Promise<Blob[]> {
  return Promise.all(pieces(content).map((bytes) => blobs.put(bytes)));
}

interface FinishedMessage {
  readonly sender: string;
  readonly encoding: MessageRow['encoding'];
  readonly size: number;
  /** As `putContent` keeps it. */
  readonly content: readonly Blob[];
}

const markStored = update('messages', ['body', 'size', 'sender', 'encoding'], ['id', sql`body = 'none'`]);
const insertChunk = insertInto('message_chunks');
const chunk = finder('message_chunks', 'message', 'seq');

/** The unit that keeps a message's finished bytes; it is unmet where somebody kept them before: theirs are the ones to send. */
export function storeBody(id: string, { sender, encoding, size, content }: FinishedMessage): Statement[] {
  const chunks = content.flatMap((blob, seq) => [insertChunk({ message: id, seq, ...blob }), ...naming(blob)]);
  // What was attached is in there now.
  return [markStored({ id, body: 'stored', size, sender, encoding }, 1), ...chunks, dropAttachments({ message: id })];
}

interface BegunMessage extends Omit<FinishedMessage, 'content'> {
  /** How it begins, as `putContent` keeps it; `size` is that of the whole. */
  readonly prefix: readonly Blob[];
}

/** The same for a message of which only the beginning is kept, because the rest lies in the store already. */
export function storePrefix(id: string, { sender, encoding, size, prefix }: BegunMessage): Statement[] {
  const chunks = prefix.flatMap((blob, seq) => [insertChunk({ message: id, seq, ...blob }), ...naming(blob)]);
  return [markStored({ id, body: 'prefixed', size, sender, encoding }, 1), ...chunks];
}

/** A piece of what is kept of a message, at most CHUNK_BYTES; undefined after the last. */
export async function bodyChunk(store: Store, message: string, seq: number): Promise<Uint8Array | undefined> {
  const found = await chunk(store, message, seq);
  return found && store.blobs.get(found);
}

function pieces(content: readonly Uint8Array[]): Uint8Array[] {
  const whole = content.length === 1 && content[0] !== undefined ? content[0] : Buffer.concat(content);
  const result: Uint8Array[] = [];
  for (let at = 0; at < whole.length; at += CHUNK_BYTES) result.push(whole.subarray(at, at + CHUNK_BYTES));
  return result;
}

const insertAttachmentChunk = insertInto('attachment_chunks');
const attachment = lister('attachment_chunks', ['message', 'position'], sql`order by seq`);

/**
 * The statements that keep what is attached to a message that is yet to be rendered, each as `putContent` keeps it, after the
 * one that makes it.
 */
export function keepAttachments(message: string, contents: readonly (readonly Blob[])[]): Statement[] {
  return contents.flatMap((content, position) =>
    content.flatMap((blob, seq) => [insertAttachmentChunk({ message, position, seq, ...blob }), ...naming(blob)]),
  );
}

/** The statement that drops them: the finished message holds them. */
export const dropAttachments = deleteFrom('attachment_chunks', 'message');

/** The whole content of one attachment. */
export async function readAttachment(store: Store, message: string, position: number): Promise<Buffer> {
  const chunks = await attachment(store, message, position);
  return Buffer.concat(await Promise.all(chunks.map((each) => store.blobs.get(each))));
}

interface MessageFilter {
  readonly tenant: string;
  /** Only those of these domains. */
  readonly domains?: readonly string[] | undefined;
  /** Only those older than this one. */
  readonly before?: string | undefined;
  /** Only those newer than this one. */
  readonly after?: string | undefined;
}

/** Transactional messages of a tenant, newest first; those that follow `after` where it is given. */
export async function selectTransactional(
  store: Store,
  { limit, ...filter }: MessageFilter & { readonly limit: number },
): Promise<MessageRow[]> {
  const { before, after } = filter;
  let rows = transactional(store, filter).selectAll().limit(limit);
  if (before !== undefined) rows = rows.where('id', '<', before);
  if (after === undefined) return rows.orderBy('id', 'desc').execute();
  return (await rows.where('id', '>', after).orderBy('id').execute()).reverse();
}

/** How many there are. */
export function countTransactional(store: Store, filter: Pick<MessageFilter, 'tenant' | 'domains'>): Promise<number> {
  return countOf(transactional(store, filter));
}

function transactional(store: Store, { tenant, domains }: Pick<MessageFilter, 'tenant' | 'domains'>) {
  const rows = store.read
    .selectFrom('messages')
    .where('tenant', '=', tenant)
    // As the partial index has it.
    .where(sql<boolean>`kind = 'transactional'`);
  return domains === undefined ? rows : rows.where('domain', 'in', [...domains, '']);
}

export interface AgedMessage extends Pick<MessageRow, 'id' | 'kind' | 'body'> {
  /** When its last recipient was; null while one is not. */
  readonly settled_at: number | null;
  /** Whether the submission that it tells of is there: 0 or 1. */
  readonly has_submission: number;
  /** What is kept of it. */
  readonly bytes: number;
}

// One delivery that is not settled makes it null. Webhook deliveries have a time of their own (store/webhook-deliveries).
const settledStretch = query<{ after: string; before: string; limit: number }, AgedMessage>(
  (value) => sql`select id, kind, body,
      (select case when count(*) = count(settled_at) then max(settled_at) end
        from deliveries where deliveries.message = messages.id) as settled_at,
      case when exists (select 1 from submissions where submissions.id = messages.submission) then 1 else 0 end
        as has_submission,
      length(source) + size + coalesce(
        (select cast(sum(length(bytes)) as bigint) from attachment_chunks where message = messages.id), 0) as bytes
    from messages
    where kind <> 'webhook' and id > ${value('after')} and id < ${value('before')}
    order by id limit ${value('limit')}`,
);

/** The next messages behind `after` and before `before`, oldest first. */
export function agedMessages(
  store: Store,
  where: { readonly after: string; readonly before: string; readonly limit: number },
): Promise<AgedMessage[]> {
  return store.select(settledStretch(where));
}

const drop = update('messages', ['source', sql`body = 'dropped'`], ['id']);
const dropChunks = deleteFrom('message_chunks', 'message');

/** The statements that drop what a settled message says; `source` is what stays of how it was asked for. */
export function dropContent({ id, source }: Pick<MessageRow, 'id' | 'source'>): Statement[] {
  return [drop({ id, source }), dropChunks({ message: id }), dropAttachments({ message: id })];
}

/** The statement that forgets settled messages with their deliveries and attempts. */
export const forgetMessages = deleteAmong('messages', 'id');

// Deliveries: one row per recipient, `queued → sending → delivered | deferred → … | bounced | expired | cancelled |
// suppressed | captured`. What ends a try names the try that it ends (owner and number), so that a lease which was lost
// meanwhile changes nothing. Claims are in leases.ts. Every try is an attempt: when, where, over which TLS, and what the
// other side said.

/**
 * The condition of the partial indexes, written as they have it: SQLite uses them only for the same words.
 * Rows of this kind have no lease, and a next attempt unless they are parked until their recipient agrees.
 */
export const waiting = sql<boolean>`state in ('queued', 'deferred')`;

/** As `waiting`, for the index by state. */
export const unsettled = sql<boolean>`deliveries.state <> 'delivered'`;

/** The time of the next attempt of a delivery that the operator holds: never. Nothing of that kind is due, or expires. */
export const HELD = Date.UTC(9999, 0);
const held = sql.lit(HELD);

/** The reply of a delivery that waits because its tenant is suspended. */
export const SUSPENDED = '451 4.7.1 the account is suspended: its mail waits';

type SettledState = Extract<DeliveryState, 'delivered' | 'bounced' | 'expired' | 'suppressed' | 'captured'>;

const insertDeliveryRow = insertInto('deliveries');

/** The statement that enqueues a delivery, due at once. */
export function insertDelivery({
  due,
  ...row
}: Pick<
  DeliveryRow,
  'id' | 'message' | 'tenant' | 'recipient' | 'destination' | 'subject' | 'bulk' | 'flow' | 'created_at' | 'expires_at'
> & {
  readonly due: number;
}): Statement {
  return insertDeliveryRow({ ...row, state: 'queued', attempts: 0, next_attempt_at: due, begun: 0 });
}

/** Which try a statement ends. */
interface Try {
  id: string;
  owner: string;
  attempts: number;
}

/** A statement that ends this try of this owner; it touches one row, or none where the lease is gone. */
function endTry<More extends object>(
  columns: Many<More>['columns'],
  set: (value: Placeholders<Try & More>) => RawBuilder<unknown>,
) {
  function update(value: Placeholders<Try & More>, from = sql``) {
    return sql<never>`update deliveries set lease_owner = null, lease_until = null, ${set(value)} ${from}
      where id = ${value('id')} and state = 'sending'
        and lease_owner = ${value('owner')} and attempts = ${value('attempts')}`;
  }
  return query<Try & More>((value) => update(value), {
    columns: { id: 'text', owner: 'text', attempts: 'bigint', ...columns },
    touches: 'each',
    build: (rows, value) => update(value, sql`from ${rows}`),
  });
}

/** The try does not count. */
const uncounted = sql`attempts = attempts - 1`;
/** What makes a claim as if it had never been. */
export const unclaimed = sql`state = case when attempts = 1 then 'queued' else 'deferred' end, ${uncounted}`;

/** The statement that ends a try and the delivery with it. */
export const settleDelivery = endTry<{ state: SettledState; reply: string; at: number }>(
  { state: 'text', reply: 'text', at: 'bigint' },
  (value) => sql`state = ${value('state')}, next_attempt_at = null,
    last_reply = ${value('reply')}, settled_at = ${value('at')}`,
);

/** The statement that ends a try with another one to come. */
export const deferDelivery = endTry<{ reply: string; due: number }>(
  { reply: 'text', due: 'bigint' },
  (value) => sql`state = 'deferred', next_attempt_at = ${value('due')}, last_reply = ${value('reply')}`,
);

/** The statement that gives a claim back. */
export const giveBack = endTry<{ due: number }>(
  { due: 'bigint' },
  (value) => sql`${unclaimed}, next_attempt_at = ${value('due')}`,
);

/** The statement that gives a claim back for a reason that the delivery then shows. */
export const putOff = endTry<{ due: number; reply: string }>(
  { due: 'bigint', reply: 'text' },
  (value) => sql`state = 'deferred', ${uncounted}, next_attempt_at = ${value('due')}, last_reply = ${value('reply')}`,
);

/** The statement that gives a claim back until the recipient agrees: there is no next try before `releaseParked` (store/consents). */
export const parkDelivery = endTry<{ reply: string; expires_at: number }>(
  { reply: 'text', expires_at: 'bigint' },
  (value) =>
    sql`${unclaimed}, next_attempt_at = null, last_reply = ${value('reply')}, expires_at = ${value('expires_at')}`,
);

/**
 * The statement that gives a claim back until `due`, when it counts against its tenant's plan. The wait takes nothing from
 * the time that it is tried for.
 */
export const waitForPlan = endTry<{ due: number; reply: string; wait: number }>(
  { due: 'bigint', reply: 'text', wait: 'bigint' },
  (value) => sql`state = 'deferred', ${uncounted}, next_attempt_at = ${value('due')}, counted_at = ${value('due')},
    expires_at = expires_at + ${value('wait')}, last_reply = ${value('reply')}`,
);

/** The statement that notes that these deliveries count against their tenants' plans from now on. */
export const markCounted = query<{ ids: readonly string[]; at: number }>(
  (value) => sql`update deliveries set counted_at = ${value('at')}
    where id in ${listed(value('ids'))}`,
);

/** What waits for room in the plan of the tenant, or (empty) of any. */
export const deliveriesWaitingForPlan = reader(
  (tenant: string, now: number) => sql<Pick<DeliveryRow, 'id' | 'destination'>>`select id, destination from deliveries
    where ${waiting} and counted_at > ${now} and (tenant = ${tenant} or ${tenant} = '')`,
);

/** A statement that changes those of these deliveries that wait. */
function updateWaiting<More extends object>(
  set: (value: Placeholders<{ ids: readonly string[] } & More>) => RawBuilder<unknown>,
  condition = sql`1 = 1`,
) {
  return query<{ ids: readonly string[] } & More>(
    (value) => sql`update deliveries set ${set(value)}
      where id in ${listed(value('ids'))} and ${waiting} and ${condition}`,
  );
}

/** The statement that lets those that wait ask for room in the plan now. */
export const recountDeliveries = updateWaiting<{ now: number }>(
  (value) => sql`next_attempt_at = ${value('now')}, counted_at = null`,
);

/** The statement that makes those due that wait, but for those that are held or parked. */
export const makeDueAmong = updateWaiting<{ due: number }>(
  (value) => sql`next_attempt_at = ${value('due')}`,
  sql`next_attempt_at < ${held}`,
);

/** The statement that holds waiting deliveries, also those that are parked: an answer of their recipient sends nothing then. */
export const holdAmong = updateWaiting(
  () => sql`next_attempt_at = ${held}`,
  sql`(next_attempt_at is null or next_attempt_at < ${held})`,
);

/** The statement that holds all that waits. */
export const holdAll = query<object>(
  () => sql`update deliveries set next_attempt_at = ${held}
    where ${waiting} and (next_attempt_at is null or next_attempt_at < ${held})`,
);

/** The statement that makes those due that are held. */
export const releaseAmong = updateWaiting<{ due: number }>(
  (value) => sql`next_attempt_at = ${value('due')}`,
  sql`next_attempt_at = ${held}`,
);

/** The statement that cancels waiting deliveries. */
export const cancelAmong = updateWaiting<{ reply: string; at: number }>(
  (value) => sql`state = 'cancelled', next_attempt_at = null,
    last_reply = ${value('reply')}, settled_at = ${value('at')}`,
);

// What the operator holds waits for the operator. A try that is due is made, also after a long sleep of the machine.
const overdueBetween = query<{ state: DeliveryState; after: string; until: string; now: number }, DeliveryRow>(
  (value) => sql`select deliveries.* from deliveries join destinations on destinations.name = deliveries.destination
    where deliveries.state = ${value('state')} and ${unsettled}
      and deliveries.id > ${value('after')} and deliveries.id <= ${value('until')}
      and deliveries.expires_at <= ${value('now')} and destinations.held = 0
      and (deliveries.next_attempt_at is null or deliveries.next_attempt_at < ${held})
      and (deliveries.next_attempt_at is null or deliveries.next_attempt_at > ${value('now')}
        or destinations.next_due_at is null or destinations.next_due_at > ${value('now')})`,
);

/** After every delivery, of mail (`dlv`) and of webhooks. */
const LAST = lastId('whd');

/**
 * Walks a stretch of what waits in this state, in order of age. There is no index by time of expiry: it would cost every
 * message, and nothing hurries here. `overdue`: deliveries whose time is over and that are not about to be tried; `next`:
 * where to go on, empty at the end.
 */
export async function walkWaiting(
  store: Store,
  state: 'queued' | 'deferred',
  { after, limit, now }: { after: string; limit: number; now: number },
): Promise<{ readonly overdue: readonly DeliveryRow[]; readonly next: string }> {
  const next = await endOfStretch(store, { state }, { after, limit });
  const overdue = await store.select(overdueBetween({ state, after, until: next === '' ? LAST : next, now }));
  return { overdue, next };
}

/** The statement that ends a waiting delivery; touches no row where it is no longer waiting. */
export const endWaiting = query<{ id: string; state: 'expired' | 'cancelled'; reply: string; at: number }>(
  (value) => sql`update deliveries set state = ${value('state')}, next_attempt_at = null,
      last_reply = ${value('reply')}, settled_at = ${value('at')}
    where id = ${value('id')} and ${waiting}`,
);

/** The statement that makes a delivery bounced which had arrived, as it seemed; touches no row where it had not. */
export const bounceDelivery = query<{ id: string; reply: string; at: number }>(
  (value) => sql`update deliveries set state = 'bounced', last_reply = ${value('reply')}, settled_at = ${value('at')}
    where id = ${value('id')} and state = 'delivered'`,
);

/** The statement that makes a waiting delivery due; touches no row where it is no longer waiting. */
export const makeDue = query<{ id: string; due: number }>(
  (value) => sql`update deliveries set next_attempt_at = ${value('due')} where id = ${value('id')} and ${waiting}`,
);

/** The statement that lets a delivery that has failed begin anew, with the attempts that it had; touches no other one. */
export const requeueDelivery = query<{ id: string; due: number; expires_at: number }>(
  (value) => sql`update deliveries set state = 'queued', next_attempt_at = ${value('due')}, settled_at = null,
      expires_at = ${value('expires_at')},
      attempts = (select coalesce(max(number), 0) from attempts where attempts.delivery = deliveries.id)
    where id = ${value('id')} and state in ('bounced', 'expired', 'cancelled', 'suppressed')`,
);

/** The statement that changes when a message that was not tried yet is sent first; touches no delivery that was. */
export const reschedule = query<{ message: string; due: number; expires_at: number }>(
  (value) => sql`update deliveries set next_attempt_at = ${value('due')}, expires_at = ${value('expires_at')}
    where message = ${value('message')} and attempts = 0 and next_attempt_at < ${held} and ${waiting}`,
);

/** The deliveries of these messages, in the order of their recipients. */
export const deliveriesOfMessages = listerAmong('deliveries', 'message', 'id');

/** A message's deliveries, in the order of its recipients. */
export const deliveriesOfMessage = lister('deliveries', ['message'], sql`order by id`);

/** The delivery with this id, or undefined. */
export const findDelivery = finder('deliveries', 'id');

/** Which deliveries; all where nothing is named. */
export interface DeliveryFilter {
  readonly state?: DeliveryState | undefined;
  /** The recipients' domain. */
  readonly destination?: string | undefined;
  readonly tenant?: string | undefined;
  /** The domain that their mail is from. */
  readonly sender?: string | undefined;
  /** Whose domains their mail is from. */
  readonly project?: { readonly tenant: string; readonly slug: string } | undefined;
  /** Only those enqueued before, ms. */
  readonly createdBefore?: number | undefined;
  /** Only those whose last reply is this. */
  readonly reply?: string | undefined;
}

type Condition = Expression<SqlBool>;

function matches(eb: ExpressionBuilder<Tables, 'deliveries'>, filter: DeliveryFilter): Condition {
  const { state, destination, tenant, sender, project, createdBefore, reply } = filter;
  const all: Condition[] = [];
  if (state !== undefined) all.push(eb('deliveries.state', '=', state));
  if (state !== undefined && state !== 'delivered') all.push(unsettled);
  if (destination !== undefined) all.push(eb('deliveries.destination', '=', destination));
  if (tenant !== undefined) all.push(eb('deliveries.tenant', '=', tenant));
  if (createdBefore !== undefined) all.push(eb('deliveries.created_at', '<', createdBefore));
  if (reply !== undefined) all.push(eb('deliveries.last_reply', '=', reply));
  if (sender !== undefined) {
    all.push(
      sql<boolean>`exists (select 1 from messages where messages.domain = ${sender} and messages.id = deliveries.message)`,
    );
  }
  if (project !== undefined) {
    all.push(
      sql<boolean>`exists (select 1 from messages join domains on domains.name = messages.domain
        where messages.id = deliveries.message and domains.tenant = ${project.tenant} and domains.project = ${project.slug})`,
    );
  }
  return eb.and(all);
}

export interface DeliveryPageFilter extends DeliveryFilter {
  /** Only those enqueued before this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Deliveries, newest first. */
export function selectDeliveries(store: Store, filter: DeliveryPageFilter): Promise<DeliveryRow[]> {
  const rows = store.read.selectFrom('deliveries').selectAll();
  return newestFirst(
    rows.where((eb) => matches(eb, filter)),
    filter,
  );
}

interface Bounds {
  readonly after: string;
  readonly limit: number;
}

/** Those of the next `limit` deliveries in the filter's state that it lets through, oldest first, and where to go on (empty at the end): however many there are, one call is short. */
export async function stretchOf(
  store: Store,
  filter: DeliveryFilter,
  bounds: Bounds,
): Promise<{ rows: Pick<DeliveryRow, 'id' | 'destination' | 'next_attempt_at'>[]; next: string }> {
  const { rows, next } = await stretch(store, filter, bounds);
  const columns = ['id', 'destination', 'next_attempt_at'] as const;
  return { rows: await rows.select(columns).orderBy('id').execute(), next };
}

/** The same where only their number matters. */
export async function countStretch(
  store: Store,
  filter: DeliveryFilter,
  bounds: Bounds,
): Promise<{ count: number; next: string }> {
  const { rows, next } = await stretch(store, filter, bounds);
  return { count: await countOf(rows), next };
}

async function stretch(store: Store, filter: DeliveryFilter, { after, limit }: Bounds) {
  const next = await endOfStretch(store, filter, { after, limit });
  const rows = store.read
    .selectFrom('deliveries')
    .where((eb) => matches(eb, filter))
    .where('id', '>', after)
    .where('id', '<=', next === '' ? LAST : next);
  return { rows, next };
}

/** The last of the next `limit` deliveries in this state, or in any; empty where there are fewer. */
async function endOfStretch(
  store: Store,
  { state }: Pick<DeliveryFilter, 'state'>,
  { after, limit }: Bounds,
): Promise<string> {
  const [end] = await store.read
    .selectFrom('deliveries')
    .select('id')
    .where((eb) => matches(eb, { state }))
    .where('id', '>', after)
    .orderBy('id')
    .limit(1)
    .offset(limit - 1)
    .execute();
  return end?.id ?? '';
}

/** The statement that records an attempt. One that was taken back as interrupted after all ended: the first word stands. */
export const insertAttempt = insertInto('attempts', DO_NOTHING);

/** All attempts of a message, by delivery and number. */
export const attemptsOfMessage = reader(
  (message: string) => sql<AttemptRow>`select attempts.* from attempts
    join deliveries on deliveries.id = attempts.delivery
    where deliveries.message = ${message} order by attempts.delivery, attempts.number`,
);

/** Of a recipient, or of all of a destination. */
export type RecentAttempt = AttemptRow & { readonly recipient: string; readonly message: string };

// Among the newest deliveries alone: a table of millions is not looked through.
const recent = query<{ recipient: string; destination: string; tenant: string; limit: number }, RecentAttempt>(
  (value) => sql`
    select attempts.*, newest.recipient, newest.message
    from (select id, message, tenant, recipient, destination from deliveries order by id desc limit 20000) as newest
      join attempts on attempts.delivery = newest.id
    where (lower(newest.recipient) = ${value('recipient')} or newest.destination = ${value('destination')})
      and (newest.tenant = ${value('tenant')} or ${value('tenant')} = '')
    order by attempts.at desc, attempts.number desc limit ${value('limit')}`,
);

interface RecentFilter {
  /** Only mail of this account. */
  readonly tenant?: string;
  readonly limit: number;
}

/** The last attempts to deliver to this address, among the newest 20,000 deliveries; newest first. */
export function recentAttemptsTo(store: Store, address: string, of: RecentFilter): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: address.toLowerCase(), destination: '', tenant: '', ...of }));
}

/** The same to whatever address of the destination. */
export function recentAttemptsAt(store: Store, destination: string, of: RecentFilter): Promise<RecentAttempt[]> {
  return store.select(recent({ recipient: '', destination, tenant: '', ...of }));
}
