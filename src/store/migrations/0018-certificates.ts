/** Certificates that the daemon obtains by ACME, and what it needs for that. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build } from './build.ts';

const TABLES = {
  certificates: `name text key, directory text, certificate text null, private_key text null, obtained_at int null,
    valid_since int null, expires_at int null, failures int, tried_at int null, next_at int, reason text null`,
  acme_accounts: 'directory text key, private_key text, url text null, email text null, created_at int',
  acme_challenges: 'token text key, response text, created_at int',
};

/** Creates the tables. */
export function certificates(dialect: Dialect): Migration {
  return { up: (db: Kysely<unknown>) => build(db, dialect, { tables: TABLES, indexes: [] }) };
}
