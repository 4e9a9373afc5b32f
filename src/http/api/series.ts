/** Counted events as the numbers that people ask for: in all, over time, and of which form and domain most. */
import type { Counted } from '../../events/counts.ts';

export type Name = 'submissions' | 'spam' | 'queued' | 'delivered' | 'deferred' | 'bounced' | 'forwarded' | 'rejected';

export type Numbers = Record<Name, number>;

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
export async function addUp(
  slices: AsyncIterable<readonly Counted[]>,
  { form, domains, bucketOf }: Adding,
): Promise<Sums> {
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
