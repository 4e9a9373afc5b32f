import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { alertsSince, forgetAlerts, mailWaitingSince, noteAlert } from '../../src/store/alerts.ts';
import { holdAmong } from '../../src/store/messages.ts';
import { setHeld } from '../../src/store/destinations.ts';
import { UnmetError } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';

test('an alert is noted once in its time, whoever is first', async () => {
  const store = await openTestStore();
  const note = (now: number) => store.write([noteAlert({ name: 'a', now, since: now - 100 }, 1)]);
  const both = await Promise.allSettled([note(1000), note(1000)]);
  expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  await expect(note(1099)).rejects.toThrow(UnmetError);
  expect(await alertsSince(store, 999)).toEqual(new Set(['a']));
  await note(1100);
  await store.write([forgetAlerts({ before: 1100 })]);
  expect(await alertsSince(store, 0)).toEqual(new Set());
});

test('mail that waits is counted by destination, the most first; what came later, and what is held, is not', async () => {
  const store = await openTestStore();
  async function queueMail(domain: string, count: number, at: number): Promise<void> {
    const recipients = Array.from({ length: count }, (_, i) => `a${i}@${domain}`);
    const message = { tenant: 'ten_a', kind: 'transactional', submission: null, domain: 'example.com' } as const;
    await store.write(enqueue({ ...message, source: {}, ttl: 1e9, recipients }, at).unit);
  }
  await queueMail('few.test', 1, 1000);
  await queueMail('many.test', 3, 1000);
  await queueMail('many.test', 3, 1001);
  await queueMail('held.test', 5, 1000);
  await queueMail('one-by-one.test', 5, 1000);
  await store.write([setHeld({ name: 'held.test', held: 1 })]);
  const rows = await store.read
    .selectFrom('deliveries')
    .select('id')
    .where('destination', '=', 'one-by-one.test')
    .execute();
  await store.write([holdAmong({ ids: rows.map(({ id }) => id) })]);
  expect(await mailWaitingSince(store, 1000, 10)).toEqual([
    { destination: 'many.test', count: 3, reply: null },
    { destination: 'few.test', count: 1, reply: null },
  ]);
  expect(await mailWaitingSince(store, 1000, 1)).toHaveLength(1);
});
