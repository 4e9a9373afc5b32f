import { expect, test } from 'vitest';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TOKENS } from '../../src/http/pages/tokens.ts';
import { readSources, ROOT } from '../structure/sources.ts';

test('every token that a style uses is there, in light and dark', () => {
  const known = new Set(Array.from(TOKENS.matchAll(/(--[a-z0-9-]+):/g), ([, name]) => name));
  const styles = [
    ...readSources('src').map(({ path, code }) => [path, code] as const),
    ['src/console/style.css', readFileSync(join(ROOT, 'src/console/style.css'), 'utf8')] as const,
  ];
  const unknown = styles.flatMap(([path, text]) =>
    Array.from(text.matchAll(/var\((--[a-z0-9-]+)/g), ([, name]) => name)
      .filter((name) => !known.has(name))
      .map((name) => `${path}: ${name}`),
  );
  expect(unknown).toEqual([]);
  expect(known.size).toBeGreaterThan(30);
});

test('no rule of the console is inside another one by mistake', () => {
  const text = readFileSync(join(ROOT, 'src/console/style.css'), 'utf8');
  let depth = 0;
  const nested = text.split('\n').filter((line) => {
    const isNested = depth > 0 && /^[^\s}]/.test(line);
    depth += line.split('{').length - line.split('}').length;
    return isNested;
  });
  expect([nested, depth]).toEqual([[], 0]);
});
