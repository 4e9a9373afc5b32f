/** Sessions of people who signed in to the console, links that sign in, and requests for such links by mail. */
import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables, unique } from './build.ts';

const TABLES: Tables = {
  sessions: `id text key, hash text, tenant text, api_key text null, ip text, user_agent text,
    created_at int, used_at int, expires_at int`,
  sign_in_links: `hash text key, tenant text, browser text null, tries int, created_at int, expires_at int`,
  sign_in_requests: `id text key, email text, browser text, origin text, created_at int`,
};

const INDEXES: Indexes = [
  ['sessions', ['tenant']],
  ['sessions', ['api_key'], 'api_key is not null'],
  ['sign_in_links', ['tenant']],
];

/** Creates the tables, and finds accounts by their address. */
export function sessions(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      await unique(db, 'sessions', { columns: ['hash'] });
      await sql`create index tenants_by_email on tenants (lower(email))`.execute(db);
    },
  };
}
