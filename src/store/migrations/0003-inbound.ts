/** Mail that comes in. */
import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  inbound: `id text key, sender text, recipients text, ip text, helo text, tls text null, size int, encoding text,
    trace text, verdicts text, messages text, created_at int`,
  raw_chunks: 'inbound text key, seq int key, bytes bytes, created_at int',
  inbound_log: `id text key, tenant text null, domain text null, ip text, helo text, sender text, recipient text,
    outcome text, reply text, reason text, inbound text null, created_at int`,
  bounces: 'inbound text key, message text key, head bytes, tries int, due int, created_at int',
};

const INDEXES: Indexes = [
  ['raw_chunks', ['created_at']],
  ['inbound', ['created_at']],
  ['inbound_log', ['tenant', 'id']],
  ['inbound_log', ['created_at']],
  ['bounces', ['due']],
];

const LARGE = new Set(['raw_chunks', 'inbound', 'bounces']);

/** Creates every table of `tables-inbound.ts`. */
export function inbound(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, large: LARGE });
    },
  };
}
