/** A SQLite file shrinks after much was deleted, in small steps, and a few free pages stay. */
import { existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { beginRestore } from '../../src/store/restore.ts';
import { createStore } from '../../src/store/database.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { releaseFreePages } from '../../src/store/free-pages.ts';
import type { Store } from '../../src/store/store.ts';
import { temporaryFolder } from '../harness/store.ts';

const MIB = 1024 ** 2;

async function newDatabase(): Promise<string> {
  return join(await temporaryFolder(), 'postern.db');
}

function run(store: Store, text: string): Promise<unknown> {
  return store.write([{ definition: () => sql.raw(text), values: {} }]);
}

/** 64 MiB of pieces, all but the last of which are deleted again. */
async function fillAndDelete(store: Store): Promise<void> {
  for (let seq = 0; seq < 256; seq++) {
    await run(
      store,
      `insert into file_chunks (file, seq, bytes, created_at) values ('f', ${seq}, randomblob(262144), 1)`,
    );
  }
  await run(store, `delete from file_chunks where seq < 255`);
}

/** The size of the file once everything is in it. */
async function sizeAfter(path: string, store: Store): Promise<number> {
  await store.close();
  const database = new Database(path);
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
  return statSync(path).size;
}

test('what was deleted is given back, and what is left is whole', async () => {
  const path = await newDatabase();
  const store = await createStore(`sqlite:${path}`);
  await fillAndDelete(store);
  const writes: number[] = [];
  const watched = {
    ...store,
    write: (unit: Parameters<Store['write']>[0]) => (writes.push(unit.length), store.write(unit)),
  };
  await releaseFreePages(watched as Store, systemClock);
  // A step is a quarter of a megabyte, so that nothing else waits for long.
  expect(writes.length).toBeGreaterThan(160);
  const before = writes.length;
  await releaseFreePages(watched as Store, systemClock);
  expect(writes.length).toBe(before);
  const [left] = await store.read.selectFrom('file_chunks').select(['seq']).execute();
  expect(left).toEqual({ seq: 255 });
  const size = await sizeAfter(path, store);
  expect(size).toBeLessThan(12 * MIB);
  expect(size).toBeGreaterThan(8 * MIB);
  const database = new Database(path, { readonly: true });
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
  database.close();
});

test('a file of an older version stays as it is until it is restored', async () => {
  const path = await newDatabase();
  await (await createStore(`sqlite:${path}`)).close();
  const old = new Database(path);
  old.pragma('journal_mode = DELETE');
  old.pragma('auto_vacuum = NONE');
  old.exec('VACUUM');
  old.close();
  const store = await createStore(`sqlite:${path}`);
  await fillAndDelete(store);
  await releaseFreePages(store, systemClock);
  expect(await sizeAfter(path, store)).toBeGreaterThan(64 * MIB);
  const restore = await beginRestore(path);
  // As `postern restore` does with what is in a backup.
  new Database(path).exec(`vacuum into '${restore.draft}'`);
  await restore.place('.aside');
  await restore.close();
  expect(existsSync(`${path}.aside`)).toBe(true);
  rmSync(`${path}.aside`);
  const database = new Database(path, { readonly: true });
  expect(database.pragma('auto_vacuum', { simple: true })).toBe(2);
  database.close();
});
