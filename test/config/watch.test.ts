import { expect, test, onTestFinished } from 'vitest';
import type { Clock } from '../../src/lib/clock.ts';
import { watchConfig } from '../../src/config/files.ts';
import { configFolder, SERVER } from './folder.ts';

/** A clock that tells when somebody sleeps on it, so that a test goes on exactly when a look round is over. */
function steppingClock(): Clock & { second(): Promise<void> } {
  let wake: (() => void) | undefined;
  let asleep = Promise.withResolvers<void>();
  return {
    now: () => 0,
    monotonic: () => 0,
    sleep: async (_, signal) =>
      new Promise((resolve) => {
        wake = resolve;
        signal?.addEventListener('abort', () => resolve(), { once: true });
        asleep.resolve();
      }),
    async second() {
      await asleep.promise;
      asleep = Promise.withResolvers();
      wake?.();
      await asleep.promise;
    },
  };
}

async function watched(files: Readonly<Record<string, string>> = {}) {
  const folder = await configFolder(files);
  const clock = steppingClock();
  const stop = new AbortController();
  const state = { reloads: 0, enabled: true };
  const done = watchConfig({
    file: folder.server,
    clock,
    signal: stop.signal,
    enabled: () => state.enabled,
    reload: async () => {
      state.reloads++;
    },
  });
  onTestFinished(async () => {
    stop.abort();
    await done;
  });
  await clock.second();
  return { folder, clock, state, stop, done };
}

test('a saved file is reloaded once it has been quiet for a second', async () => {
  const { folder, clock, state } = await watched();
  await folder.write('server.yml', `${SERVER}# 1\n`);
  await clock.second();
  await folder.write('server.yml', `${SERVER}# 1, 2\n`);
  await clock.second();
  expect(state.reloads).toBe(0);
  await clock.second();
  expect(state.reloads).toBe(1);
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(1);
});

test('new and removed projects count, other files do not', async () => {
  const { folder, clock, state } = await watched({ 'projects/a.yml': 'a' });
  await folder.write('projects/notes.txt', 'x');
  await folder.write('projects/.a.yml.swp', 'x');
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(0);
  await folder.write('projects/b.yml', 'b');
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(1);
  await folder.remove('projects/a.yml');
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(2);
});

test('nothing is reloaded while server.watch is off', async () => {
  const { folder, clock, state } = await watched();
  state.enabled = false;
  await folder.write('server.yml', `${SERVER}# 1\n`);
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(0);
  state.enabled = true;
  await folder.write('server.yml', `${SERVER}# 1, 2\n`);
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(1);
});

test('a missing folder is waited for', async () => {
  const { folder, clock, state } = await watched();
  await folder.remove('server.yml');
  await clock.second();
  await clock.second();
  expect(state.reloads).toBe(1);
});

test('it ends when it is told to', async () => {
  const { stop, done } = await watched();
  stop.abort();
  await expect(done).resolves.toBeUndefined();
});
