import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalLineEnds } from '../../src/mail/line-ends.ts';

function canonical(...chunks: (string | Buffer)[]): string {
  return Buffer.concat(canonicalLineEnds(chunks.map((chunk) => Buffer.from(chunk)))).toString('latin1');
}

describe('canonicalLineEnds', () => {
  test.each([
    ['a\r\nb\r\n', 'a\r\nb\r\n'],
    ['a\nb\n', 'a\r\nb\r\n'],
    ['a\rb\r', 'a\r\nb\r\n'],
    ['\n.\r\n', '\r\n.\r\n'],
    ['\r\r\n\n', '\r\n\r\n\r\n'],
    ['a\0b', 'ab'],
    ['a\r\0\nb', 'a\r\nb'],
    ['', ''],
  ])('%j is %j', (bytes, expected) => {
    expect(canonical(bytes)).toBe(expected);
  });

  test('a CRLF may be cut between chunks', () => {
    expect(canonical('a\r', '\nb\r', '', 'c\r')).toBe('a\r\nb\r\nc\r\n');
  });

  test('leaves nothing but CRLF, wherever the chunks break, and changes nothing a second time', () => {
    const chunk = fc.array(fc.constantFrom(0, 10, 13, 97, 0xe9), { maxLength: 6 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 5 }), (chunks) => {
        const text = canonical(...chunks);
        expect(text.replaceAll('\r\n', '')).toMatch(/^[a\xe9]*$/);
        expect(text).toBe(canonical(Buffer.concat(chunks)));
        expect(canonical(Buffer.from(text, 'latin1'))).toBe(text);
      }),
    );
  });
});
