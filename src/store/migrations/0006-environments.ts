/** The partition of test keys: what they made before moves there. And forms of the API that are on a domain. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Tenants of the test partition have this behind the account's id. */
const PARTITION = ':test';

/** Moves submissions and mail of the environment `test`, with what hangs on them. */
export function environments(): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await db.schema.alterTable('forms').addColumn('domain', 'text').execute();
      const messages = sql`select id from messages where environment = 'test'`;
      const submissions = sql`select id from submissions where environment = 'test'`;
      // What names them first: afterwards they are told by their new tenant alone.
      await move(db, 'deliveries', sql`message in (${messages})`);
      await move(db, 'events', sql`message in (${messages}) or submission in (${submissions})`);
      await move(db, 'messages', sql`environment = 'test'`);
      await move(db, 'submissions', sql`environment = 'test'`);
    },
  };
}

async function move(db: Kysely<unknown>, table: string, where: ReturnType<typeof sql>): Promise<void> {
  await sql`update ${sql.table(table)} set tenant = tenant || ${sql.lit(PARTITION)} where ${where}`.execute(db);
}
