/** A disk that fails to sync a commit: what is said of it is true, also when the next thing is a crash. */
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createStore } from '../../src/store/database.ts';
import { needPackage, succeeds } from '../harness/debian.ts';
import { temporaryFolder } from '../harness/store.ts';

const HARNESS = join(import.meta.dirname, '../harness');

interface Said {
  readonly answer: string;
  /** What a store that is opened after the crash finds. */
  readonly names: readonly string[];
}

async function crashAfter(how: 'once' | 'always'): Promise<Said> {
  needPackage(() => succeeds('gcc', ['--version']), 'gcc libc6-dev');
  const folder = await temporaryFolder();
  const library = join(folder, 'fail-sync.so');
  execFileSync('gcc', ['-shared', '-fPIC', '-o', library, join(HARNESS, 'fail-sync.c'), '-ldl']);
  const path = join(folder, 'postern.db');
  const env = { ...process.env, LD_PRELOAD: library, FAIL_SYNC: join(folder, 'fail') };
  const { stdout, stderr, signal } = spawnSync(process.execPath, [join(HARNESS, 'unsynced.ts'), path, how], {
    env,
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (signal !== 'SIGKILL' || stdout === '') throw new Error(stderr);
  const store = await createStore(`sqlite:${path}`);
  const rows = await store.read.selectFrom('secrets').select('name').orderBy('name').execute();
  await store.close();
  return { answer: stdout.trim(), names: rows.map(({ name }) => name) };
}

test('where the next sync works, nothing of the refused unit is there after a crash', async () => {
  expect(await crashAfter('once')).toEqual({ answer: 'SQLITE_IOERR_FSYNC', names: ['before'] });
});

test('where it does not, nothing is promised: what is on the disk would only show in a power cut', async () => {
  expect(await crashAfter('always')).toEqual({ answer: 'OUTCOME_UNKNOWN', names: ['before'] });
});
