/** What keys asked for, per key and UTC day. */
import { sql, type Kysely } from 'kysely';
import { define, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { UsageRow, Tables, MessageCountRow } from './tables.ts';
import { lockBucket } from './limits.ts';

/** The statement that adds to what the key's day holds already, whichever daemon counted it. */
export const addUsage = define<UsageRow>()((db, value) =>
  db
    .insertInto('usage')
    .values({
      tenant: value('tenant'),
      key: value('key'),
      day: value('day'),
      requests: value('requests'),
      errors: value('errors'),
      rate_limited: value('rate_limited'),
    })
    .onConflict((conflict) =>
      conflict.columns(['key', 'day']).doUpdateSet((eb) => ({
        requests: eb('usage.requests', '+', eb.ref('excluded.requests')),
        errors: eb('usage.errors', '+', eb.ref('excluded.errors')),
        rate_limited: eb('usage.rate_limited', '+', eb.ref('excluded.rate_limited')),
      })),
    ),
);

/** Days from `from` (inclusive) to `until`, as starts of UTC days in ms. */
export interface Days {
  readonly from: number;
  readonly until: number;
}

/** The days of a tenant's keys, or of one of them, oldest first. */
export function usageOf(
  store: Store,
  tenant: string,
  { from, until, key }: Days & { key?: string | undefined },
): Promise<UsageRow[]> {
  const days = store.read
    .selectFrom('usage')
    .selectAll()
    .where('tenant', '=', tenant)
    .where('day', '>=', from)
    .where('day', '<', until)
    .orderBy('day')
    .orderBy('key');
  return (key === undefined ? days : days.where('key', '=', key)).execute();
}

export interface TenantUsage {
  readonly tenant: string;
  readonly requests: number;
  readonly errors: number;
  readonly rate_limited: number;
}

/** The sums of each tenant's keys over these days; tenants without any are not there. */
export function usageOfAll(store: Store, { from, until }: Days): Promise<TenantUsage[]> {
  return store.read
    .selectFrom('usage')
    .select((eb) => [
      'tenant',
      eb.cast<number>(eb.fn.sum('requests'), 'bigint').as('requests'),
      eb.cast<number>(eb.fn.sum('errors'), 'bigint').as('errors'),
      eb.cast<number>(eb.fn.sum('rate_limited'), 'bigint').as('rate_limited'),
    ])
    .where('day', '>=', from)
    .where('day', '<', until)
    .groupBy('tenant')
    .execute();
}

// How many recipients counted against each tenant's plan, minute by minute, and what is reserved of minutes to come.

const DAY = 86_400_000;

export interface Taking {
  readonly tenant: string;
  /** Start of the minute. */
  readonly starts_at: number;
  readonly count: number;
  /** Minutes that began at this time or earlier are not in the hour that ends with the minute, or in its day. */
  readonly since_hour: number;
  readonly since_day: number;
  /** What the hour and the day may hold without these. */
  readonly most_hour: number;
  readonly most_day: number;
}

const take = define<Taking>()((db, value) =>
  db
    .insertInto('message_counts')
    .columns(['tenant', 'starts_at', 'count'])
    .expression(
      db
        .selectNoFrom((eb) => [
          eb.cast<string>(eb.val(value('tenant')), 'text').as('tenant'),
          eb.cast<number>(eb.val(value('starts_at')), 'bigint').as('starts_at'),
          eb.cast<number>(eb.val(value('count')), 'bigint').as('count'),
        ])
        .where((eb) => eb(sumSince(db, value, 'since_hour'), '<=', value('most_hour')))
        .where((eb) => eb(sumSince(db, value, 'since_day'), '<=', value('most_day'))),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'starts_at'])
        .doUpdateSet((eb) => ({ count: eb('message_counts.count', '+', eb.ref('excluded.count')) })),
    ),
);

function sumSince(db: Kysely<Tables>, value: Placeholders<Taking>, since: 'since_hour' | 'since_day') {
  return db
    .selectFrom('message_counts as known')
    .where('known.tenant', '=', value('tenant'))
    .where('known.starts_at', '>', value(since))
    .select((eb) => eb.cast<number>(eb.fn.coalesce(eb.fn.sum('known.count'), eb.lit(0)), 'bigint').as('sum'));
}

/**
 * The statements that count recipients of a tenant, each in its minute; their unit fails with UnmetError where a window has
 * no room for them by then. Units that run beside each other name tenants in the same order.
 */
export function takeMessages(store: Pick<Store, 'dialect'>, takings: readonly Taking[]): Statement[] {
  const tenants = [...new Set(takings.map(({ tenant }) => tenant))];
  // On SQLite units follow each other.
  const locks = store.dialect === 'sqlite' ? [] : tenants.map((tenant) => lockBucket({ bucket: `messages:${tenant}` }));
  return [...locks, ...takings.map((taking) => take(taking, 1))];
}

const ofTenant = define<{ tenant: string; since: number }>()((db, value) =>
  db
    .selectFrom('message_counts')
    .select(['starts_at', 'count'])
    .where('tenant', '=', value('tenant'))
    .where('starts_at', '>', value('since'))
    .orderBy('starts_at'),
);

/** The minutes of the tenant that began after `since`, those to come among them, oldest first. */
export function messageCounts(
  store: Store,
  tenant: string,
  since: number,
): Promise<Pick<MessageCountRow, 'starts_at' | 'count'>[]> {
  return store.select(ofTenant({ tenant, since }));
}

/** What counted for each tenant in the span of whole UTC days. */
export function messagesOfAll(
  store: Store,
  { from, until }: { readonly from: number; readonly until: number },
): Promise<{ tenant: string; messages: number }[]> {
  return store.read
    .selectFrom('message_counts')
    .select((eb) => ['tenant', eb.cast<number>(eb.fn.sum('count'), 'bigint').as('messages')])
    .where('starts_at', '>=', from)
    .where('starts_at', '<', until)
    .groupBy('tenant')
    .execute();
}

const forgetReserved = define<{ tenant: string; now: number }>()((db, value) =>
  db
    .deleteFrom('message_counts')
    .where('starts_at', '>', value('now'))
    .where((eb) => eb.or([eb('tenant', '=', value('tenant')), eb(eb.val(value('tenant')), '=', sql.lit(''))])),
);

/** The statement that forgets what is reserved of minutes to come, of the tenant or (empty) of all. */
export function releaseReserved(tenant: string, now: number): Statement {
  return forgetReserved({ tenant, now });
}

const dayOf = sql<number>`starts_at - starts_at % ${sql.lit(DAY)}`;
const addDays = define<{ before: number }>()((db, value) =>
  db
    .insertInto('message_counts')
    .columns(['tenant', 'starts_at', 'count'])
    .expression(
      db
        .selectFrom('message_counts')
        .select((eb) => ['tenant', dayOf.as('day'), eb.cast<number>(eb.fn.sum('count'), 'bigint').as('count')])
        .where('starts_at', '<', value('before'))
        .where(sql<boolean>`starts_at % ${sql.lit(DAY)} <> 0`)
        .groupBy(['tenant', dayOf]),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['tenant', 'starts_at'])
        .doUpdateSet((eb) => ({ count: eb('message_counts.count', '+', eb.ref('excluded.count')) })),
    ),
);
const dropMinutes = define<{ before: number }>()((db, value) =>
  db
    .deleteFrom('message_counts')
    .where('starts_at', '<', value('before'))
    .where(sql<boolean>`starts_at % ${sql.lit(DAY)} <> 0`),
);
const someMinute = define<{ before: number }>()((db, value) =>
  db
    .selectFrom('message_counts')
    .select('starts_at')
    .where('starts_at', '<', value('before'))
    .where(sql<boolean>`starts_at % ${sql.lit(DAY)} <> 0`)
    .limit(sql.lit(1)),
);

/** Makes one row of each UTC day that is out of every window. */
export async function foldMessageCounts(store: Store, now: number): Promise<void> {
  const before = now - (now % DAY) - DAY;
  if ((await store.select(someMinute({ before }))).length === 0) return;
  const lock = store.dialect === 'sqlite' ? [] : [lockBucket({ bucket: 'messages:' })];
  await store.write([...lock, addDays({ before }), dropMinutes({ before })]);
}
