import { chmod, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import Database from 'better-sqlite3';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { PassingError } from '../../src/lib/errors.ts';
import { createStore } from '../../src/store/database.ts';
import { obtainSecret } from '../../src/store/secrets.ts';
import { assertDurable, openForWriting } from '../../src/store/sqlite-connection.ts';
import { freshDatabase, migratedDatabase, openTestStore } from '../harness/store.ts';

test('a writing connection survives a power cut, and one that would not is found out', async () => {
  const path = (await freshDatabase()).slice('sqlite:'.length);
  const database = openForWriting(path);
  expect(database.pragma('synchronous', { simple: true })).toBe(2);
  expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
  database.pragma('synchronous = NORMAL');
  expect(() => assertDurable(database)).toThrow('synchronous=1');
  database.close();
});

test('the file is for its owner alone', async () => {
  const url = await freshDatabase();
  const path = url.slice('sqlite:'.length);
  await createStore(url).then((store) => store.close());
  await chmod(path, 0o644);
  const store = await createStore(url);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  await store.close();
});

test('a second daemon on the same file is told why it may not', async () => {
  const url = await freshDatabase();
  const store = await createStore(url);
  await expect(createStore(url)).rejects.toThrow(`the database ${url} cannot be opened: another daemon is using it`);
  await store.close();
  await createStore(url).then((again) => again.close());
});

test('a folder that may not be written is named, and who must be able to', async () => {
  const opening = createStore('sqlite:/sys/postern/postern.db');
  await expect(opening).rejects.toThrow(`${userInfo().username} must be able to write to /sys/postern`);
  await expect(opening).rejects.not.toBeInstanceOf(PassingError);
});

test('a file that is no database is refused and left as it was', async () => {
  const url = await freshDatabase();
  const path = url.slice('sqlite:'.length);
  await writeFile(path, 'This is a letter to my aunt, not a database. '.repeat(100));
  await expect(createStore(url)).rejects.toThrow('file is not a database');
  expect(await readFile(path, 'utf8')).toContain('my aunt');
});

test('a damaged file is refused with what to do next', async () => {
  const url = await migratedDatabase();
  const path = url.slice('sqlite:'.length);
  const bytes = await readFile(path);
  await writeFile(path, bytes.fill(0xff, 4096));
  await expect(createStore(url)).rejects.toThrow(/damaged: keep a copy of it .* restore the newest backup/);
});

test.for([
  ['is empty', async (path: string) => writeFile(path, '')],
  [
    'is gone, and its log is there',
    async (path: string) => {
      await rm(path);
      await writeFile(`${path}-wal`, 'x');
    },
  ],
] as const)('where there was a database and its file %s, no new one is made', async ([, spoil]) => {
  const url = await migratedDatabase();
  const path = url.slice('sqlite:'.length);
  await spoil(path);
  const opening = createStore(url);
  await expect(opening).rejects.toThrow(/restore a backup in its place, or delete/);
  await expect(opening).rejects.not.toBeInstanceOf(PassingError);
  for (const name of [path, `${path}-wal`]) await rm(name, { force: true });
  await createStore(url).then((store) => store.close());
});

test('the reading side refuses to write', async () => {
  const store = await openTestStore();
  await expect(sql`DELETE FROM secrets`.execute(store.read)).rejects.toThrow(/readonly|query_only/);
});

test('every table of ours is strict', async () => {
  const url = await freshDatabase();
  const store = await createStore(url);
  await obtainSecret(store, 'a', 1);
  await store.close();
  const database = new Database(url.slice('sqlite:'.length));
  const lax = database.prepare("SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0").pluck().all();
  expect(lax.filter((name) => !String(name).startsWith('sqlite_') && !String(name).startsWith('kysely_'))).toEqual([]);
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
  database.close();
});
