/** The copy before a migration: made, verified, kept, and the way back. */
import { copyFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { expect, onTestFinished, test, vi } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { createStore } from '../../src/store/database.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import { temporaryFolder } from '../harness/store.ts';

/** A database as a version before left it, with one account. */
async function oldDatabase(): Promise<string> {
  const path = join(await temporaryFolder(), 'postern.db');
  const db = new Kysely({ dialect: new SqliteDialect({ database: new Database(path) }) });
  const migrations = migrationsFor('sqlite');
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  expect((await migrator.migrateTo('0003-inbound')).error).toBeUndefined();
  await db.destroy();
  withDatabase(path, (database) =>
    database.exec(
      `insert into tenants (id, name, email, plan, suspended, created_at) values ('ten_1', 'A', 'a@b.test', 'free', 0, 1)`,
    ),
  );
  return path;
}

function withDatabase<T>(path: string, work: (database: Database.Database) => T): T {
  const database = new Database(path);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

function schemaOf(path: string): unknown {
  return withDatabase(path, (database) =>
    database.prepare('select max(name) as name from kysely_migration').pluck().get(),
  );
}

function copies(path: string): string[] {
  return readdirSync(dirname(path)).filter((name) => name.includes('.before-migration-'));
}

async function openOnce(path: string, reserve = 0): Promise<void> {
  await (await createStore(`sqlite:${path}`, { log: silentLog, reserve })).close();
}

test('a database of a version before is copied as it was, for its owner alone, and once', async () => {
  const path = await oldDatabase();
  // What a start that was killed had begun.
  writeFileSync(`${path}.before-migration-20250101T000000Z.new`, 'half');
  const info = vi.fn();
  await (await createStore(`sqlite:${path}`, { log: { ...silentLog, info } })).close();
  expect(copies(path)).toEqual([expect.stringMatching(/^postern\.db\.before-migration-\d{8}T\d{6}Z$/)]);
  const copy = join(dirname(path), String(copies(path)[0]));
  expect(info).toHaveBeenCalledWith('migration.copied', expect.objectContaining({ file: copy }));
  expect(statSync(copy).mode & 0o777).toBe(0o600);
  expect(schemaOf(copy)).toBe('0003-inbound');
  expect(withDatabase(copy, (database) => database.prepare('select id from tenants').pluck().all())).toEqual(['ten_1']);
  expect(schemaOf(path)).not.toBe('0003-inbound');
  await openOnce(path);
  expect(copies(path)).toHaveLength(1);
});

test('a new database has none', async () => {
  const path = join(await temporaryFolder(), 'postern.db');
  await openOnce(path);
  expect(copies(path)).toEqual([]);
});

test('the last two are kept', async () => {
  const path = await oldDatabase();
  const old = ['20250101T000000Z', '20250201T000000Z', '20250301T000000Z'];
  for (const time of old) writeFileSync(`${path}.before-migration-${time}`, '');
  await openOnce(path);
  expect(copies(path)).toEqual(['postern.db.before-migration-20250301T000000Z', expect.any(String)]);
});

test('where the disk has no room for it, nothing is migrated and the start is refused', async () => {
  const path = await oldDatabase();
  await expect(openOnce(path, Number.MAX_SAFE_INTEGER)).rejects.toThrow(
    /must be migrated, but the disk has no room for the copy that is made first: \d+ MiB needed, \d+ MiB free/,
  );
  expect([schemaOf(path), copies(path)]).toEqual(['0003-inbound', []]);
});

test('a database that cannot be copied whole is not migrated', async () => {
  const path = await oldDatabase();
  withDatabase(path, (database) => {
    // A row that no table has: the integrity check finds it, nothing before.
    database.unsafeMode();
    database.pragma('writable_schema = on');
    database.exec(
      `update sqlite_master set sql = replace(sql, 'not null', 'not null check (0)') where name = 'tenants'`,
    );
  });
  await expect(openOnce(path)).rejects.toThrow(/the copy is damaged/);
  expect([schemaOf(path), copies(path)]).toEqual(['0003-inbound', []]);
});

test('a version before refuses the migrated database and names the copy, on which it starts', async () => {
  const path = await oldDatabase();
  await openOnce(path);
  // As the version after this one leaves it.
  const copy = `${path}.before-migration-20990101T000000Z`;
  copyFileSync(path, copy);
  withDatabase(path, (database) =>
    database.exec(`insert into kysely_migration (name, timestamp) values ('9999-later', '2099-01-01')`),
  );
  await expect(openOnce(path)).rejects.toThrow(
    `it was written by a newer version of Postern (schema 9999-later): install that version, or restore ${copy}, the copy from before the upgrade`,
  );
  // As docs/upgrade.md says.
  for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
  copyFileSync(copy, path);
  const store = await createStore(`sqlite:${path}`);
  onTestFinished(() => store.close());
  expect(await store.read.selectFrom('tenants').select('id').execute()).toEqual([{ id: 'ten_1' }]);
});
