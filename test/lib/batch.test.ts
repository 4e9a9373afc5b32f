import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { TurnBatch } from '../../src/lib/batch.ts';

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
