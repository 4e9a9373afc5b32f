import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readYaml } from '../../src/config/yaml.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';

/** What a reader of the file is told. */
function problemsOf(text: string): string[] {
  return readYaml(text, 'a.yml').problems.map(({ line, column, message }) => `${line}:${column} ${message}`);
}

describe('plain data', () => {
  test('holds what was written, with keys as text', () => {
    const { value, problems } = readYaml('a: {b: [1, yes, "2", null, 0x10]}\n5: x\ntrue: y\n1e3: z\n', 'a.yml');
    expect(problems).toEqual([]);
    expect(value).toEqual({ a: { b: [1, 'yes', '2', null, 16] }, 5: 'x', true: 'y', '1e3': 'z' });
  });

  test('has no inherited members', () => {
    const { value } = readYaml('a: 1\n', 'a.yml');
    expect(Object.getPrototypeOf(value)).toBe(null);
  });

  test('repeats what an alias names', () => {
    const { value } = readYaml('a: &x {b: 1}\nc: *x\nd: [*x]\n', 'a.yml');
    expect(value).toEqual({ a: { b: 1 }, c: { b: 1 }, d: [{ b: 1 }] });
  });

  test('an alias names the last anchor before it', () => {
    expect(readYaml('a: &x 1\nb: *x\nc: &x 2\nd: *x\n', 'a.yml').value).toEqual({ a: 1, b: 1, c: 2, d: 2 });
  });
});

describe('places', () => {
  const file = readYaml('a:\n  b: [10, 20]\n  c: |\n    text\nd:\n', 'dir/a.yml');

  test.each([
    [['a', 'b'], false, '2:6'],
    [['a', 'b'], true, '2:3'],
    [['a', 'b', 1], false, '2:11'],
    [['a', 'c'], false, '3:6'],
    [['d'], false, '5:3'],
    // What is missing is shown at the key that it is missing from.
    [['a', 'x', 'y'], false, '1:1'],
    [['x'], false, '1:1'],
  ])('of %j (key: %j) is %s', (path, key, where) => {
    const { line, column, file: name } = file.locate({ path, message: 'x', key });
    expect(`${name}:${line}:${column}`).toBe(`dir/a.yml:${where}`);
  });
});

describe('hostile files', () => {
  test('20,000 keys take linear time, and each of them twice too', () => {
    const keys = Array.from({ length: 20_000 }, (_, index) => `key${index}: value\n`).join('');
    expect(leastCpuSeconds(() => expect(readYaml(keys, 'a.yml').problems).toEqual([]), 3)).toBeLessThan(3);
    expect(leastCpuSeconds(() => expect(readYaml(keys + keys, 'a.yml').problems).toHaveLength(20_000), 5)).toBeLessThan(
      5,
    );
  });

  test('a bomb of aliases is one error', () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 10; i++)
      lines.push(
        `a${i}: &a${i} [${Array<string>(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      );
    const bomb = lines.join('\n');
    expect(leastCpuSeconds(() => readYaml(bomb, 'a.yml'), 0.5)).toBeLessThan(0.5);
    expect(problemsOf(bomb)).toHaveLength(1);
    expect(problemsOf(bomb)[0]).toMatch(/more than 100 aliases/);
  });

  test('few aliases of something big are a bomb as well', () => {
    const big = `big: &big [${Array<string>(5000).fill('x').join(', ')}]\n`;
    expect(problemsOf(`${big}all: [${Array<string>(90).fill('*big').join(', ')}]\n`)).toHaveLength(1);
  });

  test('an alias within what it names is an error', () => {
    expect(problemsOf('a: &a [1, *a]\n')).toEqual(['1:11 the alias *a is inside the value it refers to']);
  });

  test.each([
    ['[', '['.repeat(1_000_000)],
    ['{a: ', '{a: '.repeat(200_000)],
    ['- ', '- '.repeat(500_000)],
    ['? ', '? '.repeat(500_000)],
    [',', `a: {${','.repeat(1_000_000)}}`],
    [']', `a: ${']'.repeat(1_000_000)}`],
    ['&a', '&a '.repeat(300_000)],
    ['!a', '!a '.repeat(300_000)],
    ['deeper and deeper', Array.from({ length: 1400 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
    ['unclosed quotes', 'a: "\n'.repeat(10_000)],
    ['directives', '%x\n'.repeat(20_000)],
    ['anchors', 'a: &a b\n'.repeat(20_000)],
  ])('%s a million times is refused soon', (_, text) => {
    expect(leastCpuSeconds(() => expect(problemsOf(text)).not.toEqual([]), 2)).toBeLessThan(2);
  });

  test('a file of more than 1 MiB is not read', () => {
    expect(problemsOf('# comment\n'.repeat(110_000))).toEqual(['1:1 the file is larger than 1 MiB']);
  });

  test('keys that would reach a prototype are refused', () => {
    const { value, problems } = readYaml('a:\n  __proto__: {admin: true}\n', 'a.yml');
    expect(problems.map(({ message }) => message)).toEqual(['the key "__proto__" is not allowed']);
    expect(Reflect.get(Object(value).a, 'admin')).toBeUndefined();
  });

  test('whatever stands there, reading ends with data or problems', () => {
    const piece = fc.constantFrom(
      'a',
      ': ',
      '\n',
      '  ',
      '- ',
      '[',
      ']',
      '{',
      '}',
      '"',
      "'",
      '&x ',
      '*x',
      '|',
      '>',
      '#',
      '!t ',
      '?',
      ',',
      '---',
      '\t',
      '<<',
      '%',
      '\0',
      '\ud800',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const { value, problems, broken } = readYaml(pieces.join(''), 'a.yml');
        expect(broken ? problems.length : JSON.stringify(value ?? null).length).toBeGreaterThan(0);
        for (const { line, column } of problems) expect(Math.min(line, column)).toBeGreaterThan(0);
      }),
      { numRuns: 2000 },
    );
  });
});
