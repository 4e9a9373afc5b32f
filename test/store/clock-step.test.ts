/** After the wall clock was set back by an hour, nothing waits for it to come to where it was. */
import { describe, expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { longestWaits } from '../../src/queue/retry.ts';
import { insertBounce, claimBounce } from '../../src/store/inbound.ts';
import { claimDeliveries } from '../../src/store/leases.ts';
import { isClockBehind, pullBackDueTimes } from '../../src/store/clock-step.ts';
import { deferDelivery, deliveriesOfMessage } from '../../src/store/messages.ts';
import { findDestination, nextDueAt, pauseDestination } from '../../src/store/destinations.ts';
import { claimKey } from '../../src/store/idempotency.ts';
import type { Store } from '../../src/store/store.ts';
import { enqueueForWebhook } from '../../src/store/webhook-deliveries.ts';
import { insertWebhook } from '../../src/store/webhooks.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Where the clock was, and where it was set to. */
const BEFORE = Date.UTC(2026, 0, 1, 12);
const NOW = BEFORE - HOUR;
const TABLE = [5 * MINUTE, 2 * HOUR];

async function add(store: Store, more: { at?: number; sendAt?: number } = {}): Promise<string> {
  const { at = BEFORE, sendAt } = more;
  const source = sendAt === undefined ? {} : { send_at: sendAt };
  const { id, unit } = enqueue(newMessage('a@example.test', { source, sendAt }), at);
  await store.write(unit);
  return id;
}

/** Tries all that is due at `at`, and puts it off until `due`. */
async function tryOnce(store: Store, at: number, due: number, destination = 'example.test'): Promise<void> {
  const claim = { destination, now: at, owner: 'me', until: at + MINUTE, limit: 10 };
  const [{ rows }] = await store.write([claimDeliveries({ ...claim, delays: JSON.stringify(TABLE), last_delay: 1 })]);
  await store.write(
    rows.map(({ id, attempts }) => deferDelivery({ id, attempts, owner: 'me', reply: '451 later', due })),
  );
}

function pullBack(store: Store): Promise<void> {
  return pullBackDueTimes(store, {
    now: NOW,
    deliveries: longestWaits(TABLE),
    webhooks: longestWaits([2 * HOUR]),
    lease: MINUTE,
    bounce: 5 * MINUTE,
  });
}

async function dueOf(store: Store, message: string): Promise<number | null | undefined> {
  const [row] = await deliveriesOfMessage(store, message);
  return row?.next_attempt_at;
}

describe('mail', () => {
  test('what was not tried yet is due at once, and so is its destination', async () => {
    const store = await openTestStore();
    const message = await add(store);
    await pullBack(store);
    expect(await dueOf(store, message)).toBe(NOW);
    expect(await nextDueAt(store)).toBe(NOW);
  });

  test('what is to be sent at a certain time waits for that time', async () => {
    const store = await openTestStore();
    const message = await add(store, { sendAt: BEFORE + HOUR });
    await pullBack(store);
    expect(await dueOf(store, message)).toBe(BEFORE + HOUR);
    expect(await nextDueAt(store)).toBe(BEFORE + HOUR);
  });

  test('what was put off waits as long as the table says after so many tries, and no longer', async () => {
    const store = await openTestStore();
    const message = await add(store);
    await tryOnce(store, BEFORE, BEFORE + 5 * MINUTE);
    await pullBack(store);
    expect(await dueOf(store, message)).toBe(NOW + 5.5 * MINUTE);
    expect(await nextDueAt(store)).toBe(NOW + 5.5 * MINUTE);
  });

  test('a wait that the table allows stays as it is', async () => {
    const store = await openTestStore();
    const message = await add(store, { at: NOW });
    await tryOnce(store, NOW, NOW + 5 * MINUTE);
    await tryOnce(store, NOW + 5 * MINUTE, NOW + HOUR);
    await pullBack(store);
    expect(await dueOf(store, message)).toBe(NOW + HOUR);
  });

  test('a pause of a destination ends when the table says', async () => {
    const store = await openTestStore();
    await add(store);
    const pause = { name: 'example.test', failures: 5, pauses: 1, last_error: 'refused', line: 'again:ten_a' };
    await store.write([pauseDestination({ ...pause, paused_until: BEFORE + 5 * MINUTE })]);
    await pullBack(store);
    expect(await findDestination(store, 'example.test')).toMatchObject({
      paused_until: NOW + 5.5 * MINUTE,
      next_due_at: NOW + 5.5 * MINUTE,
    });
  });
});

test('a bounce that was about to be read is read', async () => {
  const store = await openTestStore();
  const row = { inbound: 'inb_1', message: 'msg_1', head: Buffer.from('x'), tries: 0 };
  await store.write([insertBounce({ ...row, due: BEFORE, created_at: BEFORE })]);
  await pullBack(store);
  expect(await claimBounce(store, { now: NOW, until: NOW + MINUTE })).toMatchObject({ inbound: 'inb_1' });
});

test('a webhook is told again after as long as its own table says', async () => {
  const store = await openTestStore();
  await store.write([
    insertWebhook({
      id: 'whk_1',
      tenant: 'tnt_operator',
      project: '',
      form: '',
      url: 'https://hooks.test/',
      events: '[]',
      description: '',
      secret: 'x',
      created_at: BEFORE,
    }),
    ...enqueueForWebhook(
      { id: 'whk_1', tenant: 'tnt_operator', url: 'https://hooks.test/', environment: 'live' },
      [{ id: 'whd_1', event: 'evt_1' }],
      BEFORE,
    ),
  ]);
  await tryOnce(store, BEFORE, BEFORE + 2 * HOUR, 'whk_1');
  await store.write(
    enqueueForWebhook(
      { id: 'whk_1', tenant: 'tnt_operator', url: 'https://hooks.test/', environment: 'live' },
      [{ id: 'whd_2', event: 'evt_2' }],
      BEFORE,
    ),
  );
  await pullBack(store);
  const rows = await store.read.selectFrom('deliveries').select(['id', 'next_attempt_at']).orderBy('id').execute();
  expect(rows).toEqual([
    { id: 'whd_1', next_attempt_at: NOW + (longestWaits([2 * HOUR])[0] ?? 0) },
    { id: 'whd_2', next_attempt_at: NOW },
  ]);
  expect(await store.read.selectFrom('webhooks').select(['starts_at', 'cursor']).execute()).toEqual([
    { starts_at: NOW, cursor: NOW },
  ]);
});

test('an idempotency key of a request that died may be used again', async () => {
  const store = await openTestStore();
  const claim = { scope: 's', key: 'k', hash: 'h' };
  await store.write([claimKey({ ...claim, now: BEFORE, expired: 0, abandoned: 0 })]);
  await pullBack(store);
  const [{ changes }] = await store.write([claimKey({ ...claim, now: NOW, expired: 0, abandoned: 0 })]);
  expect(changes).toBe(1);
});

test('records from the future tell that the clock was set back while no daemon ran', async () => {
  const store = await openTestStore();
  expect(await isClockBehind(store, NOW)).toBe(false);
  await add(store);
  expect(await isClockBehind(store, NOW)).toBe(true);
  expect(await isClockBehind(store, BEFORE)).toBe(false);
});
