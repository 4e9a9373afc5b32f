import { describe, expect, test } from 'vitest';
import { mailauthResolver, createResolver } from '../../src/dns/resolver.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const ZONE: readonly ZoneRecord[] = [
  { name: 'full.test', type: 'A', value: '192.0.2.1' },
  { name: 'full.test', type: 'A', value: '192.0.2.2' },
  { name: 'full.test', type: 'AAAA', value: '2001:db8::1' },
  { name: 'full.test', type: 'MX', value: '10 MX1.full.test.' },
  { name: 'full.test', type: 'MX', value: '5 mx2.full.test' },
  { name: 'full.test', type: 'TXT', value: 'v=spf1 -all' },
  { name: 'full.test', type: 'TXT', value: 'grüße, 世界' },
  { name: 'v4.test', type: 'A', value: '192.0.2.3' },
  { name: 'null.test', type: 'MX', value: '0 .' },
  { name: 'alias.test', type: 'CNAME', value: 'full.test' },
  { name: 'dangling.test', type: 'CNAME', value: 'gone.test' },
  { name: 'loop.test', type: 'CNAME', value: 'pool.test' },
  { name: 'pool.test', type: 'CNAME', value: 'loop.test' },
  { name: '1.2.0.192.in-addr.arpa', type: 'PTR', value: 'Full.test.' },
  { name: 'below.parent.test', type: 'A', value: '192.0.2.4' },
  { name: 'servfail.test', fault: 'SERVFAIL' },
  { name: 'refused.test', fault: 'REFUSED' },
  { name: 'silent.test', fault: 'SILENT' },
  { name: 'half.test', type: 'A', value: '192.0.2.5' },
  { name: 'half.test', fault: 'SERVFAIL', only: 'AAAA' },
  { name: 'nohalf.test', type: 'TXT', value: 'here' },
  { name: 'nohalf.test', fault: 'SERVFAIL', only: 'AAAA' },
];

describe('answers', () => {
  test('records come as data: lower-case host names, joined texts, both families', async () => {
    const { resolver } = await startTestDns(ZONE);
    expect(await resolver.mx('Full.Test.')).toEqual({
      kind: 'found',
      records: expect.arrayContaining([
        { preference: 10, exchange: 'mx1.full.test' },
        { preference: 5, exchange: 'mx2.full.test' },
      ]),
    });
    expect(await resolver.mx('null.test')).toEqual({ kind: 'found', records: [{ preference: 0, exchange: '' }] });
    expect(await resolver.txt('full.test')).toEqual({
      kind: 'found',
      records: expect.arrayContaining(['v=spf1 -all', 'grüße, 世界']),
    });
    expect(await resolver.addresses('full.test')).toEqual({
      kind: 'found',
      records: ['192.0.2.1', '192.0.2.2', '2001:db8::1'],
    });
    expect(await resolver.lookup('full.test', 'AAAA')).toEqual({ kind: 'found', records: ['2001:db8::1'] });
    expect(await resolver.lookup('1.2.0.192.in-addr.arpa', 'PTR')).toEqual({ kind: 'found', records: ['full.test'] });
  });

  test('an alias is followed; what it points to may be missing', async () => {
    const { resolver } = await startTestDns(ZONE);
    expect(await resolver.lookup('alias.test', 'A')).toMatchObject({ records: ['192.0.2.1', '192.0.2.2'] });
    expect(await resolver.lookup('alias.test', 'CNAME')).toMatchObject({ records: ['full.test'] });
    expect(await resolver.addresses('dangling.test')).toEqual({ kind: 'nxdomain' });
  });

  test.each([
    ['no such name', 'none.test', 'nxdomain'],
    ['the name is there, the type is not', 'v4.test', 'nodata'],
    ['a name that only has names below it', 'parent.test', 'nodata'],
    ['SERVFAIL', 'servfail.test', 'failed'],
    ['REFUSED', 'refused.test', 'failed'],
    ['silence', 'silent.test', 'failed'],
    ['a loop of aliases', 'loop.test', 'failed'],
    ['an empty label', 'a..test', 'nxdomain'],
    ['a label of 64 octets', `${'x'.repeat(64)}.test`, 'nxdomain'],
  ])('%s', async (_what, name, kind) => {
    const { resolver } = await startTestDns(ZONE);
    expect((await resolver.txt(name)).kind).toBe(kind);
    expect((await resolver.mx(name)).kind).toBe(kind);
  });

  test('a failure says what was asked and what went wrong', async () => {
    const { resolver } = await startTestDns(ZONE);
    expect(await resolver.txt('servfail.test')).toMatchObject({
      reason: expect.stringMatching(/TXT servfail.*SERVFAIL/),
    });
    expect(await resolver.mx('refused.test')).toMatchObject({
      reason: expect.stringMatching(/MX refused.*refused the query/),
    });
    expect(await resolver.mx('silent.test')).toMatchObject({ reason: expect.stringMatching(/in time/) });
  });

  test('addresses: one family is enough, with a word that there may be more, and "none" is said only of both', async () => {
    const { resolver } = await startTestDns(ZONE);
    expect(await resolver.addresses('v4.test')).toEqual({ kind: 'found', records: ['192.0.2.3'] });
    expect(await resolver.addresses('half.test')).toEqual({
      kind: 'found',
      records: ['192.0.2.5'],
      partial: expect.stringMatching(/AAAA half\.test.*SERVFAIL/),
    });
    expect((await resolver.addresses('nohalf.test')).kind).toBe('failed');
    expect((await resolver.addresses('null.test')).kind).toBe('nodata');
    expect((await resolver.addresses('none.test')).kind).toBe('nxdomain');
  });

  test('a server that is not there is a failure', async () => {
    const { server } = await startTestDns([]);
    await server.close();
    const resolver = createResolver({ servers: [server.address], timeoutMs: 300 });
    expect((await resolver.txt('full.test')).kind).toBe('failed');
  });

  test('silence ends at the time-out', async () => {
    const { resolver } = await startTestDns(ZONE, { timeoutMs: 150 });
    const begun = performance.now();
    expect((await resolver.addresses('silent.test')).kind).toBe('failed');
    expect(performance.now() - begun).toBeLessThan(4000);
  });

  test('an answer too large for UDP comes whole over TCP', async () => {
    const key = 'A'.repeat(4000);
    const { resolver } = await startTestDns([{ name: 'big.test', type: 'TXT', value: `v=DKIM1; p=${key}` }]);
    expect(await resolver.txt('big.test')).toEqual({ kind: 'found', records: [`v=DKIM1; p=${key}`] });
  });
});

describe('memory', () => {
  function clockAt(start: number) {
    let now = start;
    return {
      clock: { now: () => now, monotonic: () => now, sleep: () => Promise.resolve() },
      advance: (ms: number) => void (now += ms),
    };
  }
  const before: ZoneRecord[] = [{ name: 'a.test', type: 'TXT', value: 'old' }];
  const after: ZoneRecord[] = [{ name: 'a.test', type: 'TXT', value: 'new' }];

  test('an answer is remembered for five minutes; fresh() asks anew and is remembered', async () => {
    const { clock, advance } = clockAt(0);
    const { server, resolver } = await startTestDns(before, { clock });
    await resolver.txt('a.test');
    server.set(after);
    advance(299_000);
    expect(await resolver.txt('A.test.')).toMatchObject({ records: ['old'] });
    expect(await resolver.fresh().txt('a.test')).toMatchObject({ records: ['new'] });
    expect(await resolver.txt('a.test')).toMatchObject({ records: ['new'] });
    server.set(before);
    advance(301_000);
    expect(await resolver.txt('a.test')).toMatchObject({ records: ['old'] });
  });

  test('an address is remembered no longer than its TTL', async () => {
    const { clock, advance } = clockAt(0);
    const { server, resolver } = await startTestDns([{ name: 'a.test', type: 'A', value: '192.0.2.1', ttl: 10 }], {
      clock,
    });
    await resolver.lookup('a.test', 'A');
    server.set([{ name: 'a.test', type: 'A', value: '192.0.2.2' }]);
    advance(9_000);
    expect(await resolver.lookup('a.test', 'A')).toMatchObject({ records: ['192.0.2.1'] });
    advance(2_000);
    expect(await resolver.lookup('a.test', 'A')).toMatchObject({ records: ['192.0.2.2'] });
  });

  test('"there is none" is remembered for a minute', async () => {
    const { clock, advance } = clockAt(0);
    const { server, resolver } = await startTestDns([], { clock });
    expect((await resolver.txt('a.test')).kind).toBe('nxdomain');
    server.set(after);
    advance(59_000);
    expect((await resolver.txt('a.test')).kind).toBe('nxdomain');
    advance(2_000);
    expect(await resolver.txt('a.test')).toMatchObject({ records: ['new'] });
  });

  test('a failure is not remembered', async () => {
    const { server, resolver } = await startTestDns([{ name: 'a.test', fault: 'SERVFAIL' }]);
    expect((await resolver.txt('a.test')).kind).toBe('failed');
    server.set(after);
    expect(await resolver.txt('a.test')).toMatchObject({ records: ['new'] });
  });

  test('the same question asked many times at once is asked once', async () => {
    const { server, resolver } = await startTestDns(before);
    const answers = await Promise.all(Array.from({ length: 50 }, () => resolver.txt('a.test')));
    expect(answers.every((answer) => answer.kind === 'found')).toBe(true);
    expect(server.questions()).toEqual(['TXT a.test']);
  });

  test('it holds a thousand names of a kind and forgets the oldest', async () => {
    const { server, resolver } = await startTestDns([{ name: '*', type: 'TXT', value: 'any' }]);
    for (let i = 0; i <= 1000; i++) await resolver.txt(`n${i}.test`);
    const asked = server.questions().length;
    await resolver.txt('n1000.test');
    expect(server.questions().length).toBe(asked);
    await resolver.txt('n0.test');
    expect(server.questions().length).toBe(asked + 1);
  });
});

describe('mailauthResolver', () => {
  test("answers in Node's shapes", async () => {
    const { resolver } = await startTestDns(ZONE);
    const ask = mailauthResolver(resolver);
    expect(await ask('full.test', 'TXT')).toContainEqual(['v=spf1 -all']);
    expect(await ask('full.test', 'MX')).toContainEqual({ priority: 10, exchange: 'mx1.full.test' });
    expect(await ask('full.test', 'A')).toEqual(['192.0.2.1', '192.0.2.2']);
    expect(await ask('alias.test', 'CNAME')).toEqual(['full.test']);
  });

  test.each([
    ['none.test', 'A', 'ENOTFOUND'],
    ['v4.test', 'AAAA', 'ENODATA'],
    ['servfail.test', 'TXT', 'ESERVFAIL'],
    ['silent.test', 'TXT', 'ESERVFAIL'],
    ['half.test', 'AAAA', 'ESERVFAIL'],
  ])('%s %s is an error with the code %s', async (name, type, code) => {
    const { resolver } = await startTestDns(ZONE);
    await expect(mailauthResolver(resolver)(name, type)).rejects.toMatchObject({ code });
  });
});
