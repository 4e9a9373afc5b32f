/**
 * Destinations: one row per recipient domain says when it is to be looked at next, so that a dead one costs one row
 * however much waits for it. `next_due_at` is the earliest due delivery, or the end of a pause; it may be too early (then
 * a claim finds nothing and corrects it), but never too late.
 */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { waiting } from './deliveries.ts';
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { DestinationRow, Tables } from './tables.ts';

/** Failures in a row from which on new mail waits for the end of the pause, too. */
const FAILURES_UNTIL_SHUT = 5;

const shut = sql<boolean>`(destinations.failures >= ${sql.lit(FAILURES_UNTIL_SHUT)} and destinations.paused_until is not null)`;

/**
 * The statement that makes a destination due no later than `due`, its pause allowing. It locks the row on PostgreSQL only
 * where that changes something: all accepted mail for one domain would else wait in line.
 */
export const noteDue = define<{ name: string; due: number }>()((db, value) => {
  const due = sql<number>`cast(${value('due')} as bigint)`;
  const effective = sql<number>`case when ${shut} and destinations.paused_until > ${due} then destinations.paused_until else ${due} end`;
  return db
    .insertInto('destinations')
    .columns(['name', 'next_due_at', 'failures', 'pauses', 'paused_until', 'held', 'last_error', 'line'])
    .expression(
      db
        .selectNoFrom([
          sql<string>`cast(${value('name')} as text)`.as('name'),
          due.as('next_due_at'),
          sql<number>`0`.as('failures'),
          sql<number>`0`.as('pauses'),
          sql<null>`cast(null as bigint)`.as('paused_until'),
          sql<number>`0`.as('held'),
          sql<null>`cast(null as text)`.as('last_error'),
          // Whose mail it is says the delivery, which its unit holds before.
          sql<string>`coalesce((select deliveries.tenant from deliveries where deliveries.destination = ${value('name')} and ${waiting} limit 1), '')`.as(
            'line',
          ),
        ])
        .where((eb) =>
          eb.not(
            eb.exists(
              eb
                .selectFrom('destinations as known')
                .select('known.name')
                .where('known.name', '=', value('name'))
                .where('known.next_due_at', '<=', due),
            ),
          ),
        ),
    )
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ next_due_at: effective })
        .where(sql<boolean>`destinations.next_due_at is null or destinations.next_due_at > ${effective}`),
    );
});

/** When the earliest waiting delivery of the destination of the surrounding statement is due, its pause allowing; null when none waits. */
function earliest(db: Kysely<Tables>): RawBuilder<number | null> {
  const first = db
    .selectFrom('deliveries')
    .select('next_attempt_at as at')
    .where(sql<boolean>`deliveries.destination = destinations.name`)
    .where(waiting)
    // What waits for its recipient to agree is not due.
    .where('next_attempt_at', 'is not', null)
    .orderBy('next_attempt_at')
    .limit(1);
  return sql`(select case when ${shut} and destinations.paused_until > first.at then destinations.paused_until else first.at end from (${first}) as first)`;
}

/** The statement that sets `next_due_at` to what the deliveries say: after a claim, a release, a correction. */
export const recomputeDue = define<{ name: string }>()((db, value) =>
  db
    .updateTable('destinations')
    .set({ next_due_at: earliest(db) })
    .where('name', '=', value('name')),
);

const recomputeAmong = define<{ names: string }>()((db, value, dialect) =>
  db
    .updateTable('destinations')
    .set({ next_due_at: earliest(db) })
    .where('name', 'in', listed(value('names'), dialect)),
);

/** The same for the named destinations. */
export function recomputeDueAmong(names: readonly string[]): Statement {
  return recomputeAmong({ names: JSON.stringify(names) });
}

/** The same for all destinations that are not due yet. */
export const recomputeAllDue = define<{ now: number }>()((db, value) =>
  db
    .updateTable('destinations')
    .set({ next_due_at: earliest(db) })
    .where('next_due_at', '>', value('now')),
);

/** The statement that pauses the whole destination until `paused_until`, whatever waits for it. */
export const pauseDestination = define<
  Pick<DestinationRow, 'name' | 'failures' | 'pauses' | 'last_error' | 'line'> & { paused_until: number }
>()((db, value) =>
  db
    .updateTable('destinations')
    .set({
      failures: value('failures'),
      pauses: value('pauses'),
      paused_until: value('paused_until'),
      next_due_at: value('paused_until'),
      last_error: value('last_error'),
      line: value('line'),
    })
    .where('name', '=', value('name')),
);

/** The statement that notes that a server there has answered, which ends all pauses. */
export const noteAnswered = define<{ name: string }>()((db, value) =>
  db
    .updateTable('destinations')
    .set({ failures: 0, pauses: 0, paused_until: null, last_error: null, line: '' })
    .where('name', '=', value('name')),
);

const clearFailuresAmong = define<{ names: string }>()((db, value, dialect) =>
  db
    .updateTable('destinations')
    .set({ failures: 0, pauses: 0, paused_until: null, last_error: null })
    .where('name', 'in', listed(value('names'), dialect)),
);

/** The statement that ends all pauses of the named destinations at the operator's word. */
export function clearFailures(names: readonly string[]): Statement {
  return clearFailuresAmong({ names: JSON.stringify(names) });
}

/** The statement that makes the operator hold (1) or release (0) the destination, known or not. */
export const setHeld = define<{ name: string; held: number }>()((db, value) =>
  db
    .insertInto('destinations')
    .values({
      name: value('name'),
      next_due_at: null,
      failures: 0,
      pauses: 0,
      paused_until: null,
      held: value('held'),
      last_error: null,
      line: '',
    })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ held: value('held') })),
);

/**
 * The statement that repairs, on PostgreSQL, a race that noteDue lost against a claim: what was on its way into the queue
 * when the claim looked what else waits. A pause stays.
 */
export const repairDue = define<{ now: number }>()((db, value) => repair(db, value('now')));

const repairAmong = define<{ names: string; now: number }>()((db, value, dialect) =>
  repair(db, value('now')).where('name', 'in', listed(value('names'), dialect)),
);

/** The same for the named destinations. */
export function repairDueAmong(names: readonly string[], now: number): Statement {
  return repairAmong({ names: JSON.stringify(names), now });
}

function repair(db: Kysely<Tables>, now: number) {
  return db
    .updateTable('destinations')
    .set({ next_due_at: earliest(db) })
    .where(sql<boolean>`${earliest(db)} < coalesce(next_due_at, ${sql.lit(Number.MAX_SAFE_INTEGER)})`)
    .where((eb) => eb.or([eb('paused_until', 'is', null), eb('paused_until', '<=', now)]));
}

const due = define<{ line: string; now: number; limit: number }>()((db, value) =>
  db
    .selectFrom('destinations')
    .selectAll()
    .where('line', '=', value('line'))
    .where('held', '=', sql.lit(0))
    .where('next_due_at', 'is not', null)
    .where('next_due_at', '<=', value('now'))
    .orderBy('next_due_at')
    .limit(value('limit')),
);
const lines = define<{ now: number }>()((db, value) => {
  const due = sql`next_due_at is not null and held = 0`;
  // From one line straight to the next in the index, however much waits in each.
  const query = sql<{ line: string }>`with recursive turn (line) as (
      select (select min(line) from destinations where ${due})
      union all
      select (select min(line) from destinations where ${due} and destinations.line > turn.line)
      from turn where turn.line is not null
    )
    select line from turn where line is not null
    and (select min(next_due_at) from destinations where ${due} and destinations.line = turn.line) <= ${value('now')}
    order by line`;
  return { compile: () => query.compile(db) };
});
const nextDue = define<object>()((db) =>
  db
    .selectFrom('destinations')
    .select('next_due_at as at')
    .where('held', '=', sql.lit(0))
    .where('next_due_at', 'is not', null)
    .orderBy('next_due_at')
    .limit(1),
);
const byName = define<{ name: string }>()((db, value) =>
  db.selectFrom('destinations').selectAll().where('name', '=', value('name')),
);
const heldAmong = define<{ names: string }>()((db, value, dialect) =>
  db
    .selectFrom('destinations')
    .select('name')
    .where('name', 'in', listed(value('names'), dialect))
    .where('held', '=', sql.lit(1))
    .orderBy('name'),
);

/** The lines in which destinations are due and not held, in their order; the empty one of those that have answered is the first. */
export async function dueLines(store: Store, now: number): Promise<string[]> {
  const rows = await store.select(lines({ now }));
  return rows.map(({ line }) => line);
}

/** Up to `limit` destinations of a line that are due and not held, longest overdue first. */
export function dueDestinations(
  store: Store,
  line: string,
  { now, limit }: { now: number; limit: number },
): Promise<DestinationRow[]> {
  return store.select(due({ line, now, limit }));
}

/** When the next destination is due; undefined when nothing waits. */
export async function nextDueAt(store: Store): Promise<number | undefined> {
  const [row] = await store.select(nextDue({}));
  return row?.at ?? undefined;
}

/** The destination of this name, or undefined when nothing was ever sent there. */
export async function findDestination(store: Store, name: string): Promise<DestinationRow | undefined> {
  const [row] = await store.select(byName({ name }));
  return row;
}

/** Those of the named destinations that the operator holds, in alphabetical order. */
export async function heldDestinations(store: Store, names: readonly string[]): Promise<string[]> {
  const rows = await store.select(heldAmong({ names: JSON.stringify(names) }));
  return rows.map(({ name }) => name);
}
