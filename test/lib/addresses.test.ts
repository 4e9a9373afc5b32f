import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  canonicalMailbox,
  formatMailbox,
  needsSmtpUtf8,
  parseAddress,
  parseDomain,
  parseMailbox,
} from '../../src/lib/addresses.ts';

describe('an address', () => {
  test.each([
    ['you@example.com', 'you@example.com'],
    ['You.Name+tag@Example.COM', 'You.Name+tag@example.com'],
    ["o'brien!#$%&*/=?^_`{|}~-@example.com", "o'brien!#$%&*/=?^_`{|}~-@example.com"],
    ['山田@例え.テスト', '山田@xn--r8jz45g.xn--zckzah'],
    ['a@xn--bcher-kva.example', 'a@xn--bcher-kva.example'],
    ['a@sub.under_score.example', 'a@sub.under_score.example'],
    ['a..b@docomo.ne.jp', 'a..b@docomo.ne.jp'],
    ['abc.@ezweb.ne.jp', 'abc.@ezweb.ne.jp'],
    ['a...b..@docomo.ne.jp', 'a...b..@docomo.ne.jp'],
  ])('%s', (text, address) => {
    expect(parseAddress(text)?.address).toBe(address);
  });

  test.each([
    '',
    '@',
    'you',
    'you@',
    '@example.com',
    'you@localhost',
    'you@example.com.',
    'you@@example.com',
    'you@exa mple.com',
    'y ou@example.com',
    '.you@example.com',
    '..@example.com',
    '"quoted"@example.com',
    '"v@evil x"@example.com',
    'you@[127.0.0.1]',
    'you@127.0.0.1',
    'you@example.com, other@example.com',
    'you@example.com,other@example.com',
    'You <you@example.com>',
    'you@example.com\r\nBcc: x@y.example',
    'you\n@example.com',
    'you\0@example.com',
    'you\u200e\u2028@example.com',
    'a%b@c@example.com ',
    'you@-example.com',
    'you@example-.com',
    'you@exam..ple.com',
    `${'x'.repeat(65)}@example.com`,
    `you@${'x'.repeat(64)}.com`,
    `you@${'x.'.repeat(130)}com`,
  ])('%j is none', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  test('whatever is accepted can stand in an envelope: no space, control, bracket, comma, second @ or line break', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.emailAddress()), (text) => {
        const found = parseAddress(text);
        // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
        if (found !== undefined) expect(found.address).toMatch(/^[^\s\x00-\x1f\x7f<>(),:;"[\]\\@]+@[a-z0-9._-]+$/);
      }),
      { numRuns: 2000 },
    );
  });
});

test('a domain is lower case, in A-labels, and has two labels', () => {
  expect(parseDomain('BÜCHER.example')).toBe('xn--bcher-kva.example');
  expect(parseDomain('com')).toBeUndefined();
  expect(parseDomain('1.2.3.4')).toBeUndefined();
  expect(parseDomain('a.example/path')).toBeUndefined();
});

test('only a local part beyond ASCII asks for SMTPUTF8', () => {
  expect(needsSmtpUtf8('you@xn--bcher-kva.example')).toBe(false);
  expect(needsSmtpUtf8('山田@example.com')).toBe(true);
});

describe('a mailbox', () => {
  test.each([
    ['ana@Example.com', undefined, 'ana@example.com'],
    [' <ana@example.com> ', undefined, 'ana@example.com'],
    ['Ana García <ana@example.com>', 'Ana García', 'ana@example.com'],
    ['O’Neil & Sons Ltd. <ana@example.com>', 'O’Neil & Sons Ltd.', 'ana@example.com'],
    ['"García, Ana" <ana@example.com>', 'García, Ana', 'ana@example.com'],
    ['"a \\"b\\" <x@y.example>" <ana@example.com>', 'a "b" <x@y.example>', 'ana@example.com'],
  ])('%s', (text, name, address) => {
    expect(parseMailbox(text)).toEqual({ address, ...(name !== undefined && { name }) });
    expect(parseMailbox(formatMailbox({ name, address }))).toEqual(parseMailbox(text));
  });

  test.each([
    '',
    '<>',
    'Ana',
    'ana@example.com, bob@example.com',
    'ana@example.com <bob@example.com>',
    'a@x.example, Bob <bob@example.com>',
    'Group: a@x.example;',
    'Ana <ana@example.com> <bob@example.com>',
    'Ana <ana@example.com>, bob@example.com',
    '"Ana" "Bob" <ana@example.com>',
    'Ana <ana@example.com\r\nBcc: x@y.example>',
    'Ana\r\nBcc: x@y.example <ana@example.com>',
    '"Ana\n" <ana@example.com>',
    'Ana (x) <ana@example.com>',
    `"${'\\'.repeat(10_000)}`,
    `a${' '.repeat(100_000)}b`,
  ])('%j is none', (text) => {
    expect(parseMailbox(text)).toBeUndefined();
  });
});

test.each([
  ['ann@inbox.test', 'ann@inbox.test'],
  ['Ann@INBOX.test', 'ann@inbox.test'],
  ['ann+shop@inbox.test', 'ann@inbox.test'],
  ['ann+a+b@inbox.test', 'ann@inbox.test'],
  ['+ann@inbox.test', '+ann@inbox.test'],
  ['a.n.n@inbox.test', 'a.n.n@inbox.test'],
  ['A.n.N+x.y@gmail.com', 'ann@gmail.com'],
  ['a.nn@GoogleMail.com', 'ann@gmail.com'],
  ['a.nn@mail.gmail.com', 'a.nn@mail.gmail.com'],
])('%s leads to the mailbox %s', (address, mailbox) => {
  expect(canonicalMailbox(address)).toBe(mailbox);
});
