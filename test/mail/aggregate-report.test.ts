import fc from 'fast-check';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { readAggregateReport } from '../../src/mail/aggregate-report.ts';
import {
  AUTH,
  DMARC_2,
  dmarcXml,
  gzipMail,
  reportMail,
  tlsJson,
  zipOf,
  type TestRecord,
} from './aggregate-fixtures.ts';

function read(mail: string) {
  return readAggregateReport(Buffer.from(mail, 'latin1'));
}

async function rowsOf(records: readonly TestRecord[]) {
  const report = await read(gzipMail(dmarcXml({ records })));
  if (report.kind !== 'dmarc') throw new Error(JSON.stringify(report));
  return report.rows;
}

const PASSED = {
  from: 'example.test',
  source: '192.0.2.1',
  disposition: 'none',
  dkim: 'aligned',
  spf: 'aligned',
  dkim_domain: 'example.test',
  spf_domain: 'bounces.example.test',
  count: 1,
};
const REPORT = { kind: 'dmarc', id: 'r1', begin: 0, end: 86_399_000, domain: 'example.test', rows: [PASSED] };

describe('a DMARC report', () => {
  test.each([
    ['gzip', gzipMail(dmarcXml({}))],
    ['gzip of the wrong type', reportMail(gzipSync(dmarcXml({})), { type: 'application/octet-stream' })],
    ['zip', reportMail(zipOf({ 'x.xml': dmarcXml({}) }), { type: 'application/zip' })],
    ['zip with more in it', reportMail(zipOf({ 'a.txt': 'hello', 'x.xml': dmarcXml({}) }))],
    ['plain XML', reportMail(dmarcXml({}), { type: 'text/xml' })],
    ['XML with a byte order mark', reportMail(`\uFEFF${dmarcXml({})}`)],
  ])('is read from %s', async (_, mail) => {
    expect(await read(mail)).toEqual(REPORT);
  });

  test('that is the whole message is read', async () => {
    const body = gzipSync(dmarcXml({})).toString('base64');
    const head = 'From: a@b.test\r\nContent-Type: application/gzip\r\nContent-Transfer-Encoding: base64\r\n\r\n';
    expect(await read(head + body)).toEqual(REPORT);
  });

  test('of RFC 9990 is read, and counts for the subdomain that it names', async () => {
    expect(await read(gzipMail(DMARC_2))).toMatchObject({
      id: 'new@receiver.test',
      domain: 'example.test',
      rows: [
        {
          from: 'news.example.test',
          source: '2001:db8::1',
          disposition: 'none',
          dkim: 'aligned',
          spf: 'unaligned',
          spf_domain: 'mailer.test',
          count: 3,
        },
      ],
    });
  });

  test('tells alignment from results', async () => {
    const of = (result: string, domain = 'mailer.test') =>
      `<dkim><domain>${domain}</domain><result>${result}</result></dkim><spf><domain>${domain}</domain><result>${result}</result></spf>`;
    const failed = { dkim: 'fail', spf: 'fail' };
    const several = `<dkim><domain>mailer.test</domain><result>fail</result></dkim>${AUTH}`;
    expect(
      await rowsOf([
        { ...failed, count: 9, auth: of('pass') },
        { ...failed, count: 8, auth: of('softfail'), disposition: 'reject' },
        { ...failed, count: 7, auth: of('none'), disposition: 'Quarantine' },
        { ...failed, count: 6, auth: '' },
        { count: 5, auth: several },
      ]),
    ).toMatchObject([
      { dkim: 'unaligned', spf: 'unaligned', dkim_domain: 'mailer.test', spf_domain: 'mailer.test' },
      { dkim: 'failed', spf: 'failed', disposition: 'reject' },
      { dkim: 'none', spf: 'none', disposition: 'quarantine' },
      { dkim: 'none', spf: 'none', dkim_domain: '', spf_domain: '' },
      { dkim: 'aligned', dkim_domain: 'example.test' },
    ]);
  });

  test('has one row for records of one kind, and none for what is not of its domain or no number', async () => {
    const rows = await rowsOf([
      { count: 2 },
      { count: 3 },
      { from: 'victim.test', count: 5 },
      { from: 'notexample.test', count: 5 },
      { count: -1 },
      { count: '1e9' },
      { count: 99_999_999_999 },
      { source: 'localhost' },
      { source: '<b>192.0.2.1</b>' },
    ]);
    expect(rows).toEqual([{ ...PASSED, count: 5 }]);
  });

  test('with more sources than are kept has the largest, and the sum of the others', async () => {
    const records = Array.from({ length: 600 }, (_, i) => ({
      source: `192.0.${i >> 8}.${i & 255}`,
      count: i + 1,
    }));
    const rows = await rowsOf(records);
    expect(rows).toHaveLength(501);
    expect(rows[0]).toMatchObject({ source: '192.0.2.87', count: 600 });
    expect(rows.at(-1)).toMatchObject({ source: '', count: (100 * 101) / 2, dkim: 'aligned' });
  });
});

test('a TLS report is read, with what it does not explain', async () => {
  expect(await read(gzipMail(tlsJson({})))).toEqual({
    kind: 'tls',
    id: 't1',
    begin: 0,
    end: 86_399_000,
    rows: [
      { domain: 'example.test', policy: 'sts', result: 'success', mx: '', count: 100 },
      { domain: 'example.test', policy: 'sts', result: 'certificate-expired', mx: 'mail.postern.test', count: 5 },
      { domain: 'example.test', policy: 'sts', result: 'unspecified', mx: '', count: 2 },
    ],
  });
});

describe('what is hostile', () => {
  const xml = dmarcXml({});
  const entities = '<!DOCTYPE f [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>';
  test.each([
    ['a bomb in gzip', gzipMail(' '.repeat(60_000_000) + xml), 'too large when unpacked'],
    ['one with a high ratio', gzipMail(xml + ' '.repeat(3_000_000)), 'too large when unpacked'],
    ['a bomb in a zip', reportMail(zipOf({ 'x.xml': ' '.repeat(60_000_000) + xml })), 'too large when unpacked'],
    [
      'too many files',
      reportMail(zipOf(Object.fromEntries([...Array(20).keys()].map((i) => [`${i}`, i < 19 ? 'x' : xml])))),
      'contains no report',
    ],
    ['a zip that breaks off', reportMail(zipOf({ 'x.xml': xml }).subarray(0, 100)), 'zip|end of central'],
    ['a zip in a zip', reportMail(zipOf({ 'x.zip': zipOf({ 'x.xml': xml }) })), 'contains no report'],
    ['gzip that breaks off', reportMail(gzipSync(xml).subarray(0, 100)), 'end of file'],
    ['gzip in gzip', reportMail(gzipSync(gzipSync(xml))), 'neither XML nor JSON'],
    ['a document type with entities', gzipMail(xml.replace('?>', `?>${entities}`)), 'document type'],
    ['an entity of nobody', gzipMail(xml.replace('&amp;', '&file;')), 'undefined entity'],
    ['deep nesting', gzipMail(xml.replace('</feedback>', '<a>'.repeat(10_000))), 'nested too deep'],
    ['XML that is not whole', gzipMail(xml.slice(0, -20)), 'unclosed tag'],
    ['another document', gzipMail('<?xml version="1.0"?><html/>'), 'missing'],
    ['no domain', gzipMail(dmarcXml({ domain: '<x/>' })), 'missing'],
    ['JSON of another kind', gzipMail('{"a":1}'), 'not a TLS report'],
    ['JSON that is none', gzipMail('{"a":'), 'not valid JSON'],
    [
      'JSON beyond its limit',
      gzipMail(`{"a":"${Array.from({ length: 300_000 }, (_, i) => i * 7919).join('')}"}`),
      'too large',
    ],
    ['no attachment', 'From: a@b.test\r\n\r\nhello', 'no report attached'],
    ['nothing', '', 'no report attached'],
  ])('%s is refused in words', async (_, mail, because) => {
    const report = await read(mail);
    expect(report).toEqual({ kind: 'unreadable', reason: expect.stringMatching(because) as string });
  });

  test('whatever comes gives a report or words', async () => {
    const mails = [gzipMail(xml), reportMail(zipOf({ 'x.xml': xml })), reportMail(xml), reportMail(tlsJson({}))];
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...mails),
        fc.nat(),
        fc.string({ maxLength: 20, unit: 'binary' }),
        async (mail, place, text) => {
          const at = place % mail.length;
          const report = await read(mail.slice(0, at) + text + mail.slice(at + text.length));
          expect(['dmarc', 'tls', 'unreadable']).toContain(report.kind);
        },
      ),
      { numRuns: 300 },
    );
  });
});
