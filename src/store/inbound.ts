/**
 * Mail that comes in. Its bytes are written in pieces while they come; the row that makes them a message comes in the unit
 * that is committed before 250. Pieces without that row belong to nothing that was accepted.
 */
import { firstId } from '../lib/ids.ts';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { InboundLogRow, InboundRow, RawChunkRow, BounceRow } from './tables.ts';

/** The largest piece: what is held in memory of a large message. The first one holds the longest header that is taken. */
export const RAW_CHUNK_BYTES = 104 * 1024;

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
export async function* rawChunks(store: Store, inbound: string): AsyncGenerator<Uint8Array> {
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

/** The log of inbound mail, newest first; of pages after the first what is older than `before` (`inl_…`). */
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

const stretch = define<{ after: string; before: string; limit: number }>()((db, value) =>
  db
    .selectFrom('inbound')
    .select((eb) => [
      'inbound.id',
      'inbound.size',
      'inbound.messages',
      eb
        .case()
        .when(
          eb.exists(
            eb.selectFrom('raw_chunks').select('raw_chunks.seq').whereRef('raw_chunks.inbound', '=', 'inbound.id'),
          ),
        )
        .then(1)
        .else(0)
        .end()
        .as('has_raw'),
    ])
    .where('inbound.id', '>', value('after'))
    .where('inbound.id', '<', value('before'))
    .orderBy('inbound.id')
    .limit(value('limit')),
);
const bodiesOf = define<{ messages: string }>()((db, value, dialect) =>
  db
    .selectFrom('messages')
    .select(['id', 'body'])
    .where('id', 'in', listed(value('messages'), dialect)),
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
  const messages = JSON.stringify([...became.values()].flat());
  const bodies = new Map((await store.select(bodiesOf({ messages }))).map(({ id, body }) => [id, body]));
  return rows.map(({ id, size, has_raw }) => {
    const own = (became.get(id) ?? []).flatMap((message) => bodies.get(message) ?? []);
    const kept = own.some((body) => body !== 'dropped') ? 'bodies' : own.length > 0 ? 'records' : 'nothing';
    return { id, size, hasRaw: has_raw === 1, kept };
  });
}

const dropRaw = define<{ ids: string }>()((db, value, dialect) =>
  db.deleteFrom('raw_chunks').where('inbound', 'in', listed(value('ids'), dialect)),
);
const forget = define<{ ids: string }>()((db, value, dialect) =>
  db.deleteFrom('inbound').where('id', 'in', listed(value('ids'), dialect)),
);

/** The statement that drops the bytes of these messages as they came. */
export function dropRaws(ids: readonly string[]): Statement {
  return dropRaw({ ids: JSON.stringify(ids) });
}

/** The statement that forgets that these messages, whose bytes are gone, were taken. */
export function forgetInbound(ids: readonly string[]): Statement {
  return forget({ ids: JSON.stringify(ids) });
}

// * What came back to our return paths and was not read yet. Reading is begun by a claim that says when it is begun again:
// a crash in the middle repeats it, and what crashes whoever reads it is soon left alone.

/** The statement that keeps one to be read, for the unit that takes it. */
export const insertBounce = define<BounceRow>()((db, value) =>
  db.insertInto('bounces').values({
    inbound: value('inbound'),
    message: value('message'),
    head: value('head'),
    tries: value('tries'),
    due: value('due'),
    created_at: value('created_at'),
  }),
);

const due = define<{ now: number; most: number }>()((db, value) =>
  db
    .selectFrom('bounces')
    .select(['inbound', 'message', 'tries'])
    .where('due', '<=', value('now'))
    .orderBy('due')
    .limit(value('most')),
);
const claim = define<{ inbound: string; message: string; tries: number; until: number }>()((db, value) =>
  db
    .updateTable('bounces')
    .set((eb) => ({ tries: eb('tries', '+', 1), due: value('until') }))
    .where('inbound', '=', value('inbound'))
    .where('message', '=', value('message'))
    .where('tries', '=', value('tries'))
    .returningAll(),
);

/** Claims the one that waits longest; until `until` (ms) nobody else reads it. Undefined where none is due. */
export async function claimBounce(
  store: Store,
  { now, until }: { readonly now: number; readonly until: number },
): Promise<BounceRow | undefined> {
  for (const next of await store.select(due({ now, most: 10 }))) {
    const [{ rows }] = await store.write([claim({ ...next, until })]);
    if (rows[0] !== undefined) return rows[0];
  }
  return undefined;
}

/** The statement that forgets one; `expect` says whether it was still there. */
export const deleteBounce = define<{ inbound: string; message: string }>()((db, value) =>
  db.deleteFrom('bounces').where('inbound', '=', value('inbound')).where('message', '=', value('message')),
);

/** The statement that leaves one for later, as if it had not been read. */
export const postponeBounce = define<{ inbound: string; message: string; due: number }>()((db, value) =>
  db
    .updateTable('bounces')
    .set({ due: value('due'), tries: 0 })
    .where('inbound', '=', value('inbound'))
    .where('message', '=', value('message')),
);
