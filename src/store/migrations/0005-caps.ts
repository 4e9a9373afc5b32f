/** Limits of plans in messages, and the posts that a form kept back because there were too many in an hour. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Columns, type Indexes } from './build.ts';

const TABLES: Columns = {
  message_counts: [
    ['tenant', 'text', 'key'],
    ['starts_at', 'int', 'key'],
    ['count', 'int'],
  ],
  form_overflows: [
    ['form', 'text', 'key'],
    ['tenant', 'text'],
    ['name', 'text'],
    ['count', 'int'],
    ['mail_at', 'int'],
  ],
};

const INDEXES: Indexes = [
  ['message_counts', ['starts_at']],
  ['form_overflows', ['mail_at']],
];

/** Creates the tables, and the columns beside those of earlier migrations. */
export function caps(dialect: Dialect): Migration {
  const integer = sql.raw(dialect === 'sqlite' ? 'integer' : 'bigint');
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      await db.schema.alterTable('tenants').addColumn('messages_per_hour', integer).execute();
      await db.schema.alterTable('tenants').addColumn('messages_per_day', integer).execute();
      await db.schema.alterTable('deliveries').addColumn('counted_at', integer).execute();
    },
  };
}
