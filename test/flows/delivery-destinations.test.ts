/** A destination that fails is left alone as a whole, and nobody else notices. */
import { describe, expect, test } from 'vitest';
import { cancel, hold, listDeliveries, release, retryNow } from '../../src/queue/operate.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { findDestination } from '../../src/store/destinations.ts';
import { mailDomain, newMessage, startQueue, type TestQueue } from '../harness/queue.ts';
import { HANG, startSmtpPeer } from '../harness/smtp-peer.ts';

const MINUTE = 60_000;
const TABLE = { retry: ['5m', '10m', '20m', '40m', '1h'] };

async function sendMany({ store, clock }: TestQueue, count: number, domain: string): Promise<void> {
  const messages = Array.from({ length: count }, (_, i) => enqueue(newMessage(`u${i}@${domain}`), clock.now()));
  await Promise.all(messages.map(({ unit }) => store.write(unit)));
}

function attemptCount({ store }: TestQueue): Promise<number> {
  return store.read
    .selectFrom('attempts')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
    .then(({ count }) => count);
}

test.each(['down', 'hanging'] as const)(
  'a thousand messages for a %s destination delay none of a thousand for a healthy one',
  async (kind) => {
    const healthy = await startSmtpPeer();
    const dead = await startSmtpPeer({ address: '127.0.0.2', port: healthy.port, script: { greeting: HANG } });
    if (kind === 'down') await dead.down();
    const records = [...mailDomain('dead.test', '127.0.0.2'), ...mailDomain('healthy.test')];
    const queue = await startQueue({ records, port: healthy.port });
    await sendMany(queue, 1000, 'dead.test');
    await sendMany(queue, 1000, 'healthy.test');
    queue.worker.wake();
    await expect.poll(() => healthy.messages.length).toBe(1000);
    expect(new Set(healthy.messages.map(({ to }) => to[0])).size).toBe(1000);
    expect(healthy.connections().total).toBeLessThanOrEqual(20);
    expect(dead.connections().total).toBeLessThanOrEqual(2);
    // What failed was tried; the rest was not touched.
    expect(
      (await listDeliveries(queue.store, { destination: 'dead.test', state: 'deferred', limit: 2000 })).deliveries
        .length,
    ).toBeLessThanOrEqual(2);
  },
);

describe('a destination that cannot be reached', () => {
  test('is tried once at each time of the table, however much waits for it, and then gets everything', async () => {
    const peer = await startSmtpPeer();
    await peer.down();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, delivery: TABLE });
    const { clock, store } = queue;
    await sendMany(queue, 50, 'example.test');
    queue.worker.wake();
    const start = clock.now();
    const pauses: number[] = [];
    for (let failures = 1; failures <= 5; failures++) {
      await expect.poll(async () => (await findDestination(store, 'example.test'))?.failures).toBe(failures);
      const row = await findDestination(store, 'example.test');
      expect(row).toMatchObject({ next_due_at: row?.paused_until, last_error: expect.stringContaining('421 4.4.1') });
      pauses.push((row?.paused_until ?? 0) - clock.now());
      await expect.poll(() => queue.worker.progress().claimed).toBe(0);
      if (failures === 5) await peer.up();
      queue.pass((row?.paused_until ?? 0) - clock.now());
    }
    expect(pauses.map((ms) => ms / MINUTE)).toEqual([1, 5, 10, 20, 40]);
    // The first look may have dialled twice; each later one is a single probe.
    expect(await attemptCount(queue)).toBeLessThanOrEqual(8);
    await expect.poll(() => peer.messages.length).toBe(50);
    expect(await findDestination(store, 'example.test')).toMatchObject({ failures: 0, pauses: 0, paused_until: null });
    expect(clock.now() - start).toBe(76 * MINUTE);
  });

  test('is probed by new mail, until it has failed five times in a row', async () => {
    const peer = await startSmtpPeer();
    await peer.down();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, delivery: TABLE });
    const start = queue.clock.now();
    for (let failures = 1; failures <= 5; failures++) {
      await queue.reaches(await queue.send(`u${failures}@example.test`), 'deferred');
      // Probes do not make the pause longer.
      expect(await findDestination(queue.store, 'example.test')).toMatchObject({
        failures,
        paused_until: start + MINUTE,
      });
    }
    const sixth = await queue.send('u6@example.test');
    await new Promise((resolve) => {
      setTimeout(resolve, 50);
    });
    expect(await queue.deliveries(sixth)).toMatchObject({ 'u6@example.test': { state: 'queued', attempts: 0 } });
    await peer.up();
    queue.pass(MINUTE);
    await queue.reaches(sixth, 'delivered');
    await expect.poll(() => peer.messages.length).toBe(6);
  });

  test('makes mail expire in the end, tried or not, with one event each', async () => {
    const peer = await startSmtpPeer();
    await peer.down();
    const queue = await startQueue({
      records: mailDomain('example.test'),
      port: peer.port,
      delivery: { retry: ['1h'] },
    });
    const first = await queue.send('tried@example.test', { ttl: 90 * MINUTE });
    await queue.reaches(first, 'deferred');
    for (let i = 0; i < 6; i++) {
      const probe = await queue.send(`probe${i}@example.test`);
      if (i < 4) await queue.reaches(probe, 'deferred');
    }
    const second = await queue.send('waiting@example.test', { ttl: 90 * MINUTE });
    for (let i = 0; i < 19; i++) {
      queue.pass(5 * MINUTE);
      await expect.poll(() => queue.worker.progress().lookedAt).toBe(queue.clock.now());
    }
    const { tries } = await queue.reaches(first, 'expired');
    expect(tries.at(-1)).toMatchObject({
      outcome: 'expired',
      reply: expect.stringContaining('550 4.4.7 given up after'),
    });
    expect((await queue.events(first)).filter((type) => type === 'email.bounced').length).toBe(1);
    await queue.reaches(second, 'expired');
    expect((await queue.events(second)).filter((type) => type === 'email.bounced').length).toBe(1);
  });
});

describe('the operator', () => {
  test('holds a destination, and releases it', async () => {
    const peer = await startSmtpPeer();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    await hold(queue.store, 'example.test');
    const message = await queue.send('you@example.test', { ttl: 60 * MINUTE });
    queue.pass(120 * MINUTE);
    await expect.poll(() => queue.worker.progress().lookedAt).toBe(queue.clock.now());
    expect(await queue.deliveries(message)).toMatchObject({ 'you@example.test': { state: 'queued' } });
    await release(queue.store, 'example.test');
    queue.worker.wake();
    await queue.reaches(message, 'delivered');
  });

  test('has something tried now, in the middle of a pause', async () => {
    const peer = await startSmtpPeer();
    await peer.down();
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const message = await queue.send('you@example.test');
    await queue.reaches(message, 'deferred');
    await peer.up();
    const { id } = (await queue.deliveries(message))['you@example.test'] ?? {};
    expect(await retryNow(queue.store, message, queue.clock.now())).toEqual({
      kind: 'done',
      deliveries: [id],
      held: [],
    });
    queue.worker.wake();
    await queue.reaches(message, 'delivered');
    expect(await retryNow(queue.store, message, queue.clock.now())).toEqual({
      kind: 'not-waiting',
      states: ['delivered'],
    });
    expect(await retryNow(queue.store, 'msg_none', queue.clock.now())).toEqual({ kind: 'unknown' });
  });

  test('cancels one delivery of a message, or all', async () => {
    const queue = await startQueue();
    await hold(queue.store, 'example.test');
    const message = await queue.send(['a@example.test', 'b@example.test', 'c@example.test']);
    const { 'b@example.test': b } = await queue.deliveries(message);
    expect(await cancel(queue.store, b?.id ?? '', queue.clock.now())).toEqual({
      kind: 'done',
      deliveries: [b?.id],
      held: ['example.test'],
    });
    const all = await cancel(queue.store, message, queue.clock.now());
    expect(all).toMatchObject({ kind: 'done', deliveries: { length: 2 } });
    await queue.reaches(message, 'cancelled');
    await release(queue.store, 'example.test');
    expect(await findDestination(queue.store, 'example.test')).toMatchObject({ next_due_at: null });
  });

  test('pages through the queue', async () => {
    const queue = await startQueue();
    await hold(queue.store, 'example.test');
    await sendMany(queue, 5, 'example.test');
    const seen: string[] = [];
    let next: string | null | undefined;
    do {
      const page = await listDeliveries(queue.store, {
        state: 'queued',
        destination: 'example.test',
        limit: 2,
        ...(next === undefined || next === null ? {} : { before: next }),
      });
      expect(page.deliveries.length).toBeLessThanOrEqual(2);
      seen.push(...page.deliveries.map(({ id }) => id));
      next = page.next;
    } while (next !== null);
    expect(new Set(seen).size).toBe(5);
    expect(seen).toEqual(seen.toSorted().toReversed());
  });
});
