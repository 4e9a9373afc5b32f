/** Aggregate reports on DMARC and TLS that other mail systems send: those to be read, those that were, and what they say. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  unread_reports: 'inbound text key, tries int, due int, created_at int',
  received_reports: 'hash text key, tenant text, domain text, day int, reporter text, kind text, created_at int',
  dmarc_results: `domain text key, day int key, tenant text key, reporter text key, source text key,
    disposition text key, dkim text key, spf text key, dkim_domain text key, spf_domain text key, count int`,
  tls_results: `domain text key, day int key, tenant text key, reporter text key, policy text key, result text key,
    mx text key, count int`,
};

const INDEXES: Indexes = [
  ['unread_reports', ['due']],
  ['received_reports', ['domain', 'day']],
  ['received_reports', ['day']],
  ['dmarc_results', ['day']],
  ['tls_results', ['day']],
];

/** Creates the tables. */
export function aggregateReports(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
    },
  };
}
