import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fieldPattern, patternProblem } from '../../src/config/patterns.ts';
import { cpuSeconds } from '../harness/cpu.ts';

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
    '(?=.*\\d).{8,}',
    '',
  ])('%s is taken', (pattern) => {
    expect(patternProblem(pattern)).toBeUndefined();
  });

  test.each([
    '(a+)+',
    '(a*)*b',
    '(a|a)*',
    '(a|aa)+',
    '(\\d|[0-9])*',
    '([a-z]+\\s?)+',
    '((a{1,9}){1,9}){9}',
    '(a?){30}',
    '(?:a?b?)*',
    '(?=(a+)+b)a',
    '(.)\\1',
    '(?<x>.)\\k<x>',
  ])('%s is refused, for it can take for ever', (pattern) => {
    expect(patternProblem(pattern)).toMatch(/can take for ever/);
  });

  test.each(['[a-z', '(', 'a{2,1}', '*', '\\p{Nonsense}'])('%s is no regular expression', (pattern) => {
    expect(patternProblem(pattern)).toMatch(/expected a regular expression/);
  });

  test('match the whole value', () => {
    expect(fieldPattern('a|b').test('a')).toBe(true);
    expect(fieldPattern('a|b').test('ab')).toBe(false);
  });

  test('that are taken end soon on texts made to be slow', () => {
    const { pattern } = fc.letrec<{ pattern: string; atom: string }>((tie) => ({
      pattern: fc.array(tie('atom'), { minLength: 1, maxLength: 2 }).map((parts) => parts.join('')),
      atom: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom('a', 'b', '[ab]', '.', 'a+', 'b*', 'a?', '[ab]{1,3}'),
        fc
          .tuple(tie('pattern'), fc.constantFrom('', '+', '*', '?', '{2}', '{1,4}', '{2,}'))
          .map(([inner, sign]) => `(${inner})${sign}`),
        fc
          .tuple(tie('pattern'), tie('pattern'), fc.constantFrom('', '+', '*'))
          .map(([a, b, sign]) => `(${a}|${b})${sign}`),
      ),
    }));
    fc.assert(
      fc.property(pattern, (source) => {
        fc.pre(patternProblem(source) === undefined);
        const regex = fieldPattern(source);
        const texts = ['a'.repeat(32), 'ab'.repeat(16), 'b'.repeat(32)];
        expect(cpuSeconds(() => texts.forEach((text) => regex.test(`${text}!`)))).toBeLessThan(0.2);
      }),
      { numRuns: 1000 },
    );
  });
});
