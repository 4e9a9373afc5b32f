/** What is looked at before a server starts for the first time. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { stringify } from 'yaml';
import { parseServer } from '../../src/config/parse.ts';
import { NO_SECRETS } from '../../src/config/secrets.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { checkBeforeStart, checkHostRecords, type Preflight } from '../../src/doctor/preflight.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { freePort } from '../harness/child.ts';
import { startTestDns } from '../harness/dns.ts';

const HOST = 'mail.our.test';
const A: ZoneRecord = { name: HOST, type: 'A', value: '8.8.8.8' };
const REVERSE: ZoneRecord = { name: '8.8.8.8.in-addr.arpa', type: 'PTR', value: HOST };

interface Situation {
  readonly zone?: readonly ZoneRecord[];
  readonly interfaces?: readonly string[];
  readonly server?: object;
  readonly port?: number;
}

async function partsOf({ zone = [], interfaces = [], server = {}, port = 25 }: Situation) {
  const text = stringify({
    server: { hostname: HOST, operator: 'ops@our.test', http: { listen: [] }, smtp: { listen: [] }, ...server },
    delivery: { port },
  });
  const parsed = parseServer(text, 'server.yml', NO_SECRETS);
  if (!('ok' in parsed)) throw new Error(JSON.stringify(parsed.errors));
  const { resolver } = await startTestDns(zone);
  return { config: parsed.ok, resolver, clock: systemClock, interfaces };
}

async function look(situation: Situation): Promise<Preflight & { of(name: string): unknown[] }> {
  const found = await checkBeforeStart(await partsOf(situation));
  return { ...found, of: (name) => found.checks.filter((check) => check.name === name) };
}

test('a name that leads here and back', async () => {
  const { addresses, isNamed, of } = await look({
    zone: [A, REVERSE],
    interfaces: ['8.8.8.8', '10.0.0.1', '127.0.0.1'],
  });
  expect(addresses).toEqual(['8.8.8.8']);
  expect(isNamed).toBe(true);
  expect(of('host_name')).toEqual([{ name: 'host_name', status: 'ok', found: `${HOST} resolves to 8.8.8.8` }]);
  expect(of('reverse_dns')).toEqual([
    { name: 'reverse_dns', status: 'ok', found: `8.8.8.8 has the reverse name ${HOST}` },
  ]);
});

test('missing records are warnings, with what to publish and what the provider has to set', async () => {
  const { checks, isNamed, of } = await look({ interfaces: ['8.8.8.8'] });
  expect(isNamed).toBe(false);
  expect(checks.map(({ status }) => status)).not.toContain('failed');
  expect(of('host_name')).toEqual([
    {
      name: 'host_name',
      status: 'warning',
      found: `${HOST} has no address`,
      advice: expect.stringContaining(`Publish an A record for ${HOST}`),
    },
  ]);
  expect(of('reverse_dns')).toEqual([
    {
      name: 'reverse_dns',
      status: 'warning',
      found: '8.8.8.8 has no reverse name',
      advice: expect.stringContaining(HOST),
    },
  ]);
});

test('an address of the machine that the name does not have', async () => {
  const { of } = await look({ zone: [A, REVERSE], interfaces: ['8.8.8.8', '2001:4860::1'] });
  expect(of('host_name')).toContainEqual({
    name: 'host_name',
    status: 'warning',
    found: `this machine has 2001:4860::1, which is not an address of ${HOST}`,
    advice: expect.stringContaining(`Publish AAAA ${HOST} 2001:4860::1`),
  });
  expect(of('reverse_dns')).toContainEqual(expect.objectContaining({ found: '2001:4860::1 has no reverse name' }));
});

describe('ports', () => {
  async function occupy(host: string): Promise<number> {
    const server = createServer();
    server.listen(0, host);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const address = server.address();
    return typeof address === 'object' ? (address?.port ?? 0) : 0;
  }

  test.each([
    ['127.0.0.1', '[::]'],
    ['127.0.0.1', '127.0.0.1'],
    ['0.0.0.0', '127.0.0.2'],
  ])('one that %s has is none for %s, and the program is named', async (taken, wanted) => {
    const port = await occupy(taken);
    const { of } = await look({ server: { http: { listen: [`${wanted}:${port}`] } } });
    expect(of('ports')).toEqual([
      {
        name: 'ports',
        status: 'failed',
        // vitest gives its threads and processes names of its own.
        found: expect.stringMatching(new RegExp(`^port ${port} is used by \\S`)),
        advice: expect.stringMatching(/^Stop it: (?:kill \d+|systemctl disable --now \S+)$/),
      },
    ]);
  });

  test('one of another address, or that nobody has, is free', async () => {
    const port = await occupy('127.0.0.1');
    const { of } = await look({ server: { http: { listen: [`127.0.0.2:${port}`] } } });
    expect(of('ports')).toEqual([{ name: 'ports', status: 'ok', found: `${port}: not used by other programs` }]);
  });
});

describe('the way in', () => {
  test('is tried through an address that none of the interfaces has', async () => {
    const port = await freePort();
    const { of } = await look({
      port,
      server: { smtp: { listen: [`127.0.0.9:${port}`] }, public_ips: ['127.0.0.9', '127.0.0.8'] },
    });
    expect(of('port_25_in')).toEqual([
      { name: 'port_25_in', status: 'ok', found: `port ${port} of 127.0.0.9 reaches this machine` },
      {
        name: 'port_25_in',
        status: 'unknown',
        found: `whether port ${port} of 127.0.0.8 is open to others cannot be tested from this machine`,
        advice: expect.stringContaining(`nc -vz 127.0.0.8 ${port}`),
      },
    ]);
  });

  test('is not known of an address of the machine itself', async () => {
    const port = await freePort();
    const { of } = await look({
      port,
      interfaces: ['8.8.8.8'],
      server: { smtp: { listen: [`127.0.0.1:${port}`] } },
    });
    expect(of('port_25_in')).toMatchObject([{ status: 'unknown', found: expect.stringContaining('8.8.8.8') }]);
  });
});

test('the records of the host, and what DNS has of them', async () => {
  const key = { name: `postern._domainkey.${HOST}`, value: 'v=DKIM1; k=rsa; p=QUJD' };
  const before = await checkHostRecords(await partsOf({}), ['8.8.8.8', '2001:4860::1'], [key]);
  expect(before.map(({ purpose, type, name, value, status }) => [purpose, type, name, value, status])).toEqual([
    ['address', 'A', HOST, '8.8.8.8', 'missing'],
    ['address', 'AAAA', HOST, '2001:4860::1', 'missing'],
    ['reverse', 'PTR', '8.8.8.8.in-addr.arpa', `${HOST}.`, 'missing'],
    ['reverse', 'PTR', expect.stringMatching(/^1\.0\.0\..*\.ip6\.arpa$/), `${HOST}.`, 'missing'],
    ['spf', 'TXT', HOST, 'v=spf1 a -all', 'missing'],
    ['dkim', 'TXT', key.name, key.value, 'missing'],
    ['reports', 'TXT', `*._report._dmarc.${HOST}`, 'v=DMARC1;', 'missing'],
  ]);
  const zone: ZoneRecord[] = [
    A,
    { ...REVERSE, value: 'static-8.provider.test' },
    { name: HOST, type: 'TXT', value: 'v=spf1 a -all' },
    { ...key, type: 'TXT' },
    { name: `any._report._dmarc.${HOST}`, type: 'TXT', value: 'v=DMARC1;' },
  ];
  const after = await checkHostRecords(await partsOf({ zone }), ['8.8.8.8'], [key]);
  expect(after.map(({ purpose, status, found }) => [purpose, status, found])).toEqual([
    ['address', 'ok', ['8.8.8.8']],
    ['reverse', 'wrong', ['static-8.provider.test']],
    ['spf', 'ok', ['v=spf1 a -all']],
    ['dkim', 'ok', [key.value]],
    ['reports', 'ok', ['v=DMARC1;']],
  ]);
});
