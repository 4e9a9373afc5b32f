/** `postern backup` against a daemon that goes on working: what it writes, and when it writes nothing. */
import { open, readdir, readFile, rm, stat, writeFile, type FileHandle } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createClient } from '../../src/cli/client.ts';
import { backups } from '../../src/contract/server.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { openForReading } from '../../src/store/sqlite-connection.ts';
import { SITE, startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { startTestBucket } from '../harness/s3.ts';
import { migratedDatabase, temporaryFolder } from '../harness/store.ts';
import { runCommand, runOperator, testTerminal } from '../harness/terminal.ts';

function run(world: TestWorld, file: string, { force = false, json = false } = {}) {
  const flags = [...(force ? ['--force'] : []), ...(json ? ['--json'] : [])];
  return runOperator(join(world.folder, 'admin.sock'), ['backup', file, ...flags]);
}

function databaseOf({ daemon }: TestWorld): string {
  return daemon.snapshot().server.database.url.slice('sqlite:'.length);
}

/** What the usual tools make of it. */
async function unpack(file: string): Promise<string> {
  const folder = await temporaryFolder();
  await promisify(execFile)('tar', ['-xzf', file, '-C', folder]);
  return folder;
}

async function leftBeside(world: TestWorld): Promise<string[]> {
  const files = await readdir(join(databaseOf(world), '..'));
  return files.filter((name) => name.includes('backup'));
}

test('while forms come in: whole, verified, for its owner alone, and nothing is left behind', async () => {
  const world = await startTestWorld();
  const folder = await temporaryFolder();
  const file = join(folder, 'copy.tar.gz');
  let going = true;
  let posted = 0;
  const posting = (async () => {
    for (; going; posted++) await world.post('/example.test/contact', { message: `Number ${posted}` });
  })();
  await expect.poll(() => posted).toBeGreaterThan(20);
  const before = posted;
  const { code, out, err } = await run(world, file);
  going = false;
  await posting;
  expect([code, err]).toEqual([0, '']);
  expect(out).toMatch(/copy\.tar\.gz: [\d.]+ \w+, \d+ rows and 2 files of the configuration, verified/);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder)).toEqual(['copy.tar.gz']);
  await expect.poll(() => leftBeside(world)).toEqual([]);
  const unpacked = await unpack(file);
  expect(await readFile(join(unpacked, 'config/server.yml'))).toEqual(await readFile(join(world.folder, 'server.yml')));
  expect(await readFile(join(unpacked, 'config/projects/site.yml'), 'utf8')).toBe(SITE);
  const copy = openForReading(join(unpacked, 'database/postern.db'));
  onTestFinished(() => void copy.close());
  const rows = copy.prepare<[], { count: number }>('select count(*) as count from submissions').get();
  expect(rows?.count).toBeGreaterThanOrEqual(before);
});

test('what is there is replaced only with --force', async () => {
  const world = await startTestWorld();
  const folder = await temporaryFolder();
  const file = join(folder, 'copy.tar.gz');
  await writeFile(file, 'mine');
  const refused = await run(world, file);
  expect([refused.code, refused.err]).toEqual([1, `${file} already exists. To overwrite it, add --force\n`]);
  expect(await readFile(file, 'utf8')).toBe('mine');
  const { code, out } = await run(world, file, { force: true, json: true });
  expect(code).toBe(0);
  const { size } = await stat(file);
  expect(JSON.parse(out)).toMatchObject({ file, size, rows: expect.any(Number), files: 2, encrypted: false });
  expect(await readdir(folder)).toEqual(['copy.tar.gz']);
});

test('it is on the disk before it has its name, and where the disk fails there is none', async () => {
  const world = await startTestWorld();
  const folder = await temporaryFolder();
  const file = join(folder, 'copy.tar.gz');
  const handle = await open(join(folder, 'any'), 'w');
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const synced: { isFile: boolean; size: number; files: string[] }[] = [];
  let fails = false;
  const sync = vi.spyOn(prototype, 'sync').mockImplementation(async function (this: FileHandle) {
    const found = await this.stat();
    synced.push({ isFile: found.isFile(), size: found.size, files: await readdir(folder) });
    if (fails) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' });
  });
  onTestFinished(() => sync.mockRestore());
  expect((await run(world, file)).code).toBe(0);
  const { size } = await stat(file);
  // The bytes, and then their name.
  expect(synced).toEqual([
    { isFile: true, size, files: [expect.stringMatching(/^\.copy\.tar\.gz\./), 'any'] },
    { isFile: false, size: expect.any(Number), files: expect.arrayContaining(['any', 'copy.tar.gz']) },
  ]);
  await rm(file);
  fails = true;
  const failed = await run(world, file);
  expect([failed.code, failed.out]).toEqual([1, '']);
  expect(failed.err).toContain('EIO');
  expect(await readdir(folder)).toEqual(['any']);
});

test('a folder that cannot be written is told before the work begins', async () => {
  const world = await startTestWorld();
  const { code, err } = await run(world, '/nowhere/copy.db');
  expect(code).toBe(1);
  expect(err).toContain('Cannot write /nowhere/copy.db: no such file or directory');
  const client = createClient({ address: `unix:${join(world.folder, 'admin.sock')}` });
  expect(await client.call({ route: backups.show })).toMatchObject({ state: 'none' });
});

test('where no daemon runs, it says how a backup is made then', async () => {
  const world = await startTestWorld();
  await world.daemon.close();
  const folder = await temporaryFolder();
  const { code, err } = await run(world, join(folder, 'copy.tar.gz'));
  expect(code).toBe(3);
  expect(err).toMatch(
    /\nIf it cannot start, copy the database file \(database\.url\) with its -wal file, and \/etc\/postern\. The copies are a backup as well\.\n$/,
  );
  expect(await readdir(folder)).toEqual([]);
});

test('there is one at a time; giving it up, or ending its download, removes it', async () => {
  const world = await startTestWorld();
  const client = createClient({ address: `unix:${join(world.folder, 'admin.sock')}` });
  await client.call({ route: backups.begin });
  await expect(client.call({ route: backups.begin })).rejects.toThrow('A backup is already running.');
  await client.call({ route: backups.cancel });
  expect(await leftBeside(world)).toEqual([]);
  await expect(client.open({ route: backups.download })).rejects.toThrow('no verified backup');
  await client.call({ route: backups.begin });
  await expect.poll(() => client.call({ route: backups.show })).toMatchObject({ state: 'verified' });
  const response = await client.open({ route: backups.download });
  response.destroy();
  await expect.poll(() => leftBeside(world)).toEqual([]);
});

test('over HTTP nobody gets one, whatever his key', async () => {
  const world = await startTestWorld();
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR, permissions: ['admin'] });
  const response = await fetch(`${world.url}/admin/backup`, { method: 'POST', headers });
  expect(response.status).toBe(409);
  expect(await response.text()).toContain('Run postern backup on the server itself.');
});

test('a backup says that the bucket is not in it, and so does its restore', async () => {
  const bucket = await startTestBucket();
  const world = await startTestWorld({
    server: { storage: bucket.settings, database: { url: await migratedDatabase() } },
  });
  const file = join(await temporaryFolder(), 'copy.tar.gz');
  const made = await run(world, file);
  expect(made.out).toMatch(
    /^It does not contain the objects of the bucket mail at http:\S+\. Back them up as well\.$/m,
  );
  await world.daemon.close();
  const terminal = testTerminal({ width: 300 });
  const serverFile = join(world.folder, 'server.yml');
  await runCommand(terminal, ['restore', file, '--config', serverFile, '--force', '--database-only']);
  const words =
    /^It refers to objects in the bucket mail at http:\S+\. Restore those that were deleted there since .+\.$/m;
  expect(terminal.out()).toMatch(words);
});
