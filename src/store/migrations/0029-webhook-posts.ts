/** What each attempt of a webhook sent and was answered, for its owner; and indexes of deliveries by their state. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  webhook_posts: `webhook text key, delivery text key, number int key, at int, duration_ms int, url text,
    request_headers text, status int null, headers text null, body text null, is_cut int, error text null`,
};

const INDEXES: Indexes = [['webhook_posts', ['at']]];

/** The conditions of queries, in the same words: SQLite uses a partial index for no others. */
const STATES = {
  pending: 'settled_at is null',
  delivered: "state = 'delivered'",
  failed: "state in ('bounced', 'expired', 'cancelled')",
};

/** Creates the table, and the indexes by which deliveries of one state are listed. */
export function webhookPosts(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const children = { webhook_posts: ['webhook', 'webhooks'] } as const;
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, children, large: new Set(['webhook_posts']) });
      for (const [name, condition] of Object.entries(STATES)) {
        await sql`create index ${sql.ref(`deliveries_webhook_${name}`)} on deliveries (webhook, id)
          where webhook is not null and ${sql.raw(condition)}`.execute(db);
      }
    },
  };
}
