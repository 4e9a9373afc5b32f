/** A disk that is really full, and one that fails to write: refused with 503 meanwhile, recovered alone, nothing lost. */
import { execFileSync } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openAppliance, type Appliance, type Run } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { integrityOf } from '../harness/crash.ts';
import { startLoad, type Kind, type Load } from '../harness/load.ts';
import { temporaryFolder } from '../harness/store.ts';

const MIB = 1024 * 1024;
/** The promise: recovered within five seconds of space coming back. */
const RECOVERED_MS = 5000;

test('a full disk is 503 with Retry-After, and over within five seconds of space coming back', async () => {
  // What comes back must hold what the log of the database held back from it until now.
  const disk = await tinyDisk(160);
  const ballast = join(disk, 'ballast');
  await writeFile(ballast, Buffer.alloc(112 * MIB, 1));
  const world = await begin({
    database: { url: `sqlite:${join(disk, 'postern.db')}` },
    limits: { free_disk: '1B' }, // the low-water mark would hide what is tested here
  });
  await expectRecovery(world, () => rm(ballast));
});

test('a disk that fails to write is 503 with Retry-After, and over within five seconds of its recovery', async () => {
  const world = await begin({});
  limitFileSize(world.run, `${64 * 1024}`);
  await expectRecovery(world, () => limitFileSize(world.run, 'unlimited'));
});

interface World {
  readonly appliance: Appliance;
  readonly catcher: Catcher;
  readonly run: Run;
  readonly load: Load;
  /** No more files: what comes from here on is small. */
  stopFilling(): void;
}

/** A daemon under load. */
async function begin(server: Parameters<Appliance['configure']>[0]): Promise<World> {
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port, server });
  const run = await appliance.startVerified();
  let filling = true;
  const kind = (n: number): Kind => (filling && n % 3 === 0 ? 'file' : 'plain');
  const load = startLoad({ url: appliance.formUrl, connections: 4, kind });
  await until('some are accepted', () => load.accepted.size > 10);
  return { appliance, catcher, run, load, stopFilling: () => (filling = false) };
}

/** Waits until the disk makes trouble, ends that by `repair`, and waits until all is well. */
async function expectRecovery(world: World, repair: () => unknown): Promise<void> {
  const { appliance, run, load } = world;
  await until('posts are refused', () => load.refused.size > 20, 60_000);
  expect(await post(appliance)).toEqual({ status: 503, retryAfter: expect.stringMatching(/^[1-9]\d*$/) });
  expect((await appliance.admin('/healthz')).status).toBe(200);
  world.stopFilling();
  await repair();
  const { size } = load.accepted;
  await until('posts are accepted again', () => load.accepted.size > size + 10, RECOVERED_MS);
  await load.stop();
  await expectKept(world);
  expect(await run.end('SIGTERM')).toBe(0);
  expect(integrityOf(appliance)).toBe('ok');
}

async function expectKept({ appliance, catcher, load }: World): Promise<void> {
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 60_000);
  const arrived = catcher.mails.map(({ reference }) => reference);
  expect([...load.accepted].filter((reference) => !arrived.includes(reference))).toEqual([]);
  expect([...load.refused.keys()].filter((reference) => arrived.includes(reference))).toEqual([]);
  expect(new Set(load.refused.values())).toEqual(new Set([503]));
  expect(load.unanswered.size).toBe(0);
  expect(new Set(arrived).size).toBe(arrived.length);
}

async function post({ formUrl }: Appliance): Promise<{ status: number; retryAfter: string | null }> {
  const body = new URLSearchParams({ message: 'x'.repeat(20_000) });
  const { status, headers } = await fetch(formUrl, { method: 'POST', body, headers: { Accept: 'application/json' } });
  return { status, retryAfter: headers.get('retry-after') };
}

/** A file system of so many MiB, gone after the test. */
async function tinyDisk(mib: number): Promise<string> {
  const folder = join(await temporaryFolder(), 'disk');
  await mkdir(folder);
  // Needs root with the right to mount, as a machine has it and a container may.
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', folder]);
  onTestFinished(() => void execFileSync('umount', ['-l', folder]));
  return folder;
}

/** Writes beyond it fail with EFBIG (setrlimit(2)). */
function limitFileSize({ pid }: Run, bytes: string): void {
  execFileSync('prlimit', ['--pid', `${pid}`, `--fsize=${bytes}:`]);
}
