/** What waits for each destination, counted on SQLite and on PostgreSQL. */
import { expect, test } from 'vitest';
import { hold } from '../../src/queue/operate.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { createWaitingMail } from '../../src/queue/waiting.ts';
import { pauseDestination } from '../../src/store/destinations.ts';
import type { Store } from '../../src/store/store.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import { waitingAfter, waitingDetails, waitingOf } from '../../src/store/waiting.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 15);

async function open(): Promise<Store> {
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', NOW);
  return store;
}

async function send(store: Store, now: number, ...domains: string[]): Promise<void> {
  for (const domain of domains) {
    const mail = { tenant: OPERATOR, to: `ada@${domain}`, subject: 'Hello', text: 'Hello' };
    await store.write(systemMail(mail, 'mail.example.net', now));
  }
}

test('destinations come in the order of their names, so many at a time, with no more counted than asked', async () => {
  const store = await open();
  await send(store, NOW, 'b.test', 'a.test', 'c.test', 'c.test', 'c.test');
  expect(await waitingAfter(store, { after: '', limit: 2, most: 2 })).toEqual([
    { name: 'a.test', waiting: 1 },
    { name: 'b.test', waiting: 1 },
  ]);
  expect(await waitingAfter(store, { after: 'b.test', limit: 2, most: 2 })).toEqual([{ name: 'c.test', waiting: 2 }]);
  expect(await waitingAfter(store, { after: 'c.test', limit: 2, most: 2 })).toEqual([]);
  expect(await waitingOf(store, { names: ['c.test', 'z.test'], most: 10 })).toEqual([{ name: 'c.test', waiting: 3 }]);
});

test('what is known of a destination: its oldest, its next try, its pause', async () => {
  const store = await open();
  await send(store, NOW, 'a.test');
  await send(store, NOW + 1000, 'a.test', 'b.test');
  await hold(store, 'b.test');
  const pause = { name: 'a.test', failures: 3, pauses: 1, last_error: 'refused', line: '', paused_until: NOW + 5000 };
  await store.write([pauseDestination(pause)]);
  const details = (await waitingDetails(store, ['a.test', 'b.test'])).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  expect(details).toEqual([
    {
      name: 'a.test',
      held: 0,
      failures: 3,
      paused_until: NOW + 5000,
      last_error: 'refused',
      oldest: NOW,
      next: NOW,
      last_reply: null,
    },
    expect.objectContaining({ name: 'b.test', held: 1, oldest: NOW + 1000, next: NOW + 1000 }),
  ]);
});

test('whoever asks waits for a moment only, and many ask once', async () => {
  const store = await open();
  const clock = testClock(NOW);
  await send(store, NOW, ...Array.from({ length: 150 }, (_, i) => `d${i}.test`));
  let asked = 0;
  const counting = {
    ...store,
    select: (statement: Parameters<Store['select']>[0]) => {
      asked++;
      return store.select(statement);
    },
  } as Store;
  // The first part is there; the second never is, because this clock stands still.
  const stuck = createWaitingMail({
    store: counting,
    clock: { ...clock, sleep: (ms) => (ms === 0 ? new Promise(() => undefined) : clock.sleep(ms)) },
  });
  const both = Promise.all([stuck.read(), stuck.read()]);
  await expect.poll(() => asked).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  clock.advance(100);
  const [first, second] = await both;
  expect([first.complete, first.count, second.count, asked]).toEqual([false, 100, 100, 1]);
});

test('a count is kept the longer the more it cost, and is of all destinations', async () => {
  const store = await open();
  const clock = testClock(NOW);
  await send(store, NOW, ...Array.from({ length: 101 }, (_, i) => `d${i}.test`));
  // The turn that others get takes a tenth of a second.
  const waiting = createWaitingMail({
    store,
    clock: { ...clock, sleep: (ms) => (ms === 0 ? Promise.resolve(clock.advance(100)) : clock.sleep(ms)) },
  });
  await waiting.read();
  await expect.poll(async () => (await waiting.read()).complete).toBe(true);
  await send(store, NOW, 'new.test');
  expect(await waiting.read()).toMatchObject({ count: 101, complete: true });
  clock.advance(10_000);
  await waiting.read();
  await expect.poll(async () => (await waiting.read()).count).toBe(102);
});
