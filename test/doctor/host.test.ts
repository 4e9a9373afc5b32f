import { describe, expect, test } from 'vitest';
import type { Result, Results } from '../../src/doctor/check.ts';
import { checkBounces, checkHostSpf, checkName, checkReports, checkReverse, type Host } from '../../src/doctor/host.ts';
import { startTestDns } from '../harness/dns.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const HOST = 'mail.our.test';
const A: ZoneRecord = { name: HOST, type: 'A', value: '8.8.8.8' };
const AAAA: ZoneRecord = { name: HOST, type: 'AAAA', value: '2001:4860::1' };
const REVERSE: ZoneRecord = { name: '8.8.8.8.in-addr.arpa', type: 'PTR', value: HOST };

function silent(only: 'A' | 'AAAA' | 'CNAME' | 'MX', name = HOST): ZoneRecord {
  return { name, fault: 'SERVFAIL', only };
}

async function look(
  which: (host: Host) => Promise<Results>,
  zone: readonly ZoneRecord[],
  publicIps: readonly string[] = [],
): Promise<Result[]> {
  const { resolver } = await startTestDns(zone);
  return [await which({ hostname: HOST, publicIps, resolver })].flat();
}

describe('host_name', () => {
  test.each<[string, ZoneRecord[], string[], object]>([
    [
      'its addresses',
      [A, AAAA],
      ['2001:4860::1'],
      { status: 'ok', found: `${HOST} resolves to 8.8.8.8, 2001:4860::1` },
    ],
    ['none', [], [], { status: 'failed', found: `${HOST} has no address` }],
    ['another address', [A], ['8.8.4.4'], { status: 'failed', advice: expect.stringContaining('8.8.4.4') }],
    [
      'an alias',
      [
        { name: HOST, type: 'CNAME', value: 'host.provider.test' },
        { ...A, name: 'host.provider.test' },
      ],
      ['8.8.8.8'],
      {
        status: 'failed',
        found: `${HOST} is a CNAME to host.provider.test`,
        advice: `Publish an A or AAAA record for ${HOST} instead: neither EHLO nor an MX record may name an alias.`,
      },
    ],
    [
      'an address of the family that could not be asked',
      [A, silent('AAAA')],
      ['2001:4860::1'],
      { status: 'unknown', found: expect.stringContaining('AAAA') },
    ],
    ['silence about whether it is an alias', [A, silent('CNAME')], [], { status: 'unknown' }],
    [
      'silence',
      [{ name: HOST, fault: 'SERVFAIL' }],
      [],
      {
        status: 'unknown',
        found: expect.stringMatching(/^DNS did not answer: A .*SERVFAIL/),
        advice: 'Check again when DNS answers.',
      },
    ],
  ])('%s', async (_what, zone, publicIps, expected) => {
    expect(await look(checkName, zone, publicIps)).toMatchObject([expected]);
  });
});

describe('reverse_dns', () => {
  test.each<[string, ZoneRecord[], object[]]>([
    ['both lead to each other', [A, REVERSE], [{ status: 'ok' }]],
    [
      'one family could not be asked',
      [A, REVERSE, silent('AAAA')],
      [{ status: 'ok' }, { status: 'unknown', found: expect.stringContaining('AAAA') }],
    ],
    ['silence', [{ name: HOST, fault: 'SERVFAIL' }], [{ status: 'unknown', advice: 'Check again when DNS answers.' }]],
    ['the reverse name does not answer', [A, { name: REVERSE.name, fault: 'SERVFAIL' }], [{ status: 'unknown' }]],
  ])('%s', async (_what, zone, expected) => {
    expect(await look(checkReverse, zone)).toMatchObject(expected);
  });

  test.each<[string, ZoneRecord[], object]>([
    ['the name has another address', [{ ...A, value: '8.8.4.4' }], { status: 'failed' }],
    ['and a family that could not be asked', [AAAA, silent('A')], { status: 'unknown' }],
  ])('the way back: %s', async (_what, zone, expected) => {
    expect(await look(checkReverse, [...zone, REVERSE], ['8.8.8.8'])).toMatchObject([expected]);
  });
});

test('host_spf without an address is not a matter of waiting for DNS', async () => {
  const expected = { status: 'unknown', found: 'the host name has no address' };
  const checks = await look(checkHostSpf, [{ name: HOST, type: 'TXT', value: 'v=spf1 -all' }]);
  expect(checks).toMatchObject([{ ...expected, advice: expect.stringContaining('server.public_ips') }]);
});

describe('bounces', () => {
  const mx: ZoneRecord = { name: HOST, type: 'MX', value: `10 ${HOST}` };
  const neither = {
    status: 'failed',
    found: `${HOST} has neither an MX record nor an address: bounces cannot be delivered`,
  };
  test.each<[string, ZoneRecord[], object]>([
    ['to the address', [A], { status: 'ok', found: `${HOST} has no MX record, so bounces go to its address` }],
    ['to the MX', [A, mx], { status: 'ok', found: `10 ${HOST}.` }],
    [
      'to another server',
      [A, { ...mx, value: '10 mx.other.test' }, { name: 'mx.other.test', type: 'A', value: '9.9.9.9' }],
      {
        status: 'failed',
        advice: `Mail for the domain goes to mx.other.test. Publish MX ${HOST}: 10 ${HOST}.`,
      },
    ],
    ['the name is not there', [], neither],
    ['the name has no address', [{ name: HOST, type: 'TXT', value: 'v=spf1 -all' }], neither],
    ['the MX has no address', [mx], { status: 'failed', advice: expect.stringContaining('No address') }],
    ['the address is not known', [{ name: HOST, fault: 'SERVFAIL' }], { status: 'unknown' }],
    ['no MX, and silence about the address', [silent('A'), silent('AAAA')], { status: 'unknown' }],
  ])('%s', async (_what, zone, expected) => {
    expect(await look(checkBounces, zone, ['8.8.8.8'])).toMatchObject([expected]);
  });
});

describe('dmarc_reports', () => {
  const CONSENT: ZoneRecord = { name: `example.test._report._dmarc.${HOST}`, type: 'TXT', value: 'v=DMARC1;' };
  test.each<[string, ZoneRecord[], string[], object[]]>([
    ['no domain sends reports here', [], [], []],
    ['those of the domain of the host itself need no record', [], ['our.test', HOST], []],
    ['accepted', [CONSENT], ['example.test'], [{ status: 'ok' }]],
    [
      'not accepted',
      [CONSENT, { ...CONSENT, name: `shop.test._report._dmarc.${HOST}`, value: 'hello' }],
      ['example.test', 'shop.test'],
      [
        {
          status: 'warning',
          found: `${HOST} does not accept DMARC reports about shop.test`,
          advice: expect.stringContaining(`Publish TXT *._report._dmarc.${HOST}: v=DMARC1;`),
        },
      ],
    ],
    ['DNS is silent', [{ name: CONSENT.name, fault: 'SERVFAIL' }], ['example.test'], [{ status: 'unknown' }]],
  ])('%s', async (_what, zone, domains, expected) => {
    const found = await look((host) => checkReports(host, domains), zone);
    expect(found).toHaveLength(expected.length);
    expect(found).toMatchObject(expected);
  });
});
