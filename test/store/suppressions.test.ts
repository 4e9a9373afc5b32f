import Database from 'better-sqlite3';
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { createStore } from '../../src/store/database.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import {
  allow,
  countSuppressions,
  findSuppression,
  isSuppressed,
  selectSuppressions,
  suppress,
} from '../../src/store/suppressions.ts';
import { freshDatabase, openTestStore } from '../harness/store.ts';

test('the list of a tenant: by address, in pages, without case, the first word stands', async () => {
  const store = await openTestStore();
  const tenant = 'ten_a';
  await store.write([
    suppress({ tenant, address: 'Bob@x.example', reason: 'bounce', created_at: 1 }),
    suppress({ tenant, address: 'ana@x.example', reason: 'unsubscribe', created_at: 2 }),
    suppress({ tenant, address: 'bob@X.example', reason: 'complaint', created_at: 3 }),
    suppress({ tenant: 'ten_b', address: 'eve@x.example', reason: 'manual', created_at: 4 }),
  ]);
  const all = await selectSuppressions(store, { tenant, after: undefined, limit: 10 });
  expect(all).toEqual([
    { tenant, address: 'ana@x.example', form: '', reason: 'unsubscribe', created_at: 2 },
    { tenant, address: 'bob@x.example', form: '', reason: 'bounce', created_at: 1 },
  ]);
  const after = { address: 'ana@x.example', form: '' };
  expect(await selectSuppressions(store, { tenant, after, limit: 10 })).toEqual(all.slice(1));
  expect(await countSuppressions(store, tenant)).toBe(2);
  expect(await findSuppression(store, { tenant, address: 'BOB@x.example', form: '' })).toEqual(all[1]);
  await store.write([allow({ tenant, address: 'Bob@X.example', form: '' })]);
  expect(await isSuppressed(store, tenant, 'bob@x.example')).toBe(false);
  expect(await isSuppressed(store, 'ten_b', 'eve@x.example')).toBe(true);
});

test('the list of the release before is about no form', async () => {
  const url = await freshDatabase();
  const isSqlite = url.startsWith('sqlite:');
  const dialect = isSqlite
    ? new SqliteDialect({ database: new Database(url.slice('sqlite:'.length)) })
    : new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) });
  const db = new Kysely<{ suppressions: Record<string, unknown> }>({ dialect });
  const migrations = migrationsFor(isSqlite ? 'sqlite' : 'postgres');
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  expect((await migrator.migrateTo('0011-webhook-deliveries')).error).toBeUndefined();
  const entry = { tenant: 'ten_a', address: 'ana@x.example', reason: 'bounce', created_at: 1 };
  await db.insertInto('suppressions').values(entry).execute();
  await db.destroy();
  const store = await createStore(url);
  onTestFinished(() => store.close());
  const rows = await selectSuppressions(store, { tenant: 'ten_a', after: undefined, limit: 10 });
  expect(rows).toEqual([{ ...entry, form: '' }]);
});
