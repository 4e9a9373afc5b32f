import { describe, expect, test } from 'vitest';
import type { DnsRecord } from '../../src/cli/dns-records.ts';
import { zoneLine, zoneText } from '../../src/lib/zone-file.ts';

const TXT = { name: 'a.example.com', type: 'TXT' } as const;
const record: DnsRecord = { ...TXT, purpose: 'dkim', value: 'x', required: true, status: 'missing', found: [] };

describe('a record as a line of a zone file', () => {
  test.each([
    ['plain', TXT, 'v=DKIM1; k=rsa', 'a.example.com. 3600 IN TXT "v=DKIM1; k=rsa"'],
    ['with signs that mean something', TXT, 'a"b\\c', 'a.example.com. 3600 IN TXT "a\\"b\\\\c"'],
    ['beyond ASCII', TXT, 'é\n', 'a.example.com. 3600 IN TXT "\\195\\169\\010"'],
    ['empty', TXT, '', 'a.example.com. 3600 IN TXT ""'],
    [
      'a mail exchanger',
      { ...TXT, type: 'MX' as const },
      '10 mx.example.net.',
      'a.example.com. 3600 IN MX 10 mx.example.net.',
    ],
    ['an alias', { ...TXT, type: 'CNAME' as const }, 'b.example.net.', 'a.example.com. 3600 IN CNAME b.example.net.'],
  ])('%s', (_, place, value, line) => {
    expect(zoneLine({ ...place, value })).toBe(line);
  });

  test.each([
    [255, [255]],
    [256, [255, 1]],
    [600, [255, 255, 90]],
  ])('of %i bytes is strings of %j', (length, lengths) => {
    const strings = Array.from(
      zoneLine({ ...TXT, value: 'x'.repeat(length) }).matchAll(/"(x*)"/g),
      ([, text = '']) => text.length,
    );
    expect(strings).toEqual(lengths);
  });
});

describe('a zone file', () => {
  test('repeats nothing that stands, and says what a record is in place of', () => {
    const records: DnsRecord[] = [
      { ...record, status: 'ok', found: ['x'] },
      { ...record, purpose: 'dmarc', value: 'v=DMARC1; p=none', status: 'ok', found: ['v=DMARC1; p=reject'] },
      { ...record, purpose: 'spf', value: 'v=spf1 a:m ~all', status: 'wrong', found: ['v=spf1\n-all'] },
      { ...record, purpose: 'ownership', value: 'mine', status: 'wrong', found: ['other'] },
    ];
    expect(zoneText({ domain: 'example.com', records })).toBe(`; DNS records of example.com for Postern
; dkim: already published
; a.example.com. 3600 IN TXT "x"
; dmarc: already published: v=DMARC1; p=reject
; spf: replaces v=spf1 -all
a.example.com. 3600 IN TXT "v=spf1 a:m ~all"
; ownership
a.example.com. 3600 IN TXT "mine"
`);
  });

  test('publishes nothing in place of what is not known', () => {
    const unknown: DnsRecord = {
      ...record,
      status: 'unknown',
      value: '',
      problem: 'DNS did not answer: no answer in time',
    };
    const records: DnsRecord[] = [
      { ...unknown, purpose: 'spf', found: ['v=spf1 include:b.test\n-all'] },
      { ...unknown, purpose: 'dmarc', problem: undefined },
      { ...unknown, purpose: 'inbound', type: 'MX', status: 'wrong', problem: 'Only its owner knows.' },
    ];
    expect(zoneText({ domain: 'example.com', records })).toBe(`; DNS records of example.com for Postern
; spf: nothing to add at a.example.com yet, check again; found: v=spf1 include:b.test -all; DNS did not answer: no answer in time
; dmarc: nothing to add at a.example.com yet, check again; not checked yet
; inbound: nothing to add at a.example.com yet; Only its owner knows.
`);
  });
});
