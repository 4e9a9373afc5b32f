import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { wordsOf } from '../../src/http/answer.ts';
import { parseJsonObject, parseUrlencoded } from '../../src/http/entries.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

const LIMITS = { fields: 200, field: 64 * 1024 };
const latin = (text: string) => Buffer.from(text, 'latin1');
const form = (text: string, charset?: string) => parseUrlencoded(Buffer.from(text), charset, LIMITS);
const entriesOf = (text: string) => parseJsonObject(text, LIMITS).entries;
function faultOf(text: string): string | undefined {
  const refusal = parseJsonObject(text, LIMITS).refusal;
  return refusal && wordsOf(refusal);
}

describe('urlencoded', () => {
  test('keeps order, repeated names, names that are properties of every object, and integer names', () => {
    expect(form('b=2&a=1&a=3&__proto__=x&toString=y&10=z&2=w').entries).toEqual([
      ['b', '2'],
      ['a', '1'],
      ['a', '3'],
      ['__proto__', 'x'],
      ['toString', 'y'],
      ['10', 'z'],
      ['2', 'w'],
    ]);
  });

  test('plus, percent, empty values and stray signs', () => {
    expect(form('a=1+2%2B3&&b&c=&=x&d=a%3Db=c&').entries).toEqual([
      ['a', '1 2+3'],
      ['b', ''],
      ['c', ''],
      ['d', 'a=b=c'],
    ]);
  });

  test('a percent sign that escapes nothing stands for itself', () => {
    expect(form('sale=100%&off=%zz&last=%4').entries).toEqual([
      ['sale', '100%'],
      ['off', '%zz'],
      ['last', '%4'],
    ]);
  });

  test('bytes that are not UTF-8 are Windows-1252, percent-encoded or raw', () => {
    expect(form('name=Jos%E9&price=5%80').entries).toEqual([
      ['name', 'José'],
      ['price', '5€'],
    ]);
    expect(parseUrlencoded(latin('name=José'), undefined, LIMITS).entries).toEqual([['name', 'José']]);
  });

  test('UTF-8 is read whether escaped, raw or both, but not across two names or values', () => {
    expect(parseUrlencoded(latin('a=\xc3\xa9%C3%A9&b=\xc3%A9'), undefined, LIMITS).entries).toEqual([
      ['a', 'éé'],
      ['b', 'é'],
    ]);
    expect(form('a=%C3&%A9=b').entries).toEqual([
      ['a', 'Ã'],
      ['©', 'b'],
    ]);
  });

  test('a declared charset is used, in the type or in the field _charset_', () => {
    expect(form('name=%93%FA%96%7B', 'shift_jis').entries).toEqual([['name', '日本']]);
    expect(form('_charset_=shift_jis&name=%93%FA%96%7B').entries).toEqual([['name', '日本']]);
    expect(form('_charset_=UTF-8&name=%E6%97%A5').entries).toEqual([['name', '日']]);
  });

  test('what is declared must be true and known', () => {
    expect(form('name=Jos%E9', 'utf-8').refusal).toMatchObject({
      code: 'BODY_MALFORMED',
      message: expect.stringContaining('Field 1'),
    });
    expect(form('name=x', 'klingon').refusal).toMatchObject({ code: 'UNSUPPORTED_MEDIA_TYPE' });
  });

  test('too many fields, a long value and a long name are refused; what was read is kept', () => {
    const many = form(Array.from({ length: 5000 }, (_, i) => `f${i}=1`).join('&'));
    expect(many).toMatchObject({ refusal: { code: 'BODY_TOO_LARGE' } });
    expect(many.entries).toHaveLength(200);
    const long = form(`a=1&message=${'é'.repeat(40_000)}&b=2`);
    expect(long.refusal?.errors).toEqual([expect.objectContaining({ field: 'message' })]);
    expect(long.entries.map(([name]) => name)).toEqual(['a', 'message', 'b']);
    expect(form(`${'n'.repeat(2000)}=1`).refusal?.code).toBe('BODY_TOO_LARGE');
  });

  test('reads back what URLSearchParams writes', () => {
    const pairs = fc.array(fc.tuple(fc.string({ minLength: 1, unit: 'grapheme' }), fc.string({ unit: 'binary' })), {
      maxLength: 50,
    });
    fc.assert(
      fc.property(pairs, (given) => {
        const clean = given
          .map(([n, v]): [string, string] => [n.toWellFormed(), v.toWellFormed()])
          .filter(([n]) => n !== '_charset_');
        expect(form(new URLSearchParams(clean).toString()).entries).toEqual(clean);
      }),
    );
  });
});

describe('JSON', () => {
  test('scalars, lists and objects become entries in the order written', () => {
    const body =
      '{"b":1.50,"2":true,"a":null,"tags":["x",7],"who":{"name":"Ann","at":{"city":"Köln"}},"items":[{"n":1}, [2]],"none":{},"no":[]}';
    expect(entriesOf(body)).toEqual([
      ['b', '1.50'],
      ['2', 'true'],
      ['a', ''],
      ['tags', 'x'],
      ['tags', '7'],
      ['who.name', 'Ann'],
      ['who.at.city', 'Köln'],
      ['items', '{"n":1}'],
      ['items', '[2]'],
      ['none', ''],
      ['no', ''],
    ]);
  });

  test('__proto__ is a name like any other', () => {
    expect(entriesOf('{"__proto__":"x","toString":"y"}')).toEqual([
      ['__proto__', 'x'],
      ['toString', 'y'],
    ]);
  });

  test.each([
    ['', 'line 1, column 1: it must begin with {'],
    ['[1]', 'it must begin with {'],
    ['"x"', 'it must begin with {'],
    ['{"a":1} x', 'line 1, column 9: unexpected text after the end'],
    ['{"a":x}', 'line 1, column 6: expected a value'],
    ['{"a":01}', 'line 1, column 6: expected a value'],
    ['{"a":1,}', 'line 1, column 8: expected a name in double quotes'],
    ['{\n  "a" 1}', 'line 2, column 7: expected a colon'],
    ['{"a":1 "b":2}', 'line 1, column 8: expected a comma or }'],
    ['{"a":[1,]}', 'line 1, column 9: expected a value'],
    ['{"a":"x', 'line 1, column 6: unterminated string'],
    ['{"a":"x\ny"}', 'line 1, column 6: Bad control character'],
    ['{"a":"\\x"}', 'line 1, column 6: Bad escaped character'],
    ['{"a":"\\u12g4"}', 'line 1, column 6: Bad Unicode escape'],
    ['{"a":', 'unexpected end'],
    ['{"a":1,"a":2}', 'line 1, column 8: the name "a" is given twice'],
    ['{"a":1,"\\u0061":2}', 'given twice'],
    [`{"a":${'['.repeat(30)}${']'.repeat(30)}}`, 'nested deeper than 20'],
    [`${'{"a":'.repeat(30)}1${'}'.repeat(30)}`, 'nested deeper than 20'],
  ])('%j is refused with the position', (text, words) => {
    expect(faultOf(text)).toContain(words);
  });

  test('agrees with JSON.parse on what is JSON', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { noNullPrototype: true }), (value) => {
        expect(faultOf(JSON.stringify(value, null, 1))).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1, maxLength: 5 }), fc.string({ unit: 'binary' })), (value) => {
        expect(entriesOf(JSON.stringify(value))).toEqual(Object.entries(value));
      }),
    );
    const broken = fc.tuple(fc.json({ maxDepth: 2 }), fc.nat(), fc.constantFrom('{', '"', ',', ']', '\\', '1', ''));
    fc.assert(
      fc.property(broken, ([text, at, sign]) => {
        const body = `{"a":${text.slice(0, at % (text.length + 1))}${sign}${text.slice((at % (text.length + 1)) + 1)}}`;
        expect(faultOf(body) === undefined || faultOf(body)?.includes('twice')).toBe(
          isJson(body) || (faultOf(body)?.includes('twice') ?? false),
        );
      }),
    );
  });

  test('hostile sizes are quick', () => {
    const MiB = 1024 ** 2;
    const bodies = [
      `{"a":${'['.repeat(2 * MiB)}`,
      `{"a":[${'[],'.repeat(600_000)}[]]}`,
      `{"a":[[${'"x",'.repeat(500_000)}"x"]]}`,
      `{${Array.from({ length: 200_000 }, (_, i) => `"k${i}":{}`).join(',')}}`,
      `{"a":"${'\\u0041'.repeat(300_000)}"}`,
      `{"a":"${'\\'.repeat(2 * MiB)}`,
      `{"a":"${'\\"'.repeat(MiB)}"}`,
      `{"a":${'1'.repeat(2 * MiB)}}`,
      `{"${'n'.repeat(2 * MiB)}":1}`,
      `{${','.repeat(2 * MiB)}`,
      `{${'"a"'.repeat(700_000)}`,
    ];
    for (const body of bodies) {
      expect(leastCpuSeconds(() => parseJsonObject(body, LIMITS), 0.4)).toBeLessThan(0.4);
    }
    for (const body of [
      '&'.repeat(2 * MiB),
      '='.repeat(2 * MiB),
      '=&'.repeat(MiB),
      'a='.repeat(MiB),
      `a=${'%'.repeat(2 * MiB)}`,
    ]) {
      expect(leastCpuSeconds(() => parseUrlencoded(Buffer.from(body), undefined, LIMITS), 0.4)).toBeLessThan(0.4);
    }
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
