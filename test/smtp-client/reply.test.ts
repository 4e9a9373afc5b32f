import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ProtocolError, ReplyParser, replyText, type Reply } from '../../src/smtp-client/reply.ts';

function parse(...chunks: string[]): Reply[] {
  const parser = new ReplyParser();
  return chunks.flatMap((chunk) => parser.push(Buffer.from(chunk)));
}

describe('a reply', () => {
  test('of one line', () => {
    expect(parse('250 2.0.0 queued as 42\r\n')).toEqual([
      { code: 250, enhanced: '2.0.0', lines: ['2.0.0 queued as 42'] },
    ]);
  });

  test('of several lines, followed by another', () => {
    expect(parse('250-mx.example.test\r\n250-SIZE 100\r\n250 PIPELINING\r\n354\r\n')).toEqual([
      { code: 250, lines: ['mx.example.test', 'SIZE 100', 'PIPELINING'] },
      { code: 354, lines: [''] },
    ]);
  });

  test('with bare line feeds, which some servers send', () => {
    expect(parse('250-a\n250 b\n')).toEqual([{ code: 250, lines: ['a', 'b'] }]);
  });

  test('whose lines disagree has the code of the last', () => {
    expect(parse('250-so far\r\n550 5.1.1 no\r\n')[0]?.code).toBe(550);
  });

  test('has an enhanced code only of its own class', () => {
    expect(parse('250 5.1.1 looks wrong\r\n')[0]).not.toHaveProperty('enhanced');
    expect(parse('550 5.1.1no blank\r\n')[0]).not.toHaveProperty('enhanced');
    expect(parse('550 5.7.1\r\n')[0]).toHaveProperty('enhanced', '5.7.1');
  });

  test('is the same however its bytes arrive', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', ' ', '-', '.', '5', '\u0007'), maxLength: 40 });
    const replies = fc.array(
      fc.record({ code: fc.integer({ min: 200, max: 599 }), lines: fc.array(text, { minLength: 1, maxLength: 4 }) }),
      { maxLength: 5 },
    );
    fc.assert(
      fc.property(replies, fc.array(fc.integer({ min: 1, max: 30 })), (sent, cuts) => {
        const bytes = Buffer.from(sent.map(wire).join(''));
        const whole = new ReplyParser().push(bytes);
        expect(whole.map(({ code }) => code)).toEqual(sent.map(({ code }) => code));
        const parser = new ReplyParser();
        const pieces: Reply[] = [];
        let at = 0;
        for (const cut of [...cuts, bytes.length]) {
          pieces.push(...parser.push(bytes.subarray(at, at + cut)));
          at += cut;
        }
        expect(pieces).toEqual(whole);
        expect(parser.isEmpty).toBe(true);
      }),
    );
  });
});

function wire({ code, lines }: { code: number; lines: readonly string[] }): string {
  return lines.map((line, i) => `${code}${i === lines.length - 1 ? ' ' : '-'}${line}\r\n`).join('');
}

describe('what ends the conversation', () => {
  test.each([
    ['a line without a code', 'hello there\r\n'],
    ['HTTP', 'HTTP/1.1 400 Bad Request\r\n'],
    ['a code of two digits', '25 ok\r\n'],
    ['a code followed by a letter', '250ok\r\n'],
    ['a line that is too long', `250 ${'x'.repeat(3000)}\r\n`],
    ['a line that never ends', '2'.repeat(3000)],
    ['a reply that never ends', '250-more\r\n'.repeat(3000)],
  ])('%s', (_, text) => {
    expect(() => parse(text)).toThrow(ProtocolError);
  });

  test('a line that never ends, in drops', () => {
    const parser = new ReplyParser();
    expect(() => {
      for (let i = 0; i < 3000; i++) parser.push(Buffer.from('2'));
    }).toThrow(ProtocolError);
  });
});

test('what is left of an unfinished reply is known', () => {
  const parser = new ReplyParser();
  parser.push(Buffer.from('220 go ahead\r\n25'));
  expect(parser.isEmpty).toBe(false);
  parser.push(Buffer.from('0-x\r\n'));
  expect(parser.isEmpty).toBe(false);
});

test('its text is one printable line of bounded length with one enhanced code', () => {
  const [reply] = parse('550-5.7.1 blocked,\r\n550-5.7.1 see\u0007 https://example.test\r\n550 5.7.1 bye\r\n');
  expect(reply && replyText(reply)).toBe('550 5.7.1 blocked, see  https://example.test bye');
  expect(replyText({ code: 250, lines: ['x'.repeat(5000)] }).length).toBe(1000);
});
