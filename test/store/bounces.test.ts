import { expect, test } from 'vitest';
import { claimBounce, deleteBounce, insertBounce, postponeBounce } from '../../src/store/inbound.ts';
import type { BounceRow } from '../../src/store/tables.ts';
import { UnmetError } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';

const row: BounceRow = {
  inbound: 'inb_1',
  message: 'msg_1',
  head: Buffer.from('From: x\r\n'),
  tries: 0,
  due: 1000,
  created_at: 1000,
};
const key = { inbound: 'inb_1', message: 'msg_1' };

test('a bounce is read by one at a time, again where reading never ended, and forgotten once', async () => {
  const store = await openTestStore();
  await store.write([insertBounce(row), insertBounce({ ...row, inbound: 'inb_2', due: 2000 })]);
  expect(await claimBounce(store, { now: 999, until: 5000 })).toBeUndefined();
  const claimed = await Promise.all([1, 2].map(() => claimBounce(store, { now: 1000, until: 5000 })));
  expect(claimed.flatMap((each) => (each === undefined ? [] : [[each.inbound, each.tries]]))).toEqual([['inb_1', 1]]);
  expect(Buffer.from(claimed.find((each) => each !== undefined)?.head ?? []).toString()).toBe('From: x\r\n');
  expect((await claimBounce(store, { now: 2000, until: 6000 }))?.inbound).toBe('inb_2');
  expect(await claimBounce(store, { now: 5000, until: 9000 })).toMatchObject({ ...key, tries: 2 });
  await store.write([postponeBounce({ ...key, due: 7000 })]);
  expect(await claimBounce(store, { now: 7000, until: 9000 })).toMatchObject({ inbound: 'inb_2', tries: 2 });
  expect(await claimBounce(store, { now: 7000, until: 9000 })).toMatchObject({ inbound: 'inb_1', tries: 1 });
  await store.write([deleteBounce(key, 1)]);
  await expect(store.write([deleteBounce(key, 1)])).rejects.toThrow(UnmetError);
});
