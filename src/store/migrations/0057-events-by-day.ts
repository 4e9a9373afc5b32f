/** Events become a table with a partition for each day on PostgreSQL: a day that is over is dropped, not deleted row by row. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';

/** Makes the table of today the default partition of a new one, which reads none of its rows. Days are made by event-days.ts. */
export function eventsByDay(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      if (dialect === 'sqlite') return;
      const statements = [
        sql`alter table events rename to events_before`,
        sql`alter index events_key rename to events_before_key`,
        sql`alter index events_by_tenant_created_at rename to events_before_by_tenant_created_at`,
        sql`alter index events_by_message rename to events_before_by_message`,
        sql`create table events (like events_before) partition by range (id)`,
        sql`alter table events add constraint events_key primary key (id)`,
        sql`create index events_by_tenant_created_at on events (tenant, created_at)`,
        sql`create index events_by_message on events (message) where message is not null`,
        sql`alter table events attach partition events_before default`,
      ];
      for (const statement of statements) await statement.execute(db);
    },
  };
}
