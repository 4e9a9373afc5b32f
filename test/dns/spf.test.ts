import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { adviseSpf } from '../../src/dns/spf.ts';
import type { RecordStatus } from '../../src/dns/finding.ts';
import { startTestDns } from '../harness/dns.ts';
import { longestTurn } from '../harness/cpu.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const OURS = '192.0.2.1';
const HOST: ZoneRecord = { name: 'mail.our.test', type: 'A', value: OURS };

function txt(name: string, value: string): ZoneRecord {
  return { name, type: 'TXT', value };
}

/** `count` includes, each of which is one look-up. */
function includes(count: number): { terms: string; zone: ZoneRecord[] } {
  const names = Array.from({ length: count }, (_, i) => `s${i}.test`);
  return {
    terms: names.map((name) => `include:${name}`).join(' '),
    zone: names.map((name) => txt(name, 'v=spf1 ip4:198.51.100.7 ~all')),
  };
}

async function advise(texts: readonly string[], zone: readonly ZoneRecord[] = [], publicIps: readonly string[] = []) {
  const { resolver } = await startTestDns([HOST, ...zone]);
  const hostAddresses = await resolver.addresses('mail.our.test');
  return adviseSpf('example.test', texts, { resolver, hostname: 'mail.our.test', hostAddresses, publicIps });
}

describe('a record by which our mail passes is left alone', () => {
  test.each<[string, string, ZoneRecord[]]>([
    ['our name', 'v=spf1 a:mail.our.test -all', []],
    ['our name in other spelling', 'V=SPF1 +A:Mail.Our.Test/32 ?all', []],
    ['our address', 'v=spf1 ip4:192.0.2.1 -all', []],
    ['our network', 'v=spf1 ip4:192.0.2.0/24 -all', []],
    [
      'an include that covers us',
      'v=spf1 include:spf.our.test -all',
      [txt('spf.our.test', 'v=spf1 ip4:192.0.2.1 -all')],
    ],
    ['a redirect to one', 'v=spf1 redirect=spf.our.test', [txt('spf.our.test', 'v=spf1 ip4:192.0.2.1 -all')]],
    ['an MX that is us', 'v=spf1 mx -all', [{ name: 'example.test', type: 'MX', value: '10 mail.our.test' }]],
    ['a modifier that nobody knows', 'v=spf1 a:mail.our.test ra=postmaster -all', []],
    ['ten look-ups', `v=spf1 a:mail.our.test ${includes(9).terms} -all`, includes(9).zone],
    [
      'somebody else’s server that is silent',
      'v=spf1 a:mail.our.test a:slow.test -all',
      [{ name: 'slow.test', fault: 'SERVFAIL' }],
    ],
  ])('%s', async (_what, text, zone) => {
    expect(await advise([text], zone)).toEqual({ status: 'ok', found: [text] });
  });
});

describe('else the advice is one record with all that stands there', () => {
  test.each<[string, string[], RecordStatus, string | undefined, string]>([
    ['none', [], 'missing', 'v=spf1 a:mail.our.test ~all', 'There is no SPF record.'],
    ['not quite one', ['v=spf10 mx'], 'missing', 'v=spf1 a:mail.our.test mx ~all', 'does not count'],
    [
      'one in quotation marks',
      ['"v=spf1 ip4:198.51.100.7 -all"'],
      'missing',
      'v=spf1 a:mail.our.test ip4:198.51.100.7 -all',
      'does not count',
    ],
    [
      'one with a semicolon',
      ['v=spf1; ip4:198.51.100.7; ?all'],
      'missing',
      'v=spf1 a:mail.our.test ip4:198.51.100.7 ?all',
      'does not count',
    ],
    ['a token of somebody', ['spf-check=1'], 'missing', 'v=spf1 a:mail.our.test ~all', 'no SPF'],
    ['Sender ID, which is another thing', ['spf2.0/pra mx -all'], 'missing', 'v=spf1 a:mail.our.test ~all', 'no SPF'],
    [
      'somebody else only',
      ['v=spf1 ip4:198.51.100.7 -all'],
      'wrong',
      'v=spf1 a:mail.our.test ip4:198.51.100.7 -all',
      'Mail from 192.0.2.1 does not pass (fail).',
    ],
    ['no end', ['v=spf1 mx'], 'wrong', 'v=spf1 a:mail.our.test mx', '(neutral)'],
    ['we are forbidden', ['v=spf1 -a:mail.our.test ~all'], 'wrong', 'v=spf1 a:mail.our.test ~all', '(fail)'],
    ['we are neutral', ['v=spf1 ?ip4:192.0.2.1 ~all'], 'wrong', 'v=spf1 a:mail.our.test ~all', '(neutral)'],
    [
      'everybody may',
      ['v=spf1 mx +all'],
      'wrong',
      'v=spf1 a:mail.our.test mx ~all',
      'It allows any host to send as this domain.',
    ],
    [
      'everybody may, by a network',
      ['v=spf1 ip4:0.0.0.0/0 -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      'ip4:0.0.0.0/0 must be removed: it allows any host.',
    ],
    [
      'a mechanism that nobody knows',
      ['v=spf1 a:mail.our.test ipv4:198.51.100.7 -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      'ipv4:198.51.100.7 must be removed: Unknown mechanism "ipv4".',
    ],
    [
      'an include of nothing',
      ['v=spf1 a:mail.our.test include:gone.test -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      'include:gone.test must be removed',
    ],
    [
      'look-ups that find nothing',
      ['v=spf1 a:mail.our.test a:x.gone.test a:y.gone.test a:z.gone.test -all'],
      'wrong',
      'v=spf1 ip4:192.0.2.1 a:x.gone.test a:y.gone.test a:z.gone.test -all',
      '3 of its DNS lookups find nothing, but receivers stop at 2. Remove services that no longer send as this domain.',
    ],
    [
      'two records',
      ['v=spf1 ip4:198.51.100.7 -all', 'v=spf1 mx ip4:198.51.100.7 ~all'],
      'duplicate',
      'v=spf1 a:mail.our.test ip4:198.51.100.7 mx -all',
      'There are 2 SPF records, but only one is allowed',
    ],
    [
      'everybody may, over IPv6',
      ['v=spf1 a:mail.our.test ip6:::/0 -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      'ip6:::/0 must be removed: it allows any host over IPv6.',
    ],
    [
      'everybody may, over all of IPv6 that is in use',
      ['v=spf1 a:mail.our.test ip6:2000::/3 -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      'It allows any host to send as this domain over IPv6.',
    ],
    ['a dash for a hyphen', ['v=spf1 mx \u2013all'], 'wrong', 'v=spf1 a:mail.our.test mx -all', 'error'],
    ['two hyphens', ['v=spf1 a:mail.our.test --all'], 'wrong', 'v=spf1 a:mail.our.test -all', 'error'],
    [
      'two explanations',
      ['v=spf1 exp=a.test mx -all', 'v=spf1 exp=b.test -all'],
      'duplicate',
      'v=spf1 a:mail.our.test exp=a.test mx -all',
      '2 SPF records',
    ],
    [
      'an end after a redirect',
      ['v=spf1 redirect=spf.gone.test -all'],
      'wrong',
      'v=spf1 a:mail.our.test -all',
      '(fail)',
    ],
  ])('%s', async (_what, texts, status, value, problem) => {
    const found = await advise(texts);
    expect(found).toMatchObject({ status, value });
    expect(found.problem).toContain(problem);
  });

  test('a redirect that does not cover us stays the end', async () => {
    const zone = [txt('spf.other.test', 'v=spf1 ip4:198.51.100.7 -all')];
    expect(await advise(['v=spf1 redirect=spf.other.test'], zone)).toMatchObject({
      status: 'wrong',
      value: 'v=spf1 a:mail.our.test redirect=spf.other.test',
    });
  });
});

describe('a redirect that is not the end is an include', () => {
  const zone = [
    txt('spf.other.test', 'v=spf1 ip4:198.51.100.7 -all'),
    txt('spf.third.test', 'v=spf1 ip4:203.0.113.7 -all'),
  ];
  test.each<[string, string[], string]>([
    [
      'beside a record with an end',
      ['v=spf1 redirect=spf.other.test', 'v=spf1 mx ~all'],
      'v=spf1 a:mail.our.test include:spf.other.test mx ~all',
    ],
    [
      'beside another redirect',
      ['v=spf1 redirect=spf.other.test', 'v=spf1 redirect=spf.third.test'],
      'v=spf1 a:mail.our.test include:spf.third.test redirect=spf.other.test',
    ],
    [
      'unless it meant nothing where it stood',
      ['v=spf1 redirect=spf.other.test -all', 'v=spf1 mx ~all'],
      'v=spf1 a:mail.our.test mx -all',
    ],
  ])('%s', async (_what, texts, value) => {
    expect(await advise(texts, zone)).toMatchObject({ status: 'duplicate', value });
  });
});

test('a record that may not fit into an answer has to lose some', async () => {
  const networks = Array.from({ length: 30 }, (_, i) => `ip4:198.51.100.${100 + i}`).join(' ');
  const found = await advise([`v=spf1 ${networks} -all`]);
  expect(found.problem).toContain(
    'only 450 are certain to fit into a DNS response. Remove services that no longer send',
  );
});

describe('look-ups', () => {
  test('more than ten MX records of one name are too many, ours in front or not', async () => {
    const zone = Array.from({ length: 11 }, (_, i): ZoneRecord[] => [
      { name: 'many.test', type: 'MX', value: `10 mx${i}.many.test` },
      { name: `mx${i}.many.test`, type: 'A', value: '198.51.100.7' },
    ]).flat();
    for (const text of ['v=spf1 a:mail.our.test mx:many.test -all', 'v=spf1 mx:many.test a:mail.our.test -all']) {
      const found = await advise([text], zone);
      expect(found.problem).toContain('It needs 11 MX records of many.test, but receivers stop at 10.');
      expect(found.problem).toContain('Remove services that no longer send');
    }
    expect(await advise(['v=spf1 a:mail.our.test mx:many.test -all'], zone.slice(2))).toMatchObject({ status: 'ok' });
  });

  test('eleven are too many, even where ours comes first', async () => {
    const { terms, zone } = includes(10);
    const found = await advise([`v=spf1 a:mail.our.test ${terms} -all`], zone);
    expect(found).toMatchObject({ status: 'wrong', value: `v=spf1 ip4:${OURS} ${terms} -all` });
    expect(found.problem).toBe('It needs 11 DNS lookups, but receivers stop at 10.');
  });

  test('where our name would be the eleventh our address is advised', async () => {
    const { terms, zone } = includes(10);
    expect(await advise([`v=spf1 ${terms} -all`], zone)).toMatchObject({
      status: 'wrong',
      value: `v=spf1 ip4:${OURS} ${terms} -all`,
    });
  });

  test('what is beyond the limit by itself has to lose some', async () => {
    const { terms, zone } = includes(12);
    const found = await advise([`v=spf1 ${terms} -all`], zone);
    expect(found.problem).toContain('It needs 12 DNS lookups, but receivers stop at 10.');
    expect(found.problem).toContain('Remove services that no longer send');
  });
});

describe('where our mail comes from', () => {
  test('configured addresses that the host name does not have are named', async () => {
    const found = await advise([], [], ['203.0.113.9', '2001:db8::9']);
    expect(found.value).toBe('v=spf1 ip4:203.0.113.9 ip6:2001:db8::9 ~all');
  });

  test('every one of them has to pass', async () => {
    const found = await advise(['v=spf1 ip4:203.0.113.9 -all'], [], ['203.0.113.9', '2001:db8::9']);
    expect(found.problem).toBe('Mail from 2001:db8::9 does not pass (fail).');
  });

  test('a host name without an address is no verdict', async () => {
    const { resolver } = await startTestDns([]);
    const hostAddresses = await resolver.addresses('mail.our.test');
    const world = { resolver, hostname: 'mail.our.test', hostAddresses, publicIps: [] };
    expect(await adviseSpf('example.test', [], world)).toMatchObject({
      status: 'unknown',
      problem: 'mail.our.test has no address, so the IP addresses that send mail are not known.',
    });
  });
});

test.each<[string, ZoneRecord[]]>([
  ['an include', [{ name: 'slow.test', fault: 'SERVFAIL' }]],
  ['our own name', [{ name: 'mail.our.test', fault: 'SERVFAIL' }, txt('slow.test', 'v=spf1 -all')]],
  [
    'half of our addresses',
    [HOST, { name: 'mail.our.test', fault: 'SERVFAIL', only: 'AAAA' }, txt('slow.test', 'v=spf1 ip4:192.0.2.1 -all')],
  ],
])('DNS that is silent about %s proves nothing', async (_what, zone) => {
  const { resolver } = await startTestDns(zone.some(({ name }) => name === HOST.name) ? zone : [HOST, ...zone]);
  const hostAddresses = await resolver.addresses('mail.our.test');
  const world = { resolver, hostname: 'mail.our.test', hostAddresses, publicIps: [] };
  expect(await adviseSpf('example.test', ['v=spf1 include:slow.test -all'], world)).toMatchObject({
    status: 'unknown',
    problem: expect.stringContaining('SERVFAIL'),
  });
});

test('whoever publishes the advice passes, whatever stood there before', async () => {
  const { terms, zone } = includes(6);
  const nested = txt('nested.test', `v=spf1 ${terms} ?all`);
  const open = txt('open.test', 'v=spf1 +all');
  const slim = txt('slim.test', 'v=spf1 ip4:203.0.113.7 -all');
  const { resolver } = await startTestDns([HOST, nested, open, slim, ...zone]);
  const hostAddresses = await resolver.addresses('mail.our.test');
  const world = { resolver, hostname: 'mail.our.test', hostAddresses, publicIps: [] };
  const term = fc.constantFrom(
    ...terms.split(' '),
    ...'~all -all +all all mx a ptr a:mail.our.test -a:mail.our.test ?ip4:192.0.2.1/32 -ip4:192.0.2.0/24'.split(' '),
    ...'include:nested.test include:gone.test include:open.test redirect=nested.test redirect=gone.test'.split(' '),
    ...'redirect=open.test redirect=slim.test ip6:::/0 exp=b.test --all ipv4:192.0.2.1 a: exists:%{i}.gone.test exp=why.gone.test ra=postmaster %'.split(
      ' ',
    ),
  );
  const record = fc.array(term, { maxLength: 9 }).map((list) => ['v=spf1', ...list].join(' '));
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(record, { maxLength: 2 }), async (texts) => {
      const first = await adviseSpf('example.test', texts, world);
      if (first.status === 'ok') return;
      const again = await adviseSpf('example.test', [first.value ?? ''], world);
      // What is beyond the limits by itself, only its owner can shorten.
      if (again.status !== 'ok') expect(again.problem).toMatch(/receivers stop at/);
    }),
    { numRuns: 60 },
  );
});

test.each([
  ['dashes', `v=spf1 ${'-'.repeat(30)}x`],
  ['dashes of all kinds', `v=spf1 ${'-\u2013\u2212'.repeat(1000)}x -all`],
])('a record of many %s is judged at once', async (_, text) => {
  expect(await longestTurn(() => advise([text]))).toBeLessThan(500);
});
