/** TLS sessions with mail hosts, counted by UTC day and domain, and reports that are to be posted (RFC 8460). */
import { sql } from 'kysely';
import { deleteFrom, insertInto, lister, query, reader } from './statement.ts';
import type { Tables } from './tables.ts';

export type TlsSessionsRow = Tables['tls_sessions'];
export type TlsReportRow = Tables['tls_reports'];

/** The statement that adds to what was counted already, whichever daemon did. */
export const addTlsSessions = insertInto(
  'tls_sessions',
  sql`on conflict (day, domain, policy, result, host, address)
    do update set count = tls_sessions.count + excluded.count`,
);

/** What was counted of a domain on a day. */
export const tlsSessionsOf = lister('tls_sessions', ['day', 'domain']);

/** The statement that forgets it. */
export const dropTlsSessions = deleteFrom('tls_sessions', 'day', 'domain');

/** The domain that follows this day and domain, of days before `until`; one row or none. */
export const nextTlsSessions = reader(
  (day: number, domain: string, until: number) => sql<Pick<TlsSessionsRow, 'day' | 'domain'>>`
    select day, domain from tls_sessions
    where (day > ${day} or (day = ${day} and domain > ${domain})) and day < ${until} order by day, domain limit 1`,
);

/** The statement that keeps a report that is to be posted. */
export const insertTlsReport = insertInto('tls_reports');

/** The statement that forgets it. */
export const deleteTlsReport = deleteFrom('tls_reports', 'id');

/** Reports that are due; longest due first. */
export const dueTlsReports = reader(
  (now: number, limit: number) => sql<TlsReportRow>`select * from tls_reports where due_at <= ${now}
    order by due_at limit ${limit}`,
);

/** The statement that puts a report off; it touches no row where another daemon has done that. */
export const putOffTlsReport = query<{ id: string; due_at: number; next: number }>(
  (value) => sql`update tls_reports set due_at = ${value('next')}
    where id = ${value('id')} and due_at = ${value('due_at')}`,
);
