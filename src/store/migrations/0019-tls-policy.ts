/** TLS policies of recipients' domains (RFC 8461), and which applied to an attempt. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  mta_sts_policies: `domain text key, id text, mode text, mx text, max_age int, expires_at int, refresh_at int,
    used_at int`,
};

const INDEXES: Indexes = [
  ['mta_sts_policies', ['refresh_at']],
  ['mta_sts_policies', ['expires_at']],
  ['mta_sts_policies', ['used_at']],
];

/** Creates the table, and the columns of attempts. */
export function tlsPolicy(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await sql`alter table attempts add column tls_policy text`.execute(db);
      await sql`alter table attempts add column tls_result text`.execute(db);
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
    },
  };
}
