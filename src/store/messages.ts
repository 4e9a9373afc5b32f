/**
 * Messages and their finished bytes. A message is enqueued as data for its renderer; what was rendered is kept in chunks
 * once it must be sent again, so that every retry sends the same bytes.
 */
import { sql } from 'kysely';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { MessageRow, AttachmentChunkRow } from './tables.ts';

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

// What is attached to a message that is yet to be rendered, in pieces; it goes with the message.

const PIECE_BYTES = 256 * 1024;

const insertChunkAttachments = define<AttachmentChunkRow>()((db, value) =>
  db.insertInto('attachment_chunks').values({
    message: value('message'),
    position: value('position'),
    seq: value('seq'),
    bytes: value('bytes'),
  }),
);
const chunks = define<{ message: string; position: number }>()((db, value) =>
  db
    .selectFrom('attachment_chunks')
    .select('bytes')
    .where('message', '=', value('message'))
    .where('position', '=', value('position'))
    .orderBy('seq'),
);

/** The statements that keep the attachments of a message, after the one that makes it. */
export function keepAttachments(message: string, contents: readonly Uint8Array[]): Statement[] {
  return contents.flatMap((content, position) => {
    const statements: Statement[] = [];
    for (let at = 0; at < content.length; at += PIECE_BYTES) {
      const bytes = content.subarray(at, at + PIECE_BYTES);
      statements.push(insertChunkAttachments({ message, position, seq: at / PIECE_BYTES, bytes }));
    }
    return statements;
  });
}

/** The statement that drops them: the finished message holds them. */
export const dropAttachments = define<{ message: string }>()((db, value) =>
  db.deleteFrom('attachment_chunks').where('message', '=', value('message')),
);

/** The whole content of one attachment. */
export async function readAttachment(store: Store, message: string, position: number): Promise<Buffer> {
  const rows = await store.select(chunks({ message, position }));
  return Buffer.concat(rows.map(({ bytes }) => bytes));
}

// * Messages that are settled for long: first what they say goes, then the record of who got them. A delivery that is settled
// stays so, and what is not settled is not touched.

export interface AgedMessage extends Pick<MessageRow, 'id' | 'kind' | 'body'> {
  /** When its last recipient was; null while one is not. */
  readonly settled_at: number | null;
  /** Whether the submission that it tells of is there: 0 or 1. */
  readonly has_submission: number;
  /** What is kept of it. */
  readonly bytes: number;
}

const stretch = define<{ after: string; before: string; limit: number }>()((db, value) =>
  db
    .selectFrom('messages')
    .select((eb) => [
      'messages.id',
      'messages.kind',
      'messages.body',
      eb
        .selectFrom('deliveries')
        // One that is not settled makes it null.
        .select(sql<number | null>`case when count(*) = count(settled_at) then max(settled_at) end`.as('settled_at'))
        .whereRef('deliveries.message', '=', 'messages.id')
        .as('settled_at'),
      eb
        .case()
        .when(
          eb.exists(
            eb
              .selectFrom('submissions')
              .select('submissions.id')
              .whereRef('submissions.id', '=', 'messages.submission'),
          ),
        )
        .then(1)
        .else(0)
        .end()
        .as('has_submission'),
      sql<number>`length(messages.source) + messages.size + coalesce(${eb
        .selectFrom('attachment_chunks')
        .select(sql<number>`cast(sum(length(bytes)) as bigint)`.as('bytes'))
        .whereRef('attachment_chunks.message', '=', 'messages.id')}, 0)`.as('bytes'),
    ])
    // Webhook deliveries have a time of their own (store/webhook-deliveries).
    .where('messages.kind', '<>', 'webhook')
    .where('messages.id', '>', value('after'))
    .where('messages.id', '<', value('before'))
    .orderBy('messages.id')
    .limit(value('limit')),
);

/** The next messages behind `after` and before `before`, oldest first. */
export function agedMessages(
  store: Store,
  where: { readonly after: string; readonly before: string; readonly limit: number },
): Promise<AgedMessage[]> {
  return store.select(stretch(where));
}

const drop = define<Pick<MessageRow, 'id' | 'source'>>()((db, value) =>
  db
    .updateTable('messages')
    .set({ body: 'dropped', source: value('source') })
    .where('id', '=', value('id')),
);
const dropChunks = define<{ message: string }>()((db, value) =>
  db.deleteFrom('message_chunks').where('message', '=', value('message')),
);

/** The statements that drop what a settled message says; `source` is what stays of how it was asked for. */
export function dropContent({ id, source }: Pick<MessageRow, 'id' | 'source'>): Statement[] {
  return [drop({ id, source }), dropChunks({ message: id }), dropAttachments({ message: id })];
}

const forget = define<{ ids: string }>()((db, value, dialect) =>
  db.deleteFrom('messages').where('id', 'in', listed(value('ids'), dialect)),
);

/** The statement that forgets settled messages with their deliveries and attempts. */
export function forgetMessages(ids: readonly string[]): Statement {
  return forget({ ids: JSON.stringify(ids) });
}
