/** What the owner of a form decides by mailed links: whose notifications end, which links were used; and up to when digests went out. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  suppressions: 'tenant text key, address text key, form text key, reason text, created_at int',
  used_links: 'hash text key, expires_at int',
  digests: 'tenant text key, project text key, until int',
};

const INDEXES: Indexes = [
  ['suppressions', ['address']],
  ['used_links', ['expires_at']],
];

/** Adds `suppressions.form`, which is part of its key, and the tables `used_links` and `digests`. */
export function owner(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await sql`create table old_suppressions as select * from suppressions`.execute(db);
      await sql`drop table suppressions`.execute(db);
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      await sql`insert into suppressions (tenant, address, form, reason, created_at)
        select tenant, address, '', reason, created_at from old_suppressions`.execute(db);
      await sql`drop table old_suppressions`.execute(db);
    },
  };
}
