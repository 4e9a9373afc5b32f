/** What happened, in numbers: by hour, day or month, by form and domain, and what the keys asked for. */
import { z } from 'zod';
import { accountIdOf, decide, isOfServer, mayTouch } from '../../accounts/principal.ts';
import * as contract from '../../contract/analytics.ts';
import { type Counted, type EventCounts, nameOf, noNumbers, pageOfEvents } from '../../events/counts.ts';
import type { Span } from '../../store/analytics.ts';
import { MAX_STREAMS_OF_ACCOUNT } from '../../events/streams.ts';
import { isoTime } from '../../lib/clock.ts';
import { listKeys } from '../../store/api-keys.ts';
import { usageOf } from '../../store/usage.ts';
import type { EventRow } from '../../store/tables.ts';
import { type Answer, csv, prefersCsv, lacksPermission, refuse, unavailable } from '../answer.ts';
import { header, principalOf } from '../context.ts';
import { sessionPrincipal } from '../session-cookie.ts';
import { invalidAt, implement, success, notFound, pageOf, type Route, type Services, writerOf } from './route.ts';

/** So many buckets are shown by default. */
const DEFAULT_BUCKETS: Readonly<Record<contract.Interval, number>> = { hour: 24, day: 30, month: 12 };
const DAYS = { '7d': 7, '30d': 30 } as const;
const COLUMNS = ['day', 'key', 'requests', 'errors', 'rate_limited'] as const;
const MAX_TOP = 10;
const MAX_DAY_MS = 48 * 3_600_000;
const data = z.record(z.string(), z.unknown());

/** `/analytics…`, `/events` */
export function analyticsRoutes(services: Services): Route[] {
  const { store, clock, counts, requests, overview, streams, sessions, authenticator } = services;
  return implement(contract.analytics, {
    async show({ principal, query: { interval, form, domain, scope, from: wantedFrom, to: wantedTo } }) {
      if (scope === 'server' && !isOfServer(principal)) return lacksPermission('admin');
      if (scope === 'server' && (form ?? domain) !== undefined)
        return invalidAt('scope', 'must be account if form or domain is given');
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const last = startOf(interval, (wantedTo ?? clock.now() + 1) - 1);
      const from = startOf(interval, wantedFrom ?? startOf(interval, last, 1 - DEFAULT_BUCKETS[interval]));
      if (from > last) return invalidAt('from', 'must be before to');
      const series = new Map<number, contract.Numbers>();
      for (let at = from; at <= last; at = startOf(interval, at, 1)) {
        numbersOf(series, at);
        if (series.size > contract.MAX_BUCKETS) {
          const message = `makes more than ${contract.MAX_BUCKETS} buckets: use a longer interval or a shorter time span`;
          return invalidAt('interval', message);
        }
      }
      const to = startOf(interval, last, 1);
      const totals = noNumbers();
      const byForm = new Map<string, contract.Numbers>();
      const byDomain = new Map<string, contract.Numbers>();
      const domains = domain === undefined ? principal.restrictions.domain_restrictions : [domain];
      const span = { from, until: to };
      const slices =
        scope === 'server' ? ofServer(counts, span) : counts.of(principal.tenant.id, span, { form, domains });
      for await (const rows of slices) {
        for (const row of rows) {
          const name = nameOf(row.type);
          if (name === undefined) continue;
          totals[name] += row.count;
          numbersOf(series, startOf(interval, row.from))[name] += row.count;
          if (row.form !== '') numbersOf(byForm, row.form)[name] += row.count;
          if (row.domain !== '') numbersOf(byDomain, row.domain)[name] += row.count;
        }
      }
      return success({
        from,
        to,
        interval,
        totals,
        series: [...series].map(([at, numbers]) => ({ at, ...numbers })),
        top_forms: top(byForm).map(([form, numbers]) => ({ form, ...numbers })),
        top_domains: top(byDomain).map(([domain, numbers]) => ({ domain, ...numbers })),
      });
    },
    async apiUsage({ principal, context, query: { last, key, format } }) {
      const tenant = accountIdOf(principal);
      const mine = (await listKeys(store, tenant)).filter(
        ({ environment }) => principal.environment === 'live' || environment === 'test',
      );
      const known = new Set(mine.map(({ id }) => id));
      if (key !== undefined && !known.has(key)) return notFound('key', key);
      await requests.flush();
      const now = clock.now();
      const span = { from: startOf('day', now, 1 - DAYS[last]), until: startOf('day', now, 1) };
      const days = (await usageOf(store, tenant, { ...span, key })).filter((row) => known.has(row.key));
      const rows = days.map((row) => ({ ...row, day: isoDay(row.day) }));
      const asCsv = format === undefined ? prefersCsv(header(context.request, 'accept')) : format === 'csv';
      if (!asCsv) return success({ usage: rows });
      const cells = rows.map((row) => COLUMNS.map((name) => row[name]));
      return csv(COLUMNS, cells, `api-usage-${isoDay(span.from)}-${isoDay(now)}.csv`);
    },
    async overview({ principal, query: { from } }) {
      const now = clock.now();
      const earliest = now - MAX_DAY_MS;
      if (from !== undefined && (from > now || from < earliest)) {
        return invalidAt('from', `must be a time in the last 48 hours, such as ${isoTime(startOf('day', now))}`);
      }
      return success(await overview.show(principal, from ?? startOf('day', now)));
    },
    async events({ principal, query: { limit, cursor, type, domain, form, from = 0, to } }) {
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const domains = domain === undefined ? principal.restrictions.domain_restrictions : [domain];
      const wanted = { tenant: principal.tenant.id, type, domains, form, from, until: to ?? clock.now() + 1 };
      const { events, count } = await pageOfEvents({ store, counts }, { ...wanted, before: cursor, limit });
      const { page, next_cursor } = pageOf(events, limit, ({ id }) => id);
      return success({ events: page.map(shown), count, next_cursor });
    },
    stream({ principal, context, query: { types, domain, form } }) {
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const { request, response, ip } = context;
      const after = header(request, 'last-event-id');
      if (after !== undefined && !EVENT_ID.test(after)) return invalidAt('Last-Event-ID', 'must be the ID of an event');
      const gone = new AbortController();
      response.once('close', () => gone.abort());

      async function permit() {
        const now =
          (await principalOf(context, authenticator)) ??
          (await sessionPrincipal(context, { sessions, authenticator, isUse: false }));
        if (now === undefined || 'kind' in now) return undefined;
        if (decide(now, { permission: 'analytics.read', domain: 'narrowed', ip }) !== undefined) return undefined;
        const domains = domain === undefined ? now.restrictions.domain_restrictions : [domain];
        return { tenant: now.tenant.id, types, domains, form };
      }

      const opened = streams.open({
        account: accountIdOf(principal),
        after,
        permit,
        format: written,
        gone: gone.signal,
        hangUp: () => void response.destroy(),
      });
      if (opened.kind === 'open') return { ...STREAM, stream: opened.stream };
      if (opened.of === 'server') return unavailable('Too many event streams are open.');
      const message = `The account already has ${MAX_STREAMS_OF_ACCOUNT} open event streams, the maximum. Close one of them.`;
      return refuse('RATE_LIMITED', { message, headers: { 'Retry-After': '5' } });
    },
  });
}

async function* ofServer(counts: EventCounts, span: Span): AsyncGenerator<readonly Counted[]> {
  for await (const rows of counts.ofServer(span)) yield rows.map((row) => ({ ...row, form: '', domain: '' }));
}

const EVENT_ID = /^evt_[0-9a-z]{26}$/;

const STREAM: Answer = {
  status: 200,
  type: 'text/event-stream',
  body: '',
  // nginx keeps back what it proxies, else.
  headers: { 'X-Accel-Buffering': 'no' },
};

/** An event as lists and streams have it. */
function shown(event: EventRow) {
  return { ...event, data: data.parse(JSON.parse(event.data)) };
}

const write = writerOf(contract.event);

/** The same, as a message of a stream has it. */
function written(event: EventRow): string {
  return JSON.stringify(write(shown(event)));
}

function numbersOf<Key>(known: Map<Key, contract.Numbers>, key: Key): contract.Numbers {
  const numbers = known.get(key) ?? noNumbers();
  known.set(key, numbers);
  return numbers;
}

/** Those with the most submissions. */
function top(all: ReadonlyMap<string, contract.Numbers>): [string, contract.Numbers][] {
  return [...all]
    .sort(([, a], [, b]) => b.submissions - a.submissions || b.delivered - a.delivered || b.spam - a.spam)
    .slice(0, MAX_TOP);
}

/** The start (UTC) of the interval that `at` is in, or of the one so many `steps` later. */
export function startOf(interval: contract.Interval, at: number, steps = 0): number {
  const time = new Date(at);
  const [year, month, day] = [time.getUTCFullYear(), time.getUTCMonth(), time.getUTCDate()];
  switch (interval) {
    case 'hour':
      return Date.UTC(year, month, day, time.getUTCHours() + steps);
    case 'day':
      return Date.UTC(year, month, day + steps);
    case 'month':
      return Date.UTC(year, month + steps, 1);
  }
}

function isoDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
