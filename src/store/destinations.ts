/**
 * Destinations: one row per recipient domain says when it is to be looked at next, so that a dead one costs one row
 * however much waits for it. `next_due_at` is the earliest due delivery, or the end of a pause; it may be too early (then
 * a claim finds nothing and corrects it), but never too late.
 */
import { sql, type RawBuilder } from 'kysely';
import { waiting } from './messages.ts';
import { finder, listed, query, reader, update, type Placeholders } from './statement.ts';
import type { Store } from './store.ts';
import type { DestinationRow } from './tables.ts';

/** From the fifth failure in a row on, new mail waits for the end of the pause, too. */
const shut = sql<boolean>`(destinations.failures >= 5 and destinations.paused_until is not null)`;

/**
 * The statement that makes a destination due no later than `due`, its pause allowing. It locks the row on PostgreSQL only
 * where that changes something: all accepted mail for one domain would else wait in line.
 */
export const noteDue = query<{ name: string; due: number }>(
  (value) => makeDueBy({ name: sql`cast(${value('name')} as text)`, due: sql`cast(${value('due')} as bigint)` }),
  {
    columns: { name: 'text', due: 'bigint' },
    touches: 'any',
    build: (rows, value) =>
      makeDueBy({
        name: sql`given.name`,
        due: sql`given.due`,
        from: sql`from (select ${value('name')} as name, min(${value('due')}) as due from ${rows}
          group by 1 order by 1) as given`,
      }),
  },
);

function makeDueBy({
  name,
  due,
  from = sql``,
}: Record<'name' | 'due', RawBuilder<unknown>> & { from?: RawBuilder<unknown> }) {
  const pause = sql`destinations.paused_until`;
  const effective = sql`case when ${shut} and ${pause} > excluded.next_due_at then ${pause} else excluded.next_due_at end`;
  // Whose mail it is says the delivery, which its unit holds before.
  return sql<never>`insert into destinations (name, next_due_at, failures, pauses, held, line)
    select ${name}, ${due}, 0, 0, 0, coalesce(
      (select tenant from deliveries where destination = ${name} and ${waiting} limit 1), '') ${from}
    where not exists (
      select 1 from destinations as known where known.name = ${name} and known.next_due_at <= ${due})
    on conflict (name) do update set next_due_at = ${effective}
      where destinations.next_due_at is null or destinations.next_due_at > ${effective}`;
}

/**
 * When the earliest waiting delivery of the destination of the surrounding statement is due, its pause allowing; null when
 * none waits. What waits for its recipient to agree is not due.
 */
const earliest = sql<number | null>`(
  select case when ${shut} and destinations.paused_until > first.at then destinations.paused_until else first.at end
  from (select next_attempt_at as at from deliveries
    where deliveries.destination = destinations.name and ${waiting} and next_attempt_at is not null
    order by next_attempt_at limit 1) as first)`;

/** The statement that sets `next_due_at` to what the deliveries say: after a claim, a release, a correction. */
export const recomputeDue = update('destinations', [sql`next_due_at = ${earliest}`], ['name']);

/** The same for the named destinations. */
export const recomputeDueAmong = query<{ names: readonly string[] }>(
  (value) => sql`update destinations set next_due_at = ${earliest} where name in ${listed(value('names'))}`,
);

/** The same for all destinations that are not due yet. */
export const recomputeAllDue = query<{ now: number }>(
  (value) => sql`update destinations set next_due_at = ${earliest} where next_due_at > ${value('now')}`,
);

/** The statement that pauses the whole destination until `paused_until`, whatever waits for it. */
export const pauseDestination = query<
  Pick<DestinationRow, 'name' | 'failures' | 'pauses' | 'last_error' | 'line'> & { paused_until: number }
>(
  (value) => sql`update destinations set failures = ${value('failures')}, pauses = ${value('pauses')},
      paused_until = ${value('paused_until')}, next_due_at = ${value('paused_until')},
      last_error = ${value('last_error')}, line = ${value('line')}
    where name = ${value('name')}`,
);

/**
 * The name under which the pause of the smarthost is kept, through which mail for most destinations leaves. No domain has
 * an underscore, and nothing waits for it: it is never due.
 */
export const RELAY = '_relay';

/** The statement that pauses the smarthost, and with it all that leaves through it. */
export const pauseRelay = query<
  Pick<DestinationRow, 'failures' | 'pauses' | 'last_error' | 'line'> & { paused_until: number }
>(
  (value) => sql`insert into destinations (name, failures, pauses, paused_until, last_error, held, line)
    values (${sql.lit(RELAY)}, ${value('failures')}, ${value('pauses')}, ${value('paused_until')},
      ${value('last_error')}, 0, ${value('line')})
    on conflict (name) do update set failures = excluded.failures, pauses = excluded.pauses,
      paused_until = excluded.paused_until, last_error = excluded.last_error, line = excluded.line`,
);

const noFailures = sql`failures = 0, pauses = 0, paused_until = null, last_error = null`;

/** The statement that notes that a server there has answered, which ends all pauses. */
export const noteAnswered = update('destinations', [noFailures, sql`line = ''`], ['name']);

/** The statement that ends all pauses of the named destinations at the operator's word. */
export const clearFailures = query<{ names: readonly string[] }>(
  (value) => sql`update destinations set ${noFailures} where name in ${listed(value('names'))}`,
);

/** The statement that makes the operator hold (1) or release (0) the destination, known or not. */
export const setHeld = query<{ name: string; held: number }>(
  (value) => sql`insert into destinations (name, failures, pauses, held, line)
    values (${value('name')}, 0, 0, ${value('held')}, '')
    on conflict (name) do update set held = excluded.held`,
);

/**
 * The statement that repairs, on PostgreSQL, a race that noteDue lost against a claim: what was on its way into the queue
 * when the claim looked what else waits. A pause stays.
 */
export const repairDue = query<{ now: number }>((value) => repair(value));

/** The same for the named destinations. */
export const repairDueAmong = query<{ names: readonly string[]; now: number }>(
  (value) => sql`${repair(value)} and name in ${listed(value('names'))}`,
);

function repair(value: Placeholders<{ now: number }>) {
  return sql<never>`update destinations set next_due_at = ${earliest}
    where ${earliest} < coalesce(next_due_at, ${sql.lit(Number.MAX_SAFE_INTEGER)})
      and (paused_until is null or paused_until <= ${value('now')})`;
}

const due = query<{ line: string; now: number; limit: number; but: readonly string[] }, DestinationRow>(
  (value) => sql`select * from destinations
    where line = ${value('line')} and held = 0 and next_due_at is not null and next_due_at <= ${value('now')}
      and name not in ${listed(value('but'))}
    order by next_due_at limit ${value('limit')}`,
);
/** What is due of some destinations and webhooks, or of all but these. */
const dueAmong = query<{ names: readonly string[]; isAmong: number; now: number; limit: number }, DestinationRow>(
  (value) => sql`select * from destinations
    where held = 0 and next_due_at is not null and next_due_at <= ${value('now')}
      and (substr(name, 1, 4) = 'whk_' or name in ${listed(value('names'))}) = (${value('isAmong')} = 1)
    order by next_due_at limit ${value('limit')}`,
);
// From one line straight to the next in the index, however much waits in each.
const lines = reader((now: number) => {
  const due = sql`next_due_at is not null and held = 0`;
  return sql<{ line: string }>`with recursive turn (line) as (
      select (select min(line) from destinations where ${due})
      union all
      select (select min(line) from destinations where ${due} and destinations.line > turn.line)
      from turn where turn.line is not null
    )
    select line from turn where line is not null
    and (select min(next_due_at) from destinations where ${due} and destinations.line = turn.line) <= ${now}
    order by line`;
});
const nextDue = reader(
  () => sql<{ at: number }>`select next_due_at as at from destinations where held = 0 and next_due_at is not null
    order by next_due_at limit 1`,
);
const heldAmong = reader(
  (names: readonly string[]) => sql<{ name: string }>`select name from destinations
    where name in ${listed(names)} and held = 1 order by name`,
);

/** The lines in which destinations are due and not held, in their order; the empty one of those that have answered is the first. */
export async function dueLines(store: Store, now: number): Promise<string[]> {
  return (await lines(store, now)).map(({ line }) => line);
}

/** Up to `limit` destinations of a line that are due, not held and not among `but`, longest overdue first. */
export function dueDestinations(
  store: Store,
  line: string,
  { now, limit, but = [] }: { now: number; limit: number; but?: readonly string[] },
): Promise<DestinationRow[]> {
  return store.select(due({ line, now, limit, but }));
}

/** The same of all webhooks and the named destinations, or (`but`) of all others. */
export function dueDestinationsAmong(
  store: Store,
  names: readonly string[],
  { now, limit, but = false }: { now: number; limit: number; but?: boolean },
): Promise<DestinationRow[]> {
  return store.select(dueAmong({ names, isAmong: but ? 0 : 1, now, limit }));
}

/** Until when the smarthost is paused, and why; undefined where it is not. */
export async function relayPause(
  store: Store,
  now: number,
): Promise<{ readonly until: number; readonly failures: number; readonly error: string } | undefined> {
  const { paused_until: until = null, failures = 0, last_error: error } = (await findDestination(store, RELAY)) ?? {};
  return until === null || until <= now ? undefined : { until, failures, error: error ?? '' };
}

/** When the next destination is due; undefined when nothing waits. */
export async function nextDueAt(store: Store): Promise<number | undefined> {
  return (await nextDue(store))[0]?.at;
}

/** The destination of this name, or undefined when nothing was ever sent there. */
export const findDestination = finder('destinations', 'name');

/** Those of the named destinations that the operator holds, in alphabetical order. */
export async function heldDestinations(store: Store, names: readonly string[]): Promise<string[]> {
  return (await heldAmong(store, names)).map(({ name }) => name);
}
