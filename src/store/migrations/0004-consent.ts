/** Who agreed to get whose mail, and whom the operator trusts. Accounts that exist are the operator's, and trusted. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { canonicalMailbox } from '../../lib/addresses.ts';
import type { Dialect } from '../statement.ts';
import { build, typeName, type Indexes, type Tables } from './build.ts';

const TABLES: Tables = {
  consents: 'tenant text key, address text key, asked_at int null, confirmed_at int null',
  mailboxes: 'mailbox text key, account text null, refused_at int null',
};

const INDEXES: Indexes = [
  ['deliveries', ['tenant', 'recipient', 'destination'], "state in ('queued', 'deferred') and next_attempt_at is null"],
];

/** Creates the tables of consent, and carries over what was agreed before. */
export function consent(dialect: Dialect): Migration {
  return {
    async up(db: Kysely<unknown>) {
      await build(db, dialect, { tables: TABLES, indexes: INDEXES });
      await sql`alter table tenants add column trusted ${typeName('int', dialect)} not null default 0`.execute(db);
      await sql`update tenants set trusted = 1`.execute(db);
      const tenants = await sql<{ id: string; email: string; confirmed_at: number }>`select id, email, confirmed_at
        from tenants where confirmed_at is not null order by id`.execute(db);
      for (const { id, email, confirmed_at } of tenants.rows) {
        await agreed(db, { tenant: id, address: email, confirmed_at });
        await sql`insert into mailboxes (mailbox, account) values (${canonicalMailbox(email)}, ${id})
          on conflict do nothing`.execute(db);
      }
      const forms = await sql<{ tenant: string; config: string; confirmed_at: number }>`
        select tenant, config, confirmed_at from forms
        where kind = 'instant' and confirmed_at is not null`.execute(db);
      for (const { tenant, config, confirmed_at } of forms.rows) {
        const { to } = JSON.parse(config) as { to?: string | string[] };
        for (const address of [to ?? []].flat()) await agreed(db, { tenant, address, confirmed_at });
      }
      await sql`alter table forms drop column confirmed_at`.execute(db);
      // Their links would confirm a form, of which nothing is asked any more.
      await sql`delete from tokens where kind = 'form'`.execute(db);
    },
  };
}

async function agreed(
  db: Kysely<unknown>,
  { tenant, address, confirmed_at }: { tenant: string; address: string; confirmed_at: number },
): Promise<void> {
  await sql`insert into consents (tenant, address, confirmed_at)
    values (${tenant}, ${address.toLowerCase()}, ${confirmed_at}) on conflict do nothing`.execute(db);
}
