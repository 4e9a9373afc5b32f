/**
 * What keys asked for, per key and UTC day; how many recipients counted against each tenant's plan, minute by minute, and
 * what is reserved of minutes to come.
 */
import { sql } from 'kysely';
import { lockBucket } from './limits.ts';
import { insertInto, query, reader, type Placeholders, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { MessageCountRow, UsageRow } from './tables.ts';

/** The statement that adds to what the key's day holds already, whichever daemon counted it. */
export const addUsage = insertInto(
  'usage',
  sql`on conflict (key, day) do update set requests = usage.requests + excluded.requests,
    errors = usage.errors + excluded.errors, rate_limited = usage.rate_limited + excluded.rate_limited`,
);

/** The days of a tenant's keys, or of one of them, oldest first; `from` (inclusive) to `until`, as starts of UTC days in ms. */
export function usageOf(
  store: Store,
  tenant: string,
  { from, until, key }: { readonly from: number; readonly until: number; readonly key?: string | undefined },
): Promise<UsageRow[]> {
  const all = store.read.selectFrom('usage').selectAll().where('tenant', '=', tenant);
  const days = all.where('day', '>=', from).where('day', '<', until).orderBy('day').orderBy('key');
  return (key === undefined ? days : days.where('key', '=', key)).execute();
}

export type TenantUsage = Pick<UsageRow, 'tenant' | 'requests' | 'errors' | 'rate_limited'>;

/** The sums of each tenant's keys over these days; tenants without any are not there. */
export const usageOfAll = reader(
  (from: number, until: number) => sql<TenantUsage>`select tenant, cast(sum(requests) as bigint) as requests,
      cast(sum(errors) as bigint) as errors, cast(sum(rate_limited) as bigint) as rate_limited
    from usage where day >= ${from} and day < ${until} group by tenant`,
);

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

const adding = sql`on conflict (tenant, starts_at) do update set count = message_counts.count + excluded.count`;
const take = query<Taking>(
  (value) => sql`insert into message_counts (tenant, starts_at, count)
    select cast(${value('tenant')} as text), cast(${value('starts_at')} as bigint), cast(${value('count')} as bigint)
    where ${sumSince(value, 'since_hour')} <= ${value('most_hour')}
      and ${sumSince(value, 'since_day')} <= ${value('most_day')}
    ${adding}`,
);

function sumSince(value: Placeholders<Taking>, since: 'since_hour' | 'since_day') {
  return sql`(select cast(coalesce(sum(known.count), 0) as bigint) from message_counts as known
    where known.tenant = ${value('tenant')} and known.starts_at > ${value(since)})`;
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

/** The minutes of the tenant that began after `since`, those to come among them, oldest first. */
export const messageCounts = reader(
  (tenant: string, since: number) => sql<Pick<MessageCountRow, 'starts_at' | 'count'>>`
    select starts_at, count from message_counts
    where tenant = ${tenant} and starts_at > ${since} order by starts_at`,
);

/** What counted for each tenant in the span of whole UTC days. */
export const messagesOfAll = reader(
  (from: number, until: number) => sql<{ tenant: string; messages: number }>`
    select tenant, cast(sum(count) as bigint) as messages from message_counts
    where starts_at >= ${from} and starts_at < ${until} group by tenant`,
);

/** The statement that forgets what is reserved of minutes to come, of the tenant or (empty) of all. */
export const releaseReserved = query<{ tenant: string; now: number }>(
  (value) => sql`delete from message_counts
    where starts_at > ${value('now')} and (tenant = ${value('tenant')} or ${value('tenant')} = '')`,
);

function minutesBefore(value: Placeholders<{ before: number }>) {
  return sql`starts_at < ${value('before')} and starts_at % ${sql.lit(DAY)} <> 0`;
}
const addDays = query<{ before: number }>(
  (value) => sql`insert into message_counts (tenant, starts_at, count)
    select tenant, starts_at - starts_at % ${sql.lit(DAY)} as day, cast(sum(count) as bigint) from message_counts
    where ${minutesBefore(value)} group by tenant, day
    ${adding}`,
);
const dropMinutes = query<{ before: number }>((value) => sql`delete from message_counts where ${minutesBefore(value)}`);
/** Makes one row of each UTC day that is out of every window. */
export async function foldMessageCounts(store: Store, now: number): Promise<void> {
  const before = now - (now % DAY) - DAY;
  const lock = store.dialect === 'sqlite' ? [] : [lockBucket({ bucket: 'messages:' })];
  await store.write([...lock, addDays({ before }), dropMinutes({ before })]);
}
