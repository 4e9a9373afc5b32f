/** Backups of a SQLite database: when there is none, and what is left of one. */
import { writeFile } from 'node:fs/promises';
import { closeSync, openSync, readdirSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { openBackups } from '../../src/store/backup.ts';
import { createStore } from '../../src/store/database.ts';
import { insertInboundLog } from '../../src/store/inbound.ts';
import { testClock } from '../harness/clock.ts';
import { temporaryFolder } from '../harness/store.ts';

async function start({ reserve = 0 } = {}) {
  const path = join(await temporaryFolder(), 'postern.db');
  const store = await createStore(`sqlite:${path}`);
  onTestFinished(() => store.close());
  const clock = testClock();
  const backups = await openBackups({ path, clock, log: silentLog, reserve: () => reserve });
  onTestFinished(() => backups.drop());
  const files = () => readdirSync(dirname(path)).filter((name) => name.includes('.backup'));
  return { path, store, clock, backups, files };
}

test('a copy that nobody asks for is removed', async () => {
  const { clock, backups, files } = await start();
  expect(await backups.begin()).toBeUndefined();
  await expect.poll(() => backups.state()).toMatchObject({ kind: 'verified' });
  expect(files()).toEqual(['postern.db.backup']);
  clock.advance(55_000);
  expect(backups.state()).toMatchObject({ kind: 'verified' });
  clock.advance(55_000);
  expect(files()).toEqual(['postern.db.backup']);
  clock.advance(10_000);
  await expect.poll(files).toEqual([]);
  expect(backups.state()).toEqual({ kind: 'none' });
  expect(backups.fetch()).toBeUndefined();
});

test('given up before it has begun, it does not begin', async () => {
  const { backups, files } = await start();
  const beginning = backups.begin();
  await backups.drop();
  expect(await beginning).toBeUndefined();
  expect(backups.state()).toEqual({ kind: 'none' });
  expect(files()).toEqual([]);
});

test('it is handed over once, however many ask at the same moment', async () => {
  const { backups } = await start();
  await backups.begin();
  await expect.poll(() => backups.state()).toMatchObject({ kind: 'verified' });
  const [one, two] = [backups.fetch(), backups.fetch()];
  const read = await Promise.allSettled([one, two].map((copy) => buffer(copy?.stream ?? Readable.from([]))));
  expect(read.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
});

test('what an ended process left is removed at the start', async () => {
  const { path, clock, files } = await start();
  await writeFile(`${path}.backup`, 'half');
  await writeFile(`${path}.backup-journal`, 'half');
  await openBackups({ path, clock, log: silentLog, reserve: () => 0 });
  expect(files()).toEqual([]);
});

test('where it would fill the disk there is none', async () => {
  const { backups, files } = await start({ reserve: Number.MAX_SAFE_INTEGER });
  expect(await backups.begin()).toMatchObject({ kind: 'no-room' });
  expect(files()).toEqual([]);
  expect(backups.state()).toEqual({ kind: 'none' });
});

test('of a database that is broken there is none either, and it says why', async () => {
  const path = join(await temporaryFolder(), 'postern.db');
  const store = await createStore(`sqlite:${path}`);
  const said = { tenant: null, domain: null, ip: '', helo: '', sender: '', recipient: 'x'.repeat(200) };
  const rows = Array.from({ length: 500 }, (_, i) => ({ ...said, id: `inl_${String(i).padStart(26, '0')}` }));
  const more = { outcome: 'accepted', reply: '', reason: '', inbound: null, created_at: 0 } as const;
  await store.write(rows.map((row) => insertInboundLog({ ...row, ...more })));
  await store.close();
  const database = new Database(path);
  database.pragma('wal_checkpoint(TRUNCATE)');
  const pages = Number(database.pragma('page_count', { simple: true }));
  database.close();
  const file = openSync(path, 'r+');
  // The last pages hold those rows.
  writeSync(file, Buffer.alloc(4096 * 8, 0xff), 0, 4096 * 8, (pages - 10) * 4096);
  closeSync(file);
  const clock = testClock();
  const warned: string[] = [];
  const log = { ...silentLog, warn: (event: string) => void warned.push(event) };
  const backups = await openBackups({ path, clock, log, reserve: () => 0 });
  await backups.begin();
  await expect
    .poll(() => backups.state())
    .toMatchObject({ kind: 'failed', reason: expect.stringMatching(/malformed|not whole/) });
  // And the next one may be tried.
  expect(await backups.begin()).toBeUndefined();
  await backups.drop();
  clock.advance(120_000);
  await setImmediate();
  // Nobody waits for what is gone.
  expect(warned).toEqual([]);
});

test('there is none of a database that is not ours to copy', async () => {
  const backups = await openBackups({ path: undefined, clock: testClock(), log: silentLog, reserve: () => 0 });
  expect(await backups.begin()).toEqual({ kind: 'not-sqlite' });
});

test('the end of a download that was given up leaves the next backup alone', async () => {
  const { backups, files } = await start();
  await backups.begin();
  await expect.poll(() => backups.state()).toMatchObject({ kind: 'verified' });
  const download = backups.fetch()?.stream[Symbol.asyncIterator]();
  await download?.next();
  await backups.drop();
  await backups.begin();
  await expect.poll(() => backups.state()).toMatchObject({ kind: 'verified' });
  await download?.return?.();
  expect(backups.state()).toMatchObject({ kind: 'verified' });
  expect(files()).toEqual(['postern.db.backup']);
});
