import { describe, expect, test } from 'vitest';
import { type RecordStatus, checkDomain } from '../../src/dns/check.ts';
import { domainRecords } from '../../src/dns/records.ts';
import { type ZoneRecord, startTestDns } from '../harness/dns.ts';

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

async function check(...zone: ZoneRecord[]) {
  const { resolver } = await startTestDns([txt('example.test', 'unrelated'), ...zone]);
  const { records, verdict } = await checkDomain(WANTED, resolver);
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
      value: 'v=DMARC1; p=none; rua=mailto:postmaster@example.test',
      required: false,
    },
  ]);
});

test('whoever publishes what is wanted is verified', async () => {
  const { resolver } = await startTestDns(WANTED.map(({ name, value }) => txt(name, value)));
  const { records, verdict } = await checkDomain(WANTED, resolver);
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

describe('SPF is advised by adding to what stands there', () => {
  const base = 'v=spf1 a:mail.our.test ~all';
  test.each<[string, string[], RecordStatus, string]>([
    ['none', [], 'missing', base],
    ['ours', ['v=spf1 a:mail.our.test -all'], 'ok', base],
    ['ours in other spelling', ['V=SPF1 +A:Mail.Our.Test/32 mx ?all'], 'ok', base],
    [
      'somebody else only',
      ['v=spf1 include:_spf.other.test -all'],
      'wrong',
      'v=spf1 include:_spf.other.test a:mail.our.test -all',
    ],
    ['a redirect', ['v=spf1 redirect=_spf.other.test'], 'wrong', 'v=spf1 a:mail.our.test redirect=_spf.other.test'],
    ['no end', ['v=spf1 mx'], 'wrong', 'v=spf1 mx a:mail.our.test'],
    ['ours is forbidden', ['v=spf1 -a:mail.our.test ~all'], 'wrong', 'v=spf1 a:mail.our.test ~all'],
    ['two', ['v=spf1 mx -all', 'v=spf1 a:mail.our.test -all'], 'duplicate', base],
    ['something that only looks like it', ['v=spf10 a:mail.our.test'], 'missing', base],
  ])('%s', async (_what, values, status, value) => {
    const { of } = await check(...values.map((text) => txt('example.test', text)));
    expect(of('spf')).toMatchObject({ status, value, required: false });
  });
});

describe('DMARC', () => {
  test.each<[string, ZoneRecord[], RecordStatus]>([
    ['none', [], 'missing'],
    ['any policy is the owner’s decision', [txt('_dmarc.example.test', 'v=DMARC1;p=reject')], 'ok'],
    [
      'two',
      [txt('_dmarc.example.test', 'v=DMARC1; p=none'), txt('_dmarc.example.test', 'v=DMARC1; p=reject')],
      'duplicate',
    ],
    ['something else', [txt('_dmarc.example.test', 'v=DMARC2; p=none')], 'missing'],
    ['DNS does not answer', [{ name: '_dmarc.example.test', fault: 'SERVFAIL' }], 'unknown'],
  ])('%s', async (_what, zone, status) => {
    expect((await check(...zone)).of('dmarc')).toMatchObject({ status });
  });

  test('a subdomain inherits the policy of the domain above', async () => {
    const wanted = domainRecords({ domain: 'news.eu.example.test', token: 't', hostname: 'mail.our.test', dkim: [] });
    const { resolver } = await startTestDns([txt('_dmarc.example.test', 'v=DMARC1; p=reject')]);
    const { records } = await checkDomain(wanted, resolver);
    expect(records.find(({ purpose }) => purpose === 'dmarc')).toMatchObject({
      status: 'ok',
      found: ['v=DMARC1; p=reject'],
    });
  });
});

test('a check past the cache sees an edit at once', async () => {
  const { server, resolver } = await startTestDns([]);
  expect((await checkDomain(WANTED, resolver)).verdict).toBe('broken');
  server.set([OWNER, DKIM]);
  expect((await checkDomain(WANTED, resolver)).verdict).toBe('broken');
  expect((await checkDomain(WANTED, resolver.fresh())).verdict).toBe('ok');
});
