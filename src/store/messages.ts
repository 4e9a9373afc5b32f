/**
 * Messages and their finished bytes. A message is enqueued as data for its renderer; what was rendered is kept in chunks
 * once it must be sent again, so that every retry sends the same bytes. Of messages that are settled for long, first what
 * they say goes, then the record of who got them: what is not settled is not touched.
 */
import { sql } from 'kysely';
import {
  countOf,
  deleteAmong,
  deleteFrom,
  finder,
  insertInto,
  lister,
  listerAmong,
  query,
  update,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { MessageRow } from './tables.ts';

/** The largest piece of a stored body or attachment: what one delivery holds in memory of a large message. */
export const CHUNK_BYTES = 256 * 1024;

const insert = insertInto('messages');

/** The statement that makes a message whose bytes are yet to be rendered. */
export function insertMessage(message: Omit<MessageRow, 'body' | 'size' | 'sender' | 'encoding'>): Statement {
  return insert({ ...message, body: 'none', size: 0, sender: null, encoding: '7bit' });
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

export interface FinishedMessage {
  readonly sender: string;
  readonly encoding: MessageRow['encoding'];
  readonly size: number;
  readonly content: readonly Uint8Array[];
}

const markStored = update('messages', ['body', 'size', 'sender', 'encoding'], ['id', sql`body = 'none'`]);
const insertChunk = insertInto('message_chunks');
const chunk = finder('message_chunks', 'message', 'seq');

/** The unit that keeps a message's finished bytes; it is unmet where somebody kept them before: theirs are the ones to send. */
export function storeBody(id: string, { sender, encoding, size, content }: FinishedMessage): Statement[] {
  const chunks = pieces(content).map((bytes, seq) => insertChunk({ message: id, seq, bytes }));
  // What was attached is in there now.
  return [markStored({ id, body: 'stored', size, sender, encoding }, 1), ...chunks, dropAttachments({ message: id })];
}

export interface BegunMessage extends Omit<FinishedMessage, 'content'> {
  /** How it begins; `size` is that of the whole. */
  readonly prefix: Uint8Array;
}

/** The same for a message of which only the beginning is kept, because the rest lies in the store already. */
export function storePrefix(id: string, { sender, encoding, size, prefix }: BegunMessage): Statement[] {
  const chunks = pieces([prefix]).map((bytes, seq) => insertChunk({ message: id, seq, bytes }));
  return [markStored({ id, body: 'prefixed', size, sender, encoding }, 1), ...chunks];
}

/** A piece of what is kept of a message, at most CHUNK_BYTES; undefined after the last. */
export async function bodyChunk(store: Store, message: string, seq: number): Promise<Uint8Array | undefined> {
  return (await chunk(store, message, seq))?.bytes;
}

function pieces(content: readonly Uint8Array[]): Uint8Array[] {
  const whole = content.length === 1 && content[0] !== undefined ? content[0] : Buffer.concat(content);
  const result: Uint8Array[] = [];
  for (let at = 0; at < whole.length; at += CHUNK_BYTES) result.push(whole.subarray(at, at + CHUNK_BYTES));
  return result;
}

const insertAttachmentChunk = insertInto('attachment_chunks');
const attachment = lister('attachment_chunks', ['message', 'position'], sql`order by seq`);

/** The statements that keep what is attached to a message that is yet to be rendered, after the one that makes it. */
export function keepAttachments(message: string, contents: readonly Uint8Array[]): Statement[] {
  return contents.flatMap((content, position) =>
    pieces([content]).map((bytes, seq) => insertAttachmentChunk({ message, position, seq, bytes })),
  );
}

/** The statement that drops them: the finished message holds them. */
export const dropAttachments = deleteFrom('attachment_chunks', 'message');

/** The whole content of one attachment. */
export async function readAttachment(store: Store, message: string, position: number): Promise<Buffer> {
  return Buffer.concat((await attachment(store, message, position)).map(({ bytes }) => bytes));
}

export interface MessageFilter {
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
const stretch = query<{ after: string; before: string; limit: number }, AgedMessage>(
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
  return store.select(stretch(where));
}

const drop = update('messages', ['source', sql`body = 'dropped'`], ['id']);
const dropChunks = deleteFrom('message_chunks', 'message');

/** The statements that drop what a settled message says; `source` is what stays of how it was asked for. */
export function dropContent({ id, source }: Pick<MessageRow, 'id' | 'source'>): Statement[] {
  return [drop({ id, source }), dropChunks({ message: id }), dropAttachments({ message: id })];
}

/** The statement that forgets settled messages with their deliveries and attempts. */
export const forgetMessages = deleteAmong('messages', 'id');
