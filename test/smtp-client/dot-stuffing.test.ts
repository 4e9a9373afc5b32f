import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DotStuffer } from '../../src/smtp-client/transaction.ts';

function stuffed(...pieces: string[]): string {
  const stuffer = new DotStuffer();
  const out = pieces.map((piece) => stuffer.push(Buffer.from(piece)));
  return Buffer.concat([...out, stuffer.end()]).toString();
}

test.each([
  ['text without dots', 'a\r\nb.c\r\n', 'a\r\nb.c\r\n.\r\n'],
  ['a dot at the very beginning', '.a\r\n', '..a\r\n.\r\n'],
  ['a line of one dot', 'a\r\n.\r\nb\r\n', 'a\r\n..\r\nb\r\n.\r\n'],
  ['several dots', '...\r\n..\r\n', '....\r\n...\r\n.\r\n'],
  ['a last line without an end', 'a', 'a\r\n.\r\n'],
  ['nothing', '', '.\r\n'],
])('%s', (_, text, wire) => {
  expect(stuffed(text)).toBe(wire);
});

test('wherever it is cut, the wire is the same, the receiver gets the message back and nothing ends it early', () => {
  const line = fc.string({ unit: fc.constantFrom('.', 'a', ' '), maxLength: 6 });
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.integer({ min: 0, max: 5 })), (lines, cuts) => {
      const text = lines.map((each) => `${each}\r\n`).join('');
      const pieces: string[] = [];
      let at = 0;
      for (const cut of cuts) {
        pieces.push(text.slice(at, at + cut));
        at += cut;
      }
      const wire = stuffed(...pieces, text.slice(at));
      expect(wire).toBe(stuffed(text));
      expect(`\r\n${wire}`.indexOf('\r\n.\r\n')).toBe(wire.length - 3);
      expect(wire.slice(0, -3).replaceAll(/(^|\r\n)\./g, '$1')).toBe(text);
    }),
  );
});

test('a piece without a dot at the start of a line is passed on as it is', () => {
  const piece = Buffer.from('no dots\r\nhere. either\r\n');
  expect(new DotStuffer().push(piece)).toBe(piece);
});
