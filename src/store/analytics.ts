/** Events in numbers: hours that are over are counted once and for all, what came since is counted when it is asked for. */
import { sql, type Expression, type SqlBool } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { insertInto, query } from './rows.ts';
import type { Store } from './store.ts';
import type { EventCountRow, EventRow } from './tables.ts';

/** The statement that says how many events of a kind an hour had. */
export const saveCount = insertInto(
  'event_counts',
  sql`on conflict (tenant, hour, type, domain, form) do update set count = excluded.count`,
);

/** The last hour that was counted, or undefined. */
export async function lastCountedHour(store: Store): Promise<number | undefined> {
  const [row] = await store.read
    .selectFrom('event_counts')
    .select(sql<number | null>`max(hour)`.as('hour'))
    .execute();
  return row?.hour ?? undefined;
}

/** The first counted hour in which the tenant has events, or undefined. */
export async function firstCountedHour(store: Store, tenant: string): Promise<number | undefined> {
  const hours = store.read.selectFrom('event_counts').where('tenant', '=', tenant);
  const [row] = await hours.select(sql<number | null>`min(hour)`.as('hour')).execute();
  return row?.hour ?? undefined;
}

const next = query<{ first: string }, Pick<EventRow, 'created_at'>>(
  (value) => sql`select created_at from events where id >= ${value('first')} order by id limit 1`,
);

/** When the first event at or after `at` was, or undefined. */
export async function nextEventAt(store: Store, at: number): Promise<number | undefined> {
  return (await store.select(next({ first: firstId('evt', at) })))[0]?.created_at;
}

/** From `from` (inclusive) to `until`, ms. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

const hours = query<Span & { tenant: string }, Omit<EventCountRow, 'tenant'>>(
  (value) => sql`select hour, type, domain, form, count from event_counts
    where tenant = ${value('tenant')} and hour >= ${value('from')} and hour < ${value('until')}`,
);
/** What a key of the environment `test` did is no use of anything. */
const counted = sql`data not like '%"environment":"test"%'`;
const ofDomain = sql`coalesce(domain, '')`;
const ofForm = sql`coalesce(form, '')`;

const live = query<Span & { tenant: string }, Omit<EventCountRow, 'tenant' | 'hour'>>(
  (value) => sql`select type, ${ofDomain} as domain, ${ofForm} as form, count(*) as count from events
    where tenant = ${value('tenant')} and created_at >= ${value('from')} and created_at < ${value('until')}
      and ${counted}
    group by type, ${ofDomain}, ${ofForm}`,
);

/** What was counted of a tenant in the hours of the span. */
export function hoursOf(store: Store, tenant: string, span: Span): Promise<Omit<EventCountRow, 'tenant'>[]> {
  return store.select(hours({ tenant, ...span }));
}

/** What is in the span by the events themselves. */
export function eventsOf(store: Store, tenant: string, span: Span): Promise<Omit<EventCountRow, 'tenant' | 'hour'>[]> {
  return store.select(live({ tenant, ...span }));
}

export interface TypeCount {
  readonly tenant: string;
  readonly type: string;
  readonly count: number;
}

const hoursOfEach = query<Span, TypeCount>(
  (value) => sql`select tenant, type, cast(sum(count) as bigint) as count from event_counts
    where hour >= ${value('from')} and hour < ${value('until')} group by tenant, type`,
);
const liveOfEach = query<{ first: string; last: string }, Omit<EventCountRow, 'hour'>>(
  (value) => sql`select tenant, type, ${ofDomain} as domain, ${ofForm} as form, count(*) as count from events
    where id >= ${value('first')} and id < ${value('last')} and ${counted}
    group by tenant, type, ${ofDomain}, ${ofForm}`,
);

/** The same of each tenant, by type alone. */
export function hoursOfAll(store: Store, span: Span): Promise<TypeCount[]> {
  return store.select(hoursOfEach({ ...span }));
}

/** The same by the events themselves. */
export function eventsOfAll(store: Store, { from, until }: Span): Promise<Omit<EventCountRow, 'hour'>[]> {
  return store.select(liveOfEach({ first: firstId('evt', from), last: firstId('evt', until) }));
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
  return store.read
    .selectFrom('events')
    .selectAll()
    .where('tenant', '=', tenant)
    .where('created_at', '>=', from)
    .where('created_at', '<', until)
    .where('id', '<', before)
    .where((eb) => {
      const conditions: Expression<SqlBool>[] = [];
      if (type !== undefined) conditions.push(eb('type', '=', type));
      if (form !== undefined) conditions.push(eb('form', '=', form));
      if (domains !== undefined) conditions.push(eb('domain', 'in', [...domains]));
      return eb.and(conditions);
    })
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
