/** What each attempt of a webhook sent and was answered, for its owner; and an index of deliveries that failed. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';
import { build, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  webhook_posts: `webhook text key, delivery text key, number int key, at int, duration_ms int, url text,
    request_headers text, status int null, headers text null, body text null, is_cut int, error text null`,
};

const INDEXES: Indexes = [['webhook_posts', ['at']]];

/** Creates the table, and the indexes by which deliveries of one state are listed. */
export function webhookPosts(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const children = { webhook_posts: ['webhook', 'webhooks'] } as const;
      await build(db, dialect, { tables: TABLES, indexes: INDEXES, children, large: new Set(['webhook_posts']) });
      await sql`create index deliveries_webhook_failed on deliveries (webhook, id)
        where webhook is not null and state in ('bounced', 'expired', 'cancelled')`.execute(db);
      await sql`create index deliveries_webhook_pending on deliveries (webhook, id)
        where webhook is not null and settled_at is null`.execute(db);
    },
  };
}
