/** What help, the man page, the page of documentation and completion say comes from one definition, and is all there. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { documentsOf } from '../../../src/cli/reference/documents.ts';
import { leavesOf } from '../../../src/cli/reference/tree.ts';
import { runCommand, testTerminal } from '../../harness/terminal.ts';
import { programTree } from './tree.ts';

const ROOT = join(import.meta.dirname, '../../..');
const program = await programTree();
const leaves = leavesOf(program).map((leaf) => [leaf.path.join(' '), leaf] as const);
const documents = documentsOf(program);

test.each(Object.entries(documents))('%s is what `npm run docs` writes', async (path, text) => {
  expect(await readFile(join(ROOT, path), 'utf8')).toBe(text);
});

/** The specification's table, name by name. */
const SPECIFIED = [
  'signup',
  'init',
  'push',
  'domains setup',
  'domains verify',
  'domains status',
  'auth status',
  'auth create-key',
  'auth revoke-key',
  'auth permissions',
  'test config',
  'test send',
  'templates preview',
  'instant list',
  'analytics',
  'analytics api-usage',
  'analytics export',
];

test('the commands of the specification are there', () => {
  expect(leaves.map(([name]) => name)).toEqual(expect.arrayContaining(SPECIFIED));
});

describe.each(leaves)('postern %s', (name, leaf) => {
  test('says what it does and what each of its arguments and options is', () => {
    expect(leaf.description).toMatch(/^\S.*[^.]$/);
    expect([...leaf.arguments, ...leaf.options].filter(({ description }) => description === '')).toEqual([]);
  });

  test('has help that fits 80 columns', () => {
    expect(leaf.help.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });

  test('has help that is in the documentation as it is printed', async () => {
    const terminal = testTerminal();
    expect(await runCommand(terminal, [...leaf.path, '--help'])).toBe(0);
    const help = terminal.out();
    expect(help).toBe(leaf.help);
    expect(documents['docs/cli.md']).toContain(`### postern ${name}\n\n\`\`\`text\n${help}\`\`\``);
  });

  test('has all of its help in the man page', () => {
    const section =
      plain(documents['man/postern.1'] ?? '')
        .split(`.SS (dq postern ${name}(dq `)[1]
        ?.split('.SS ')[0] ?? '';
    const parts = [
      leaf.usage,
      ...leaf.arguments.map(({ name, description }) => `.B ${name} ${description} `),
      ...leaf.options.map(({ flags, description }) => `.B ${flags} ${description} `),
      ...leaf.examples.map(({ line }) => line),
    ];
    expect(parts.filter((part) => !section.includes(plain(part)))).toEqual([]);
  });
});

/** The words of a man page, or of what stands in it, on one line; signs of their own as roff names them. */
function plain(text: string): string {
  return text
    .replaceAll('\\&', '')
    .replaceAll('\\-', '-')
    .replaceAll(/\\\[u([0-9A-F]+)\]/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)))
    .replaceAll(/\\(\(\w\w)/g, '$1')
    .replaceAll('"', '(dq')
    .replaceAll("'", '(aq')
    .replaceAll('`', '(ga')
    .replaceAll('~', '(ti')
    .replaceAll('’', '(cq')
    .replaceAll('…', '...')
    .replaceAll('^', '(ha')
    .replaceAll('(dqpostern', '(dq postern')
    .replaceAll(/\s+/g, ' ');
}
