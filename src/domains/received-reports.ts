/** What other mail systems reported of a domain (DMARC and TLS), as it is shown to its owner. */
import type { ServerConfig } from '../config/schema.ts';
import { ownAddresses } from '../dns/networks.ts';
import { recordsOf, type Resolver } from '../dns/resolver.ts';
import {
  dmarcDays,
  dmarcSums,
  reporters,
  tlsSums,
  tlsTotals,
  type DayTotal,
  type DmarcSum,
  type ReporterSum,
  type ReportSpan,
  type TlsSum,
} from '../store/aggregate-reports.ts';
import type { Store } from '../store/store.ts';

/** Kinds of mail, and of connections. */
const MAX_ROWS = 200;
const MAX_REPORTERS = 50;

export interface ReceivedReports {
  readonly domain: string;
  readonly from: number;
  readonly to: number;
  readonly messages: number;
  readonly passed: number;
  readonly days: readonly (Omit<DayTotal, 'day'> & { readonly day: string })[];
  readonly sources: readonly (DmarcSum & { readonly this_server: boolean })[];
  readonly tls: { readonly sessions: number; readonly failures: number; readonly results: readonly TlsSum[] };
  readonly reporters: readonly ReporterSum[];
}

/** The reports about the days of the span. */
export async function receivedReports(
  {
    store,
    resolver,
    config,
  }: { readonly store: Store; readonly resolver: Pick<Resolver, 'addresses'>; readonly config: () => ServerConfig },
  span: ReportSpan,
): Promise<ReceivedReports> {
  const { hostname, public_ips: publicIps } = config().server;
  const own = new Set(recordsOf(ownAddresses(publicIps, await resolver.addresses(hostname))));
  const days = await dmarcDays(store, span);
  const sources = await dmarcSums(store, span, MAX_ROWS);
  return {
    domain: span.domain,
    from: span.from,
    to: span.until,
    messages: sum(days.map(({ messages }) => messages)),
    passed: sum(days.map(({ passed }) => passed)),
    days: days.map(({ day, ...total }) => ({ day: new Date(day).toISOString().slice(0, 10), ...total })),
    sources: sources.map((row) => ({ ...row, this_server: own.has(row.source) })),
    tls: { ...(await tlsTotals(store, span)), results: await tlsSums(store, span, MAX_ROWS) },
    reporters: await reporters(store, span, MAX_REPORTERS),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
