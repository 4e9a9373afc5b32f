/**
 * Mail that comes in. Its bytes are written in pieces while they come; the row that makes them a message comes in the unit
 * that is committed before 250. Pieces without that row belong to nothing that was accepted.
 */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import {
  countOf,
  deleteAmong,
  deleteFrom,
  finder,
  insertInto,
  listed,
  newestFirst,
  query,
  reader,
  update,
} from './statement.ts';
import type { Store } from './store.ts';
import type { BounceRow, InboundLogRow, InboundRow, MessageRow, RawChunkRow } from './tables.ts';

/** The largest piece: what is held in memory of a large message. The first one holds the longest header that is taken. */
export const RAW_CHUNK_BYTES = 104 * 1024;

/** The statement that makes a message of the pieces written before. */
export const insertInbound = insertInto('inbound');

/** The statement that keeps one piece of a message. */
export const insertRawChunk = insertInto('raw_chunks');

/** The statement that drops the pieces of one message. */
export const deleteRaw = deleteFrom('raw_chunks', 'inbound');

/** The message with this id (`inb_…`), or undefined. */
export const findInbound = finder('inbound', 'id');

const piece = finder('raw_chunks', 'inbound', 'seq');

/** The bytes of a message as they came, piece by piece, one of them in memory at a time. */
export async function* rawChunks(store: Store, inbound: string): AsyncGenerator<Uint8Array> {
  let found: RawChunkRow | undefined;
  for (let seq = 0; (found = await piece(store, inbound, seq)) !== undefined; seq++) yield await store.blobs.get(found);
}

/** The statement that writes down what was said of a recipient. */
export const insertInboundLog = insertInto('inbound_log');

export interface InboundFilter {
  readonly tenant?: string | undefined;
  readonly domain?: string | undefined;
  readonly outcome?: InboundLogRow['outcome'] | undefined;
  readonly reason?: string | undefined;
  readonly ip?: string | undefined;
  readonly sender?: string | undefined;
  readonly recipient?: string | undefined;
  /** Milliseconds. */
  readonly from?: number | undefined;
  /** The moment behind the last, ms. */
  readonly until?: number | undefined;
}

/** The log of inbound mail, newest first; of pages after the first what is older than `before` (`inl_…`). */
export function listInboundLog(
  store: Store,
  filter: InboundFilter,
  page: { readonly limit: number; readonly before?: string | undefined },
): Promise<InboundLogRow[]> {
  return newestFirst(logged(store, filter).selectAll(), page);
}

/** How many there are. */
export function countInboundLog(store: Store, filter: InboundFilter): Promise<number> {
  return countOf(logged(store, filter));
}

function logged(store: Store, filter: InboundFilter) {
  let rows = store.read.selectFrom('inbound_log');
  for (const column of ['tenant', 'domain', 'outcome', 'reason', 'ip', 'sender', 'recipient'] as const) {
    const wanted = filter[column];
    if (wanted !== undefined) rows = rows.where(column, '=', wanted);
  }
  const { from, until } = filter;
  if (from !== undefined) rows = rows.where('id', '>=', firstId('inl', from));
  if (until !== undefined) rows = rows.where('id', '<', firstId('inl', until));
  return rows;
}

/** The statement that forgets the oldest entries before this id, `most` at a time. */
export const forgetInboundLog = query<{ before: string; most: number }>(
  (value) => sql`delete from inbound_log where id in (
    select id from inbound_log where id < ${value('before')} order by id limit ${value('most')})`,
);

/** The statement that drops pieces written from `since` until before `before` whose message was never accepted. */
export const deleteRawOrphans = query<{ since: number; before: number }>(
  (value) => sql`delete from raw_chunks
    where created_at >= ${value('since')} and created_at < ${value('before')}
      and not exists (select 1 from inbound where inbound.id = raw_chunks.inbound)`,
);

const stretch = query<
  { after: string; before: string; limit: number },
  Pick<InboundRow, 'id' | 'size' | 'messages'> & { has_raw: number }
>(
  (value) => sql`select id, size, messages,
      case when exists (select 1 from raw_chunks where raw_chunks.inbound = inbound.id) then 1 else 0 end as has_raw
    from inbound where id > ${value('after')} and id < ${value('before')} order by id limit ${value('limit')}`,
);
const bodiesOf = reader(
  (messages: readonly string[]) => sql<Pick<MessageRow, 'id' | 'body'>>`select id, body from messages
    where id in ${listed(messages)}`,
);

export interface AgedInbound extends Pick<InboundRow, 'id' | 'size'> {
  /** Whether its bytes are there. */
  readonly hasRaw: boolean;
  /** What is known of the messages that it became: nothing, who got them, or what they say as well. */
  readonly kept: 'nothing' | 'records' | 'bodies';
}

/** The next messages behind `after` and before `before`, oldest first. */
export async function agedInbound(
  store: Store,
  where: { readonly after: string; readonly before: string; readonly limit: number },
): Promise<AgedInbound[]> {
  const rows = await store.select(stretch(where));
  const became = new Map(rows.map(({ id, messages }) => [id, JSON.parse(messages) as string[]]));
  const bodies = new Map((await bodiesOf(store, [...became.values()].flat())).map(({ id, body }) => [id, body]));
  return rows.map(({ id, size, has_raw }) => {
    const own = (became.get(id) ?? []).flatMap((message) => bodies.get(message) ?? []);
    const kept = own.some((body) => body !== 'dropped') ? 'bodies' : own.length > 0 ? 'records' : 'nothing';
    return { id, size, hasRaw: has_raw === 1, kept };
  });
}

/** The statement that drops the bytes of these messages as they came. */
export const dropRaws = deleteAmong('raw_chunks', 'inbound');

/** The statement that forgets that these messages, whose bytes are gone, were taken. */
export const forgetInbound = deleteAmong('inbound', 'id');

/** The statement that keeps a message that came back to one of our return paths to be read, for the unit that takes it. */
export const insertBounce = insertInto('bounces');

const due = reader(
  (now: number) => sql<Pick<BounceRow, 'inbound' | 'message' | 'tries'>>`select inbound, message, tries from bounces
    where due <= ${now} order by due limit 10`,
);
const claim = query<Pick<BounceRow, 'inbound' | 'message' | 'tries'> & { until: number }, BounceRow>(
  (value) => sql`update bounces set tries = tries + 1, due = ${value('until')}
    where inbound = ${value('inbound')} and message = ${value('message')} and tries = ${value('tries')}
    returning inbound, message, head, tries, due, created_at`,
);

/**
 * Claims the one that waits longest; undefined where none is due. The claim says when its reading is begun again, `until`
 * (ms): a crash in the middle repeats it, and what crashes the reader is soon left alone.
 */
export async function claimBounce(
  store: Store,
  { now, until }: { readonly now: number; readonly until: number },
): Promise<BounceRow | undefined> {
  for (const next of await due(store, now)) {
    const [{ rows }] = await store.write([claim({ ...next, until })]);
    if (rows[0] !== undefined) return rows[0];
  }
  return undefined;
}

/** The statement that forgets one; `expect` says whether it was still there. */
export const deleteBounce = deleteFrom('bounces', 'inbound', 'message');

/** The statement that leaves one for later, as if it had not been read. */
export const postponeBounce = update('bounces', ['due', sql`tries = 0`], ['inbound', 'message']);
