/** Limits of plans in messages, and the posts that a form kept back because there were too many in an hour. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, typeName, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  message_counts: 'tenant text key, starts_at int key, count int',
  form_overflows: 'form text key, tenant text, name text, count int, mail_at int',
};

const INDEXES: Indexes = [
  ['message_counts', ['starts_at']],
  ['form_overflows', ['mail_at']],
];

/** Creates the tables, and the columns beside those of earlier migrations. */
export function caps(dialect: Dialect): Migration {
  const integer = typeName('int', dialect);
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      await sql`alter table tenants add column messages_per_hour ${integer}`.execute(db);
      await sql`alter table tenants add column messages_per_day ${integer}`.execute(db);
      await sql`alter table deliveries add column counted_at ${integer}`.execute(db);
    },
  };
}
