import { writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../src/cli/client.ts';
import { queue } from '../../src/contract/queue.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { silentLog, type Log } from '../../src/lib/log.ts';
import { freePort } from '../harness/child.ts';
import { runOperator } from '../harness/terminal.ts';

const diagnosis = z.object({
  checks: z.array(z.object({ name: z.string(), status: z.string(), found: z.string(), advice: z.string().optional() })),
  ok: z.boolean(),
});

const HOST = 'mail.postern.test';
const REVERSE: ZoneRecord = { name: '1.0.0.127.in-addr.arpa', type: 'PTR', value: HOST };
const WAY_OUT: ZoneRecord = { name: 'gmail.com', type: 'MX', value: '10 mx.inbox.test' };

/** The operator asks over the socket. */
function doctor(world: TestWorld, flags: readonly string[] = [], json = true) {
  return runOperator(world.daemon.addresses?.socket ?? '', ['doctor', ...flags, ...(json ? ['--json'] : [])]);
}

async function diagnose(settings: WorldSettings, flags?: readonly string[]) {
  const { code, out } = await doctor(await startTestWorld(settings), flags);
  const { checks, ok } = diagnosis.parse(JSON.parse(out));
  expect(code).toBe(ok ? 0 : 1);
  return { ok, of: (name: string) => checks.filter((check) => check.name === name) };
}

test('X-Forwarded-For from a proxy that is not trusted is said once in the log, and by the doctor', async () => {
  const events: [event: string, fields: unknown][] = [];
  const log: Log = { ...silentLog, warn: (event, fields) => events.push([event, fields]) };
  const world = await startTestWorld({
    zone: [REVERSE, WAY_OUT],
    server: { server: { http: { listen: ['127.0.0.1:0', '127.0.0.2:0'], trusted_proxies: ['127.0.0.2'] } } },
    parts: { log: { ...log, adjust: () => undefined } },
  });
  const ask = (localAddress: string) =>
    new Promise((resolve, reject) => {
      const options = { headers: { 'X-Forwarded-For': '203.0.113.9' }, localAddress };
      get(`${world.url}/healthz`, options, (response) => resolve(response.resume())).on('error', reject);
    });
  await ask('127.0.0.2');
  for (let i = 0; i < 3; i++) await ask('127.0.0.1');
  expect(events.filter(([event]) => event === 'http.forwarded_untrusted')).toEqual([
    ['http.forwarded_untrusted', { ip: '127.0.0.1' }],
  ]);
  const { checks } = diagnosis.parse(JSON.parse((await doctor(world)).out));
  expect(checks.filter(({ name }) => name === 'trusted_proxies')).toEqual([
    {
      name: 'trusted_proxies',
      status: 'warning',
      found: 'X-Forwarded-For came from 127.0.0.1, not in server.http.trusted_proxies',
      advice: expect.stringContaining('Add your own proxies there'),
    },
  ]);
});

test('a domain that has its DMARC reports sent here, which the host name does not accept', async () => {
  const zone: ZoneRecord[] = [
    REVERSE,
    WAY_OUT,
    { name: '_dmarc.example.test', type: 'TXT', value: `v=DMARC1; p=reject; rua=mailto:reports@${HOST}` },
  ];
  const { of, ok } = await diagnose({ zone });
  expect(of('dmarc_reports')).toMatchObject([
    { status: 'warning', advice: expect.stringContaining(`*._report._dmarc.${HOST}`) },
  ]);
  expect(ok).toBe(true);
});

test('a server on which everything is right', async () => {
  const world = await startTestWorld({ zone: [REVERSE, WAY_OUT] });
  const { code, out } = await doctor(world, [], false);
  expect(out.split('\n').filter((line) => !line.startsWith(' '))).toEqual([
    expect.stringMatching(/^warning {2}host_name +mail\.postern\.test resolves to 127\.0\.0\.1, a private address$/),
    expect.stringMatching(/^ok {7}reverse_dns +127\.0\.0\.1 has the reverse name mail\.postern\.test$/),
    expect.stringMatching(/^ok {7}host_spf +v=spf1 ip4:127\.0\.0\.1 -all$/),
    expect.stringMatching(/^ok {7}host_dkim +postern\._domainkey\.mail\.postern\.test is published$/),
    expect.stringMatching(/^ok {7}bounces +mail\.postern\.test has no MX record, so bounces go to its address$/),
    expect.stringMatching(/^ok {7}port_25 +mx\.inbox\.test \(127\.0\.0\.1\), port \d+ answers, encrypted$/),
    expect.stringMatching(/^ok {7}resolver +127\.0\.0\.1:\d+ answers$/),
    expect.stringMatching(/^ok {7}dnssec +DANE is not used: 127\.0\.0\.1:\d+ does not report/),
    expect.stringMatching(/^warning {2}certificate +there is no certificate$/),
    expect.stringMatching(/^ok {7}clock /),
    expect.stringMatching(/^ok {7}disk +\d/),
    expect.stringMatching(/^ok {7}database +\w+ can be written$/),
    expect.stringMatching(/^ok {7}queue +0 deliveries waiting, /),
    expect.stringMatching(/^ok {7}domains +1 of 1 verified$/),
    expect.stringMatching(/^ok {7}configuration +is active$/),
    '',
    '15 checks: 2 warnings',
    '',
  ]);
  expect(out).toContain('→ Set tls.mode to acme, or to files');
  expect(code).toBe(0);
});

describe('the name of the server', () => {
  test.each<[string, ZoneRecord[], string, object[]]>([
    [
      'no reverse name',
      [],
      'reverse_dns',
      [{ status: 'failed', found: '127.0.0.1 has no reverse name', advice: expect.stringContaining(HOST) }],
    ],
    [
      'the provider’s reverse name',
      [
        { ...REVERSE, value: 'static-1.provider.test' },
        { name: 'static-1.provider.test', type: 'A', value: '127.0.0.1' },
      ],
      'reverse_dns',
      [{ status: 'warning', found: '127.0.0.1 has the reverse name static-1.provider.test' }],
    ],
    [
      'a reverse name that leads elsewhere',
      [
        { ...REVERSE, value: 'other.test' },
        { name: 'other.test', type: 'A', value: '127.0.0.2' },
      ],
      'reverse_dns',
      [{ status: 'failed' }],
    ],
    ['silence', [{ name: REVERSE.name, fault: 'SERVFAIL' }], 'reverse_dns', [{ status: 'unknown' }]],
    [
      'two SPF records',
      [{ name: HOST, type: 'TXT', value: 'v=spf1 mx -all' }],
      'host_spf',
      [{ status: 'failed', advice: expect.stringContaining(`Publish TXT ${HOST}: v=spf1 `) }],
    ],
    [
      'bounces that go elsewhere',
      [{ name: HOST, type: 'MX', value: '10 mx.other.test' }],
      'bounces',
      [{ status: 'failed', found: '10 mx.other.test.' }],
    ],
  ])('%s', async (_what, zone, name, expected) => {
    expect((await diagnose({ zone })).of(name)).toMatchObject(expected);
  });

  test('an address of which the name does not know, and no key', async () => {
    const world = await startTestWorld({ server: { server: { public_ips: ['198.51.100.7'] } }, zone: [REVERSE] });
    world.dns.set([{ name: HOST, type: 'A', value: '127.0.0.1' }]);
    const { out, code } = await doctor(world);
    const { checks } = diagnosis.parse(JSON.parse(out));
    const of = (name: string) => checks.find((check) => check.name === name);
    expect(of('host_name')).toMatchObject({ status: 'failed', advice: expect.stringContaining('198.51.100.7') });
    expect(of('host_spf')).toMatchObject({
      status: 'failed',
      found: 'nothing',
      advice: `There is no SPF record. Publish TXT ${HOST}: v=spf1 ip4:198.51.100.7 ~all`,
    });
    expect(of('host_dkim')).toMatchObject({ status: 'failed', advice: expect.stringContaining('p=') });
    expect(code).toBe(1);
  });
});

test('a host name without an address leaves the rest open', async () => {
  const world = await startTestWorld();
  world.dns.set([{ name: HOST, fault: 'SERVFAIL' }]);
  const { out, code } = await doctor(world, ['--dnsbl', 'bad.test']);
  const { checks } = diagnosis.parse(JSON.parse(out));
  const names = ['host_name', 'reverse_dns', 'host_spf', 'bounces', 'block_list'];
  expect(checks.flatMap(({ name, status }) => (names.includes(name) ? [`${name} ${status}`] : []))).toEqual(
    names.map((name) => `${name} unknown`),
  );
  // No key stands there, which is sure.
  expect(code).toBe(1);
});

describe('the way out', () => {
  test('a target that is named', async () => {
    const port = await freePort();
    const server = createServer((socket) => socket.end('554 5.7.1 not you\r\n')).listen(port, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { of, ok } = await diagnose({}, ['--port25', `127.0.0.1:${port}`]);
    expect(of('port_25')).toMatchObject([{ status: 'failed', found: expect.stringContaining('554 5.7.1 not you') }]);
    expect(ok).toBe(false);
  });

  test('a closed port, and what to do', async () => {
    const { of } = await diagnose({}, ['--port25', `127.0.0.1:${await freePort()}`]);
    expect(of('port_25')).toMatchObject([{ status: 'failed', advice: expect.stringContaining('delivery.relay') }]);
  });

  test.each<[string, ZoneRecord[], string[]]>([
    ['DNS does not answer', [{ name: 'gmail.com', fault: 'SERVFAIL' }], []],
    ['the target is not in DNS', [], ['--port25', 'nowhere.test']],
  ])('says nothing of the port where nobody was tried: %s', async (_what, zone, flags) => {
    const { of } = await diagnose({ zone }, flags);
    expect(of('port_25')).toMatchObject([{ status: 'unknown', advice: expect.stringContaining('No mail server was') }]);
  });

  test('a smarthost that is not in DNS lets nothing out', async () => {
    const { of } = await diagnose({ server: { delivery: { relay: 'smtp://nowhere.test:25' } } });
    expect(of('port_25')).toMatchObject([{ status: 'failed', advice: expect.stringContaining('delivery.relay') }]);
  });

  test('a private network is not looked at for whoever asks', async () => {
    const server = { delivery: { allow_private_networks: false } };
    const { of } = await diagnose({ server }, ['--port25', '127.0.0.1:25']);
    expect(of('port_25')).toMatchObject([{ status: 'failed', found: expect.stringContaining('private network') }]);
  });

  test('the smarthost where there is one', async () => {
    const server = { delivery: { relay: `smtp://127.0.0.1:${await freePort()}` } };
    const { of } = await diagnose({ server });
    expect(of('port_25')).toMatchObject([{ status: 'failed', advice: expect.stringContaining('of delivery.relay') }]);
  });
});

test('block lists are asked where they are named, and their refusals are no answers', async () => {
  const at = (zone: string, value: string): ZoneRecord => ({ name: `1.0.0.127.${zone}`, type: 'A', value });
  const zone: ZoneRecord[] = [
    at('bad.test', '127.0.0.2'),
    { name: '1.0.0.127.bad.test', type: 'TXT', value: 'see https://bad.test/' },
    at('closed.test', '127.255.255.254'),
    at('parked.test', '198.51.100.9'),
    { name: '1.0.0.127.silent.test', fault: 'SERVFAIL' },
  ];
  const zones = ['good.test', 'bad.test', 'closed.test', 'parked.test', 'silent.test'];
  const { of } = await diagnose({ zone }, ['--dnsbl', zones.join(',')]);
  expect(of('block_list').map(({ status, found }) => [status, found])).toEqual([
    ['ok', '127.0.0.1 is not on good.test'],
    ['failed', '127.0.0.1 is on bad.test (127.0.0.2): see https://bad.test/'],
    ['unknown', 'closed.test refuses to answer (127.255.255.254)'],
    ['unknown', 'parked.test answers 198.51.100.9'],
    ['unknown', expect.stringContaining('SERVFAIL')],
  ]);
});

test('a domain that broke, a destination that is held and a file that is no configuration are named', async () => {
  const world = await startTestWorld({ zone: [REVERSE, WAY_OUT] });
  world.dns.set([...world.publicZone]);
  await world.daemon.domains.check('example.test');
  const client = createClient({ address: `unix:${world.daemon.addresses?.socket ?? ''}` });
  await client.call({ route: queue.hold, body: { domain: 'slow.test' } });
  await writeFile(join(world.folder, 'projects', 'site.yml'), 'project: {');
  await world.daemon.reload();
  const { out } = await doctor(world);
  const { checks } = diagnosis.parse(JSON.parse(out));
  expect(checks.filter(({ status }) => status !== 'ok').map(({ name, found }) => [name, found])).toEqual([
    ['host_name', expect.anything()],
    ['certificate', expect.anything()],
    ['queue', expect.stringContaining('1 held')],
    ['domains', '0 of 1 verified, example.test is degraded'],
    ['configuration', expect.stringContaining('site.yml')],
    ['configuration', expect.stringContaining('site.yml:1:11')],
  ]);
});

// Of the daemon of this machine it makes its checks itself: test/cli/offline.test.ts.
test('of a daemon elsewhere it only says that there is none', async () => {
  const { code, err } = await runOperator('/nowhere/admin.sock', ['doctor']);
  expect(code).toBe(3);
  expect(err).toMatch(/^Cannot connect to the daemon: .*Is the daemon running\? Find out with: postern doctor\n$/);
});
