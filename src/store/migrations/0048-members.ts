/** The daemons that share the database: what they do, and that they live. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Tables } from './build.ts';

const TABLES: Tables = { members: 'id text key, machine text, roles text, beat int' };

/** Adds the table `members`. */
export function members(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: [] });
    },
  };
}
