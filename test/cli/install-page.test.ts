/** The commands of docs/install.md are those of the program. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

const shell = Array.from(
  readFileSync(join(ROOT, 'docs/install.md'), 'utf8').matchAll(/^```sh\n([^]*?)^```$/gm),
  ([, block = '']) => block.replaceAll('\\\n', ' '),
).join('');
const lines = shell.split('\n').filter((line) => /^postern [a-z]/.test(line));

test('the page has the whole way', () => {
  for (const command of ['config check', 'doctor', 'init', 'push', 'domains verify', 'test send', 'forms snippet'])
    expect(lines.some((line) => line.startsWith(`postern ${command}`))).toBe(true);
});

test.each([...new Set(lines)])('%s', (line) => {
  const words = line.split(/\s+/).slice(1);
  const flags = words.filter((word) => word.startsWith('--'));
  const { status, stdout } = spawnSync(join(ROOT, 'bin/postern'), [...words, '--help'], { encoding: 'utf8' });
  expect(status).toBe(0);
  // The help of the innermost command: a name that it does not know would show that of the group.
  const [first = '', second = ''] = words;
  expect(stdout).toMatch(new RegExp(`^Usage: postern ${first} `));
  if (/^Usage: postern \w+ \[options\] \[command\]/.test(stdout)) expect(second).toBe('');
  for (const flag of flags) expect(stdout).toContain(flag);
});
