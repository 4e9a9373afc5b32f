/** MTA-STS of domains to which mail is sent: what is demanded of their mail hosts, and how long it holds (RFC 8461). */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { saveMtaStsPolicy } from '../../src/store/mta-sts-policies.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { until } from '../harness/child.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { mailDomain, startQueue, type QueueOptions } from '../harness/queue.ts';
import { policy, startPolicyServer, type PolicyServer } from '../harness/policy-server.ts';
import { startSmtpPeer, type PeerOptions } from '../harness/smtp-peer.ts';

const TLS = ['PIPELINING', '8BITMIME', 'STARTTLS'];
const DAY = 86_400_000;
const RECORDS = mailDomain('example.test');

function announced(id: string) {
  return { name: '_mta-sts.example.test', type: 'TXT', value: `v=STSv1; id=${id};` } as const;
}

/** A domain with this policy, whose mail host is as told; the certificate of `trusted` is believed. */
async function start(text: string, peerOptions: PeerOptions = {}, more: QueueOptions & { trusted?: 'nobody' } = {}) {
  const server = await startPolicyServer();
  server.answer = { text };
  const peer = await startSmtpPeer({ features: TLS, ...peerOptions });
  const other = await startSmtpPeer();
  const queue = await startQueue({
    records: [...RECORDS, announced('a1')],
    port: peer.port,
    fetchPolicy: server.fetchPolicy,
    ca: more.trusted === 'nobody' ? other.certificate : peer.certificate,
    ...more,
  });
  return { server, peer, queue };
}

const EXPIRED = Date.now() - 800 * DAY;
const MX = ['mx.example.test'];
const REQUIRED = '421 4.7.5 the domain requires verified TLS (MTA-STS), but ';
const CLEAR: PeerOptions = { features: ['PIPELINING'] };

describe('with mode enforce', () => {
  test.each<[string, PeerOptions, object]>([
    ['a host with its certificate', {}, { tls_result: 'success', tls: 'TLSv1.3' }],
    ['a certificate with a wildcard', { names: ['*.example.test'] }, { tls_result: 'success', tls: 'TLSv1.3' }],
  ])('%s gets the mail', async (_, options, attempt) => {
    const { peer, queue } = await start(policy('enforce', MX), options);
    const { tries } = await queue.reaches(await queue.send('a@example.test'), 'delivered');
    expect(tries).toMatchObject([{ tls_policy: 'mta-sts enforce', outcome: 'delivered', ...attempt }]);
    expect(peer.messages[0]?.tls).toBe(true);
  });

  test.each<[string, PeerOptions, QueueOptions & { trusted?: 'nobody' }, string, string]>([
    ['without STARTTLS', CLEAR, {}, 'starttls-not-supported', 'mx.example.test does not offer STARTTLS'],
    [
      'for another name',
      { names: ['mx.other.test'] },
      {},
      'certificate-host-mismatch',
      'the certificate of mx.example.test is for another name',
    ],
    [
      'for a name two labels below the wildcard',
      { names: ['*.test'] },
      {},
      'certificate-host-mismatch',
      'the certificate of mx.example.test is for another name',
    ],
    [
      'that has expired',
      { validAt: EXPIRED },
      {},
      'certificate-expired',
      'the certificate of mx.example.test has expired',
    ],
    [
      'of nobody who is trusted',
      {},
      { trusted: 'nobody' },
      'certificate-not-trusted',
      'the certificate of mx.example.test is not from a trusted CA (DEPTH_ZERO_SELF_SIGNED_CERT)',
    ],
    [
      'and a broken handshake',
      { brokenHandshake: true },
      {},
      'validation-failure',
      'TLS with mx.example.test failed: ',
    ],
    [
      'that refuses STARTTLS',
      { script: { starttls: '454 4.7.0 not now' } },
      {},
      'validation-failure',
      'TLS with mx.example.test failed: 454 4.7.0 not now',
    ],
  ])('a host %s gets nothing, and the mail waits', async (_, options, more, result, words) => {
    const { peer, queue } = await start(policy('enforce', MX), options, more);
    const { tries, last_reply } = await queue.reaches(await queue.send('a@example.test'), 'deferred');
    expect(tries).toMatchObject([{ host: 'mx.example.test', tls_policy: 'mta-sts enforce', tls_result: result }]);
    expect(last_reply).toContain(REQUIRED + words);
    expect(peer.messages).toEqual([]);
    expect(peer.lines.filter((line) => line.startsWith('MAIL'))).toEqual([]);
  });

  test('hosts that the policy does not name are left out, and where there is no other the mail waits', async () => {
    const { queue, peer } = await start(policy('enforce', ['mx2.example.test']));
    const message = await queue.send('a@example.test');
    const { tries } = await queue.reaches(message, 'deferred');
    expect(tries).toMatchObject([
      {
        host: null,
        tls_policy: 'mta-sts enforce',
        tls_result: 'validation-failure',
        reply: '451 4.7.5 the MTA-STS policy of example.test names none of its MX hosts (mx.example.test)',
      },
    ]);
    expect(peer.connections().total).toBe(0);
    const second = await startQueue({
      records: [
        ...RECORDS,
        announced('a1'),
        { name: 'example.test', type: 'MX', value: '20 mx2.example.test' },
        { name: 'mx2.example.test', type: 'A', value: '127.0.0.1' },
      ],
      port: peer.port,
      store: queue.store,
      clock: queue.clock,
      fetchPolicy: () => Promise.resolve({ kind: 'failed', reason: 'nobody asks: it is kept' }),
    });
    // Its certificate names another host: that it was tried at all is what matters.
    const { last_reply } = await second.reaches(await second.send('b@example.test'), 'deferred');
    expect(last_reply).toContain('mx2.example.test');
  });
});

describe('with mode testing', () => {
  test.each<[string, PeerOptions, QueueOptions & { trusted?: 'nobody' }, object]>([
    ['with its certificate', {}, {}, { tls: 'TLSv1.3', tls_result: 'success' }],
    ['without STARTTLS', CLEAR, {}, { tls: null, tls_result: 'starttls-not-supported' }],
    ['for another name', { names: ['x.test'] }, {}, { tls: 'TLSv1.3', tls_result: 'certificate-host-mismatch' }],
    ['of nobody', {}, { trusted: 'nobody' }, { tls: 'TLSv1.3', tls_result: 'certificate-not-trusted' }],
    ['with a broken handshake', { brokenHandshake: true }, {}, { tls: null, tls_result: 'validation-failure' }],
  ])('a host %s gets the mail, and what is wrong is noted', async (_, options, more, attempt) => {
    const { queue } = await start(policy('testing', MX), options, more);
    const { tries } = await queue.reaches(await queue.send('a@example.test'), 'delivered');
    expect(tries).toMatchObject([{ tls_policy: 'mta-sts testing', ...attempt }]);
  });
});

test('mode none demands nothing', async () => {
  const { queue } = await start(policy('none', []), CLEAR);
  const { tries } = await queue.reaches(await queue.send('a@example.test'), 'delivered');
  expect(tries).toMatchObject([{ tls: null, tls_policy: null, tls_result: null }]);
});

describe('a policy', () => {
  async function isInForce({ queue }: Pick<Awaited<ReturnType<typeof start>>, 'queue'>): Promise<boolean> {
    return (await queue.mtaSts?.policyOf('example.test'))?.mode === 'enforce';
  }

  test.each<[string, NonNullable<PolicyServer['answer']> | null]>([
    ['is not found', { status: 404, text: policy('enforce', MX) }],
    ['is elsewhere', { status: 302, location: 'https://127.0.0.1/', text: policy('enforce', MX) }],
    ['is of another type', { type: 'text/html', text: policy('enforce', MX) }],
    ['has no version', { text: 'mode: enforce\nmx: mx.example.test\nmax_age: 1000\n' }],
    ['has no mode', { text: 'version: STSv1\nmx: mx.example.test\nmax_age: 1000\n' }],
    ['names no host', { text: policy('enforce', []) }],
    [
      'names too many hosts',
      {
        text: policy(
          'enforce',
          Array.from({ length: 101 }, (_, i) => `mx${i}.example.test`),
        ),
      },
    ],
    ['is too large', { text: `${policy('enforce', MX)}${'# \r\n'.repeat(20_000)}` }],
    ['cannot be had', null],
  ])('that %s is none, and is not asked for again at once', async (_, answer) => {
    const { server, queue } = await start('', CLEAR);
    server.answer = answer;
    await queue.reaches(await queue.send('a@example.test'), 'delivered');
    await queue.reaches(await queue.send('b@example.test'), 'delivered');
    expect(server.requests()).toBe(1);
  });

  test.each([
    ['is not there', []],
    ['stands there twice', [announced('a1'), announced('a2')]],
    ['has no id', [{ name: '_mta-sts.example.test', type: 'TXT', value: 'v=STSv1;' } as const]],
  ])('is not asked for where the record that announces it %s', async (_, records) => {
    const world = await start(policy('enforce', MX), {}, { records: [...RECORDS, ...records] });
    expect(await isInForce(world)).toBe(false);
    expect(world.server.requests()).toBe(0);
  });

  test('whose server has another name is none', async () => {
    const server = await startPolicyServer('mta-sts.other.test');
    const queue = await startQueue({ records: [...RECORDS, announced('a1')], fetchPolicy: server.fetchPolicy });
    expect(await isInForce({ queue })).toBe(false);
    expect(server.requests()).toBe(0);
  });

  test('is kept over a restart, whatever DNS and its server say, until it ends', async () => {
    const { server, queue } = await start(policy('enforce', MX, 86_400), CLEAR);
    await queue.reaches(await queue.send('a@example.test'), 'deferred');
    const { store, clock } = queue;
    const blocked = { store, clock, records: RECORDS, fetchPolicy: server.fetchPolicy };
    server.answer = null;
    const second = await startQueue(blocked);
    expect(await isInForce({ queue: second })).toBe(true);
    clock.advance(DAY - 1000);
    await second.mtaSts?.refresh();
    expect(await isInForce({ queue: second })).toBe(true);
    clock.advance(1000);
    expect(await isInForce({ queue: second })).toBe(false);
  });

  test('is asked for again when its id changes; where it cannot be had, the old one stays', async () => {
    const { server, queue } = await start(policy('enforce', MX));
    expect(await isInForce({ queue })).toBe(true);
    expect(await isInForce({ queue })).toBe(true);
    expect(server.requests()).toBe(1);
    server.answer = null;
    queue.dns.set([...RECORDS, announced('a2')]);
    queue.clock.advance(6 * 60_000);
    expect(await isInForce({ queue })).toBe(true);
    expect(server.requests()).toBe(2);
    server.answer = { text: policy('none', []) };
    queue.clock.advance(6 * 60_000);
    expect(await isInForce({ queue })).toBe(false);
  });

  test('is fetched again every day while mail is sent there, so that it never ends by itself', async () => {
    const { server, queue } = await start(policy('enforce', MX, 2 * 86_400));
    const { clock, mtaSts } = queue;
    expect(await isInForce({ queue })).toBe(true);
    await mtaSts?.refresh();
    expect(server.requests()).toBe(1);
    queue.dns.set(RECORDS);
    for (let day = 2; day <= 10; day++) {
      clock.advance(DAY);
      await mtaSts?.refresh();
      expect(server.requests()).toBe(day);
    }
    expect(await isInForce({ queue })).toBe(true);
    // Unused for two weeks it is left alone, and ends.
    for (let day = 0; day < 20; day++) {
      clock.advance(DAY);
      await mtaSts?.refresh();
    }
    expect(server.requests()).toBeLessThan(30);
    expect(await isInForce({ queue })).toBe(false);
  });
});

test('trace, explain and the queue show which policy applied, and what came of it', async () => {
  const world = await startTestWorld();
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  const now = Date.now();
  const kept = { id: 'a1', mode: 'enforce', mx: 'mx.inbox.test', max_age: 86_400 } as const;
  const times = { expires_at: now + DAY, refresh_at: now + DAY, used_at: now };
  await world.daemon.store.write([saveMtaStsPolicy({ domain: 'inbox.test', ...kept, ...times })]);
  const words = `${REQUIRED}the certificate of mx.inbox.test is not from a trusted CA (DEPTH_ZERO_SELF_SIGNED_CERT)`;

  await world.post('/example.test/contact', { message: 'Are you open on Friday?' });
  await until('the mail waits', async () => (await world.queue())[0]?.state === 'deferred');
  const [delivery] = await world.queue();
  expect(delivery).toMatchObject({ recipient: 'owner@inbox.test', last_reply: words });
  const traced = z
    .object({ timeline: z.array(z.object({ text: z.string() })) })
    .parse((await operator.ask('GET', `/admin/trace/${delivery?.message}`)).body);
  expect(traced.timeline.map(({ text }) => text)).toContain(
    `attempt 1 for owner@inbox.test: deferred at mx.inbox.test [127.0.0.1] over clear text (mta-sts enforce: certificate-not-trusted): ${words}`,
  );
  const shown = await operator.ask('GET', `/admin/queue/${delivery?.message}`);
  expect(shown.body).toMatchObject({
    deliveries: [{ tries: [{ tls: null, tls_policy: 'mta-sts enforce', tls_result: 'certificate-not-trusted' }] }],
  });
  const explained = await operator.ask('GET', '/admin/explain?what=owner@inbox.test');
  expect(JSON.stringify(explained.body)).toContain('MTA-STS, mode enforce: mx.inbox.test');
});
