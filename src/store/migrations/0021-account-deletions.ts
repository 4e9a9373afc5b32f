/** Accounts that are being deleted. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Tables } from './build.ts';

const TABLES: Tables = { account_deletions: 'tenant text key, queued text, created_at int' };

/** Adds the table `account_deletions`. */
export function accountDeletions(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: [] });
    },
  };
}
