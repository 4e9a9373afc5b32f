/** What deliveries take turns by at their destination. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { typeName } from './build.ts';
import type { Dialect } from '../statement.ts';

const BY_TENANT = sql.ref('deliveries_by_destination_tenant_next_attempt_at');

/** Adds the columns, gives those of what waits their values, and replaces the index by tenant with one by turn. */
export function turns(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      const int = typeName('int', dialect);
      await sql`alter table deliveries add column bulk ${int} not null default 0`.execute(db);
      await sql`alter table deliveries add column flow text not null default ''`.execute(db);
      await sql`update deliveries set
          bulk = (select case when kind in ('transactional', 'forward', 'tls_report') then 1 else 0 end
            from messages where messages.id = deliveries.message),
          flow = (select coalesce((select form from submissions where submissions.id = messages.submission), kind)
            from messages where messages.id = deliveries.message)
        where state in ('queued', 'deferred', 'sending') and webhook is null`.execute(db);
      await sql`drop index ${BY_TENANT}`.execute(db);
      await sql`create index deliveries_by_turn on deliveries (destination, bulk, tenant, flow, next_attempt_at)
        where state in ('queued', 'deferred')`.execute(db);
    },
  };
}
