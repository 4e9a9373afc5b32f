import { describe, expect, test } from 'vitest';
import { checkDomain } from '../../src/dns/check.ts';
import { policyRecord, policyText, policyUrl, type FetchedPolicy } from '../../src/dns/mta-sts.ts';
import { domainRecords } from '../../src/dns/records.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const HOST: ZoneRecord = { name: 'mail.our.test', type: 'A', value: '192.0.2.1' };
const RECORDS = domainRecords({
  domain: 'example.test',
  token: 'tok',
  hostname: 'mail.our.test',
  dkim: [],
  inbound: 'encrypted',
});
const POLICY: FetchedPolicy = { kind: 'answered', status: 200, text: policyText('mail.our.test') };

function mx(value: string): ZoneRecord {
  return { name: 'example.test', type: 'MX', value };
}

function txt(name: string, value: string): ZoneRecord {
  return { name, type: 'TXT', value };
}

async function check(
  zone: readonly ZoneRecord[],
  policy: FetchedPolicy = POLICY,
  host: readonly ZoneRecord[] = [HOST],
) {
  const { resolver } = await startTestDns([...host, ...zone]);
  const asked: string[] = [];
  const { records } = await checkDomain('example.test', RECORDS, {
    resolver,
    hostname: 'mail.our.test',
    publicIps: [],
    fetchPolicy: (url) => {
      asked.push(url);
      return Promise.resolve(policy);
    },
  });
  const of = (purpose: string, type = 'TXT') =>
    records.find((record) => record.purpose === purpose && record.type === type);
  return { mx: of('inbound', 'MX'), host: of('mta_sts', 'CNAME'), policy: of('mta_sts'), reports: of('tlsrpt'), asked };
}

test('the records of a domain whose mail comes here; nothing of them is required', () => {
  const inbound = RECORDS.filter(({ purpose }) => ['inbound', 'mta_sts', 'tlsrpt'].includes(purpose));
  expect(inbound.map(({ type, name, value, required }) => [type, name, value, required])).toEqual([
    ['MX', 'example.test', '10 mail.our.test.', false],
    ['CNAME', 'mta-sts.example.test', 'mail.our.test.', false],
    ['TXT', '_mta-sts.example.test', expect.stringMatching(/^v=STSv1; id=[0-9a-f]{16}$/), false],
    ['TXT', '_smtp._tls.example.test', 'v=TLSRPTv1; rua=mailto:reports@mail.our.test', false],
  ]);
  const clear = domainRecords({ domain: 'e.test', token: 't', hostname: 'h.test', dkim: [], inbound: 'clear' });
  expect(clear.map(({ purpose }) => purpose)).toEqual(['ownership', 'spf', 'dmarc', 'inbound']);
});

describe('MX', () => {
  const other: ZoneRecord = { name: 'mx.other.test', type: 'A', value: '198.51.100.7' };
  test.each<[string, ZoneRecord[], object]>([
    ['none', [txt('example.test', 'unrelated')], { status: 'missing', found: [] }],
    ['us', [mx('10 mail.our.test')], { status: 'ok', found: ['10 mail.our.test.'] }],
    ['us in another case and preference', [mx('0 Mail.Our.Test')], { status: 'ok' }],
    [
      'us by another name of this address',
      [mx('10 mx.example.test'), { name: 'mx.example.test', type: 'A', value: '192.0.2.1' }],
      { status: 'ok' },
    ],
    [
      'a CNAME that leads to us',
      [mx('10 mx.example.test'), { name: 'mx.example.test', type: 'CNAME', value: 'mail.our.test' }],
      { status: 'wrong', problem: 'mx.example.test is a CNAME, and an MX record must name the host itself.' },
    ],
    [
      'others',
      [mx('10 mx.other.test'), other],
      { status: 'wrong', problem: expect.stringContaining('moves all mail for the domain') },
    ],
    [
      'others before us',
      [mx('10 mail.our.test'), mx('5 mx.other.test'), other],
      {
        status: 'wrong',
        found: ['5 mx.other.test.', '10 mail.our.test.'],
        problem: expect.stringContaining('mx.other'),
      },
    ],
    ['others beside us', [mx('10 mail.our.test'), mx('10 mx.other.test'), other], { status: 'wrong' }],
    [
      'others behind us',
      [mx('10 mail.our.test'), mx('20 mx.other.test'), other],
      { status: 'ok', note: expect.stringContaining('mx.other.test') },
    ],
    [
      'more than anybody has',
      Array.from({ length: 50 }, (_, i) => mx(`${i} mx${i}.example.test`)),
      { status: 'wrong', found: expect.toSatisfy((found: string[]) => found.length === 20) },
    ],
    ['a null MX', [mx('0 .')], { status: 'wrong', problem: expect.stringContaining('null MX') }],
    [
      'a null MX beside others',
      [mx('0 .'), mx('10 mail.our.test')],
      { status: 'wrong', problem: expect.stringMatching(/null MX.*remove it/) },
    ],
    [
      'a name that is not there',
      [mx('10 gone.test')],
      { status: 'wrong', problem: 'No address was found for gone.test: mail for the domain cannot be delivered.' },
    ],
    [
      'a name that is not there, and others',
      [mx('10 gone.test'), mx('20 mx.other.test'), other],
      { status: 'wrong', problem: expect.stringMatching(/^Mail for the domain goes to mx\.other\.test\. /) },
    ],
    [
      'a name that is not there before us',
      [mx('5 gone.test'), mx('10 mail.our.test')],
      {
        status: 'wrong',
        problem: expect.stringMatching(/^No address was found for gone\.test: .*delayed.*Remove it\.$/),
      },
    ],
    [
      'a name that is not there behind us',
      [mx('10 mail.our.test'), mx('20 gone.test')],
      { status: 'ok', note: expect.stringMatching(/^No address was found for gone\.test: remove it\.$/) },
    ],
    [
      'an address in the place of a name',
      [mx('10 192.0.2.1')],
      { status: 'wrong', problem: 'An MX record must name a host, not an IP address: 192.0.2.1.' },
    ],
    ['silence', [{ name: 'example.test', fault: 'SERVFAIL', only: 'MX' }], { status: 'unknown' }],
    [
      'silence about the host',
      [mx('10 mx.slow.test'), { name: 'mx.slow.test', fault: 'SERVFAIL' }],
      { status: 'unknown' },
    ],
    [
      'silence about one before us',
      [mx('5 mx.slow.test'), { name: 'mx.slow.test', fault: 'SERVFAIL' }, mx('10 mail.our.test')],
      { status: 'unknown', problem: expect.stringMatching(/^DNS did not answer: .*mx\.slow\.test/) },
    ],
    [
      'silence about one behind us',
      [mx('10 mail.our.test'), mx('20 mx.slow.test'), { name: 'mx.slow.test', fault: 'SERVFAIL' }],
      { status: 'ok' },
    ],
    [
      'silence about one that may be this server, before others',
      [mx('5 mx.slow.test'), { name: 'mx.slow.test', fault: 'SERVFAIL' }, mx('10 mx.other.test'), other],
      { status: 'unknown' },
    ],
    [
      'silence about one behind others',
      [mx('5 mx.other.test'), other, mx('10 mx.slow.test'), { name: 'mx.slow.test', fault: 'SERVFAIL' }],
      { status: 'wrong', problem: expect.stringMatching(/^Mail for the domain goes to mx\.other\.test\. /) },
    ],
    [
      'silence about one family of the host',
      [mx('10 mx.other.test'), other, { name: 'mx.other.test', fault: 'SERVFAIL', only: 'AAAA' }],
      { status: 'unknown' },
    ],
    [
      'silence about whether it is a CNAME',
      [
        mx('10 mx.example.test'),
        { name: 'mx.example.test', type: 'A', value: '192.0.2.1' },
        { name: 'mx.example.test', fault: 'SERVFAIL', only: 'CNAME' },
      ],
      { status: 'unknown' },
    ],
  ])('%s', async (_what, zone, expected) => {
    expect((await check(zone)).mx).toMatchObject(expected);
  });

  test.each<[string, ZoneRecord[], object]>([
    ['our own name', [mx('10 mail.our.test')], { status: 'ok' }],
    [
      'another name',
      [mx('10 mx.example.test'), { name: 'mx.example.test', type: 'A', value: '192.0.2.1' }],
      { status: 'unknown', problem: expect.stringMatching(/^DNS did not answer: .*mail\.our\.test/) },
    ],
  ])('while DNS does not say which addresses are ours: %s', async (_what, zone, expected) => {
    const silent: ZoneRecord = { name: 'mail.our.test', fault: 'SERVFAIL' };
    expect((await check(zone, POLICY, [silent])).mx).toMatchObject(expected);
  });

  test('a host name of ours that has no address brings no mail', async () => {
    const { mx: found } = await check([mx('10 mail.our.test')], POLICY, []);
    expect(found).toMatchObject({
      status: 'wrong',
      problem: expect.stringContaining('No address was found for mail.our.test'),
    });
  });
});

function written(...lines: readonly string[]): FetchedPolicy {
  return { kind: 'answered', status: 200, text: ['version: STSv1', ...lines, ''].join('\n') };
}

describe('MTA-STS', () => {
  const record = txt('_mta-sts.example.test', 'v=STSv1; id=20260101;');
  test.each<[string, ZoneRecord[], FetchedPolicy, object]>([
    ['none', [], POLICY, { status: 'missing' }],
    ['a policy of whatever id', [record], POLICY, { status: 'ok' }],
    ['no id', [txt('_mta-sts.example.test', 'v=STSv1;')], POLICY, { status: 'wrong' }],
    ['two', [record, txt('_mta-sts.example.test', 'v=STSv1; id=2')], POLICY, { status: 'duplicate' }],
    [
      'no policy behind it',
      [record],
      { kind: 'answered', status: 404, text: '' },
      { status: 'wrong', problem: `${policyUrl('example.test')} answers 404, so senders find no policy.` },
    ],
    [
      'the policy of another server',
      [record],
      { kind: 'answered', status: 200, text: policyText('mail.other.test') },
      { status: 'wrong', problem: expect.stringContaining('does not name mail.our.test') },
    ],
    [
      'a policy that names us by a wildcard',
      [record],
      { kind: 'answered', status: 200, text: 'version: STSv1\nmode: testing\nmx: *.our.test\nmax_age: 86400\n' },
      { status: 'ok' },
    ],
    ['something else', [record], { kind: 'answered', status: 200, text: '<html>' }, { status: 'wrong' }],
    [
      'the id of an earlier policy of ours',
      [txt('_mta-sts.example.test', 'v=STSv1; id=0123456789abcdef')],
      POLICY,
      { status: 'wrong', problem: expect.stringContaining('earlier policy'), value: policyRecord('mail.our.test') },
    ],
    ['the id of our policy', [txt('_mta-sts.example.test', policyRecord('mail.our.test'))], POLICY, { status: 'ok' }],
    ['a policy without a mode', [record], written('mx: mail.our.test', 'max_age: 86400'), { status: 'wrong' }],
    ['a mode that nobody knows', [record], written('mode: on', 'mx: mail.our.test', 'max_age: 9'), { status: 'wrong' }],
    ['a policy without an end', [record], written('mode: enforce', 'mx: mail.our.test'), { status: 'wrong' }],
    [
      'an end that is no time',
      [record],
      written('mode: enforce', 'mx: mail.our.test', 'max_age: one week'),
      { status: 'wrong', problem: expect.stringContaining('max_age is not a number of seconds') },
    ],
    [
      'an end beyond a year',
      [record],
      written('mode: enforce', 'mx: mail.our.test', 'max_age: 99999999'),
      { status: 'wrong' },
    ],
    [
      'a policy that is being tested',
      [record],
      written('mode: testing', 'mx: mail.our.test', 'max_age: 86400'),
      { status: 'ok', note: 'Its mode is testing: senders report failures, and enforce nothing.' },
    ],
    [
      'a policy that is given up',
      [record],
      written('mode: none', 'max_age: 86400'),
      { status: 'ok', note: 'Its mode is none: senders enforce nothing.' },
    ],
    ['a server that cannot be reached', [record], { kind: 'failed', reason: 'refused' }, { status: 'unknown' }],
  ])('%s', async (_what, zone, policy, expected) => {
    const found = await check(zone, policy);
    expect(found.policy).toMatchObject(expected);
    // Nobody is asked for what no record promises.
    if (zone.length === 0) expect(found.asked).toEqual([]);
  });

  test.each<[string, ZoneRecord[], string]>([
    ['a CNAME to us', [{ name: 'mta-sts.example.test', type: 'CNAME', value: 'mail.our.test' }], 'ok'],
    ['our address', [{ name: 'mta-sts.example.test', type: 'A', value: '192.0.2.1' }], 'ok'],
    ['another address', [{ name: 'mta-sts.example.test', type: 'A', value: '198.51.100.7' }], 'wrong'],
    ['nothing', [], 'missing'],
    ['silence', [{ name: 'mta-sts.example.test', fault: 'SERVFAIL' }], 'unknown'],
  ])('the name of the policy: %s', async (_what, zone, status) => {
    expect((await check(zone)).host).toMatchObject({ status });
  });

  test('the name of the policy: while DNS does not say which addresses are ours', async () => {
    const zone: ZoneRecord[] = [{ name: 'mta-sts.example.test', type: 'A', value: '192.0.2.1' }];
    const { host } = await check(zone, POLICY, [{ name: 'mail.our.test', fault: 'SERVFAIL' }]);
    expect(host).toMatchObject({ status: 'unknown', problem: expect.stringMatching(/^DNS did not answer/) });
    const half: ZoneRecord[] = [
      { ...HOST, value: '192.0.2.9' },
      { name: HOST.name, fault: 'SERVFAIL', only: 'AAAA' },
    ];
    expect((await check(zone, POLICY, half)).host).toMatchObject({ status: 'unknown', found: ['192.0.2.1'] });
  });
});

test.each<[string, string[], string]>([
  ['none', [], 'missing'],
  ['by mail', ['v=TLSRPTv1; rua=mailto:tls@example.test'], 'ok'],
  ['by HTTPS and mail', ['v=TLSRPTv1;rua=https://r.test/v1,mailto:tls@example.test'], 'ok'],
  ['by mail, in capitals', ['v=TLSRPTv1; rua=MAILTO:tls@example.test'], 'ok'],
  ['to nobody', ['v=TLSRPTv1;'], 'wrong'],
  ['to no address', ['v=TLSRPTv1; rua=tls@example.test'], 'wrong'],
  ['twice', ['v=TLSRPTv1; rua=mailto:a@a.test', 'v=TLSRPTv1; rua=mailto:b@b.test'], 'duplicate'],
])('reports about TLS: %s', async (_what, texts, status) => {
  const found = await check(texts.map((text) => txt('_smtp._tls.example.test', text)));
  expect(found.reports).toMatchObject({ status });
});

test('of two addresses for reports about TLS neither is advised away', async () => {
  const texts = ['v=TLSRPTv1; rua=mailto:a@a.test', 'v=TLSRPTv1; rua=mailto:b@b.test'];
  const found = await check(texts.map((text) => txt('_smtp._tls.example.test', text)));
  expect(found.reports).toMatchObject({ status: 'duplicate', value: '' });
});
