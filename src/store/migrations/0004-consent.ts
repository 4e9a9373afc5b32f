/** Who agreed to get whose mail, and whom the operator trusts. Accounts that exist are the operator's, and trusted. */
import { sql, type Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { canonicalMailbox } from '../../lib/addresses.ts';
import type { Dialect } from '../statement.ts';
import { build, type Columns, type Indexes } from './build.ts';

const TABLES: Columns = {
  consents: [
    ['tenant', 'text', 'key'],
    ['address', 'text', 'key'],
    ['asked_at', 'int', 'null'],
    ['confirmed_at', 'int', 'null'],
  ],
  mailboxes: [
    ['mailbox', 'text', 'key'],
    ['account', 'text', 'null'],
    ['refused_at', 'int', 'null'],
  ],
};

const INDEXES: Indexes = [
  ['deliveries', ['tenant', 'recipient', 'destination'], "state in ('queued', 'deferred') and next_attempt_at is null"],
];

/** As they were before. */
type Before = {
  tenants: { id: string; email: string; confirmed_at: number | null; created_at: number; trusted: number };
  forms: { id: string; tenant: string; kind: string; config: string; confirmed_at: number | null };
  tokens: { kind: string };
  consents: { tenant: string; address: string; asked_at: number | null; confirmed_at: number | null };
  mailboxes: { mailbox: string; account: string | null; refused_at: number | null };
};

/** Creates the tables of consent, and carries over what was agreed before. */
export function consent(dialect: Dialect): Migration {
  return {
    async up(untyped: Kysely<unknown>) {
      const db = untyped.withTables<Before>();
      await build(untyped, dialect, { tables: TABLES, indexes: INDEXES });
      const integer = sql.raw(dialect === 'sqlite' ? 'integer' : 'bigint');
      await db.schema
        .alterTable('tenants')
        .addColumn('trusted', integer, (column) => column.notNull().defaultTo(0))
        .execute();
      await db.updateTable('tenants').set({ trusted: 1 }).execute();
      await agreedAccounts(db);
      await agreedForms(db);
      await db.schema.alterTable('forms').dropColumn('confirmed_at').execute();
      // Their links would confirm a form, of which nothing is asked any more.
      await db.deleteFrom('tokens').where('kind', '=', 'form').execute();
    },
  };
}

async function agreedAccounts(db: Kysely<Before>): Promise<void> {
  const tenants = await db
    .selectFrom('tenants')
    .select(['id', 'email', 'confirmed_at'])
    .where('confirmed_at', 'is not', null)
    .orderBy('id')
    .execute();
  for (const { id, email, confirmed_at } of tenants) {
    await agreed(db, { tenant: id, address: email, confirmed_at });
    await db
      .insertInto('mailboxes')
      .values({ mailbox: canonicalMailbox(email), account: id, refused_at: null })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
}

async function agreedForms(db: Kysely<Before>): Promise<void> {
  const forms = await db
    .selectFrom('forms')
    .select(['tenant', 'config', 'confirmed_at'])
    .where('kind', '=', 'instant')
    .where('confirmed_at', 'is not', null)
    .execute();
  for (const { tenant, config, confirmed_at } of forms) {
    const { to } = JSON.parse(config) as { to?: string | string[] };
    for (const address of [to ?? []].flat()) await agreed(db, { tenant, address, confirmed_at });
  }
}

async function agreed(
  db: Kysely<Before>,
  { tenant, address, confirmed_at }: { tenant: string; address: string; confirmed_at: number | null },
): Promise<void> {
  await db
    .insertInto('consents')
    .values({ tenant, address: address.toLowerCase(), asked_at: null, confirmed_at })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}
