import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { stepByStep, TurnBatch } from '../../src/lib/batch.ts';
import { systemClock } from '../../src/lib/clock.ts';

test('what is added in one turn goes together, the next turn on its own', async () => {
  const flushed: number[][] = [];
  const batch = new TurnBatch<number>((items) => flushed.push(items));
  batch.add(1);
  batch.add(2);
  await turn();
  batch.add(3);
  await turn();
  await turn();
  expect(flushed).toEqual([[1, 2], [3]]);
});

test('many do not wait for the end of the turn', async () => {
  const flushed: number[][] = [];
  const batch = new TurnBatch<number>((items) => flushed.push(items), 2);
  for (const item of [1, 2, 3, 4, 5]) batch.add(item);
  expect(flushed).toEqual([
    [1, 2],
    [3, 4],
  ]);
  await turn();
  expect(flushed).toEqual([[1, 2], [3, 4], [5]]);
});

test('work that can wait leaves others three quarters of the time', async () => {
  let monotonic = 0;
  let slept = 0;
  const clock = {
    ...systemClock,
    monotonic: () => monotonic,
    sleep(ms: number) {
      slept += ms;
      return Promise.resolve();
    },
  };
  let left = 5;
  await stepByStep({ clock, rest: 3 }, () => {
    monotonic += 10;
    return Promise.resolve(--left > 0);
  });
  expect([left, monotonic, slept]).toEqual([0, 50, 120]);
});
