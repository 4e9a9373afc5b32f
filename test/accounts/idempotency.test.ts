import { expect, test } from 'vitest';
import { Idempotency, type Claim } from '../../src/accounts/idempotency.ts';
import { recordEvent } from '../../src/store/events.ts';
import { UnmetError } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const form = 'form example.com/contact';
const answer = { status: 200, response: '{"success":true}' };

async function claimOf(keys: Idempotency, hash = 'h1'): Promise<Claim> {
  const begun = await keys.begin(form, 'k', hash);
  if (begun.kind !== 'new') throw new Error(`expected a new request, not ${begun.kind}`);
  return begun.claim;
}

test('the same key with the same body is answered the same for 24 hours, another body is a conflict', async () => {
  const clock = testClock();
  const keys = new Idempotency({ store: await openTestStore(), clock });
  await keys.finish(await claimOf(keys), answer);
  expect(await keys.begin(form, 'k', 'h1')).toEqual({ kind: 'replay', ...answer });
  expect(await keys.begin(form, 'k', 'h2')).toEqual({ kind: 'conflict', reason: 'other body' });
  expect(await keys.begin('form example.com/other', 'k', 'h2')).toMatchObject({ kind: 'new' });
  clock.advance(86_399_000);
  expect(await keys.begin(form, 'k', 'h1')).toMatchObject({ kind: 'replay' });
  clock.advance(1000);
  expect(await keys.begin(form, 'k', 'h2')).toMatchObject({ kind: 'new' });
});

test('of many requests at once one is new and the others are told that it is in progress', async () => {
  const keys = new Idempotency({ store: await openTestStore(), clock: testClock() });
  const begun = await Promise.all(Array.from({ length: 8 }, () => keys.begin(form, 'k', 'h1')));
  expect(begun.filter(({ kind }) => kind === 'new').length).toBe(1);
  expect(begun.filter(({ kind }) => kind === 'conflict')).toEqual(
    Array.from({ length: 7 }, () => ({ kind: 'conflict', reason: 'in progress' })),
  );
});

test.each([429, 500, 503])('an answer %i is not stored: the client may try again', async (status) => {
  const keys = new Idempotency({ store: await openTestStore(), clock: testClock() });
  await keys.finish(await claimOf(keys), { status, response: '' });
  await keys.finish(await claimOf(keys, 'another body'), answer);
  expect(await keys.begin(form, 'k', 'another body')).toMatchObject({ kind: 'replay' });
});

test('the answer commits with what it tells of, or neither does', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keys = new Idempotency({ store, clock });
  const claim = await claimOf(keys);
  await store.write([
    recordEvent({ type: 'submission.accepted', tenant: 't', at: clock.now(), data: {} }),
    keys.answer(claim, answer),
  ]);
  expect(await keys.begin(form, 'k', 'h1')).toEqual({ kind: 'replay', ...answer });
});

test('a request that died blocks its key for a minute; one that was merely slow then changes nothing any more', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keys = new Idempotency({ store, clock });
  const slow = await claimOf(keys);
  clock.advance(59_000);
  expect(await keys.begin(form, 'k', 'h1')).toEqual({ kind: 'conflict', reason: 'in progress' });
  clock.advance(1000);
  const second = await claimOf(keys);

  const event = recordEvent({ type: 'submission.accepted', tenant: 't', at: clock.now(), data: {} });
  await expect(store.write([event, keys.answer(slow, answer)])).rejects.toThrow(UnmetError);
  await keys.release(slow);
  expect(await keys.begin(form, 'k', 'h1')).toEqual({ kind: 'conflict', reason: 'in progress' });
  await store.write([event, keys.answer(second, answer)]);
  expect(await store.read.selectFrom('events').selectAll().execute()).toHaveLength(1);
});

test('a new process takes over at once what the last one left, where there is only one', async () => {
  const store = await openTestStore();
  const clock = testClock();
  await claimOf(new Idempotency({ store, clock }));
  clock.advance(10);
  const restarted = new Idempotency({ store, clock });
  const begun = await restarted.begin(form, 'k', 'h1');
  expect(begun.kind).toBe(store.dialect === 'sqlite' ? 'new' : 'conflict');
});

test('answers of an earlier process are kept, and swept when they are a day old', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keys = new Idempotency({ store, clock });
  await keys.finish(await claimOf(keys), answer);
  clock.advance(10);
  const restarted = new Idempotency({ store, clock });
  expect(await restarted.begin(form, 'k', 'h1')).toMatchObject({ kind: 'replay' });
  await restarted.sweep();
  expect(await store.read.selectFrom('idempotency_keys').selectAll().execute()).toHaveLength(1);
  clock.advance(86_400_000);
  await restarted.sweep();
  expect(await store.read.selectFrom('idempotency_keys').selectAll().execute()).toHaveLength(0);
});
