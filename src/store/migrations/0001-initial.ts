/** The first schema. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, unique, type Children, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  tenants: `id text key, name text, email text, plan text, requests_per_hour int null, suspended int,
    confirmed_at int null, created_at int`,
  projects: 'id text key, tenant text, slug text, name text, source text, revision text, created_at int',
  config_revisions: `id text key, tenant text, slug text, file text, yaml text, files text, hash text,
    created_at int`,
  domains: `name text key, tenant text key, project text, token text, status text, records text null,
    checked_at int null, verified_at int null, broken_at int null, next_check_at int, created_at int`,
  dkim_keys: `domain text key, selector text key, tenant text, algorithm text, base text, state text,
    private_key text, public_key text, since int, keep_until int null, created_at int`,
  submissions: `id text key, tenant text, form text, domain text, revision text, fields text, control text, ip text,
    user_agent text, referer text, status text, spam_score int, spam_reasons text, environment text, created_at int`,
  submission_files: `id text key, submission text, position int, field text, filename text, content_type text,
    size int`,
  file_chunks: 'file text key, seq int key, bytes bytes, created_at int',
  form_counters: 'form text key, submissions int, created_at int',
  messages: `id text key, tenant text, kind text, submission text null, domain text, source text, body text,
    size int, sender text null, encoding text, destinations int, environment text, created_at int, expires_at int`,
  message_chunks: 'message text key, seq int key, bytes bytes',
  attachment_chunks: 'message text key, position int key, seq int key, bytes bytes',
  deliveries: `id text key, message text, tenant text, recipient text, destination text, state text, attempts int,
    next_attempt_at int null, lease_owner text null, lease_until int null, last_reply text null, created_at int,
    expires_at int, settled_at int null`,
  attempts: `delivery text key, number int key, at int, host text null, address text null, tls text null,
    outcome text, reply text`,
  destinations: `name text key, next_due_at int null, failures int, pauses int, paused_until int null, held int,
    last_error text null`,
  suppressions: 'tenant text key, address text key, reason text, created_at int',
  acknowledged: 'tenant text key, address text key, at int',
  events: `id text key, tenant text, type text, data text, submission text null, message text null,
    domain text null, form text null, request text null, created_at int`,
  idempotency_keys: 'scope text key, key text key, hash text, status int, response text, created_at int',
  limits: 'bucket text key, starts_at int key, count int',
  secrets: 'name text key, value text, created_at int',
};

const INDEXES: Indexes = [
  ['tenants', ['created_at'], 'confirmed_at is null'],
  ['config_revisions', ['tenant', 'slug', 'created_at']],
  ['submissions', ['tenant', 'form', 'id']],
  // What was kept back, among many more that were not.
  ['submissions', ['tenant', 'form', 'status', 'id'], "status = 'spam'"],
  ['submission_files', ['submission']],
  ['messages', ['submission']],
  // What was sent through the API, newest first.
  ['messages', ['tenant', 'id'], "kind = 'transactional'"],
  ['deliveries', ['message']],
  // What a destination has due, soonest first: the claim's index.
  ['deliveries', ['destination', 'next_attempt_at'], "state in ('queued', 'deferred')"],
  // The same by tenant: where much waits, tenants take turns.
  ['deliveries', ['destination', 'tenant', 'next_attempt_at'], "state in ('queued', 'deferred')"],
  // Nearly all end as delivered: to list those, newest first, their ids are enough.
  ['deliveries', ['state', 'id'], "state <> 'delivered'"],
  ['destinations', ['next_due_at'], 'next_due_at is not null and held = 0'],
  ['domains', ['tenant', 'name']],
  ['domains', ['next_check_at']],
  ['suppressions', ['address']],
  ['events', ['tenant', 'created_at']],
  ['events', ['message'], 'message is not null'],
  ['idempotency_keys', ['created_at']],
  ['file_chunks', ['created_at']],
];

const CHILDREN: Children = {
  submission_files: ['submission', 'submissions'],
  message_chunks: ['message', 'messages'],
  attachment_chunks: ['message', 'messages'],
  deliveries: ['message', 'messages'],
  attempts: ['delivery', 'deliveries'],
};

/** Rows that do not fit a page many times over: a clustered index would only get in their way. */
const LARGE = new Set([
  'config_revisions',
  'submissions',
  'file_chunks',
  'message_chunks',
  'attachment_chunks',
  'idempotency_keys',
]);

/** Creates every table of `tables.ts`. */
export function initial(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, children: CHILDREN, large: LARGE });
      await unique(db, 'config_revisions', { columns: ['tenant', 'slug', 'hash'] });
      await unique(db, 'projects', { columns: ['tenant', 'slug'] });
      // However many daemons rotate at once: one key of an algorithm signs, and one is the next.
      await unique(db, 'dkim_keys', {
        columns: ['domain', 'tenant', 'algorithm', 'state'],
        where: "state in ('next', 'active')",
      });
    },
  };
}
