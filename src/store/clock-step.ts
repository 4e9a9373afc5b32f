/**
 * What a wall clock that was set back leaves in the database: times that lie further ahead than any schedule puts them.
 * The one place that pulls them back, so that nothing waits for the clock to come to where it was.
 */
import { sql, type RawBuilder } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { HELD, waiting } from './messages.ts';
import { recomputeAllDue } from './destinations.ts';
import { query, type Placeholders, type Dialect } from './statement.ts';
import type { Store } from './store.ts';

/** So far apart the clocks of two daemons on one database may be, ms. */
const SKEW_MS = 60_000;

export interface Schedules {
  readonly now: number;
  /** How long mail waits at most after each of its attempts, the first one first; the last repeats. ms */
  readonly deliveries: readonly number[];
  /** The same of webhook deliveries. */
  readonly webhooks: readonly number[];
  /** How long a lease lasts. */
  readonly lease: number;
  /** How long the reading of a bounce or a report lasts. */
  readonly bounce: number;
}

interface Table {
  now: number;
  /** JSON array of ms. */
  waits: string;
  /** Its last index. */
  last: number;
}

/** The latest that something is due which was tried so often, from 1. */
function latest(tries: RawBuilder<unknown>, value: Placeholders<Table>, dialect: Dialect) {
  const [waits, last] = [value('waits'), value('last')];
  const wait =
    dialect === 'sqlite'
      ? sql`cast(json_extract(${waits}, '$[' || min(${tries} - 1, cast(${last} as integer)) || ']') as integer)`
      : sql`(${waits}::json ->> least(${tries} - 1, ${last})::int)::bigint`;
  return sql`cast(${value('now')} as bigint) + ${wait}`;
}

const tried = query<Table & { http: number }>((value, dialect) => {
  const until = latest(sql`attempts`, value, dialect);
  return sql`update deliveries set next_attempt_at = ${until}
    where state in ('queued', 'deferred', 'sending') and attempts > 0
      and case when webhook is null then 0 else 1 end = ${value('http')}
      and next_attempt_at < ${sql.lit(HELD)} and next_attempt_at > ${until}`;
});

/** What was never tried is due, unless its sender named a time. */
const freshDeliveries = query<{ now: number }>((value, dialect) => {
  const sendAt =
    dialect === 'sqlite' ? sql`json_extract(messages.source, '$.send_at')` : sql`(messages.source::json ->> 'send_at')`;
  return sql`update deliveries set next_attempt_at = ${value('now')}
    where ${waiting} and attempts = 0 and next_attempt_at > ${value('now')} and next_attempt_at < ${sql.lit(HELD)}
      and exists (select 1 from messages where messages.id = deliveries.message and ${sendAt} is null)`;
});

const leases = query<{ until: number }>(
  (value) => sql`update deliveries set lease_until = ${value('until')}
    where state = 'sending' and lease_until > ${value('until')}`,
);

const pauses = query<Table>((value, dialect) => {
  const until = latest(sql`pauses`, value, dialect);
  return sql`update destinations set paused_until = ${until} where pauses > 0 and paused_until > ${until}`;
});

const webhookBeginnings = query<{ now: number }>(
  (value) => sql`update webhooks set starts_at = ${value('now')} where starts_at > ${value('now')}`,
);
const webhookCursors = query<{ now: number }>(
  (value) => sql`update webhooks set cursor = ${value('now')} where cursor > ${value('now')}`,
);

/** A bounce is looked at again after as long as it has waited, or when its reading must be over. */
const bounces = query<{ now: number; bounce: number }>((value) => {
  const now = sql`cast(${value('now')} as bigint)`;
  return sql`update bounces set due = ${value('now')}
    where due > ${now} + cast(${value('bounce')} as bigint) and due > ${now} + (${now} - created_at)`;
});

const unreadReports = query<{ now: number; bounce: number }>((value) => {
  const now = sql`cast(${value('now')} as bigint)`;
  return sql`update unread_reports set due = ${value('now')} where due > ${now} + cast(${value('bounce')} as bigint)`;
});

const limits = query<{ after: number }>((value) => sql`delete from limits where starts_at > ${value('after')}`);

/** A request that is in progress since the future has died: its key may be used again. */
const idempotencyKeys = query<{ after: number }>(
  (value) => sql`delete from idempotency_keys where status = 0 and created_at > ${value('after')}`,
);

/** Pulls back what lies further ahead than its schedule could have put it. Rejects where the store cannot. */
export async function pullBackDueTimes(store: Store, schedules: Schedules): Promise<void> {
  const { now, lease, bounce } = schedules;
  const mail = tableOf(schedules.deliveries, now);
  const after = now + SKEW_MS;
  await store.write([
    tried({ ...mail, http: 0 }),
    tried({ ...tableOf(schedules.webhooks, now), http: 1 }),
    freshDeliveries({ now }),
    leases({ until: now + lease }),
    pauses(mail),
    recomputeAllDue({ now }),
    webhookBeginnings({ now }),
    webhookCursors({ now }),
    bounces({ now, bounce }),
    unreadReports({ now, bounce }),
    limits({ after }),
    idempotencyKeys({ after }),
  ]);
}

function tableOf(waits: readonly number[], now: number): Table {
  return { now, waits: JSON.stringify(waits), last: waits.length - 1 };
}

/** Whether the newest event is from the future: the clock was set back since it happened. */
export async function isClockBehind(store: Store, now: number): Promise<boolean> {
  const [newest] = await store.read.selectFrom('events').select('id').orderBy('id', 'desc').limit(1).execute();
  return newest !== undefined && newest.id > firstId('evt', now + SKEW_MS);
}
