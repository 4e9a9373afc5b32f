/**
 * What a wall clock that was set back leaves in the database: times that lie further ahead than any schedule puts them.
 * The one place that pulls them back, so that nothing waits for the clock to come to where it was.
 */
import { sql, type Kysely, type RawBuilder } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { HELD, waiting } from './deliveries.ts';
import { recomputeAllDue } from './destinations.ts';
import { define, type Dialect, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { Tables } from './tables.ts';

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
  /** How long the reading of a bounce lasts. */
  readonly bounce: number;
}

interface Table {
  now: number;
  /** JSON array of ms. */
  waits: string;
  /** Its last index. */
  last: number;
}

/** The longest wait after so many tries, from 1. */
function waitAfter(tries: RawBuilder<number>, { waits, last }: Pick<Table, 'waits' | 'last'>, dialect: Dialect) {
  return dialect === 'sqlite'
    ? sql<number>`cast(json_extract(${waits}, '$[' || min(${tries} - 1, cast(${last} as integer)) || ']') as integer)`
    : sql<number>`(${waits}::json ->> least(${tries} - 1, ${last})::int)::bigint`;
}

function bigint(value: number): RawBuilder<number> {
  return sql<number>`cast(${value} as bigint)`;
}

const triedMail = define<Table>()((db, value, dialect) => tried(db, value, dialect).where('webhook', 'is', null));
const triedWebhooks = define<Table>()((db, value, dialect) =>
  tried(db, value, dialect).where('webhook', 'is not', null),
);

function tried(db: Kysely<Tables>, value: Placeholders<Table>, dialect: Dialect) {
  const table = { waits: value('waits'), last: value('last') };
  const latest = sql<number>`${bigint(value('now'))} + ${waitAfter(sql`attempts`, table, dialect)}`;
  return db
    .updateTable('deliveries')
    .set({ next_attempt_at: latest })
    .where('state', 'in', ['queued', 'deferred', 'sending'])
    .where('attempts', '>', 0)
    .where('next_attempt_at', '<', sql.lit(HELD))
    .where(sql<boolean>`next_attempt_at > ${latest}`);
}

/** What was never tried is due, unless its sender named a time. */
const freshDeliveries = define<{ now: number }>()((db, value, dialect) => {
  const sendAt =
    dialect === 'sqlite' ? sql`json_extract(messages.source, '$.send_at')` : sql`(messages.source::json ->> 'send_at')`;
  return db
    .updateTable('deliveries')
    .set({ next_attempt_at: value('now') })
    .where(waiting)
    .where('attempts', '=', sql.lit(0))
    .where('next_attempt_at', '>', value('now'))
    .where('next_attempt_at', '<', sql.lit(HELD))
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('messages')
          .select('messages.id')
          .whereRef('messages.id', '=', 'deliveries.message')
          .where(sql<boolean>`${sendAt} is null`),
      ),
    );
});

const leases = define<{ until: number }>()((db, value) =>
  db
    .updateTable('deliveries')
    .set({ lease_until: value('until') })
    .where('state', '=', 'sending')
    .where('lease_until', '>', value('until')),
);

const pauses = define<Table>()((db, value, dialect) => {
  const table = { waits: value('waits'), last: value('last') };
  const latest = sql<number>`${bigint(value('now'))} + ${waitAfter(sql`pauses`, table, dialect)}`;
  return db
    .updateTable('destinations')
    .set({ paused_until: latest })
    .where('pauses', '>', 0)
    .where(sql<boolean>`paused_until > ${latest}`);
});

const webhookBeginnings = define<{ now: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({ starts_at: value('now') })
    .where('starts_at', '>', value('now')),
);

const webhookCursors = define<{ now: number }>()((db, value) =>
  db
    .updateTable('webhooks')
    .set({ cursor: value('now') })
    .where('cursor', '>', value('now')),
);

/** A bounce is looked at again after as long as it has waited, or when its reading must be over. */
const bounces = define<{ now: number; bounce: number }>()((db, value) => {
  const now = bigint(value('now'));
  return db
    .updateTable('bounces')
    .set({ due: value('now') })
    .where(sql<boolean>`due > ${now} + ${bigint(value('bounce'))}`)
    .where(sql<boolean>`due > ${now} + (${now} - created_at)`);
});

const limits = define<{ after: number }>()((db, value) =>
  db.deleteFrom('limits').where('starts_at', '>', value('after')),
);

/** A request that is in progress since the future has died: its key may be used again. */
const idempotencyKeys = define<{ after: number }>()((db, value) =>
  db.deleteFrom('idempotency_keys').where('status', '=', sql.lit(0)).where('created_at', '>', value('after')),
);

/** Pulls back what lies further ahead than its schedule could have put it. Rejects where the store cannot. */
export async function pullBackDueTimes(store: Store, schedules: Schedules): Promise<void> {
  const { now, lease, bounce } = schedules;
  const table = tableOf(schedules.deliveries, now);
  const unit: Statement[] = [
    triedMail(table),
    triedWebhooks(tableOf(schedules.webhooks, now)),
    freshDeliveries({ now }),
    leases({ until: now + lease }),
    pauses(table),
    recomputeAllDue({ now }),
    webhookBeginnings({ now }),
    webhookCursors({ now }),
    bounces({ now, bounce }),
    limits({ after: now + SKEW_MS }),
    idempotencyKeys({ after: now + SKEW_MS }),
  ];
  await store.write(unit);
}

function tableOf(waits: readonly number[], now: number): Table {
  return { now, waits: JSON.stringify(waits), last: waits.length - 1 };
}

const newestEvent = define<object>()((db) => db.selectFrom('events').select('id').orderBy('id', 'desc').limit(1));

/** Whether the newest event is from the future: the clock was set back since it happened. */
export async function isClockBehind(store: Store, now: number): Promise<boolean> {
  const [newest] = await store.select(newestEvent({}));
  return newest !== undefined && newest.id > firstId('evt', now + SKEW_MS);
}
