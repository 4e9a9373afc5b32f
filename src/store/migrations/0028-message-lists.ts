/** Mail of an account as a list: what it is found by, and what was said in each attempt. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds `deliveries.subject`, `attempts.dialogue`, and the indexes that lists of mail use. */
export function messageLists(): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const statements = [
        sql`alter table deliveries add column subject text`,
        sql`alter table attempts add column dialogue text`,
        // By age. Kind and domain stand in the index, so that both filters read it alone.
        sql`create index messages_by_tenant_id_kind_domain on messages (tenant, id, kind, domain)
          where kind not in ('webhook', 'system', 'tls_report')`,
        sql`create index deliveries_by_tenant_recipient on deliveries (tenant, lower(recipient), message)
          where webhook is null`,
        // Mail that arrives at its first try is never in it.
        sql`create index deliveries_by_tenant_state on deliveries (tenant, state, message)
          where state in ('deferred', 'bounced', 'expired', 'cancelled', 'suppressed', 'captured') and webhook is null`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  };
}
