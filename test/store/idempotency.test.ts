import { expect, test } from 'vitest';
import { answerKey, claimKey, findKey, forgetKeys, releaseKey } from '../../src/store/idempotency.ts';
import { openTestStore } from '../harness/store.ts';

const key = { scope: 's', key: 'k' };
const claim = { ...key, hash: 'h', now: 100, expired: 0, abandoned: 40 };

test('a key is claimed once, answered once and then stays as it is', async () => {
  const store = await openTestStore();
  const [claimed, again] = await store.write([claimKey(claim), claimKey({ ...claim, now: 101 })]);
  expect([claimed.changes, again.changes]).toEqual([1, 0]);
  const answer = { ...key, status: 200, response: 'ok' };
  const [stranger, ours, twice] = await store.write([
    answerKey({ ...answer, created_at: 99 }),
    answerKey({ ...answer, created_at: 100 }),
    answerKey({ ...answer, created_at: 100, status: 400 }),
  ]);
  expect([stranger.changes, ours.changes, twice.changes]).toEqual([0, 1, 0]);
  const [late, released] = await store.write([
    claimKey({ ...claim, now: 1000, abandoned: 500 }),
    releaseKey({ ...key, created_at: 100 }),
  ]);
  expect([late.changes, released.changes]).toEqual([0, 0]);
  expect(await findKey(store, 's', 'k')).toEqual({ ...key, hash: 'h', status: 200, response: 'ok', created_at: 100 });
});

test('an abandoned claim is taken over, an expired answer replaced', async () => {
  const store = await openTestStore();
  const [, taken] = await store.write([claimKey(claim), claimKey({ ...claim, hash: 'h2', now: 200, abandoned: 100 })]);
  expect(taken.changes).toBe(1);
  const [, replaced] = await store.write([
    answerKey({ ...key, status: 200, response: 'ok', created_at: 200 }),
    claimKey({ ...claim, hash: 'h3', now: 300, expired: 200 }),
  ]);
  expect(replaced.changes).toBe(1);
  expect(await findKey(store, 's', 'k')).toMatchObject({ hash: 'h3', status: 0, response: '', created_at: 300 });
  await store.write([releaseKey({ ...key, created_at: 300 })]);
  expect(await findKey(store, 's', 'k')).toBeUndefined();
  await store.write([claimKey(claim)]);
  await store.write([forgetKeys({ before: 101 })]);
  expect(await findKey(store, 's', 'k')).toBeUndefined();
});
