/** Whether somebody has read a submission and whether files came with it; and one index for every list of submissions. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { typeName } from './build.ts';

/** Adds `submissions.unread` and `has_files`. What is there already counts as read: nobody wants to begin with thousands. */
export function inbox(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const flag = sql`${typeName('int', dialect)} not null default 0`;
      const statements = [
        sql`alter table submissions add column unread ${flag}`,
        sql`alter table submissions add column has_files ${flag}`,
        sql`update submissions set has_files = 1 where id in (select submission from submission_files)`,
        // In the place of three: a list is merged of the few parts of this one that hold what is asked for.
        sql`create index submissions_by_view on submissions (tenant, form, status, unread, has_files, id)`,
        sql`drop index submissions_by_tenant_form_id`,
        sql`drop index submissions_by_tenant_form_status_id`,
        sql`drop index submissions_pending`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  };
}
