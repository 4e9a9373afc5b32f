/** Aggregate reports on DMARC and TLS: those that wait to be read, those that were, and the sums of what they say by domain and day. */
import { sql } from 'kysely';
import { deleteFrom, insertInto, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { DmarcResultRow, ReceivedReportRow, TlsResultRow, UnreadReportRow } from './tables.ts';

/** The statement that keeps one to be read, for the unit that takes its message. */
export const insertUnreadReport = insertInto('unread_reports');

/** The statement that forgets one; `expect` says whether it was still there. */
export const deleteUnreadReport = deleteFrom('unread_reports', 'inbound');

/** The statement that drops the bytes of one, unless they are also forwarded. */
export const dropReportBytes = query<{ inbound: string }>(
  (value) => sql`delete from raw_chunks where inbound = ${value('inbound')}
    and not exists (select 1 from inbound where id = ${value('inbound')} and messages <> '[]')`,
);

const unread = reader(() => sql<{ count: number }>`select count(*) as count from unread_reports`);

/** How many wait to be read. */
export async function countUnreadReports(store: Store): Promise<number> {
  return (await unread(store))[0]?.count ?? 0;
}

const due = reader(
  (now: number) => sql<Pick<UnreadReportRow, 'inbound' | 'tries'>>`select inbound, tries from unread_reports
    where due <= ${now} order by due limit 10`,
);
const claim = query<Pick<UnreadReportRow, 'inbound' | 'tries'> & { until: number }, UnreadReportRow>(
  (value) => sql`update unread_reports set tries = tries + 1, due = ${value('until')}
    where inbound = ${value('inbound')} and tries = ${value('tries')}
    returning inbound, tries, due, created_at`,
);

/** Claims the one that waits longest until `until` (ms), as `claimBounce` does; undefined where none is due. */
export async function claimUnreadReport(
  store: Store,
  { now, until }: { readonly now: number; readonly until: number },
): Promise<UnreadReportRow | undefined> {
  for (const next of await due(store, now)) {
    const [{ rows }] = await store.write([claim({ ...next, until })]);
    if (rows[0] !== undefined) return rows[0];
  }
  return undefined;
}

const received = insertInto('received_reports', sql`on conflict (hash) do nothing`);

/** The statement that notes that a report was read; its unit fails with UnmetError where it was read before. */
export function noteReceivedReport(row: ReceivedReportRow): Statement {
  return received(row, 1);
}

/** The statement that adds to the sum of a kind of mail. */
export const addDmarcResult = insertInto(
  'dmarc_results',
  sql`on conflict (domain, day, tenant, reporter, source, disposition, dkim, spf, dkim_domain, spf_domain)
    do update set count = dmarc_results.count + excluded.count`,
);

/** The statement that adds to the sum of a kind of connection. */
export const addTlsResult = insertInto(
  'tls_results',
  sql`on conflict (domain, day, tenant, reporter, policy, result, mx)
    do update set count = tls_results.count + excluded.count`,
);

interface RowCounts {
  /** Of whoever reported them, and of this reporter. */
  readonly all: number;
  readonly own: number;
}

const counts = reader(
  (domain: string, day: number, reporter: string) => sql<{ reporter: string; count: number }>`
    select reporter, count(*) as count from (
      select case when reporter = ${reporter} then reporter else '' end as reporter from dmarc_results
        where domain = ${domain} and day = ${day}
      union all select case when reporter = ${reporter} then reporter else '' end as reporter from tls_results
        where domain = ${domain} and day = ${day}
      union all select case when reporter = ${reporter} then reporter else '' end as reporter from received_reports
        where domain = ${domain} and day = ${day}
    ) as kept group by reporter`,
);

/** How many rows there are of the domain on that day, reports included. */
export async function countReportRows(
  store: Store,
  { domain, day, reporter }: Pick<ReceivedReportRow, 'domain' | 'day' | 'reporter'>,
): Promise<RowCounts> {
  const rows = await counts(store, domain, day, reporter);
  return {
    all: rows.reduce((sum, { count }) => sum + count, 0),
    own: rows.find((row) => row.reporter === reporter)?.count ?? 0,
  };
}

/** A domain of an account, and the days from `from` (inclusive) to `until`, ms. */
export interface ReportSpan {
  readonly tenant: string;
  readonly domain: string;
  readonly from: number;
  readonly until: number;
}

function where({ tenant, domain, from, until }: ReportSpan) {
  return sql`tenant = ${tenant} and domain = ${domain} and day >= ${from} and day < ${until}`;
}

const messages = sql<number>`cast(sum(count) as bigint)`;
const passedIf = sql`dkim = 'aligned' or spf = 'aligned'`;

export type DmarcSum = Omit<DmarcResultRow, 'domain' | 'day' | 'tenant' | 'reporter' | 'count'> & { messages: number };
export type TlsSum = Omit<TlsResultRow, 'domain' | 'day' | 'tenant' | 'reporter' | 'count'> & { sessions: number };

/** Kinds of mail of all days and reporters, those with the most first, at most `limit`. */
export async function dmarcSums({ read }: Store, span: ReportSpan, limit: number): Promise<DmarcSum[]> {
  const columns = sql`source, disposition, dkim, spf, dkim_domain, spf_domain`;
  const { rows } = await sql<DmarcSum>`select ${columns}, ${messages} as messages from dmarc_results
    where ${where(span)} group by ${columns} order by sum(count) desc, ${columns} limit ${limit}`.execute(read);
  return rows;
}

export interface DayTotal {
  day: number;
  messages: number;
  passed: number;
}

/** Mail by day, oldest first. */
export async function dmarcDays({ read }: Store, span: ReportSpan): Promise<DayTotal[]> {
  const { rows } = await sql<DayTotal>`select day, ${messages} as messages,
      cast(sum(case when ${passedIf} then count else 0 end) as bigint) as passed
    from dmarc_results where ${where(span)} group by day order by day`.execute(read);
  return rows;
}

/** Kinds of connections of all days and reporters, those with the most first, at most `limit`. */
export async function tlsSums({ read }: Store, span: ReportSpan, limit: number): Promise<TlsSum[]> {
  const { rows } = await sql<TlsSum>`select policy, result, mx, cast(sum(count) as bigint) as sessions from tls_results
    where ${where(span)} group by policy, result, mx order by sum(count) desc, policy, result, mx limit ${limit}`.execute(
    read,
  );
  return rows;
}

export interface TlsTotals {
  sessions: number;
  failures: number;
}

/** Connections of all kinds. */
export async function tlsTotals({ read }: Store, span: ReportSpan): Promise<TlsTotals> {
  const { rows } = await sql<TlsTotals>`select cast(coalesce(sum(count), 0) as bigint) as sessions,
      cast(coalesce(sum(case when result <> 'success' then count else 0 end), 0) as bigint) as failures
    from tls_results where ${where(span)}`.execute(read);
  return rows[0] ?? { sessions: 0, failures: 0 };
}

export interface ReporterSum {
  reporter: string;
  kind: ReceivedReportRow['kind'];
  reports: number;
}

/** Who sent how many reports, the most first, at most `limit`. */
export async function reporters({ read }: Store, span: ReportSpan, limit: number): Promise<ReporterSum[]> {
  const { rows } = await sql<ReporterSum>`select reporter, kind, count(*) as reports from received_reports
    where ${where(span)} group by reporter, kind order by count(*) desc, reporter, kind limit ${limit}`.execute(read);
  return rows;
}

const aged = reader(
  (before: number) => sql<Pick<ReceivedReportRow, 'domain' | 'day'>>`
    select domain, day from dmarc_results where day < ${before}
    union select domain, day from tls_results where day < ${before}
    union select domain, day from received_reports where day < ${before} limit 50`,
);

/** Days before `before` (ms) of which something is kept, some domains at a time. */
export const agedReportDays: (store: Store, before: number) => Promise<Pick<ReceivedReportRow, 'domain' | 'day'>[]> =
  aged;

const forget = [
  deleteFrom('dmarc_results', 'domain', 'day'),
  deleteFrom('tls_results', 'domain', 'day'),
  deleteFrom('received_reports', 'domain', 'day'),
];

/** The statements that forget a day of a domain. */
export function forgetReportDay({ domain, day }: Pick<ReceivedReportRow, 'domain' | 'day'>): Statement[] {
  return forget.map((statement) => statement({ domain, day }));
}
