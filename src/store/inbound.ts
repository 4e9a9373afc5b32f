/**
 * Mail that comes in. Its bytes are written in pieces while they come; the row that makes them a message comes in the unit
 * that is committed before 250. Pieces without that row belong to nothing that was accepted.
 */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { listed } from './listed.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { InboundLogRow, InboundRow, RawChunkRow } from './tables-inbound.ts';

export type { InboundLogRow, InboundRow } from './tables-inbound.ts';

/** The largest piece: what is held in memory of a large message. */
export const RAW_PIECE_BYTES = 128 * 1024;

/** The statement that makes a message of the pieces written before. */
export const insertInbound = define<InboundRow>()((db, value) =>
  db.insertInto('inbound').values({
    id: value('id'),
    sender: value('sender'),
    recipients: value('recipients'),
    ip: value('ip'),
    helo: value('helo'),
    tls: value('tls'),
    size: value('size'),
    encoding: value('encoding'),
    trace: value('trace'),
    verdicts: value('verdicts'),
    messages: value('messages'),
    raw_due: value('raw_due'),
    created_at: value('created_at'),
  }),
);

/** The statement that keeps one piece of a message. */
export const insertRawChunk = define<RawChunkRow>()((db, value) =>
  db.insertInto('raw_chunks').values({
    inbound: value('inbound'),
    seq: value('seq'),
    bytes: value('bytes'),
    created_at: value('created_at'),
  }),
);

/** The statement that drops the pieces of one message. */
export const deleteRaw = define<{ inbound: string }>()((db, value) =>
  db.deleteFrom('raw_chunks').where('inbound', '=', value('inbound')),
);

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('inbound').selectAll().where('id', '=', value('id')),
);
const piece = define<{ inbound: string; seq: number }>()((db, value) =>
  db.selectFrom('raw_chunks').select('bytes').where('inbound', '=', value('inbound')).where('seq', '=', value('seq')),
);

/** The message with this id (`inb_…`), or undefined. */
export async function findInbound(store: Store, id: string): Promise<InboundRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** The bytes of a message as they came, piece by piece, one of them in memory at a time. */
export async function* rawPieces(store: Store, inbound: string): AsyncGenerator<Uint8Array> {
  for (let seq = 0; ; seq++) {
    const [row] = await store.select(piece({ inbound, seq }));
    if (row === undefined) return;
    yield row.bytes;
  }
}

/** The statement that writes down what was said of a recipient. */
export const insertInboundLog = define<InboundLogRow>()((db, value) =>
  db.insertInto('inbound_log').values({
    id: value('id'),
    tenant: value('tenant'),
    domain: value('domain'),
    ip: value('ip'),
    helo: value('helo'),
    sender: value('sender'),
    recipient: value('recipient'),
    outcome: value('outcome'),
    reply: value('reply'),
    reason: value('reason'),
    inbound: value('inbound'),
    created_at: value('created_at'),
  }),
);

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

/** What was said at the door, newest first; of pages after the first what is older than `before` (`inl_…`). */
export function listInboundLog(
  store: Store,
  filter: InboundFilter,
  { limit, before }: { readonly limit: number; readonly before?: string | undefined },
): Promise<InboundLogRow[]> {
  let query = logged(store, filter).selectAll();
  if (before !== undefined) query = query.where('id', '<', before);
  return query.orderBy('id', 'desc').limit(limit).execute();
}

/** How many there are. */
export async function countInboundLog(store: Store, filter: InboundFilter): Promise<number> {
  const query = logged(store, filter).select((eb) => eb.fn.countAll().as('count'));
  return Number((await query.executeTakeFirstOrThrow()).count);
}

function logged(store: Store, filter: InboundFilter) {
  let query = store.read.selectFrom('inbound_log');
  for (const column of ['tenant', 'domain', 'outcome', 'reason', 'ip', 'sender', 'recipient'] as const) {
    const wanted = filter[column];
    if (wanted !== undefined) query = query.where(column, '=', wanted);
  }
  const { from, until } = filter;
  if (from !== undefined) query = query.where('id', '>=', firstId('inl', from));
  if (until !== undefined) query = query.where('id', '<', firstId('inl', until));
  return query;
}

/** The statement that forgets the oldest entries before this id, `most` at a time. */
export const forgetInboundLog = define<{ before: string; most: number }>()((db, value) =>
  db
    .deleteFrom('inbound_log')
    .where('id', 'in', (eb) =>
      eb.selectFrom('inbound_log').select('id').where('id', '<', value('before')).orderBy('id').limit(value('most')),
    ),
);

/** The statement that drops pieces written from `since` until before `before` whose message was never accepted. */
export const deleteRawOrphans = define<{ since: number; before: number }>()((db, value) =>
  db
    .deleteFrom('raw_chunks')
    .where('created_at', '>=', value('since'))
    .where('created_at', '<', value('before'))
    .where((eb) =>
      eb.not(
        eb.exists(eb.selectFrom('inbound').select('inbound.id').whereRef('inbound.id', '=', 'raw_chunks.inbound')),
      ),
    ),
);

const rawDue = define<{ now: number; most: number }>()((db, value) =>
  db
    .selectFrom('inbound')
    .select(['id', 'messages'])
    .where('raw_due', '<=', value('now'))
    // As the partial index has it.
    .where(sql<boolean>`raw_due is not null`)
    .orderBy('raw_due')
    .limit(value('most')),
);
const open = define<{ messages: string }>()((db, value, dialect) =>
  db
    .selectFrom('deliveries')
    .select('message')
    .distinct()
    .where('message', 'in', listed(value('messages'), dialect))
    .where(sql<boolean>`state in ('queued', 'sending', 'deferred')`),
);
const setRawDue = define<{ id: string; due: number }>()((db, value) =>
  db
    .updateTable('inbound')
    .set({ raw_due: value('due') })
    .where('id', '=', value('id')),
);
const clearRawDue = define<{ id: string }>()((db, value) =>
  db.updateTable('inbound').set({ raw_due: null }).where('id', '=', value('id')),
);

/** So many messages are looked at in one go. */
export const SWEPT_AT_ONCE = 50;

/**
 * Drops the bytes of messages whose `raw_due` has come and that nobody has still to be sent; of the others they are
 * looked at again at `again` (ms). Answers how many were looked at.
 */
export async function sweepRaw(store: Store, now: number, again: number): Promise<number> {
  const rows = await store.select(rawDue({ now, most: SWEPT_AT_ONCE }));
  if (rows.length === 0) return 0;
  const messages = JSON.stringify(rows.flatMap((row) => readIds(row.messages)));
  const waiting = new Set((await store.select(open({ messages }))).map(({ message }) => message));
  const unit: Statement[] = rows.flatMap((row) =>
    readIds(row.messages).some((id) => waiting.has(id))
      ? [setRawDue({ id: row.id, due: again })]
      : [deleteRaw({ inbound: row.id }), clearRawDue({ id: row.id })],
  );
  await store.write(unit);
  return rows.length;
}

function readIds(json: string): string[] {
  return JSON.parse(json) as string[];
}
