/** Mail that came in as a list of its account. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the indexes by which it is found: by recipient, and what was not accepted. */
export function inboundLists(): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await sql`create index inbound_log_by_tenant_recipient on inbound_log (tenant, lower(recipient), id)
        where tenant is not null`.execute(db);
      await sql`create index inbound_log_by_tenant_outcome on inbound_log (tenant, outcome, id)
        where outcome <> 'accepted' and tenant is not null`.execute(db);
    },
  };
}
