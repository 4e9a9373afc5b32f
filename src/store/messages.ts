/**
 * Messages and their finished bytes. A message is enqueued as data for its renderer; what was rendered is kept in chunks
 * once it must be sent again, so that every retry sends the same bytes.
 */
import { sql } from 'kysely';
import { dropAttachments } from './attachments.ts';
import { listed } from './listed.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { MessageRow } from './tables.ts';

/** The largest piece of a stored body: what one delivery holds in memory of a large message. */
export const CHUNK_BYTES = 256 * 1024;

const insert = define<Omit<MessageRow, 'body' | 'size' | 'sender' | 'encoding'>>()((db, value) =>
  db.insertInto('messages').values({
    id: value('id'),
    tenant: value('tenant'),
    kind: value('kind'),
    submission: value('submission'),
    domain: value('domain'),
    source: value('source'),
    body: 'none',
    size: 0,
    sender: null,
    encoding: '7bit',
    destinations: value('destinations'),
    environment: value('environment'),
    created_at: value('created_at'),
    expires_at: value('expires_at'),
  }),
);
const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('messages').selectAll().where('id', '=', value('id')),
);
const byIds = define<{ ids: string }>()((db, value, dialect) =>
  db
    .selectFrom('messages')
    .selectAll()
    .where('id', 'in', listed(value('ids'), dialect)),
);
const markStored = define<Pick<MessageRow, 'id' | 'body' | 'size' | 'sender' | 'encoding'>>()((db, value) =>
  db
    .updateTable('messages')
    .set({ body: value('body'), size: value('size'), sender: value('sender'), encoding: value('encoding') })
    .where('id', '=', value('id'))
    .where('body', '=', 'none'),
);
const insertChunk = define<{ message: string; seq: number; bytes: Uint8Array }>()((db, value) =>
  db.insertInto('message_chunks').values({ message: value('message'), seq: value('seq'), bytes: value('bytes') }),
);
const chunk = define<{ message: string; seq: number }>()((db, value) =>
  db
    .selectFrom('message_chunks')
    .select('bytes')
    .where('message', '=', value('message'))
    .where('seq', '=', value('seq')),
);

const setSource = define<Pick<MessageRow, 'id' | 'source' | 'expires_at'>>()((db, value) =>
  db
    .updateTable('messages')
    .set({ source: value('source'), expires_at: value('expires_at') })
    .where('id', '=', value('id')),
);

/** The statement that changes what a message is made from, and how long it is tried. */
export const updateSource = setSource;

/** The statement that makes a message whose bytes are yet to be rendered. */
export const insertMessage = insert;

/** The message with this id, or undefined. */
export async function findMessage(store: Store, id: string): Promise<MessageRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** Those of these messages that there are, by id. */
export async function findMessages(store: Store, ids: readonly string[]): Promise<Map<string, MessageRow>> {
  const rows = await store.select(byIds({ ids: JSON.stringify(ids) }));
  return new Map(rows.map((row) => [row.id, row]));
}

export interface FinishedMessage {
  readonly sender: string;
  readonly encoding: MessageRow['encoding'];
  readonly size: number;
  readonly content: readonly Uint8Array[];
}

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
  const [row] = await store.select(chunk({ message, seq }));
  return row?.bytes;
}

function pieces(content: readonly Uint8Array[]): Uint8Array[] {
  const whole = content.length === 1 && content[0] !== undefined ? content[0] : Buffer.concat(content);
  const result: Uint8Array[] = [];
  for (let at = 0; at < whole.length; at += CHUNK_BYTES) result.push(whole.subarray(at, at + CHUNK_BYTES));
  return result;
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
  let query = transactional(store, filter).selectAll().limit(limit);
  if (before !== undefined) query = query.where('id', '<', before);
  if (after === undefined) return query.orderBy('id', 'desc').execute();
  return (await query.where('id', '>', after).orderBy('id').execute()).reverse();
}

/** How many there are. */
export async function countTransactional(
  store: Store,
  filter: Pick<MessageFilter, 'tenant' | 'domains'>,
): Promise<number> {
  const query = transactional(store, filter).select((eb) => eb.fn.countAll().as('count'));
  const { count } = await query.executeTakeFirstOrThrow();
  return Number(count);
}

function transactional(store: Store, { tenant, domains }: Pick<MessageFilter, 'tenant' | 'domains'>) {
  const query = store.read
    .selectFrom('messages')
    .where('tenant', '=', tenant)
    // As the partial index has it.
    .where(sql<boolean>`kind = 'transactional'`);
  return domains === undefined ? query : query.where('domain', 'in', [...domains, '']);
}
