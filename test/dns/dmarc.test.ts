import { describe, expect, test } from 'vitest';
import { checkDomain } from '../../src/dns/check.ts';
import type { RecordStatus } from '../../src/dns/finding.ts';
import { domainRecords } from '../../src/dns/records.ts';
import { startTestDns } from '../harness/dns.ts';
import { longestTurn } from '../harness/cpu.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

function txt(name: string, value: string): ZoneRecord {
  return { name, type: 'TXT', value };
}

/** How the DMARC record of `domain` is found in such a zone. */
async function dmarc(zone: readonly ZoneRecord[], domain = 'example.test') {
  const { resolver } = await startTestDns(zone);
  const wanted = domainRecords({ domain, token: 't', hostname: 'mail.our.test', dkim: [] });
  const { records } = await checkDomain(domain, wanted, {
    resolver,
    hostname: 'mail.our.test',
    publicIps: ['192.0.2.1'],
    fetchPolicy: () => Promise.resolve({ kind: 'failed', reason: 'nobody asks' }),
  });
  return records.find(({ purpose }) => purpose === 'dmarc');
}

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
    ['no policy', [txt('_dmarc.example.test', 'v=DMARC1; rua=mailto:a@example.test')], 'wrong'],
    ['a policy that nobody knows', [txt('_dmarc.example.test', 'v=DMARC1; p=deny')], 'wrong'],
    ['a missing semicolon', [txt('_dmarc.example.test', 'v=DMARC1; p=none rua=mailto:a@example.test')], 'wrong'],
    ['reports to no address', [txt('_dmarc.example.test', 'v=DMARC1; p=none; rua=a@example.test')], 'wrong'],
    [
      'everything that may stand there',
      [
        txt(
          '_dmarc.example.test',
          'v=DMARC1; p=Quarantine; sp=none; np=reject; adkim=s; aspf=r; fo=1:d; pct=50; t=n; psd=n; rua=mailto:a@example.test!10m, mailto:b@c.test; ri=3600',
        ),
      ],
      'ok',
    ],
    ['DNS does not answer', [{ name: '_dmarc.example.test', fault: 'SERVFAIL' }], 'unknown'],
  ])('%s', async (_what, zone, status) => {
    expect(await dmarc(zone)).toMatchObject({ status });
  });

  test.each([
    ['a missing semicolon', 'v=DMARC1; p=none rua=mailto:a@b.test', 'v=DMARC1; p=none; rua=mailto:a@b.test'],
    [
      'one, before a stronger policy',
      'v=DMARC1; p=reject rua=mailto:a@b.test',
      'v=DMARC1; p=reject; rua=mailto:a@b.test',
    ],
    ['a share of what?', 'v=DMARC1; p=reject; pct=lots; adkim=s', 'v=DMARC1; p=reject; adkim=s'],
    ['more than all', 'v=DMARC1; p=quarantine; pct=120', 'v=DMARC1; p=quarantine'],
    [
      'options that nobody knows',
      'v=DMARC1; p=reject; fo=x; ruf=mailto:a@b.test',
      'v=DMARC1; p=reject; ruf=mailto:a@b.test',
    ],
    ['a semicolon too many', 'v=DMARC1; p=reject;; sp=none', 'v=DMARC1; p=reject; sp=none'],
    ['the same tag twice', 'v=DMARC1; p=reject; p=reject; adkim=s; adkim=s', 'v=DMARC1; p=reject; adkim=s'],
    ['a tag in capitals', 'v=DMARC1; P=reject', 'v=DMARC1; p=reject'],
    [
      'an address that is no URI',
      'v=DMARC1; p=reject; rua=mailto:a@b.test, c@d.test',
      'v=DMARC1; p=reject; rua=mailto:a@b.test,mailto:c@d.test',
    ],
    ['reports over HTTPS alone', 'v=DMARC1; p=reject; rua=https://b.test', 'v=DMARC1; p=reject'],
    ['no policy', 'v=DMARC1; rua=mailto:a@b.test', 'v=DMARC1; p=none; rua=mailto:a@b.test'],
    ['a misspelt policy', 'v=DMARC1; p=rejct; rua=mailto:a@b.test', ''],
    ['a misspelt policy of subdomains', 'v=DMARC1; p=none; sp=quarantaine', ''],
    ['two policies', 'v=DMARC1; p=none; p=reject', ''],
    ['a policy that is no tag', 'v=DMARC1; p:reject', ''],
    ['a policy of subdomains alone', 'v=DMARC1; sp=reject; rua=mailto:a@b.test', ''],
  ])('%s: no weaker policy is advised', async (_what, stands, value) => {
    const found = await dmarc([txt('_dmarc.example.test', stands)]);
    expect(found).toMatchObject({ status: 'wrong', found: [stands], value });
    if (value === '') return;
    expect(await dmarc([txt('_dmarc.example.test', value)])).toMatchObject({ status: 'ok' });
  });

  test.each([
    ['no version', 'v=DMARC1 p=reject', 'v=DMARC1; p=reject'],
    ['quotation marks', '"v=DMARC1; p=quarantine; pct=50"', 'v=DMARC1; p=quarantine; pct=50'],
    ['small letters', 'v=dmarc1; p=rejct', ''],
  ])('what receivers do not take for a policy: %s', async (_what, stands, value) => {
    const found = await dmarc([txt('_dmarc.example.test', stands)]);
    expect(found).toMatchObject({ status: 'missing', found: [stands], value });
  });

  test('a token of somebody is not replaced', async () => {
    expect(await dmarc([txt('_dmarc.example.test', 'dmarc-verification=1')])).toMatchObject({
      status: 'missing',
      found: [],
      value: 'v=DMARC1; p=none; rua=mailto:reports@mail.our.test',
      problem: expect.stringContaining('dmarc-verification=1'),
    });
  });

  test('that sends its reports elsewhere is right, and a note says how to see them here', async () => {
    const at = (rua: string) => [txt('_dmarc.example.test', `v=DMARC1; p=reject${rua}`)];
    const note = expect.stringMatching(/add mailto:reports@mail\.our\.test to rua=\.$/) as string;
    expect(await dmarc(at(''))).toMatchObject({ status: 'ok', note });
    expect(await dmarc(at('; rua=mailto:a@example.test'))).toMatchObject({ status: 'ok', note });
    const both = await dmarc(at('; rua=mailto:a@example.test,mailto:Reports@mail.our.test!5m'));
    expect(both).toMatchObject({ status: 'ok' });
    expect(both?.note).toBeUndefined();
  });

  test('of two policies none is advised', async () => {
    expect(
      await dmarc([txt('_dmarc.example.test', 'v=DMARC1; p=none'), txt('_dmarc.example.test', 'v=DMARC1; p=reject')]),
    ).toMatchObject({ status: 'duplicate', value: '' });
  });

  test.each([
    ['with an address for reports', 'v=DMARC1; p=rejct; rua=mailto:a@b.test', 'Receivers treat it as p=none.'],
    ['without', 'v=DMARC1; p=rejct', 'Receivers ignore the record.'],
  ])('what receivers do with a policy that they cannot read: %s', async (_what, stands, words) => {
    const problem = `p=rejct is not valid: it may be none, quarantine or reject. ${words}`;
    expect(await dmarc([txt('_dmarc.example.test', stands)])).toMatchObject({ problem });
  });

  test('a CNAME to nothing is named', async () => {
    expect(await dmarc([{ name: '_dmarc.example.test', type: 'CNAME', value: 'gone.test' }])).toMatchObject({
      status: 'missing',
      found: ['CNAME gone.test'],
      problem: 'The name is a CNAME to gone.test, and there is no DMARC policy there.',
    });
  });
});

describe('DMARC of a subdomain', () => {
  const at = (domain: string, value: string) => txt(`_dmarc.${domain}`, value);
  test.each<[string, ZoneRecord[], object]>([
    [
      'it has the policy of the domain above',
      [at('example.test', 'v=DMARC1; p=reject')],
      {
        status: 'ok',
        found: ['v=DMARC1; p=reject'],
        note: 'The policy at _dmarc.example.test applies here: p=reject.',
      },
    ],
    [
      'which may be another one for subdomains',
      [at('example.test', 'v=DMARC1; p=reject; sp=none')],
      { status: 'ok', note: 'The policy at _dmarc.example.test applies here: sp=none.' },
    ],
    [
      'its own comes first',
      [at('example.test', 'v=DMARC1; p=reject'), at('news.eu.example.test', 'v=DMARC1; p=none')],
      { status: 'ok', found: ['v=DMARC1; p=none'] },
    ],
    [
      'of several above the organization’s counts',
      [at('example.test', 'v=DMARC1; p=reject'), at('eu.example.test', 'v=DMARC1; p=none')],
      { status: 'ok', found: ['v=DMARC1; p=reject'] },
    ],
    [
      'a part that is an organization by itself',
      [at('example.test', 'v=DMARC1; p=reject'), at('eu.example.test', 'v=DMARC1; p=none; psd=n')],
      { status: 'ok', found: ['v=DMARC1; p=none; psd=n'] },
    ],
    [
      'a public suffix with an organization below',
      [
        at('test', 'v=DMARC1; p=reject; psd=y'),
        at('example.test', 'v=DMARC1; p=none'),
        at('eu.example.test', 'v=DMARC1; p=reject'),
      ],
      { status: 'ok', found: ['v=DMARC1; p=none'] },
    ],
    [
      'a public suffix, and nobody else',
      [at('test', 'v=DMARC1; p=reject; psd=y')],
      { status: 'ok', note: 'The policy at _dmarc.test applies here: p=reject.' },
    ],
    [
      'other texts at the name hide no policy',
      [at('example.test', 'v=DMARC1; p=reject'), at('news.eu.example.test', 'dmarc-verification=1')],
      { status: 'ok', found: ['v=DMARC1; p=reject'], note: expect.stringContaining('dmarc-verification=1') },
    ],
    [
      'a fault of the policy above is corrected above',
      [at('example.test', 'v=DMARC1; p=reject; fo=x')],
      {
        status: 'wrong',
        value: '',
        problem: 'The policy at _dmarc.example.test applies here too: fo=x is not valid. Correct it there.',
      },
    ],
    [
      'so are two of them',
      [at('example.test', 'v=DMARC1; p=reject'), at('example.test', 'v=DMARC1; p=none')],
      {
        status: 'wrong',
        value: '',
        problem: expect.stringContaining('at _dmarc.example.test, so none is valid here'),
      },
    ],
    ['silence above', [{ name: '_dmarc.example.test', fault: 'SERVFAIL' }], { status: 'unknown', value: '' }],
    [
      'silence of a top-level domain, as in a closed network',
      [{ name: '_dmarc.test', fault: 'SERVFAIL' }],
      { status: 'missing', value: expect.stringMatching(/^v=DMARC1; p=none/) },
    ],
    ['nothing at all', [], { status: 'missing', value: 'v=DMARC1; p=none; rua=mailto:reports@mail.our.test' }],
  ])('%s', async (_what, zone, expected) => {
    expect(await dmarc(zone, 'news.eu.example.test')).toMatchObject(expected);
  });
});

test.each([
  ['blanks', `v=DMARC1; p=none${' '.repeat(60_000)}x`],
  ['blanks in what is no policy', `p=none${' '.repeat(60_000)}x`],
  ['commas', `v=DMARC1; p=x${','.repeat(60_000)}x`],
  ['addresses', `v=DMARC1; p=none; rua=mailto:${'@'.repeat(60_000)} x`],
])('a record of many %s is judged at once', async (_, text) => {
  expect(await longestTurn(() => dmarc([txt('_dmarc.example.test', text)]))).toBeLessThan(500);
});
