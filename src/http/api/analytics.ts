/** What happened, in numbers: by hour, day or month, by form and domain, and what the keys asked for. */
import { z } from 'zod';
import { accountIdOf, mayTouch } from '../../accounts/principal.ts';
import type { Usage } from '../../accounts/usage.ts';
import * as contract from '../../contract/analytics.ts';
import type { Counted, EventCounts } from '../../events/counts.ts';
import { pageOfEvents } from '../../events/list.ts';
import { type Clock, isoTime } from '../../lib/clock.ts';
import { listKeys } from '../../store/api-keys.ts';
import type { Store } from '../../store/store.ts';
import type { EventRow } from '../../store/tables.ts';
import { usageOf } from '../../store/usage.ts';
import { json, prefersCsv, csv } from '../answer.ts';
import { header } from '../context.ts';

import { type Refusal, refuse } from '../errors.ts';

import { invalidAt } from './issues.ts';
import { type Handlers, implement, pageOf, type Route } from './route.ts';
import { isoDay, startOf } from './times.ts';

export interface AnalyticsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: EventCounts;
  readonly usage: Pick<Usage, 'flush'>;
}

/** So many buckets are shown unless told. */
const USUAL: Readonly<Record<contract.Interval, number>> = { hour: 24, day: 30, month: 12 };
const DAYS = { '7d': 7, '30d': 30 } as const;
const COLUMNS = ['day', 'key', 'requests', 'errors', 'rate_limited'] as const;

/** `/analytics…`, `/events` */
export function analyticsRoutes(parts: AnalyticsParts): Route[] {
  return implement(contract.analytics, { ...countHandlers(parts), ...eventHandlers(parts) });
}

function countHandlers({
  store,
  clock,
  counts,
  usage,
}: AnalyticsParts): Handlers<Pick<typeof contract.analytics, 'show' | 'apiUsage'>> {
  return {
    async show({ principal, query: { interval, form, domain, ...wanted } }) {
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const buckets = bucketsOf({ interval, ...wanted }, clock.now());
      if ('kind' in buckets) return buckets;
      const { domain_restrictions } = principal.restrictions;
      const filter = { form, domains: domain === undefined ? domain_restrictions : [domain] };
      const { starts, from, to } = buckets;
      const { totals, series, forms, domains } = await addUp(counts.of(principal.tenant.id, { from, until: to }), {
        ...filter,
        bucketOf: (at) => startOf(interval, at),
      });
      return json({
        from: isoTime(from),
        to: isoTime(to),
        interval,
        totals,
        series: starts.map((at) => ({ at: isoTime(at), ...(series.get(at) ?? each(0)) })),
        top_forms: forms,
        top_domains: domains,
      });
    },
    async apiUsage({ principal, exchange, query: { last, key, format } }) {
      const tenant = accountIdOf(principal);
      const mine = (await listKeys(store, tenant)).filter(
        ({ environment }) => principal.environment === 'live' || environment === 'test',
      );
      const known = new Set(mine.map(({ id }) => id));
      if (key !== undefined && !known.has(key)) {
        return refuse('NOT_FOUND', { message: `There is no key ${key.slice(0, 60)}.` });
      }
      await usage.flush();
      const now = clock.now();
      const span = { from: startOf('day', now, 1 - DAYS[last]), until: startOf('day', now, 1) };
      const days = (await usageOf(store, tenant, { ...span, key })).filter((row) => known.has(row.key));
      const rows = days.map(({ key, requests, errors, rate_limited, ...row }) => {
        return { day: isoDay(row.day), key, requests, errors, rate_limited };
      });
      const table = format === undefined ? prefersCsv(header(exchange.request, 'accept')) : format === 'csv';
      if (!table) return json({ usage: rows });
      const cells = rows.map((row) => COLUMNS.map((name) => row[name]));
      return csv(COLUMNS, cells, `api-usage-${isoDay(span.from)}-${isoDay(now)}.csv`);
    },
  };
}

interface Buckets {
  readonly starts: readonly number[];
  readonly from: number;
  readonly to: number;
}

function bucketsOf(
  {
    interval,
    from: wantedFrom,
    to: wantedTo,
  }: { interval: contract.Interval; from?: number | undefined; to?: number | undefined },
  now: number,
): Buckets | Refusal {
  const last = startOf(interval, (wantedTo ?? now + 1) - 1);
  const from = startOf(interval, wantedFrom ?? startOf(interval, last, 1 - USUAL[interval]));
  if (from > last) return invalidAt('from', 'must be before to');
  const starts: number[] = [];
  for (let at = from; at <= last; at = startOf(interval, at, 1)) {
    if (starts.push(at) > contract.MAX_BUCKETS) {
      return invalidAt(
        'interval',
        `makes more than ${contract.MAX_BUCKETS} buckets of that time: take a longer one, or less time`,
      );
    }
  }
  return { starts, from, to: startOf(interval, last, 1) };
}

// What happened, event by event.

function eventHandlers({ store, clock, counts }: AnalyticsParts): Handlers<Pick<typeof contract.analytics, 'events'>> {
  return {
    async events({ principal, query: { limit, cursor, type, domain, form, from = 0, to } }) {
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const domains = domain === undefined ? principal.restrictions.domain_restrictions : [domain];
      const { events, count } = await pageOfEvents(
        { store, counts },
        {
          tenant: principal.tenant.id,
          type,
          domains,
          form,
          from,
          until: to ?? clock.now() + 1,
          before: cursor,
          limit,
        },
      );
      const { page, next_cursor } = pageOf(events, limit);
      return json({ events: page.map(shownEvent), count, next_cursor });
    },
  };
}

function shownEvent({ id, type, created_at, domain, form, submission, message, data: json }: EventRow) {
  const data = z.record(z.string(), z.unknown()).parse(JSON.parse(json));
  return { id, type, created_at: isoTime(created_at), domain, form, submission, message, data };
}

// Counted events as the numbers that people ask for: in all, over time, and of which form and domain most.

export type Numbers = contract.Numbers;

type Name = keyof Numbers;

const NAMES: ReadonlyMap<string, Name> = new Map([
  ['submission.accepted', 'submissions'],
  ['submission.spam', 'spam'],
  ['email.queued', 'queued'],
  ['email.delivered', 'delivered'],
  ['email.deferred', 'deferred'],
  ['email.bounced', 'bounced'],
  ['inbound.accepted', 'forwarded'],
  ['inbound.rejected', 'rejected'],
]);

const TOP = 10;

/** The number that events of this type count in, if any. */
export function nameOf(type: string): Name | undefined {
  return NAMES.get(type);
}

/** The same for each of the numbers. */
export function each<Value>(value: Value): Record<Name, Value> {
  return {
    submissions: value,
    spam: value,
    queued: value,
    delivered: value,
    deferred: value,
    bounced: value,
    forwarded: value,
    rejected: value,
  };
}

export interface Sums {
  readonly totals: Numbers;
  /** By the start of the bucket; those in which nothing was are not there. */
  readonly series: ReadonlyMap<number, Numbers>;
  /** Those with the most submissions. */
  readonly forms: readonly { form: string; submissions: number; spam: number }[];
  readonly domains: readonly { domain: string; submissions: number; delivered: number }[];
}

export interface Adding {
  readonly form?: string | undefined;
  /** Undefined: every one, and none. */
  readonly domains?: readonly string[] | undefined;
  readonly bucketOf: (at: number) => number;
}

/** Adds up what the slices hold of this form and these domains. */
async function addUp(slices: AsyncIterable<readonly Counted[]>, { form, domains, bucketOf }: Adding): Promise<Sums> {
  const totals = each(0);
  const series = new Map<number, Numbers>();
  const byForm = new Map<string, Numbers>();
  const byDomain = new Map<string, Numbers>();
  for await (const rows of slices) {
    for (const row of rows) {
      const name = nameOf(row.type);
      if (name === undefined || (form !== undefined && row.form !== form)) continue;
      if (domains !== undefined && !domains.includes(row.domain)) continue;
      totals[name] += row.count;
      numbersOf(series, bucketOf(row.from))[name] += row.count;
      if (row.form !== '') numbersOf(byForm, row.form)[name] += row.count;
      if (row.domain !== '') numbersOf(byDomain, row.domain)[name] += row.count;
    }
  }
  return {
    totals,
    series,
    forms: top(byForm).map(([form, { submissions, spam }]) => ({ form, submissions, spam })),
    domains: top(byDomain).map(([domain, { submissions, delivered }]) => ({ domain, submissions, delivered })),
  };
}

function numbersOf<Key>(known: Map<Key, Numbers>, key: Key): Numbers {
  let numbers = known.get(key);
  if (numbers === undefined) known.set(key, (numbers = each(0)));
  return numbers;
}

function top(all: ReadonlyMap<string, Numbers>): [string, Numbers][] {
  return [...all]
    .sort(([, a], [, b]) => b.submissions - a.submissions || b.delivered - a.delivered || b.spam - a.spam)
    .slice(0, TOP);
}
