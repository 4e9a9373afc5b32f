/** Room in the pages of the queue on PostgreSQL: the beginning of a try changes no index, if the row may stay on its page. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import type { Dialect } from '../statement.ts';

/** Sets `fillfactor` of `deliveries`: docs/performance.md § What updates leave behind has the figures. Other tables gain nothing. */
export function fillfactor(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      if (dialect === 'postgres') await sql`alter table deliveries set (fillfactor = 70)`.execute(db);
    },
  };
}
