import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fieldsOf, splitHeader, valueOf } from '../../src/mail/header.ts';
import { cpuSeconds } from '../harness/cpu.ts';

async function read(pieces: Iterable<Uint8Array>): Promise<{ header: string; body: string }> {
  const { header, body } = await splitHeader(pieces);
  let text = '';
  for await (const piece of body) text += Buffer.from(piece).toString('latin1');
  return { header, body: text };
}

/** The message in pieces of this size. */
function cut(message: string, size: number): Buffer[] {
  const bytes = Buffer.from(message, 'latin1');
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

describe('a header ends at the first empty line', () => {
  test.each([
    ['A: b\r\n\r\nbody\r\n', 'A: b\r\n', 'body\r\n'],
    ['A: b\r\n\r\n', 'A: b\r\n', ''],
    ['A: b\r\n', 'A: b\r\n', ''],
    ['A: b', 'A: b', ''],
    ['\r\nA: b\r\n\r\n', '', 'A: b\r\n\r\n'],
    ['\r\n', '', ''],
    ['', '', ''],
    ['A: b\r\n \r\n c\r\n\r\n\r\n\r\nx', 'A: b\r\n \r\n c\r\n', '\r\n\r\nx'],
    ['A: \xe9\r\n\r\n\xff', 'A: \xe9\r\n', '\xff'],
  ])('%j', async (message, header, body) => {
    for (const size of [1, 2, 3, 4, 5, 7, 100]) expect(await read(cut(message, size))).toEqual({ header, body });
  });

  test('whatever the bytes and the pieces, they are all there', async () => {
    const text = fc
      .array(fc.constantFrom('\r\n', '\r', '\n', 'a', ':', ' '), { maxLength: 40 })
      .map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 1, max: 9 }), async (message, size) => {
        const { header, body } = await read(cut(message, size));
        const emptyLine = `\r\n${message}`.includes('\r\n\r\n') ? '\r\n' : '';
        expect(header + emptyLine + body).toBe(message);
        expect(`\r\n${header}`).not.toContain('\r\n\r\n');
        expect(
          fieldsOf(header)
            .map((field) => field.text)
            .join(''),
        ).toBe(header);
      }),
    );
  });

  test('one that does not end is not read for ever', async () => {
    const pieces = function* () {
      for (;;) yield Buffer.alloc(65536, 'a');
    };
    await expect(splitHeader(pieces())).rejects.toThrow(RangeError);
  });
});

test('fields have a name and all of their lines', () => {
  const header = 'From: a@b.c\r\nSubject:x\r\n y\r\n\tz\r\nODD \t: 1\r\nFolded\r\n : 2\r\nno field\r\n: nothing\r\n';
  expect(fieldsOf(header).map((field) => [field.name, valueOf(field)])).toEqual([
    ['from', ' a@b.c'],
    ['subject', 'x\r\n y\r\n\tz'],
    ['odd', ' 1'],
    ['folded', ' 2'],
    ['', 'no field'],
    ['', ' nothing'],
  ]);
});

test('a mebibyte of anything takes no time', () => {
  for (const filler of ['a', ' ', '\r\n ', '\r\n', 'a:\r\n', '\t\r\n\t', ':']) {
    const header = `X${filler.repeat(Math.floor((1 << 20) / filler.length))}`;
    expect(
      cpuSeconds(() => expect(fieldsOf(header).length).toBeGreaterThan(0)),
      filler,
    ).toBeLessThan(1.5);
  }
});
