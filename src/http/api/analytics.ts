/** What happened, in numbers: by hour, day or month, by form and domain, and what the keys asked for. */
import { z } from 'zod';
import { accountIdOf, mayTouch } from '../../accounts/principal.ts';
import type { Usage } from '../../accounts/usage.ts';
import type { EventCounts } from '../../events/counts.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import { listKeys } from '../../store/api-keys.ts';
import type { Store } from '../../store/store.ts';
import { usageOf } from '../../store/usage.ts';
import { json, csv, prefersCsv } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import { header } from '../context.ts';
import { invalidAt } from './issues.ts';
import { defineRoute, type Route } from './route.ts';
import { addUp, each } from './series.ts';
import { INTERVALS, isoDay, since, startOf, until, type Interval } from './times.ts';

export interface AnalyticsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly counts: EventCounts;
  readonly usage: Pick<Usage, 'flush'>;
}

/** So many buckets are shown unless told. */
const USUAL: Readonly<Record<Interval, number>> = { hour: 24, day: 30, month: 12 };
/** A month of hours, two years of days. */
const MOST = 750;
const DAYS = { '7d': 7, '30d': 30 } as const;
const COLUMNS = ['day', 'key', 'requests', 'errors', 'rate_limited'] as const;

const numbers = z.object(each(z.int()));
const time = z.iso.datetime();

const analyticsQuery = z.strictObject({
  from: since.optional().describe('First bucket: a date or a time. As many before `to` as is usual unless told.'),
  to: until.optional().describe('Last bucket: a date (that whole day) or a time. Now unless told.'),
  interval: z.enum(INTERVALS).default('day').describe('Length of a bucket, UTC.'),
  form: z.string().optional().describe('Id of a form: only what its submissions caused.'),
  domain: z.string().toLowerCase().optional().describe('Only what belongs to this domain.'),
});

const ANALYTICS = { permission: 'analytics.read', tag: 'Analytics' } as const;

/** `/analytics…` */
export function analyticsRoutes({ store, clock, counts, usage }: AnalyticsParts): Route[] {
  return [
    defineRoute({
      ...ANALYTICS,
      method: 'GET',
      path: '/analytics',
      domains: 'narrow',
      summary: 'Counts submissions and mail over time.',
      description: `Whole buckets from that of \`from\` to that of \`to\`, ${MOST} at most, each with its zeros. \`queued\` counts messages; what becomes of them (\`delivered\`, \`deferred\`, \`bounced\`) is counted per recipient, a deferral each time. \`forwarded\` and \`rejected\` are inbound mail.`,
      query: analyticsQuery,
      answer: z.object({
        from: time,
        to: time.describe('End of the last bucket.'),
        interval: z.enum(INTERVALS),
        totals: numbers,
        series: z.array(z.object({ at: time, ...numbers.shape })),
        top_forms: z.array(z.object({ form: z.string(), submissions: z.int(), spam: z.int() })),
        top_domains: z.array(z.object({ domain: z.string(), submissions: z.int(), delivered: z.int() })),
      }),
      async handle({ principal, query: { interval, form, domain, ...wanted } }) {
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
    }),
    defineRoute({
      ...ANALYTICS,
      method: 'GET',
      path: '/analytics/api-usage',
      domains: 'refuse',
      summary: 'Shows what each key asked for, by UTC day.',
      description: 'CSV with `Accept: text/csv` or `format=csv`.',
      query: z.strictObject({
        last: z.enum(['7d', '30d']).default('30d').describe('How many days, today among them.'),
        key: z.string().optional().describe('Id of the only key that is meant.'),
        format: z.enum(['json', 'csv']).optional().describe('As `Accept` says unless told.'),
      }),
      answer: z.object({
        usage: z.array(
          z.object({
            day: z.iso.date(),
            key: z.string(),
            requests: z.int(),
            errors: z.int().describe('Answers of 400 and more but 429.'),
            rate_limited: z.int().describe('Answers of 429.'),
          }),
        ),
      }),
      alsoAnswers: 'text/csv',
      async handle({ principal, exchange, query: { last, key, format } }) {
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
    }),
  ];
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
  }: { interval: Interval; from?: number | undefined; to?: number | undefined },
  now: number,
): Buckets | Refusal {
  const last = startOf(interval, (wantedTo ?? now + 1) - 1);
  const from = startOf(interval, wantedFrom ?? startOf(interval, last, 1 - USUAL[interval]));
  if (from > last) return invalidAt('from', 'must be before to');
  const starts: number[] = [];
  for (let at = from; at <= last; at = startOf(interval, at, 1)) {
    if (starts.push(at) > MOST) {
      return invalidAt('interval', `makes more than ${MOST} buckets of that time: take a longer one, or less time`);
    }
  }
  return { starts, from, to: startOf(interval, last, 1) };
}
