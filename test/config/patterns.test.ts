import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fieldPattern, patternProblem } from '../../src/config/patterns.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

describe('patterns of fields', () => {
  test.each([
    '[0-9+ ()-]{5,30}',
    '\\d{5}(-\\d{4})?',
    '(\\d{1,3}\\.){3}\\d{1,3}',
    '[A-Z]{2}\\d{2}( ?\\d{4}){4}',
    '(Mr|Dr|Prof)\\. .+',
    '(?:foo|bar)+',
    '(?<year>\\d{4})-(?:\\d{2})',
    '[^@\\s]+@[^@\\s]+',
    '\\p{L}+',
    '[(?=]',
    '[\\w-]{1,100}',
  ])('%s is taken', (pattern) => {
    expect(patternProblem(pattern)).toBeUndefined();
  });

  test.each(['a*a*a*a*a*a*b', '(a+)+', '(a|aa)+b', String.raw`\w*-?\w*-?\w*-?\w*-?\w*`])(
    '%s is taken, and takes time that is linear in the text',
    (pattern) => {
      expect(patternProblem(pattern)).toBeUndefined();
      expect(leastCpuSeconds(() => fieldPattern(pattern).matches(`${'a'.repeat(10_000)}!`), 0.1)).toBeLessThan(0.1);
    },
  );

  test.each([
    ['(?=.*\\d).{8,}', 'look-ahead and look-behind are not supported'],
    ['(?<!a)b', 'look-ahead and look-behind are not supported'],
    ['(.)\\1', 'back-references are not supported'],
    ['(?<x>.)\\k<x>', 'back-references are not supported'],
    ['a{0,900}', 'can be at most 100'],
    ['a{101,}', 'can be at most 100'],
    ['((a{1,9}){1,9}){9}', 'nested repetitions make it too large'],
    ['\\p{Letter}', 'does not support this'],
  ])('%s is refused with its reason: %s', (pattern, reason) => {
    expect(patternProblem(pattern)).toContain(reason);
  });

  test.each(['[a-z', '(', 'a{2,1}', '*', '\\p{Nonsense}'])('%s is no regular expression', (pattern) => {
    expect(patternProblem(pattern)).toMatch(/expected a valid regular expression/);
  });

  test('match the whole value', () => {
    expect(fieldPattern('a|b').matches('a')).toBe(true);
    expect(fieldPattern('a|b').matches('ab')).toBe(false);
    expect(fieldPattern('a').matches('a\n')).toBe(false);
  });

  test('match what a browser matches', () => {
    const { pattern } = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
      pattern: fc.array(tie('atom'), { minLength: 1, maxLength: 3 }).map((parts) => parts.join('')),
      atom: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(
          'a',
          'b',
          '[ab]',
          '.',
          'a+',
          'b*',
          'a?',
          '[ab]{1,3}',
          '\\s',
          '\\S',
          '[\\s-]',
          '\\d',
          '\\u00e9',
          '\\.',
        ),
        fc.constantFrom('[^a\\s]', '\\p{L}', '\\p{Script=Greek}', '\\x61', '[\\]a]', '\\/', '\\bb', '(?<x>a)'),
        fc
          .tuple(tie('pattern'), fc.constantFrom('', '+', '*', '?', '{2}', '{1,4}', '{2,}'))
          .map(([a, b]) => `(?:${a})${b}`),
        fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => `(${a}|${b})`),
      ),
    }));
    const text = fc
      .array(fc.constantFrom('a', 'b', '1', ' ', '-', '.', 'é', '\u00a0', '\u2028', '\n', 'α', '😀', '/', ']'), {
        maxLength: 6,
      })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(pattern, fc.array(text, { minLength: 5, maxLength: 5 }), (source, texts) => {
        fc.pre(patternProblem(source) === undefined);
        const browser = new RegExp(`^(?:${source})$`, 'u');
        const ours = fieldPattern(source);
        for (const sample of texts) expect([sample, ours.matches(sample)]).toEqual([sample, browser.test(sample)]);
      }),
      { numRuns: 1000 },
    );
  });
});
