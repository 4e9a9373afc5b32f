/** Accounts: keys, use, and what the API makes. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, unique, type Children, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  api_keys: `id text key, tenant text, name text, environment text, prefix text, hash text, last4 text,
    permissions text, restrictions text, created_by text null, created_at int, expires_at int null,
    revoked_at int null, last_used_at int null`,
  usage: 'tenant text, key text key, day int key, requests int, errors int, rate_limited int',
  event_counts: 'tenant text key, hour int key, type text key, domain text key, form text key, count int',
  forms: 'id text key, tenant text, kind text, name text, config text, confirmed_at int null, created_at int',
  collections: 'name text key, tenant text, config text, created_at int',
  tokens: 'hash text key, kind text, tenant text, subject text, expires_at int, created_at int',
  webhooks: `id text key, tenant text, project text null, form text, url text, events text, description text,
    secret text, old_secret text null, old_secret_until int null, status text, reason text null,
    failing_since int null, failed_at int null, starts_at int, cursor int, created_at int`,
  webhook_deliveries: `id text key, webhook text, event text null, state text, attempts int,
    next_attempt_at int null, last_attempt_at int null, last_status int null, last_result text null, created_at int,
    settled_at int null`,
};

const INDEXES: Indexes = [
  ['api_keys', ['tenant', 'id']],
  ['tokens', ['expires_at']],
  ['usage', ['tenant', 'day']],
  ['usage', ['day']],
  // Of all tenants at once, from the index alone.
  ['event_counts', ['hour', 'tenant', 'type', 'count']],
  ['forms', ['tenant', 'id']],
  ['collections', ['tenant', 'name']],
  ['tokens', ['subject']],
  ['webhooks', ['tenant', 'id']],
  ['webhook_deliveries', ['webhook', 'id']],
  ['webhook_deliveries', ['webhook', 'next_attempt_at'], "state = 'pending'"],
  ['webhook_deliveries', ['created_at']],
];

const CHILDREN: Children = {
  webhook_deliveries: ['webhook', 'webhooks'],
};

/** Creates every table of `tables-accounts.ts`. */
export function accounts(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, children: CHILDREN });
      await unique(db, 'api_keys', { columns: ['hash'] });
      // Those that the API made have no project, and so no twin.
      await unique(db, 'webhooks', { columns: ['tenant', 'project', 'form', 'url'] });
      await unique(db, 'webhook_deliveries', { columns: ['webhook', 'event'] });
    },
  };
}
