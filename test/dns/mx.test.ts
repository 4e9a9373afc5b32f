import { describe, expect, test } from 'vitest';
import { type MailHostOptions, findMailHosts } from '../../src/dns/mx.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

function host(name: string, ...addresses: string[]): ZoneRecord[] {
  return addresses.map((value) => ({ name, type: value.includes(':') ? 'AAAA' : 'A', value }));
}

function mx(name: string, ...values: string[]): ZoneRecord[] {
  return values.map((value) => ({ name, type: 'MX', value }));
}

async function find(zone: readonly ZoneRecord[], options: Partial<MailHostOptions> = {}) {
  const { resolver } = await startTestDns(zone);
  return findMailHosts('to.test', {
    resolver,
    hostname: 'mail.our.test',
    ownAddresses: (ip) => ip === '9.9.9.9',
    allowPrivate: false,
    random: () => 0,
    ...options,
  });
}

describe('hosts', () => {
  test('by preference, each with its addresses', async () => {
    const zone = [
      ...mx('to.test', '20 b.test', '10 a.test', '30 c.test'),
      ...host('a.test', '8.8.0.1'),
      ...host('b.test', '8.8.0.2'),
      ...host('c.test', '8.8.0.3'),
    ];
    expect(await find(zone)).toEqual({
      kind: 'hosts',
      hosts: [
        { name: 'a.test', preference: 10, addresses: ['8.8.0.1'] },
        { name: 'b.test', preference: 20, addresses: ['8.8.0.2'] },
        { name: 'c.test', preference: 30, addresses: ['8.8.0.3'] },
      ],
    });
  });

  test('equals come in random order, the others never', async () => {
    const zone = [
      ...mx('to.test', '10 a.test', '10 b.test', '20 c.test'),
      ...host('a.test', '8.8.0.1'),
      ...host('b.test', '8.8.0.2'),
      ...host('c.test', '8.8.0.3'),
    ];
    const { resolver } = await startTestDns(zone);
    const orders = new Set<string>();
    for (let i = 0; i < 60; i++) {
      const found = await findMailHosts('to.test', {
        resolver,
        hostname: 'mail.our.test',
        ownAddresses: () => false,
        allowPrivate: false,
      });
      orders.add(found.kind === 'hosts' ? found.hosts.map(({ name }) => name).join(' ') : found.kind);
    }
    expect([...orders].sort()).toEqual(['a.test b.test c.test', 'b.test a.test c.test']);
  });

  test('without an MX record the address record is the host (RFC 5321 §5.1)', async () => {
    expect(await find(host('to.test', '8.8.0.1', '2a01::1'))).toEqual({
      kind: 'hosts',
      hosts: [{ name: 'to.test', preference: 0, addresses: ['8.8.0.1', '2a01::1'] }],
    });
  });

  test('families take turns and five addresses are the most', async () => {
    const zone = [
      ...mx('to.test', '10 a.test'),
      ...host('a.test', '2a01::1', '2a01::2', '2a01::3', '8.8.0.1', '8.8.0.2', '8.8.0.3'),
    ];
    expect(await find(zone)).toMatchObject({
      hosts: [{ addresses: ['8.8.0.1', '2a01::1', '8.8.0.2', '2a01::2', '8.8.0.3'] }],
    });
  });

  test('a first host of many addresses leaves room for the second', async () => {
    const zone = [
      ...mx('to.test', '10 a.test', '20 b.test', '30 c.test'),
      ...host('a.test', '8.8.0.1', '8.8.0.2', '8.8.0.3', '8.8.0.4'),
      ...host('b.test', '8.8.1.1', '8.8.1.2', '8.8.1.3'),
      ...host('c.test', '8.8.2.1'),
    ];
    const found = await find(zone);
    expect(found).toMatchObject({ hosts: [{ name: 'a.test' }, { name: 'b.test' }] });
    expect(found.kind === 'hosts' && found.hosts.map(({ addresses }) => addresses.length)).toEqual([3, 2]);
  });

  test('an alias as MX, and a domain that is an alias, are followed', async () => {
    const zone: ZoneRecord[] = [
      { name: 'to.test', type: 'CNAME', value: 'real.test' },
      ...mx('real.test', '10 alias.test'),
      { name: 'alias.test', type: 'CNAME', value: 'a.test' },
      ...host('a.test', '8.8.0.1'),
    ];
    expect(await find(zone)).toMatchObject({ hosts: [{ name: 'alias.test', addresses: ['8.8.0.1'] }] });
  });

  test('hosts that cannot be used are left out while others can', async () => {
    const zone: ZoneRecord[] = [
      ...mx('to.test', '0 .', '1 192.0.2.1', '2 gone.test', '3 private.test', '4 servfail.test', '5 a.test'),
      ...host('private.test', '10.0.0.1', '::1'),
      { name: 'servfail.test', fault: 'SERVFAIL' },
      ...host('a.test', '8.8.0.1', '127.0.0.1'),
    ];
    expect(await find(zone)).toEqual({
      kind: 'hosts',
      hosts: [{ name: 'a.test', preference: 5, addresses: ['8.8.0.1'] }],
    });
  });

  test('a hundred MX records cost ten look-ups of hosts', async () => {
    const { server, resolver } = await startTestDns(
      mx('to.test', ...Array.from({ length: 100 }, (_, i) => `${i} h${i}.test`)),
    );
    const found = await findMailHosts('to.test', {
      resolver,
      hostname: 'mail.our.test',
      ownAddresses: () => false,
      allowPrivate: false,
    });
    expect(found.kind).toBe('permanent');
    expect(server.questions().filter((question) => question.startsWith('A '))).toHaveLength(10);
  });
});

describe('permanent', () => {
  test.each<[string, ZoneRecord[], number, string]>([
    ['the domain does not exist', [], 550, '5.1.2'],
    ['neither MX nor address', [{ name: 'to.test', type: 'TXT', value: 'here' }], 550, '5.1.2'],
    [
      'a null MX (RFC 7505), though an address is there',
      [...mx('to.test', '0 .'), ...host('to.test', '8.8.0.1')],
      556,
      '5.1.10',
    ],
    ['an MX that is an address', mx('to.test', '10 192.0.2.1'), 550, '5.4.4'],
    ['an MX that is an address literal', mx('to.test', '10 [192.0.2.1]'), 550, '5.4.4'],
    ['an MX that does not exist', mx('to.test', '10 gone.test'), 550, '5.4.4'],
    ['an MX on a private network', [...mx('to.test', '10 a.test'), ...host('a.test', '192.168.0.1')], 550, '5.4.4'],
    ['an MX on loopback', [...mx('to.test', '10 a.test'), ...host('a.test', '127.0.0.1', '::1')], 550, '5.4.4'],
    ['an address of its own on a private network', host('to.test', '10.1.1.1'), 550, '5.4.4'],
    [
      'a loop of aliases',
      [
        { name: 'to.test', type: 'CNAME', value: 'there.test' },
        { name: 'there.test', type: 'CNAME', value: 'to.test' },
      ],
      550,
      '5.4.4',
    ],
    ['our own name as MX', mx('to.test', '10 MAIL.our.test.'), 550, '5.4.6'],
    [
      'our own name beside an equal',
      [...mx('to.test', '10 mail.our.test', '10 a.test'), ...host('a.test', '8.8.0.1')],
      550,
      '5.4.6',
    ],
    [
      'our own name before a farther host',
      [...mx('to.test', '10 mail.our.test', '20 a.test'), ...host('a.test', '8.8.0.1')],
      550,
      '5.4.6',
    ],
    [
      'our own address as MX',
      [...mx('to.test', '10 a.test', '20 b.test'), ...host('a.test', '9.9.9.9'), ...host('b.test', '8.8.0.1')],
      550,
      '5.4.6',
    ],
    ['our own address as address record', host('to.test', '9.9.9.9'), 550, '5.4.6'],
    ['a nearer host is gone, then comes our own name', mx('to.test', '10 gone.test', '20 mail.our.test'), 550, '5.4.6'],
  ])('%s', async (_what, zone, status, code) => {
    const reason: unknown = expect.stringContaining('to.test');
    const own = code === '5.4.6' ? { isOwn: true } : {};
    expect(await find(zone)).toEqual({ kind: 'permanent', status, code, reason, ...own });
  });

  test('mail for our own host name never goes out', async () => {
    expect(await find(host('to.test', '8.8.0.1'), { hostname: 'to.test' })).toMatchObject({ code: '5.4.6' });
  });

  test('a host nearer than ourselves is still used', async () => {
    const zone = [
      ...mx('to.test', '10 a.test', '20 mail.our.test', '30 b.test'),
      ...host('a.test', '8.8.0.1'),
      ...host('b.test', '8.8.0.2'),
    ];
    expect(await find(zone)).toMatchObject({ kind: 'hosts', hosts: [{ name: 'a.test' }] });
  });

  test('the reason names what stands there', async () => {
    const zone = [...mx('to.test', '10 a.test'), ...host('a.test', '192.168.0.1')];
    expect(await find(zone)).toMatchObject({ reason: expect.stringContaining('a.test (192.168.0.1)') });
  });
});

describe('temporary: DNS that does not answer is never read as "none"', () => {
  test.each<[string, ZoneRecord[]]>([
    [
      'SERVFAIL for the MX, though an address is there',
      [{ name: 'to.test', fault: 'SERVFAIL', only: 'MX' }, ...host('to.test', '8.8.0.1')],
    ],
    [
      'silence for the MX, though an address is there',
      [{ name: 'to.test', fault: 'SILENT', only: 'MX' }, ...host('to.test', '8.8.0.1')],
    ],
    ['REFUSED', [{ name: 'to.test', fault: 'REFUSED' }]],
    [
      'no MX, and the address cannot be looked up',
      [
        { name: 'to.test', fault: 'SERVFAIL', only: 'A' },
        { name: 'to.test', type: 'TXT', value: 'here' },
      ],
    ],
    [
      'a host is on a private network with one family, and the other cannot be looked up',
      [
        ...mx('to.test', '10 a.test'),
        ...host('a.test', '10.0.0.1'),
        { name: 'a.test', fault: 'SERVFAIL', only: 'AAAA' },
      ],
    ],
    ['the only host cannot be looked up', [...mx('to.test', '10 a.test'), { name: 'a.test', fault: 'SERVFAIL' }]],
    [
      'one host is gone, the other cannot be looked up',
      [...mx('to.test', '10 gone.test', '20 a.test'), { name: 'a.test', fault: 'SILENT' }],
    ],
    [
      'a nearer host cannot be looked up, then comes our own name',
      [...mx('to.test', '10 a.test', '20 mail.our.test'), { name: 'a.test', fault: 'SERVFAIL' }],
    ],
  ])('%s', async (_what, zone) => {
    expect(await find(zone)).toEqual({ kind: 'temporary', reason: expect.stringMatching(/^(MX|A|AAAA) /) });
  });
});

describe('allowPrivate', () => {
  test('private and loopback targets are used, impossible ones never', async () => {
    const zone = [
      ...mx('to.test', '10 a.test'),
      ...host('a.test', '127.0.0.1', '10.0.0.1', '0.0.0.0', '224.0.0.1', '::'),
    ];
    const found = await find(zone, { allowPrivate: true });
    expect(found.kind === 'hosts' && found.hosts[0]?.addresses.toSorted()).toEqual(['10.0.0.1', '127.0.0.1']);
  });

  test('our own address is a loop all the same', async () => {
    const zone = host('to.test', '127.0.0.1');
    expect(await find(zone, { allowPrivate: true, ownAddresses: (ip) => ip === '127.0.0.1' })).toMatchObject({
      code: '5.4.6',
    });
  });
});
