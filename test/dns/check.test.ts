import { describe, expect, test } from 'vitest';
import { checkDomain, type CheckWorld } from '../../src/dns/check.ts';
import type { RecordStatus } from '../../src/dns/finding.ts';
import { domainRecords, type DomainRecord } from '../../src/dns/records.ts';
import type { Resolver } from '../../src/dns/resolver.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const KEY = 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtest/key+with/all=';
const WANTED = domainRecords({
  domain: 'example.test',
  token: 'tok123',
  hostname: 'mail.our.test',
  dkim: [{ selector: 'postern', algorithm: 'rsa', publicKey: KEY }],
});
const OWNER = txt('_postern.example.test', 'postern-verification=tok123');
const DKIM = txt('postern._domainkey.example.test', `v=DKIM1; k=rsa; p=${KEY}`);

function txt(name: string, value: string): ZoneRecord {
  return { name, type: 'TXT', value };
}

function judge(resolver: Resolver, records: readonly DomainRecord[] = WANTED, world: Partial<CheckWorld> = {}) {
  return checkDomain('example.test', records, {
    resolver,
    hostname: 'mail.our.test',
    publicIps: ['192.0.2.1'],
    fetchPolicy: () => Promise.resolve({ kind: 'failed', reason: 'nobody asks' }),
    ...world,
  });
}

async function check(...zone: ZoneRecord[]) {
  const { resolver } = await startTestDns([txt('example.test', 'unrelated'), ...zone]);
  const { records, verdict } = await judge(resolver);
  return { verdict, of: (purpose: string) => records.find((record) => record.purpose === purpose) };
}

test('the records to publish, each value as one plain string', () => {
  expect(
    domainRecords({
      domain: 'example.test',
      token: 'tok',
      hostname: 'mail.our.test',
      dkim: [
        { selector: 'postern', algorithm: 'rsa', publicKey: 'AAAA' },
        { selector: 'postern-ed', algorithm: 'ed25519', publicKey: 'BBBB' },
      ],
    }),
  ).toEqual([
    {
      purpose: 'ownership',
      type: 'TXT',
      name: '_postern.example.test',
      value: 'postern-verification=tok',
      required: true,
    },
    {
      purpose: 'dkim',
      type: 'TXT',
      name: 'postern._domainkey.example.test',
      value: 'v=DKIM1; k=rsa; p=AAAA',
      required: true,
    },
    {
      purpose: 'dkim',
      type: 'TXT',
      name: 'postern-ed._domainkey.example.test',
      value: 'v=DKIM1; k=ed25519; p=BBBB',
      required: true,
    },
    { purpose: 'spf', type: 'TXT', name: 'example.test', value: 'v=spf1 a:mail.our.test ~all', required: false },
    {
      purpose: 'dmarc',
      type: 'TXT',
      name: '_dmarc.example.test',
      value: 'v=DMARC1; p=none; rua=mailto:reports@mail.our.test',
      required: false,
    },
  ]);
});

test('whoever publishes what is wanted is verified', async () => {
  const { resolver } = await startTestDns([
    ...WANTED.map(({ name, value }) => txt(name, value)),
    { name: 'mail.our.test', type: 'A', value: '192.0.2.1' },
  ]);
  const { records, verdict } = await judge(resolver);
  expect(verdict).toBe('ok');
  expect(records.map(({ status, found, value }) => [status, found[0] === value])).toEqual(
    WANTED.map(() => ['ok', true]),
  );
});

describe('verdict', () => {
  const fault = (name: string, what: 'SERVFAIL' | 'SILENT'): ZoneRecord => ({ name, fault: what });
  test.each<[string, ZoneRecord[], string]>([
    ['the required records alone suffice', [OWNER, DKIM], 'ok'],
    ['nothing is there', [], 'broken'],
    ['ownership alone', [OWNER], 'broken'],
    ['DKIM alone', [DKIM], 'broken'],
    ['DNS does not answer at all', [{ name: '*', fault: 'SERVFAIL' }], 'unknown'],
    [
      'DNS does not answer for one, the other is right',
      [OWNER, fault('postern._domainkey.example.test', 'SILENT')],
      'unknown',
    ],
    ['DNS does not answer for one, the other is surely wrong', [fault('_postern.example.test', 'SERVFAIL')], 'broken'],
    ['DNS does not answer for an advised record', [OWNER, DKIM, fault('_dmarc.example.test', 'SERVFAIL')], 'ok'],
  ])('%s', async (_what, zone, verdict) => {
    expect((await check(...zone)).verdict).toBe(verdict);
  });

  test('an unanswered record says so and shows nothing', async () => {
    const { of } = await check(OWNER, fault('postern._domainkey.example.test', 'SERVFAIL'));
    expect(of('dkim')).toMatchObject({ status: 'unknown', found: [], problem: expect.stringContaining('SERVFAIL') });
  });
});

describe('what stands there and is not known is not replaced', () => {
  const LARGEST = domainRecords({
    domain: 'example.test',
    token: 'tok123',
    hostname: 'mail.our.test',
    dkim: [{ selector: 'postern', algorithm: 'rsa', publicKey: KEY }],
    inbound: 'encrypted',
  });

  test('DNS does not answer at all: only what stands beside anything may be published', async () => {
    const { resolver } = await startTestDns([{ name: '*', fault: 'SERVFAIL' }]);
    const { records } = await judge(resolver, LARGEST);
    expect(records.map(({ status }) => status)).toEqual(LARGEST.map(() => 'unknown'));
    expect(records.flatMap(({ purpose, value }) => (value === '' ? [] : [purpose]))).toEqual(['ownership', 'dkim']);
  });

  test('an include that does not answer', async () => {
    const stands = 'v=spf1 include:slow.test -all';
    const { resolver } = await startTestDns([txt('example.test', stands), { name: 'slow.test', fault: 'SERVFAIL' }]);
    const { records } = await judge(resolver);
    expect(records.find(({ purpose }) => purpose === 'spf')).toMatchObject({
      status: 'unknown',
      found: [stands],
      value: '',
    });
  });
});

describe('ownership', () => {
  test.each<[string, string[], RecordStatus, string[]]>([
    [
      'another tenant has claimed it too',
      ['postern-verification=other', 'postern-verification=tok123'],
      'ok',
      ['postern-verification=tok123'],
    ],
    ['blanks around it', [' postern-verification=tok123 '], 'ok', ['postern-verification=tok123']],
    ['another token', ['postern-verification=other'], 'wrong', ['postern-verification=other']],
    [
      'the token in another case is another token',
      ['postern-verification=TOK123'],
      'wrong',
      ['postern-verification=TOK123'],
    ],
    ['a longer token', ['postern-verification=tok1234'], 'wrong', ['postern-verification=tok1234']],
    ['something else', ['hello'], 'missing', ['hello']],
    ['nothing', [], 'missing', []],
  ])('%s', async (_what, values, status, found) => {
    const { of } = await check(...values.map((value) => txt('_postern.example.test', value)));
    expect(of('ownership')).toMatchObject({ status, found });
  });

  const twice = '_postern.example.test.example.test';
  test.each<[string, ZoneRecord[], string]>([
    [
      'a console that appended the domain',
      [txt(twice, 'postern-verification=tok123')],
      `There is a record at ${twice}: the DNS console appends the domain, so enter only _postern.`,
    ],
    ['a wildcard of another kind', [txt('*.example.test', 'v=spf1 -all')], 'There is no such record yet.'],
    [
      'a wildcard of the same kind, at names that are not there',
      [txt('*.example.test', 'postern-verification=tok123'), txt('_postern.example.test', 'hello')],
      'There is no such record yet.',
    ],
  ])('%s', async (_what, zone, problem) => {
    expect((await check(...zone)).of('ownership')).toMatchObject({ status: 'missing', problem });
  });
});

describe('DKIM is compared by meaning', () => {
  test.each<[string, string[], RecordStatus]>([
    ['as wanted', [`v=DKIM1; k=rsa; p=${KEY}`], 'ok'],
    ['no blanks, a trailing semicolon', [`v=DKIM1;k=rsa;p=${KEY};`], 'ok'],
    ['another order', [`v=DKIM1; p=${KEY}; k=rsa`], 'ok'],
    ['k= left out: rsa is the default', [`v=DKIM1; p=${KEY}`], 'ok'],
    ['v= left out', [`k=rsa; p=${KEY}`], 'ok'],
    ['blanks inside the key', [`v=DKIM1; k=rsa; p=${KEY.slice(0, 20)} ${KEY.slice(20)}`], 'ok'],
    ['more tags', [`v=DKIM1; h=sha1:sha256; k=rsa; s=email; t=y; n=note; p=${KEY}`], 'ok'],
    ['blanks around everything', [`  v = DKIM1 ;  k = rsa ; p = ${KEY} ; `], 'ok'],
    ['another key', ['v=DKIM1; k=rsa; p=AAAA'], 'wrong'],
    ['the key cut short', [`v=DKIM1; k=rsa; p=${KEY.slice(0, -4)}`], 'wrong'],
    ['a revoked key', ['v=DKIM1; k=rsa; p='], 'wrong'],
    ['no key', ['v=DKIM1; k=rsa'], 'wrong'],
    ['another algorithm', [`v=DKIM1; k=ed25519; p=${KEY}`], 'wrong'],
    ['another version', [`v=DKIM2; k=rsa; p=${KEY}`], 'wrong'],
    ['v= not first (RFC 6376 §3.6.1)', [`k=rsa; v=DKIM1; p=${KEY}`], 'wrong'],
    ['quotation marks as part of the value', [`"v=DKIM1; k=rsa; p=${KEY}"`], 'wrong'],
    ['only sha1 allowed', [`v=DKIM1; h=sha1; p=${KEY}`], 'wrong'],
    ['not for mail', [`v=DKIM1; s=tlsrpt; p=${KEY}`], 'wrong'],
    ['a tag twice', [`v=DKIM1; p=${KEY}; p=${KEY}`], 'wrong'],
    ['not a record at all', ['hello'], 'wrong'],
    ['an empty text', [''], 'wrong'],
    ['two records, one of them right', [`v=DKIM1; k=rsa; p=${KEY}`, 'v=DKIM1; k=rsa; p=AAAA'], 'duplicate'],
    ['none', [], 'missing'],
  ])('%s', async (_what, values, status) => {
    const { of } = await check(...values.map((value) => txt('postern._domainkey.example.test', value)));
    expect(of('dkim')).toMatchObject({ status });
    expect(of('dkim')?.found.toSorted()).toEqual(values.toSorted());
    expect(of('dkim')?.problem === undefined).toBe(status === 'ok');
  });
});

describe('DKIM: what the owner is told', () => {
  const at = 'postern._domainkey.example.test';
  test.each<[string, ZoneRecord[], object]>([
    [
      'a CNAME to the key',
      [{ name: at, type: 'CNAME', value: 'k1.keys.test' }, txt('k1.keys.test', `v=DKIM1; k=rsa; p=${KEY}`)],
      { status: 'ok', note: 'It is found through a CNAME to k1.keys.test, which is fine.' },
    ],
    [
      'a CNAME to another key',
      [{ name: at, type: 'CNAME', value: 'k1.keys.test' }, txt('k1.keys.test', 'v=DKIM1; p=AAAA')],
      { status: 'wrong', problem: 'The key in p= is a different key. (by its CNAME to k1.keys.test)' },
    ],
    [
      'a CNAME to nothing',
      [{ name: at, type: 'CNAME', value: 'k1.keys.test' }],
      { status: 'missing', found: ['CNAME k1.keys.test'] },
    ],
    [
      'a test mode that was forgotten',
      [txt(at, `v=DKIM1; k=rsa; t=y:s; p=${KEY}`)],
      { status: 'ok', note: expect.stringContaining('t=y') },
    ],
    ['a key cut short', [txt(at, `v=DKIM1; p=${KEY.slice(0, 30)}`)], { problem: 'The key p= is cut short.' }],
    [
      'an extra record',
      [txt(at, `v=DKIM1; p=${KEY}`), txt(at, 'old')],
      { status: 'duplicate', problem: 'A selector must have only one TXT record. Remove: old' },
    ],
    [
      'the same record twice, written in two ways',
      [txt(at, `v=DKIM1; p=${KEY}`), txt(at, `v=DKIM1; k=rsa; p=${KEY}`)],
      { problem: 'A selector must have only one TXT record. All of them contain the correct key: keep one.' },
    ],
    [
      'a console that appended the domain',
      [txt(`${at}.example.test`, `v=DKIM1; p=${KEY}`)],
      { status: 'missing', problem: expect.stringContaining('enter only postern._domainkey') },
    ],
  ])('%s', async (_what, zone, expected) => {
    expect((await check(...zone)).of('dkim')).toMatchObject(expected);
  });
});

test('a check past the cache sees an edit at once', async () => {
  const { server, resolver } = await startTestDns([]);
  expect((await judge(resolver)).verdict).toBe('broken');
  server.set([OWNER, DKIM]);
  expect((await judge(resolver)).verdict).toBe('broken');
  expect((await judge(resolver.fresh())).verdict).toBe('ok');
});
