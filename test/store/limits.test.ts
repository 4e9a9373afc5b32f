import { expect, test } from 'vitest';
import { dropOldSlices, lockBucket, saveSlice, slicesOf, takeSlice } from '../../src/store/limits.ts';
import { openTestStore } from '../harness/store.ts';

const window = { bucket: 'a', since: 0, max: 5 };

test('places are taken atomically across slices, and one given back can be taken again', async () => {
  const store = await openTestStore();
  const taken = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const take = takeSlice({ ...window, slice: i < 3 ? 10 : 20 });
      const results = await store.write(store.dialect === 'sqlite' ? [take] : [lockBucket(window), take]);
      return results.at(-1)?.changes;
    }),
  );
  expect(taken.filter((changes) => changes === 1).length).toBe(5);
  const { count = 0 } = (await store.select(slicesOf(window))).find(({ starts_at }) => starts_at === 20) ?? {};
  await store.write([saveSlice({ bucket: 'a', starts_at: 20, count: count - 1 })]);
  const [first, second, slices] = await store.write([
    takeSlice({ ...window, slice: 30 }),
    takeSlice({ ...window, slice: 30 }),
    slicesOf(window),
  ]);
  expect([first.changes, second.changes]).toEqual([1, 0]);
  expect(slices.rows.map(({ starts_at }) => starts_at)).toEqual([10, 20, 30]);
  expect(slices.rows.reduce((sum, { count }) => sum + count, 0)).toBe(5);
});

test('slices outside the window do not count', async () => {
  const store = await openTestStore();
  await store.write([
    saveSlice({ bucket: 'a', starts_at: 10, count: 5 }),
    saveSlice({ bucket: 'b', starts_at: 20, count: 5 }),
  ]);
  const [inside] = await store.write([takeSlice({ ...window, slice: 30, since: 9 })]);
  const [outside] = await store.write([takeSlice({ ...window, slice: 30, since: 10 })]);
  expect([inside.changes, outside.changes]).toEqual([0, 1]);
});

test('slices are saved, replaced and dropped', async () => {
  const store = await openTestStore();
  for (const [starts_at, count] of [
    [10, 1],
    [20, 1],
    [20, 7],
    [30, 2],
  ] as const) {
    await store.write([saveSlice({ bucket: 'a', starts_at, count })]);
  }
  expect(await store.select(slicesOf({ bucket: 'a', since: 10 }))).toEqual([
    { starts_at: 20, count: 7 },
    { starts_at: 30, count: 2 },
  ]);
  await store.write([saveSlice({ bucket: 'b:1', starts_at: 5, count: 1 }), dropOldSlices({ of: 'a%', before: 20 })]);
  expect(await store.select(slicesOf({ bucket: 'a', since: 0 }))).toEqual([{ starts_at: 30, count: 2 }]);
  expect(await store.select(slicesOf({ bucket: 'b:1', since: 0 }))).toHaveLength(1);
});
