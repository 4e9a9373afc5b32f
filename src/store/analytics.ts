/** Events in numbers: hours that are over are counted once and for all, what came since is counted when it is asked for. */
import { sql, type Expression, type SqlBool } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { EventRow, EventCountRow } from './tables.ts';

/** The statement that says how many events of a kind an hour had. */
export const saveCount = define<EventCountRow>()((db, value) =>
  db
    .insertInto('event_counts')
    .values({
      tenant: value('tenant'),
      hour: value('hour'),
      type: value('type'),
      domain: value('domain'),
      form: value('form'),
      count: value('count'),
    })
    .onConflict((conflict) =>
      conflict.columns(['tenant', 'hour', 'type', 'domain', 'form']).doUpdateSet({ count: value('count') }),
    ),
);

const lastCounted = define<object>()((db) =>
  db.selectFrom('event_counts').select((eb) => eb.fn.max<number | null>('hour').as('hour')),
);
const firstOf = define<{ tenant: string }>()((db, value) =>
  db
    .selectFrom('event_counts')
    .select((eb) => eb.fn.min<number | null>('hour').as('hour'))
    .where('tenant', '=', value('tenant')),
);
const next = define<{ first: string }>()((db, value) =>
  db.selectFrom('events').select('created_at').where('id', '>=', value('first')).orderBy('id').limit(1),
);

/** The last hour that was counted, or undefined. */
export async function lastCountedHour(store: Store): Promise<number | undefined> {
  const [row] = await store.select(lastCounted({}));
  return row?.hour ?? undefined;
}

/** The first counted hour in which the tenant has events, or undefined. */
export async function firstCountedHour(store: Store, tenant: string): Promise<number | undefined> {
  const [row] = await store.select(firstOf({ tenant }));
  return row?.hour ?? undefined;
}

/** When the first event at or after `at` was, or undefined. */
export async function nextEventAt(store: Store, at: number): Promise<number | undefined> {
  const [row] = await store.select(next({ first: firstId('evt', at) }));
  return row?.created_at;
}

/** From `from` (inclusive) to `until`, ms. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

const hours = define<Span & { tenant: string }>()((db, value) =>
  db
    .selectFrom('event_counts')
    .select(['hour', 'type', 'domain', 'form', 'count'])
    .where('tenant', '=', value('tenant'))
    .where('hour', '>=', value('from'))
    .where('hour', '<', value('until')),
);
/** What a key of the environment `test` did is no use of anything. */
const counted = sql<SqlBool>`data not like '%"environment":"test"%'`;

const live = define<Span & { tenant: string }>()((db, value) =>
  db
    .selectFrom('events')
    .select((eb) => [
      'type',
      sql<string>`coalesce(domain, '')`.as('of_domain'),
      sql<string>`coalesce(form, '')`.as('of_form'),
      eb.fn.countAll<number>().as('count'),
    ])
    .where('tenant', '=', value('tenant'))
    .where('created_at', '>=', value('from'))
    .where('created_at', '<', value('until'))
    .where(counted)
    .groupBy(['type', sql`coalesce(domain, '')`, sql`coalesce(form, '')`]),
);

/** What was counted of a tenant in the hours of the span. */
export function hoursOf(store: Store, tenant: string, span: Span): Promise<Omit<EventCountRow, 'tenant'>[]> {
  return store.select(hours({ tenant, ...span }));
}

/** What is in the span by the events themselves. */
export async function eventsOf(
  store: Store,
  tenant: string,
  span: Span,
): Promise<Omit<EventCountRow, 'tenant' | 'hour'>[]> {
  const rows = await store.select(live({ tenant, ...span }));
  return rows.map(({ type, of_domain: domain, of_form: form, count }) => ({ type, domain, form, count }));
}

export interface TypeCount {
  readonly tenant: string;
  readonly type: string;
  readonly count: number;
}

const hoursOfEach = define<Span>()((db, value) =>
  db
    .selectFrom('event_counts')
    .select((eb) => ['tenant', 'type', eb.cast<number>(eb.fn.sum('count'), 'bigint').as('count')])
    .where('hour', '>=', value('from'))
    .where('hour', '<', value('until'))
    .groupBy(['tenant', 'type']),
);
const liveOfEach = define<{ first: string; last: string }>()((db, value) =>
  db
    .selectFrom('events')
    .select((eb) => [
      'tenant',
      'type',
      sql<string>`coalesce(domain, '')`.as('of_domain'),
      sql<string>`coalesce(form, '')`.as('of_form'),
      eb.fn.countAll<number>().as('count'),
    ])
    .where('id', '>=', value('first'))
    .where('id', '<', value('last'))
    .where(counted)
    .groupBy(['tenant', 'type', sql`coalesce(domain, '')`, sql`coalesce(form, '')`]),
);

/** The same of each tenant, by type alone. */
export function hoursOfAll(store: Store, span: Span): Promise<TypeCount[]> {
  return store.select(hoursOfEach({ ...span }));
}

/** The same by the events themselves. */
export async function eventsOfAll(store: Store, { from, until }: Span): Promise<Omit<EventCountRow, 'hour'>[]> {
  const rows = await store.select(liveOfEach({ first: firstId('evt', from), last: firstId('evt', until) }));
  return rows.map(({ of_domain: domain, of_form: form, ...row }) => ({ ...row, domain, form }));
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
