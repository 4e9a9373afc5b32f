import { describe, expect, test } from 'vitest';
import { decodeWords } from '../../src/mail/header.ts';
import { completeHeader, readSubmitted } from '../../src/mail/submitted.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

test.each([
  ['=?utf-8?Q?Gr=C3=BC=C3=9Fe?=', 'Grüße'],
  ['=?UTF-8?B?R3LDvMOfZQ==?=', 'Grüße'],
  ['=?iso-8859-1?q?caf=E9_au?= =?iso-8859-1?q?_lait?=', 'café au lait'],
  ['a =?utf-8?Q?b?= c', 'a b c'],
  ['=?klingon?Q?a?=', '=?klingon?Q?a?='],
  ['=?utf-8?Q?not closed', '=?utf-8?Q?not closed'],
])('%s reads %s', (text, shown) => {
  expect(decodeWords(text)).toBe(shown);
});

test('decoding is linear', () => {
  const words = '=?utf-8?Q?a?= '.repeat(20_000) + '=?'.repeat(100_000);
  expect(leastCpuSeconds(() => decodeWords(words), 0.5)).toBeLessThan(0.5);
});

test('reading addresses is linear', () => {
  const header = `From: a@shop.test\r\nTo: ${'a'.repeat(200_000)}\r\n`;
  expect(leastCpuSeconds(() => readSubmitted(header), 0.5)).toBeLessThan(0.5);
});

describe('the author', () => {
  test.each([
    ['a@shop.test', { address: 'a@shop.test' }],
    ['Shop <a@SHOP.test>', { name: 'Shop', address: 'a@shop.test' }],
    ['"Shop, Inc."\r\n <a@shop.test>', { name: 'Shop, Inc.', address: 'a@shop.test' }],
    ['a@shop.test (Cron)', { address: 'a@shop.test' }],
  ])('%s', (value, from) => {
    expect(readSubmitted(`From: ${value}\r\n`)).toMatchObject({ from });
  });

  test.each([
    'a@shop.test, b@other.test',
    'Shop <a@shop.test> <b@other.test>',
    'a@shop.test (x) b@other.test',
    'Team: a@shop.test;',
    '<@other.test:a@shop.test>',
    'undisclosed',
    '',
  ])('is not one in %j', (value) => {
    expect(readSubmitted(`From: ${value}\r\n`)).toHaveProperty('fault');
  });

  test.each(['From: a@shop.test\r\nFROM: b@x.test\r\n', 'Subject: x\r\n', 'From : a@shop.test\r\n', 'no field\r\n'])(
    'is not clear in %j',
    (header) => {
      expect(readSubmitted(header)).toHaveProperty('fault');
    },
  );
});

test('what is missing is added, blind copies are taken out with all their lines', () => {
  const what = { date: 0, messageId: '<1@shop.test>' };
  expect(completeHeader('Bcc: a@x.test,\r\n b@x.test\r\nFrom: a@shop.test\r\nX-A:  b\r\n', what)).toBe(
    'Date: Thu, 01 Jan 1970 00:00:00 +0000\r\nMessage-ID: <1@shop.test>\r\nFrom: a@shop.test\r\nX-A:  b\r\n',
  );
  const whole = 'date: x\r\nmessage-id: <2@x>\r\nFrom: a@shop.test\r\n';
  expect(completeHeader(whole, what)).toBe(whole);
});
