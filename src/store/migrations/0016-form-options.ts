/** Options of forms: what stays of a submission, who has to confirm it, and where it goes when mail to the owner fails. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, typeName, type Children, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  opt_ins: 'submission text key, tenant text, form text, mailbox text, client text, expires_at int',
  fallbacks: 'submission text key, late_at int, due_at int null, used_at int null',
};

const INDEXES: Indexes = [
  ['opt_ins', ['expires_at']],
  ['opt_ins', ['tenant', 'form', 'mailbox']],
  ['fallbacks', ['due_at'], 'due_at is not null'],
];

const CHILDREN: Children = {
  opt_ins: ['submission', 'submissions'],
  fallbacks: ['submission', 'submissions'],
};

/** Creates the tables, and the columns of submissions. */
export function formOptions(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const statements = [
        sql`alter table submissions add column stored text`,
        sql`alter table submissions add column accepted_at ${typeName('int', dialect)}`,
        // Both are few among many that are neither.
        sql`create index submissions_by_stored on submissions (id) where stored in ('metadata', 'none')`,
        sql`create index submissions_pending on submissions (tenant, form, id) where status = 'pending'`,
      ];
      for (const statement of statements) await statement.execute(db);
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, children: CHILDREN });
    },
  };
}
