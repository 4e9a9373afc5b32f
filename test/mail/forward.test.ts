import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeWords, fieldsOf, valueOf } from '../../src/mail/header.ts';
import { authorOf, forwardHeaders, rewriteFrom, withoutForgedResults } from '../../src/mail/forward.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** The value of the only field of this name, unfolded. */
function only(header: string, name: string): string {
  const found = fieldsOf(header).filter((field) => field.name === name);
  expect(found).toHaveLength(1);
  return found.map((field) => valueOf(field).replaceAll('\r\n', '').trim()).join('');
}

describe('lines of ours', () => {
  test('say whom it was for, and where it goes', () => {
    expect(forwardHeaders({ original: 'sales@example.com', targets: ['ana@example.org'] })).toBe(
      'X-Forwarded-To: ana@example.org\r\nDelivered-To: sales@example.com\r\n',
    );
  });

  test('tell nobody of the others', () => {
    expect(forwardHeaders({ original: 'all@example.com', targets: ['a@example.org', 'b@example.org'] })).toBe(
      'Delivered-To: all@example.com\r\n',
    );
  });

  test('are ASCII whatever the addresses are: they ask nothing of the next server', () => {
    const lines = forwardHeaders({ original: 'jörg@example.com', targets: [] });
    expect(Buffer.from(lines, 'latin1').toString()).toBe('Delivered-To: j\\x{F6}rg@example.com\r\n');
  });
});

describe('results in our name', () => {
  const before = 'Received: x\r\n';
  const after = 'Subject: y\r\nFrom: a@b.c\r\n';

  test.each([
    ' mail.example.net; dkim=pass',
    'mail.example.net;dkim=pass',
    ' MAIL.Example.NET 1; dkim=pass',
    '\r\n mail.example.net;\r\n dkim=pass',
    ' (a (nested) comment \\) ) mail.example.net; none',
    ' "mail.example.net"; none',
    ' mail.example.net',
    ' mail.example.net(x); none',
  ])('are taken out: %j', (value) => {
    const header = `${before}Authentication-Results:${value}\r\n${after}`;
    expect(withoutForgedResults(header, 'mail.example.net')).toBe(before + after);
  });

  test.each([
    'Authentication-Results: mx.example.org; dkim=pass (mail.example.net)',
    'Authentication-Results: mail.example.net.evil.example; dkim=pass',
    'X-Authentication-Results: mail.example.net; dkim=pass',
    'ARC-Authentication-Results: i=1; mail.example.net; dkim=pass',
    'Authentication-Results: (mail.example.net) mx.example.org',
    'Authentication-Results:',
  ])('in the name of another stay: %s', (line) => {
    const header = `${before}${line}\r\n${after}`;
    expect(withoutForgedResults(header, 'mail.example.net')).toBe(header);
  });
});

describe('a From that is rewritten', () => {
  test('names the author and us, and answers go to the author', () => {
    const header = 'Received: x\r\nFrom: Alice <alice@bank.example>\r\nTo: bob@example.com\r\n';
    expect(rewriteFrom(header, 'example.com')).toBe(
      [
        'Received: x',
        'From: "Alice via example.com" <forwarded@example.com>',
        'X-Original-From: Alice <alice@bank.example>',
        'Reply-To: Alice <alice@bank.example>',
        'To: bob@example.com',
        '',
      ].join('\r\n'),
    );
  });

  test('leaves a Reply-To as it is', () => {
    const header = 'From: Alice <alice@bank.example>\r\nReply-To: desk@bank.example\r\n';
    const rewritten = rewriteFrom(header, 'example.com');
    expect(only(rewritten, 'reply-to')).toBe('desk@bank.example');
    expect(only(rewritten, 'x-original-from')).toBe('Alice <alice@bank.example>');
  });

  test.each([
    ['alice@bank.example', '"alice@bank.example via example.com"'],
    ['<alice@bank.example>', '"alice@bank.example via example.com"'],
    ['"Doe, Alice \\"Al\\"" <alice@bank.example>', '"Doe, Alice \\"Al\\" via example.com"'],
    ['Alice\r\n\tDoe (work)\r\n <alice@bank.example>', '"Alice Doe via example.com"'],
    ['alice@bank.example (Alice)', '"alice@bank.example via example.com"'],
    ['Team: Alice <alice@bank.example>, bob@bank.example;', '"Alice via example.com"'],
    ['Alice <alice@bank.example>, Bob <bob@bank.example>', '"Alice via example.com"'],
    ['alice@bank.example, bob@bank.example', '"alice@bank.example via example.com"'],
    [', , alice@bank.example', '"alice@bank.example via example.com"'],
    ['"alice doe"@bank.example', '"alice doe@bank.example via example.com"'],
    ['Alice <"alice doe"@bank.example>', '"Alice via example.com"'],
    ['Alice <alice@[192.0.2.1]>', '"Alice via example.com"'],
    ['=?utf-8?Q?Alice?= <alice@bank.example>', '"Alice via example.com"'],
    ['=?utf-8?q?Zo=C3=AB?= <z@bank.example>', '=?utf-8?Q?Zo=C3=AB_via_example=2Ecom?='],
    ['=?iso-8859-1?q?J=F6rg?= =?iso-8859-1?q?_M?= <j@bank.example>', '=?utf-8?Q?J=C3=B6rg_M_via_example=2Ecom?='],
    ['"Evil\u0007\u0000" <e@bank.example>', '"Evil via example.com"'],
  ])('%s', (from, name) => {
    const rewritten = rewriteFrom(`From: ${latin1(from)}\r\nTo: x@y.z\r\n`, 'example.com');
    expect(only(rewritten, 'from')).toBe(`${name} <forwarded@example.com>`);
    expect(only(rewritten, 'reply-to')).toBe(latin1(from).replaceAll('\r\n', ''));
  });

  test('shows raw bytes as they were meant', () => {
    const utf8 = rewriteFrom(`From: ${latin1('Jörg')} <j@bank.example>\r\n`, 'example.com');
    const windows = rewriteFrom('From: J\xf6rg <j@bank.example>\r\n', 'example.com');
    for (const header of [utf8, windows]) {
      expect(only(header, 'from')).toBe('=?utf-8?Q?J=C3=B6rg_via_example=2Ecom?= <forwarded@example.com>');
    }
  });

  test('is cut where a name is too long to be one', () => {
    const rewritten = rewriteFrom(`From: ${'x'.repeat(700)} <a@bank.example>\r\n`, 'example.com');
    expect(only(rewritten, 'from')).toBe(
      `=?utf-8?Q?${'x'.repeat(48)}?= =?utf-8?Q?${'x'.repeat(48)}?= =?utf-8?Q?xxxx_via_example=2Ecom?= <forwarded@example.com>`,
    );
    const long = rewriteFrom(`From: ${'x '.repeat(490)}<a@bank.example>\r\n`, 'example.com');
    expect(long.split('\r\n').every((line) => line.length <= 998)).toBe(true);
  });

  test.each(['', 'Subject: x\r\n', 'From:\r\n', 'From: a@b.c\r\nFrom: d@e.f\r\n', 'From: <>\r\n'])(
    'stays where it names no author: %j',
    (header) => {
      expect(rewriteFrom(header, 'example.com')).toBe(header);
    },
  );

  test('whatever stands in it: one From of ours, and every other line as it was', () => {
    const part = fc.constantFrom(
      '"',
      '\\',
      '<',
      '>',
      '(',
      ')',
      ',',
      ':',
      ';',
      '@',
      '=?utf-8?q?',
      '?=',
      '\r\n ',
      ' ',
      'a',
      '\xe9',
      '\u0000',
    );
    const value = fc.array(part, { maxLength: 25 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(value, (from) => {
        const header = `A: b\r\nFrom:${from}\r\nC: d\r\n`;
        const rewritten = rewriteFrom(header, 'example.com');
        if (rewritten === header) return;
        const fields = fieldsOf(rewritten);
        expect(fields.map(({ name }) => name)).toEqual(['a', 'from', 'x-original-from', 'reply-to', 'c']);
        expect(authorOf(rewritten)?.address).toBe('forwarded@example.com');
        expect(/^[\r\n\x20-\x7e]*$/.test(fields[1]?.text ?? '')).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  test('takes no longer for 100 KiB of anything', () => {
    for (const filler of ['(', '"', '<', ',', 'a ', '=?utf-8?q?', '=?utf-8?q?=41?= ', '\\', 'a: ']) {
      const header = `From: ${filler.repeat(Math.floor(102_400 / filler.length))} <a@b.example>\r\n`;
      expect(
        leastCpuSeconds(() => rewriteFrom(header, 'example.com'), 0.5),
        filler,
      ).toBeLessThan(0.5);
    }
  });
});

test.each([
  ['plain', 'plain'],
  ['=?utf-8?B?5pel5pys?=', '日本'],
  ['=?utf-8?B?5pel5g==?= =?utf-8?B?nKw=?=', '日本'],
  ['=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=', '日本'],
  ['=?us-ascii*en?Q?Keith_Moore?=', 'Keith Moore'],
  ['a =?utf-8?q?b?= c', 'a b c'],
  ['=?utf-8?q?a?= =?iso-8859-1?q?=E9?=', 'aé'],
  ['=?x-unknown?q?abc?=', '=?x-unknown?q?abc?='],
  ['=?utf-8?q?a=ZZ?=', 'a=ZZ'],
  ['=?utf-8?x?abc?=', '=?utf-8?x?abc?='],
  ['=?utf-8?q?', '=?utf-8?q?'],
])('encoded-words are text again: %s', (words, text) => {
  expect(decodeWords(words)).toBe(text);
});
