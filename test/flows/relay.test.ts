/** A smarthost that fails makes all mail wait, blames no destination and bounces nothing; what it says of a recipient counts. */
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { retryNow } from '../../src/queue/operate.ts';
import { relayAlert } from '../../src/smtp/alerts.ts';
import { findDestination, relayPause } from '../../src/store/destinations.ts';
import { configOf, mailDomain, startQueue, type QueueOptions, type TestQueue } from '../harness/queue.ts';
import { CLOSE, startSmtpPeer, type PeerScript, type SmtpPeer } from '../harness/smtp-peer.ts';

const MINUTE = 60_000;

async function withRelay(
  script: PeerScript = {},
  more: { readonly features?: readonly string[]; readonly delivery?: object; readonly options?: QueueOptions } = {},
): Promise<TestQueue & { readonly peer: SmtpPeer }> {
  const peer = await startSmtpPeer({ script, features: more.features ?? ['PIPELINING', 'STARTTLS', 'AUTH PLAIN'] });
  const relay = { host: '127.0.0.1', port: peer.port, user: 'joe', password: 'secret', tls: 'opportunistic' };
  const queue = await startQueue({
    ...more.options,
    delivery: { relay, retry: ['5m', '10m', '1h'], ...more.delivery },
  });
  return { ...queue, peer };
}

function pauseOf({ store, clock }: TestQueue) {
  return relayPause(store, clock.now());
}

/** So that what would be done wrongly has the time to be done. */
async function look({ worker }: TestQueue): Promise<void> {
  worker.wake();
  await setTimeout(50);
}

describe('what the smarthost says of itself', () => {
  test.each<[string, PeerScript, string]>([
    ['hangs up at once', { greeting: CLOSE }, '421 4.4'],
    ['refuses in its greeting', { greeting: '554 5.3.2 not you' }, '554 5.3.2'],
    ['refuses EHLO and HELO', { ehlo: '550 5.7.1 no', helo: '550 5.7.1 no' }, '550 5.7.1'],
    ['refuses STARTTLS and the password in clear text', { starttls: '454 4.7.0 no', auth: '538 5.7.11 no' }, '538'],
    ['refuses the password', { auth: '535 5.7.8 wrong password' }, '535 5.7.8'],
    ['wants another mechanism', { auth: '534 5.7.9 too weak' }, '534 5.7.9'],
    ['cannot check the password', { auth: '454 4.7.0 try later' }, '454 4.7.0'],
    ['wants a password at MAIL', { mail: '530 5.7.0 authentication required' }, '530 5.7.0'],
    ['wants a password at RCPT', { rcpt: '530 5.7.0 authentication required' }, '530 5.7.0'],
    ['shuts down', { mail: { reply: '421 4.3.2 shutting down', thenClose: true } }, '421 4.3.2'],
  ])('one that %s is paused, and nothing bounces', async (_, script, reply) => {
    const queue = await withRelay(script);
    const message = await queue.send('a@first.test');
    const { last_reply } = await queue.reaches(message, 'deferred');
    expect(last_reply).toContain(reply);
    expect(await pauseOf(queue)).toMatchObject({ until: queue.clock.now() + MINUTE, failures: 1 });
    expect((await findDestination(queue.store, 'first.test'))?.failures).toBe(0);
    expect(await queue.events(message)).toEqual(['email.deferred', 'email.queued']);

    // Nobody else asks it before the pause is over.
    const asked = queue.peer.connections().total;
    const other = await queue.send('b@second.test');
    await look(queue);
    expect(queue.peer.connections().total).toBe(asked);
    expect(Object.values(await queue.deliveries(other))).toMatchObject([{ state: 'queued', attempts: 0 }]);

    queue.peer.script({});
    queue.pass(MINUTE);
    await queue.reaches(message, 'delivered');
    await queue.reaches(other, 'delivered');
    expect(await pauseOf(queue)).toBeUndefined();
  });

  test('one message finds out whether it is back, and the pauses are short ones', async () => {
    const queue = await withRelay({ auth: '535 5.7.8 wrong password' });
    const messages = [];
    for (let i = 0; i < 10; i++) messages.push(await queue.send(`u${i}@d${i}.test`));
    const pauses: number[] = [];
    for (let failures = 1; failures <= 5; failures++) {
      await expect.poll(async () => (await pauseOf(queue))?.failures).toBeGreaterThanOrEqual(failures);
      await expect.poll(() => queue.worker.progress().claimed).toBe(0);
      const before = queue.peer.connections().total;
      const until = (await pauseOf(queue))?.until ?? 0;
      pauses.push((until - queue.clock.now()) / MINUTE);
      queue.pass(until - queue.clock.now());
      if (failures > 1) continue;
      await expect.poll(async () => (await pauseOf(queue))?.failures ?? 0).toBeGreaterThan(failures);
      expect(queue.peer.connections().total).toBe(before + 1);
    }
    expect(pauses).toEqual([1, 5, 10, 15, 15]);
  });

  test('a sender that it refuses waits alone; where it refuses each, it is the smarthost that fails', async () => {
    const queue = await withRelay({
      mail: ({ line }) => (line.includes('<>') ? '550 5.7.1 no such sender' : undefined),
    });
    const good = await queue.send('a@example.test');
    await queue.reaches(good, 'delivered');
    queue.peer.script({ mail: '553 5.7.1 sender address rejected' });
    const first = await queue.send('b@example.test');
    await queue.reaches(first, 'deferred');
    expect(await pauseOf(queue)).toBeUndefined();
    const second = await queue.send('c@other.test');
    expect((await queue.reaches(second, 'deferred')).last_reply).toContain('553 5.7.1');
    expect(await pauseOf(queue)).toMatchObject({ failures: 1 });
  });

  test('a route of a destination goes on without it', async () => {
    const peer = await startSmtpPeer();
    const queue = await withRelay(
      { auth: '535 5.7.8 wrong password' },
      { delivery: { routes: { 'inside.test': `127.0.0.1:${peer.port}` } } },
    );
    await queue.reaches(await queue.send('a@example.test'), 'deferred');
    await queue.reaches(await queue.send('b@inside.test'), 'delivered');
    expect(await pauseOf(queue)).toBeDefined();
  });

  test('the operator ends the pause by a retry', async () => {
    const queue = await withRelay({ auth: '535 5.7.8 wrong password' });
    const message = await queue.send('a@example.test');
    await queue.reaches(message, 'deferred');
    queue.peer.script({});
    await retryNow(queue.store, message, queue.clock.now());
    queue.worker.wake();
    expect(await queue.reaches(message, 'delivered')).toMatchObject({ attempts: 2 });
  });
});

describe('what it says of a recipient or a message counts', () => {
  test.each<[string, PeerScript, 'bounced' | 'deferred']>([
    ['an unknown recipient', { rcpt: '550 5.1.1 no such user' }, 'bounced'],
    ['a recipient to try later', { rcpt: '450 4.2.1 mailbox busy' }, 'deferred'],
    ['a message that is spam', { final: '554 5.7.1 spam' }, 'bounced'],
    ['a message to try later', { final: '451 4.3.0 later' }, 'deferred'],
    ['a message that is too large', { mail: '552 5.3.4 too large' }, 'bounced'],
  ])('%s', async (_, script, state) => {
    const queue = await withRelay(script);
    await queue.reaches(await queue.send('a@example.test'), state);
    expect(await pauseOf(queue)).toBeUndefined();
    queue.peer.script({});
    await queue.reaches(await queue.send('b@other.test'), 'delivered');
  });
});

test('the operator is told with the second pause in a row, once a day', async () => {
  const queue = await startQueue({ records: mailDomain('example.test') });
  const parts = { store: queue.store, config: configOf({ delivery: { relay: 'smtp://u:p@smtp.example.net' } }) };
  const pause = { reply: '535 5.7.8 wrong password', until: queue.clock.now() + MINUTE, at: queue.clock.now() };
  const mails = queue.store.read
    .selectFrom('messages')
    .innerJoin('deliveries', 'deliveries.message', 'messages.id')
    .select(['messages.source', 'deliveries.recipient as recipients']);
  await relayAlert({ ...pause, pauses: 1 }, parts);
  expect(await mails.execute()).toEqual([]);
  await relayAlert({ ...pause, pauses: 2 }, parts);
  await relayAlert({ ...pause, pauses: 2 }, parts);
  const sent = await mails.execute();
  expect(sent).toHaveLength(1);
  expect(sent[0]?.recipients).toBe('ops@example.net');
  const source = sent[0]?.source;
  expect(source).toContain('535 5.7.8 wrong password');
  expect(source).toContain('smtp.example.net, port 587');
  expect(source).not.toContain('u:p');
});
