/** Events in numbers: hours that are over are counted once and for all, what came since is counted when it is asked for. */
import { sql } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { insertInto, query, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { EventCountRow, EventRow } from './tables.ts';

/** The statement that says how many events of a kind an hour had. */
export const saveCount = insertInto(
  'event_counts',
  sql`on conflict (tenant, hour, type, domain, form) do update set count = excluded.count`,
);

const last = reader(() => sql<{ hour: number | null }>`select max(hour) as hour from event_counts`);
const first = reader(
  (tenant: string) => sql<{ hour: number | null }>`select min(hour) as hour from event_counts where tenant = ${tenant}`,
);

/** The last hour that was counted, or undefined. */
export async function lastCountedHour(store: Store): Promise<number | undefined> {
  return (await last(store))[0]?.hour ?? undefined;
}

/** The first counted hour in which the tenant has events, or undefined. */
export async function firstCountedHour(store: Store, tenant: string): Promise<number | undefined> {
  return (await first(store, tenant))[0]?.hour ?? undefined;
}

const next = reader(
  (first: string) =>
    sql<{ created_at: number }>`select created_at from events where id >= ${first} order by id limit 1`,
);

/** When the first event at or after `at` was, or undefined. */
export async function nextEventAt(store: Store, at: number): Promise<number | undefined> {
  return (await next(store, firstId('evt', at)))[0]?.created_at;
}

/** From `from` (inclusive) to `until`, ms. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** What was counted of a tenant in the hours of the span. */
export const hoursOf = reader(
  (tenant: string, from: number, until: number) => sql<Omit<EventCountRow, 'tenant'>>`
    select hour, type, domain, form, count from event_counts
    where tenant = ${tenant} and hour >= ${from} and hour < ${until}`,
);

/** What a key of the environment `test` did is no use of anything. */
const counted = sql`data not like '%"environment":"test"%'`;
const ofDomain = sql`coalesce(domain, '')`;
const ofForm = sql`coalesce(form, '')`;

/** What is in the span by the events themselves. */
export function eventsOf(
  store: Store,
  tenant: string,
  { from, until }: Span,
): Promise<Omit<EventCountRow, 'tenant' | 'hour'>[]> {
  return store.select(live({ tenant, from, until, first: firstId('evt', from), end: firstId('evt', until) }));
}

const live = query<Span & { tenant: string; first: string; end: string }, Omit<EventCountRow, 'tenant' | 'hour'>>(
  (value) => sql`select type, ${ofDomain} as domain, ${ofForm} as form, count(*) as count from events
    where tenant = ${value('tenant')} and created_at >= ${value('from')} and created_at < ${value('until')} and ${counted}
      and id >= ${value('first')} and id < ${value('end')}
    group by type, ${ofDomain}, ${ofForm}`,
);

export type TypeCount = Pick<EventCountRow, 'tenant' | 'type' | 'count'>;

/** The same of each tenant, by type alone. */
export const hoursOfAll = reader(
  (from: number, until: number) => sql<TypeCount>`
    select tenant, type, cast(sum(count) as bigint) as count from event_counts
    where hour >= ${from} and hour < ${until} group by tenant, type`,
);
/** What was counted in the hours of the span, of all tenants together. Added up in the order of the index, nothing large is sorted. */
export const hoursOfServer = reader(
  (from: number, until: number) => sql<Pick<EventCountRow, 'hour' | 'type' | 'count'>>`
    select hour, type, cast(sum(count) as bigint) as count from (
      select hour, tenant, type, sum(count) as count from event_counts
      where hour >= ${from} and hour < ${until} group by hour, tenant, type) as by_tenant
    group by hour, type`,
);
const liveOfEach = reader(
  (first: string, last: string) => sql<Omit<EventCountRow, 'hour'>>`
    select tenant, type, ${ofDomain} as domain, ${ofForm} as form, count(*) as count from events
    where id >= ${first} and id < ${last} and ${counted}
    group by tenant, type, ${ofDomain}, ${ofForm}`,
);

/** The same by the events themselves. */
export function eventsOfAll(store: Store, { from, until }: Span): Promise<Omit<EventCountRow, 'hour'>[]> {
  return liveOfEach(store, firstId('evt', from), firstId('evt', until));
}

/** Which of a tenant's events are meant. */
export interface EventFilter {
  readonly type?: string | undefined;
  readonly form?: string | undefined;
  /** One of these; undefined: any, or none. */
  readonly domains?: readonly string[] | undefined;
}

/** A tenant's events of the span that come before the id `before`, newest first, at most `limit`. */
export function listEvents(
  store: Store,
  tenant: string,
  { type, form, domains, from, until, before, limit }: EventFilter & Span & { before: string; limit: number },
): Promise<EventRow[]> {
  let events = store.read.selectFrom('events').selectAll().where('tenant', '=', tenant);
  if (type !== undefined) events = events.where('type', '=', type);
  if (form !== undefined) events = events.where('form', '=', form);
  if (domains !== undefined) events = events.where('domain', 'in', domains);
  const span = events
    .where('created_at', '>=', from)
    .where('created_at', '<', until)
    .where('id', '>=', firstId('evt', from))
    .where('id', '<', before);
  return span.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}
