/** From the queue to a mail server and back: what the operator and the recipient see, and when. */
import { describe, expect, test } from 'vitest';
import { mailDomain, plainSource, startQueue } from '../harness/queue.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const MINUTE = 60_000;

test('a message is delivered once, as it was prepared, and everything about it is written down', async () => {
  const peer = await startSmtpPeer();
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  const message = await queue.send('you@example.test');
  const delivery = await queue.reaches(message, 'delivered');
  expect(peer.messages).toMatchObject([{ from: 'b+1@mail.example.net', to: ['you@example.test'] }]);
  expect(peer.messages[0]?.data).toContain('\r\n.Hello\r\n..');
  expect(peer.lines[0]).toBe('EHLO mail.example.net');
  expect(delivery).toMatchObject({ attempts: 1, next_attempt_at: null, last_reply: '250 2.0.0 taken' });
  expect(delivery.tries).toMatchObject([
    {
      number: 1,
      host: 'mx.example.test',
      address: '127.0.0.1',
      tls: null,
      outcome: 'delivered',
      reply: '250 2.0.0 taken',
    },
  ]);
  expect(await queue.events(message)).toEqual(['email.delivered', 'email.queued']);
  await expect
    .poll(() => queue.log.find(({ event }) => event === 'delivery.delivered'))
    .toMatchObject({
      level: 'info',
      fields: { message, recipient: 'you@example.test', host: 'mx.example.test', reply: '250 2.0.0 taken' },
    });
});

test('451 twice, then 250: three attempts at the times of the table, one mail, the same bytes each time', async () => {
  const seen: string[] = [];
  const peer = await startSmtpPeer({
    script: { final: ({ line }) => (seen.push(line) <= 2 ? '451 4.7.1 try again later' : undefined) },
  });
  const source = plainSource();
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port, source });
  const start = queue.clock.now();
  const message = await queue.send('you@example.test');
  expect(await queue.reaches(message, 'deferred')).toMatchObject({
    attempts: 1,
    next_attempt_at: start + 5 * MINUTE,
    last_reply: '451 4.7.1 try again later',
  });
  await queue.whenDue(message);
  await expect.poll(async () => (await queue.reaches(message, 'deferred')).attempts).toBe(2);
  await queue.whenDue(message);
  const delivery = await queue.reaches(message, 'delivered');
  expect(delivery.tries.map(({ at, outcome }) => [at - start, outcome])).toEqual([
    [0, 'deferred'],
    [5 * MINUTE, 'deferred'],
    [15 * MINUTE, 'delivered'],
  ]);
  expect(peer.messages.length).toBe(1);
  expect(new Set(seen).size).toBe(1);
  expect(source.made).toBe(1);
  expect(await queue.events(message)).toEqual(['email.deferred', 'email.deferred', 'email.delivered', 'email.queued']);
});

test('550 is a bounce at once, with the words of the server', async () => {
  const peer = await startSmtpPeer({ script: { rcpt: '550 5.1.1 no such user here' } });
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  const message = await queue.send('nobody@example.test');
  const delivery = await queue.reaches(message, 'bounced');
  expect(delivery.tries).toMatchObject([
    { outcome: 'bounced', host: 'mx.example.test', reply: '550 5.1.1 no such user here' },
  ]);
  expect(await queue.events(message)).toEqual(['email.bounced', 'email.queued']);
});

test('a server that is down for a while gets everything once it is back, the first try after a minute', async () => {
  const peer = await startSmtpPeer();
  await peer.down();
  const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
  const start = queue.clock.now();
  const message = await queue.send('you@example.test');
  expect(await queue.reaches(message, 'deferred')).toMatchObject({ next_attempt_at: start + MINUTE, attempts: 1 });
  const later = await queue.send('me@example.test');
  await queue.reaches(later, 'deferred');
  await peer.up();
  await queue.whenDue(message);
  await queue.reaches(message, 'delivered');
  await queue.reaches(later, 'delivered');
  expect(peer.messages.length).toBe(2);
});

describe('recipients', () => {
  test('each gets its own end, and one message serves all who are accepted', async () => {
    const peer = await startSmtpPeer({
      script: {
        rcpt: ({ line }) => {
          if (line.includes('bad@')) return '550 5.1.1 unknown';
          return line.includes('full@') ? '452 4.2.2 mailbox full' : undefined;
        },
      },
    });
    const queue = await startQueue({ records: mailDomain('example.test'), port: peer.port });
    const message = await queue.send(['full@example.test', 'bad@example.test', 'one@example.test', 'two@example.test']);
    await expect
      .poll(async () => {
        const rows = await queue.deliveries(message);
        return Object.fromEntries(Object.values(rows).map(({ recipient, state }) => [recipient, state]));
      })
      .toEqual({
        'full@example.test': 'deferred',
        'bad@example.test': 'bounced',
        'one@example.test': 'delivered',
        'two@example.test': 'delivered',
      });
    expect(peer.messages.map(({ to }) => to.toSorted())).toEqual([['one@example.test', 'two@example.test']]);
  });
});
