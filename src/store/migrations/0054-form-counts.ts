/** Several rows count the submissions of a form, so that daemons do not wait for each other. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Tables } from './build.ts';

const TABLES: Tables = { form_counts: 'form text key, slot int key, submissions int' };

/** Adds the table `form_counts`. What was counted before stays in `form_counters`, and so does what the version before counts. */
export function formCounts(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: [] });
    },
  };
}
