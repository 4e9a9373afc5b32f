/**
 * The daemons and their database as functions of how much arrives in a second: how units share commits, what of the
 * processors, the WAL and the disk is used. Nothing here knows the time of day.
 */
import { KINDS, ofEach, type Assumptions, type Costs, type Kind } from './inputs.ts';

/** Units that share a commit at most (src/store/postgres-writer.ts). */
export const MAX_UNITS = 100;
/** Rows that count for a form; which one does, the connection decides (src/store/forms.ts). */
const COUNTERS = 32;
const PRECISION = 1e-3;
/** Of finding how many commits there are, and how long one waits for the others. */
const ROUNDS = 3;
const PAGE_BYTES = 8192;
const DAY_SECONDS = 86_400;
/** What VACUUM remembers of a dead row before PostgreSQL 17, bytes. */
const DEAD_ROW_BYTES = 6;

export interface Shared {
  /** Units in one transaction, on average. */
  readonly units: number;
  readonly transactionsPerSecond: number;
  /** From the beginning of one to the end of its commit, ms. */
  readonly ms: number;
  /** Units a second where each transaction is as full as it can be. */
  readonly mostPerSecond: number;
}

/**
 * Units that come one by one share the next transaction while one is on its way. With Poisson arrivals λ and transactions of
 * length T, one begins as soon as the last ends, or after e^(-λT) of them with the next unit: T + e^(-λT)/λ apart.
 * The same holds for commits that share an fsync.
 */
export function shared(
  perSecond: number,
  { fixedMs, eachMs, most = Infinity }: { fixedMs: number; eachMs: number; most?: number },
): Shared {
  const rate = perSecond / 1000;
  let units = 1;
  for (let before = 0; Math.abs(units - before) > PRECISION * units;) {
    before = units;
    const arrive = rate * (fixedMs + eachMs * units);
    units = Math.min(most, (units + arrive + Math.exp(-arrive)) / 2);
  }
  const mostPerSecond = (1000 * most) / (fixedMs + eachMs * most);
  return { units, transactionsPerSecond: perSecond / units, ms: fixedMs + eachMs * units, mostPerSecond };
}

const NONE: Shared = { units: 1, transactionsPerSecond: 0, ms: 0, mostPerSecond: Infinity };

/** Messages a second of each kind: accepted, and attempts to deliver. */
export type Rates = Readonly<Record<Kind, number>>;

export interface Used {
  /** Processors, of all daemons together: main threads, delivery threads, all threads. */
  readonly main: number;
  readonly delivery: number;
  readonly daemons: number;
  readonly database: number;
  readonly walBytes: number;
  readonly transactions: number;
  readonly fsyncs: number;
  /** How much of its time the disk is busy with fsync. */
  readonly syncing: number;
  /** The transactions that accept, of all daemons. */
  readonly accept: Readonly<Record<Kind, Shared>>;
  /** Of transactions that accept posts, those that wait for another daemon's counter of the same form. */
  readonly waitsForLock: number;
}

/** What is used in a second in which these are accepted and tried. */
export function use(
  { accepted, attempts }: { readonly accepted: Rates; readonly attempts: Rates },
  {
    costs,
    assumptions,
    daemons,
  }: { readonly costs: Costs; readonly assumptions: Assumptions; readonly daemons: number },
): Used {
  const perTransaction = costs.transaction;
  const { round_trip_ms, fsync_ms } = assumptions.database;
  const others = KINDS.reduce((sum, kind) => sum + attempts[kind] * costs.kinds[kind].deliver.transactions, 0);
  // How many commits there are decides how long one waits for the disk, and the other way round.
  let accept = ofEach(() => NONE);
  let transactions = 0;
  let syncs = NONE;
  let waitsForLock = 0;
  for (let i = 0; i < ROUNDS; i++) {
    const syncing = Math.min(1, (syncs.transactionsPerSecond * fsync_ms) / 1000);
    waitsForLock = 1 - (1 - 1 / COUNTERS) ** (Math.min(daemons, openTransactions(accept.post)) - 1);
    const fixedMs = 2 * round_trip_ms + fsync_ms * (1 + syncing / 2);
    accept = ofEach((kind) => {
      const { transactions: measured, database_us } = costs.kinds[kind].accept;
      const eachMs = Math.max(0, database_us - perTransaction.database_us * measured) / 1000;
      const locked = kind === 'post' ? 1 + waitsForLock / 2 : 1;
      const transactionMs = (perTransaction.main_us + perTransaction.database_us) / 1000;
      const one = { fixedMs: (fixedMs + transactionMs) * locked, eachMs, most: MAX_UNITS };
      const each = shared(accepted[kind] / daemons, one);
      const transactionsPerSecond = each.transactionsPerSecond * daemons;
      return { ...each, transactionsPerSecond, mostPerSecond: each.mostPerSecond * daemons };
    });
    transactions = others + KINDS.reduce((sum, kind) => sum + accept[kind].transactionsPerSecond, 0);
    syncs = shared(transactions, { fixedMs: fsync_ms, eachMs: 0 });
  }
  function sum(each: (kind: Kind) => number): number {
    return KINDS.reduce((all, kind) => all + each(kind), 0);
  }

  /** Transactions beyond those that were there when it was measured; fewer are a gain. */
  const more = sum(
    (kind) => accept[kind].transactionsPerSecond - accepted[kind] * costs.kinds[kind].accept.transactions,
  );

  function total(what: 'main_us' | 'all_us' | 'database_us' | 'wal_bytes'): number {
    return sum(
      (kind) => accepted[kind] * costs.kinds[kind].accept[what] + attempts[kind] * costs.kinds[kind].deliver[what],
    );
  }

  return {
    main: (total('main_us') + more * perTransaction.main_us) / 1e6,
    delivery: sum((kind) => attempts[kind] * costs.kinds[kind].deliver.thread_us) / 1e6,
    daemons: (total('all_us') + more * perTransaction.all_us) / 1e6,
    database: (total('database_us') + more * perTransaction.database_us) / 1e6,
    walBytes:
      total('wal_bytes') +
      scatteredBytes(
        sum((kind) => accepted[kind]),
        assumptions,
      ),
    transactions,
    fsyncs: syncs.transactionsPerSecond,
    syncing: Math.min(1, (syncs.transactionsPerSecond * fsync_ms) / 1000),
    accept,
    waitsForLock,
  };
}

/** At most one is open for each daemon. */
function openTransactions({ transactionsPerSecond, ms }: Shared): number {
  return Math.max(1, (transactionsPerSecond * ms) / 1000);
}

/** Images of index pages in the WAL: of `places` pages, those that are changed between two checkpoints. */
function scatteredBytes(perSecond: number, { places, scattered_indexes, database }: Assumptions): number {
  const between = database.checkpoint_minutes * 60;
  const changed = places * (1 - Math.exp((-perSecond * between) / places));
  return (scattered_indexes * changed * PAGE_BYTES) / between;
}

export interface Kept {
  readonly rows: number;
  readonly bytes: number;
  /** Processors that forgetting takes, of the daemons and the database, and those for VACUUM. */
  readonly daemons: number;
  readonly database: number;
  readonly vacuum: number;
  /** Of the table whose VACUUM takes longest, hours in a day; one worker has 24. */
  readonly vacuumHours: number;
  readonly vacuumTable: string;
  readonly walBytes: number;
  /** Written to the data files in a second but for `places`, and read by VACUUM. */
  readonly writtenBytes: number;
  readonly readBytes: number;
}

interface Table {
  rows: number;
  heap: number;
  index: number;
  dead: number;
}

/** What a database holds that has had so many messages each day for as long as `days` say, and what keeping it so costs a second. */
export function keep(perDay: Rates, days: readonly number[], costs: Costs, assumptions: Assumptions): Kept {
  const tables = new Map<string, Table>();
  let [daemons, database, walBytes, pageUs, pageWal, newBytes] = [0, 0, 0, 0, 0, 0];
  for (const kind of KINDS) {
    const cost = costs.kinds[kind];
    const perSecond = perDay[kind] / DAY_SECONDS;
    daemons += (perSecond * cost.forget.all_us) / 1e6;
    database += (perSecond * cost.forget.database_us) / 1e6;
    walBytes += perSecond * cost.forget.wal_bytes;
    pageUs = Math.max(pageUs, cost.vacuum.page_us);
    pageWal = Math.max(pageWal, cost.vacuum.page_wal_bytes);
    for (const [name, { rows, heap_bytes, index_bytes, dead_rows }] of Object.entries(cost.tables)) {
      const table = tables.get(name) ?? { rows: 0, heap: 0, index: 0, dead: 0 };
      tables.set(name, table);
      table.rows += perDay[kind] * keptOf(rows, days);
      table.heap += perDay[kind] * keptOf(heap_bytes, days);
      table.index += perDay[kind] * keptOf(index_bytes, days);
      table.dead += dead_rows * perDay[kind];
      newBytes += (heap_bytes[0] + index_bytes[0]) * perSecond;
    }
  }
  const { vacuum_scale_factor: factor, vacuum_memory_bytes } = assumptions.database;
  let [vacuumHours, vacuumTable, pages, changed] = [0, '', 0, 0];
  for (const [name, { rows, heap, index, dead }] of tables) {
    const each = Math.max(1, rows * factor);
    // Of the table it reads what has changed, of the indexes everything, as often as its memory is full.
    const changes = Math.min(dead, ((heap / PAGE_BYTES) * dead) / each);
    const visited = changes + ((index / PAGE_BYTES) * dead) / Math.min(each, vacuum_memory_bytes / DEAD_ROW_BYTES);
    const hours = (visited * pageUs) / 1e6 / 3600;
    if (hours > vacuumHours) [vacuumHours, vacuumTable] = [hours, name];
    pages += visited / DAY_SECONDS;
    changed += changes / DAY_SECONDS;
  }
  const all = [...tables.values()];
  const bytes = all.reduce((sum, { heap, index }) => sum + heap + index, 0);
  return {
    rows: all.reduce((sum, { rows }) => sum + rows, 0),
    bytes: bytes * (1 + factor),
    daemons,
    database,
    vacuum: (pages * pageUs) / 1e6,
    vacuumHours,
    vacuumTable,
    walBytes: walBytes + changed * pageWal,
    writtenBytes: 2 * newBytes + changed * PAGE_BYTES,
    readBytes: pages * PAGE_BYTES,
  };
}

/** What there is of something of which one comes each day. */
function keptOf(stages: readonly number[], days: readonly number[]): number {
  return stages.reduce((sum, each, i) => sum + each * ((days[i] ?? 0) - (days[i - 1] ?? 0)), 0);
}
