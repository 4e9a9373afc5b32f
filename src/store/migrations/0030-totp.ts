/** One-time codes as the second step of signing in (RFC 6238), and codes for whoever lost the device that shows them. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Tables } from './build.ts';

const TABLES: Tables = {
  totp: 'tenant text key, secret text, last_step int, confirmed_at int null, created_at int',
  recovery_codes: 'tenant text key, hash text key',
};

/** Creates the tables. */
export function totp(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: [] });
    },
  };
}
