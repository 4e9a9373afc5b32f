/** TLS sessions with mail hosts, counted for reports to their domains (RFC 8460), and reports that are to be posted. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  tls_sessions: `day int key, domain text key, policy text key, result text key, host text key, address text key,
    local text, reason text, count int`,
  tls_reports: `id text key, domain text, url text, body bytes, due_at int, expires_at int`,
};

const INDEXES: Indexes = [['tls_reports', ['due_at']]];

/** Creates the tables. */
export function tlsReports(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, large: new Set(['tls_reports']) });
    },
  };
}
