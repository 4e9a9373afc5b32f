/** Which alerts the operator was sent, and when. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Tables } from './build.ts';

const TABLES: Tables = { alerts: 'name text key, mailed_at int' };

/** Adds the table `alerts`. */
export function alerts(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: [] });
    },
  };
}
