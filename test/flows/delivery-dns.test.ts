/** What DNS says decides where mail goes, whether it waits and whether it bounces. */
import { describe, expect, test } from 'vitest';
import { startQueue, type QueueOptions } from '../harness/queue.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const MINUTE = 60_000;

async function world(options: QueueOptions) {
  const peer = await startSmtpPeer();
  return { peer, ...(await startQueue({ port: peer.port, ...options })) };
}

describe('for good', () => {
  test.each<[string, QueueOptions, RegExp]>([
    ['a domain that is not there', {}, /^550 5\.1\.2 example\.test does not exist$/],
    ['a null MX', { records: [{ name: 'example.test', type: 'MX', value: '0 .' }] }, /^556 5\.1\.10 .*null MX/],
    [
      'neither MX nor address',
      { records: [{ name: 'example.test', type: 'TXT', value: 'x' }] },
      /^550 5\.1\.2 .*neither an MX record nor an address/,
    ],
    [
      'a mail host on a private network',
      {
        records: [
          { name: 'example.test', type: 'MX', value: '10 mx.example.test' },
          { name: 'mx.example.test', type: 'A', value: '127.0.0.1' },
        ],
        delivery: { allow_private_networks: false },
      },
      /^550 5\.4\.4 .*127\.0\.0\.1.* is not on a public network/,
    ],
    [
      'ourselves as the mail host',
      { records: [{ name: 'example.test', type: 'MX', value: '10 mail.example.net' }] },
      /^550 5\.4\.6 .*loops back/,
    ],
    [
      'an address of ours as the mail host',
      {
        records: [
          { name: 'example.test', type: 'MX', value: '10 mx.example.test' },
          { name: 'mx.example.test', type: 'A', value: '127.0.0.1' },
        ],
        ownAddresses: (ip) => ip === '127.0.0.1',
      },
      /^550 5\.4\.6 .*loops back/,
    ],
  ])('%s: a bounce without a connection', async (_, options, reply) => {
    const { peer, send, reaches, events } = await world(options);
    const message = await send('you@example.test');
    const { tries } = await reaches(message, 'bounced');
    expect(tries).toMatchObject([
      { outcome: 'bounced', host: null, address: null, reply: expect.stringMatching(reply) },
    ]);
    expect(await events(message)).toEqual(['email.bounced', 'email.queued']);
    expect(peer.connections().total).toBe(0);
  });
});

test('a domain without MX gets its mail at its own address', async () => {
  const { peer, send, reaches } = await world({ records: [{ name: 'example.test', type: 'A', value: '127.0.0.1' }] });
  const { tries } = await reaches(await send('you@example.test'), 'delivered');
  expect(tries).toMatchObject([{ host: 'example.test', address: '127.0.0.1' }]);
  expect(peer.messages.length).toBe(1);
});

describe.each(['SERVFAIL', 'SILENT'] as const)('%s', (fault) => {
  test('makes the destination wait as a whole, and never falls through to the address', async () => {
    const address = { name: 'example.test', type: 'A', value: '127.0.0.1' } as const;
    const queue = await world({ records: [{ name: 'example.test', fault, only: 'MX' }, address] });
    const start = queue.clock.now();
    const message = await queue.send('you@example.test');
    expect(await queue.reaches(message, 'deferred')).toMatchObject({
      attempts: 1,
      next_attempt_at: start + MINUTE,
      last_reply: expect.stringMatching(/^451 4\.4\.3 MX example\.test: /),
    });
    expect(queue.peer.connections().total).toBe(0);
    queue.dns.set([{ name: 'example.test', type: 'MX', value: '10 example.test' }, address]);
    await queue.whenDue(message);
    const { tries } = await queue.reaches(message, 'delivered');
    expect(tries.map(({ outcome, at }) => [outcome, at - start])).toEqual([
      ['deferred', 0],
      ['delivered', MINUTE],
    ]);
  });
});
