/** Threads that let others go first. */
import { once } from 'node:events';
import { constants, getPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { putBehind } from '../../src/lib/nice.ts';
import { threadsOf } from '../harness/threads.ts';

test.runIf(process.platform === 'linux')('the threads of a name go behind, and no others', async () => {
  for (const name of ['behind', 'ahead']) {
    const thread = new Worker('setInterval(() => {}, 1000)', { eval: true, name });
    onTestFinished(async () => void (await thread.terminate()));
    await once(thread, 'online');
  }
  const before = others();
  putBehind(['behind'], silentLog);
  const priorities = threadsOf('self').map(({ id, name }) => [name, getPriority(id)] as const);
  const { PRIORITY_LOW, PRIORITY_NORMAL } = constants.priority;
  expect(priorities.filter(([name]) => name === 'behind')).toEqual([['behind', expect.toSatisfy(isBetween)]]);
  expect(others()).toEqual(before);

  function others(): (readonly [number, number])[] {
    return threadsOf('self').flatMap(({ id, name }) => (name === 'behind' ? [] : [[id, getPriority(id)] as const]));
  }

  function isBetween(priority: number): boolean {
    return priority > PRIORITY_NORMAL && priority < PRIORITY_LOW;
  }
});
