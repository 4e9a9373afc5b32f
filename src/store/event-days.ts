/**
 * Events on PostgreSQL have a partition for each UTC day, by their ids, which begin with the time. Days are made ahead, and dropped
 * when their events are too old. What was there before the table had partitions is one of them. The default partition
 * gets what has none, such as events of a clock that is years ahead; they are deleted row by row.
 */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { codeOf } from '../lib/errors.ts';
import { firstId } from '../lib/ids.ts';
import { query, reader } from './statement.ts';
import type { Store } from './store.ts';

const DAY_MS = 86_400_000;
/** So many days have a partition ahead. */
const AHEAD_DAYS = 7;
/** As the migration calls the table of before, which is the default partition until it is set apart. */
const BEFORE = 'events_before';

/** Who writes events waits behind us while we wait for a lock that somebody else has. */
const waitShortly = query<object>(() => sql`select set_config('lock_timeout', '50ms', true)`);
const LOCK_NOT_AVAILABLE = '55P03';
const CHECK_VIOLATION = '23514';

/** The start of the UTC day. */
function dayOf(at: number): number {
  return at - (at % DAY_MS);
}

/** `20261128` */
function dateOf(day: number): string {
  return new Date(day).toISOString().slice(0, 10).replaceAll('-', '');
}

function nameOf(day: number): string {
  return `events_${dateOf(day)}`;
}

/** What all events before this time have, quoted: no statement about tables takes parameters. */
function boundAt(at: number) {
  return sql.lit(firstId('evt', at));
}

/** When the last event is over that the partition may have, ms; undefined of one that has no end. */
function endOf(name: string): number | undefined {
  const [, until, year, month, day] = /^events_(until_)?(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
  if (year === undefined) return undefined;
  return Date.UTC(Number(year), Number(month) - 1, Number(day)) + (until === undefined ? DAY_MS : 0);
}

const partitions = reader(
  () => sql<{ name: string }>`select relname::text as name from pg_inherits
    join pg_class on pg_class.oid = inhrelid where inhparent = to_regclass('events') order by 1`,
);

/**
 * Sets apart what was there before the table had partitions, at the start: that is read once, while others go on to write. It
 * takes the events of the next days as well. `db` has one connection, whose statements take as long as they need.
 */
export async function divideEvents(db: Kysely<unknown>, now: number): Promise<void> {
  const before = sql.table(BEFORE);
  const end = dayOf(now) + AHEAD_DAYS * DAY_MS;
  const lock = sql<{ is_ours: boolean }>`select pg_try_advisory_lock(hashtext('postern event days')) as is_ours`;
  // Where another daemon is at it, that is enough.
  if ((await lock.execute(db)).rows[0]?.is_ours !== true) return;
  const known = sql<{ is_there: boolean }>`select to_regclass(${BEFORE}) is not null as is_there`;
  if ((await known.execute(db)).rows[0]?.is_there !== true) return;
  await sql`alter table ${before} drop constraint if exists events_are_before`.execute(db);
  await sql`alter table ${before} add constraint events_are_before check (id < ${boundAt(end)}) not valid`.execute(db);
  try {
    await sql`alter table ${before} validate constraint events_are_before`.execute(db);
  } catch (error) {
    await sql`alter table ${before} drop constraint events_are_before`.execute(db);
    // Some are of a clock that was far ahead: until they are gone, all events are in one partition, and deleted row by row.
    if (codeOf(error) === CHECK_VIOLATION) return;
    throw error;
  }
  await db.transaction().execute(async (transaction) => {
    const statements = [
      sql`alter table events detach partition ${before}`,
      // The constraint says that no row has to be looked at.
      sql`alter table events attach partition ${before} for values from (minvalue) to (${boundAt(end)})`,
      sql`alter table ${before} drop constraint events_are_before`,
      sql`alter table ${before} rename to ${sql.table(`events_until_${dateOf(end)}`)}`,
      sql`create table events_default partition of events default`,
    ];
    for (const statement of statements) await statement.execute(transaction);
  });
}

/** A job to run from time to time: makes the days to come that have no partition yet. */
export async function addEventDays(store: Store, now: number): Promise<void> {
  if (store.dialect === 'sqlite') return;
  const known = (await partitions(store)).map(({ name }) => name);
  if (known.includes(BEFORE)) return;
  const divided = Math.max(
    0,
    ...known.filter((name) => name.startsWith('events_until_')).map((name) => endOf(name) ?? 0),
  );
  for (let day = dayOf(now); day <= now + AHEAD_DAYS * DAY_MS; day += DAY_MS) {
    if (day < divided || known.includes(nameOf(day))) continue;
    if ((await inDefault(store, firstId('evt', day), firstId('evt', day + DAY_MS))).length > 0) continue;
    if (!(await changed(store, attach(day)))) return;
  }
}

/** Of a clock that was ahead, or came too late for their day: it stays without a partition. */
const inDefault = reader(
  (first: string, end: string) => sql<{ id: string }>`select id from events_default
    where id >= ${first} and id < ${end} limit 1`,
);

/** Attached, a new table keeps nobody from writing to the others; made as a partition, it would. */
function attach(day: number): RawBuilder<never>[] {
  const table = sql.table(nameOf(day));
  return [
    sql<never>`create table ${table} (like events)`,
    sql<never>`alter table events attach partition ${table} for values from (${boundAt(day)}) to (${boundAt(day + DAY_MS)})`,
  ];
}

/**
 * Drops the days that are over before `before` (ms). Answers before when events are to be deleted row by row that are still there;
 * undefined: later, because somebody reads the table. Without partitions that is `before`.
 */
export async function dropEventDays(store: Store, before: number): Promise<number | undefined> {
  if (store.dialect === 'sqlite') return before;
  const day = dayOf(before);
  for (const { name } of await partitions(store)) {
    if ((endOf(name) ?? Infinity) > day) continue;
    if (!(await changed(store, [sql<never>`drop table if exists ${sql.table(name)}`]))) return undefined;
  }
  return day;
}

/** Changes the table unless somebody else has its lock. */
async function changed(store: Store, statements: readonly RawBuilder<never>[]): Promise<boolean> {
  try {
    await store.write([waitShortly({}), ...statements.map((statement) => query<object>(() => statement)({}))]);
    return true;
  } catch (error) {
    if (codeOf(error) === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
}
