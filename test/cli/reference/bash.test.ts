/** The completion for bash, asked by a real bash as it asks when somebody presses the key. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { bashCompletion } from '../../../src/cli/reference/completion.ts';
import { leavesOf } from '../../../src/cli/reference/tree.ts';
import { temporaryFolder } from '../../harness/store.ts';
import { programTree } from './tree.ts';

const run = promisify(execFile);
const program = await programTree();

/** What bash offers for the last of these words, in a folder with a file and a folder. */
async function offered(words: readonly string[]): Promise<string[]> {
  return (await offeredForEach([words]))[0] ?? [];
}

/** The same for several such lines, asked of one bash. */
async function offeredForEach(lines: readonly (readonly string[])[]): Promise<string[][]> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'server.yml'), '');
  await mkdir(join(folder, 'site'));
  await writeFile(join(folder, 'completion.bash'), bashCompletion(program));
  const calls = lines.map((words) => `offered postern ${words.map((word) => `'${word}'`).join(' ')}`);
  await writeFile(join(folder, 'ask.bash'), `${ASK}${calls.join('\n')}\n`);
  const { stdout, stderr } = await run('bash', ['--norc', 'ask.bash'], { cwd: folder });
  expect(stderr).toBe('');
  const answers = stdout.split('end of the answer\n').slice(0, -1);
  return answers.map((answer) => answer.split('\n').filter((line) => line !== ''));
}

const ASK = `source ./completion.bash
offered() {
  COMP_WORDS=("$@") COMPREPLY=()
  COMP_CWORD=$(($# - 1))
  _postern
  printf '%s\\n' "\${COMPREPLY[@]}" 'end of the answer'
}
`;

describe('bash completes', () => {
  test.each([
    ['a command', ['que'], ['queue']],
    ['a command below a command', ['queue', 're'], ['retry', 'release']],
    ['behind an option with a value', ['auth', 'list-keys', '--limit', '5', '--cur'], ['--cursor']],
    ['behind an address', ['test', 'config', '--url', 'https', ':', '//x', '--js'], ['--json']],
    ['an option', ['queue', 'list', '--st'], ['--state']],
    ['a choice', ['queue', 'list', '--state', 'de'], ['deferred', 'delivered']],
    ['a choice behind an equals sign', ['queue', 'list', '--state', '=', 'de'], ['deferred', 'delivered']],
    ['a choice of an argument', ['config', 'schema', ''], ['server', 'project']],
    ['no option where a value is due', ['queue', 'list', '--domain', '--st'], []],
    ['an option although a command is another one’s', ['analytics', '--int'], ['--interval']],
    ['a file', ['config', 'check', '--config', 'ser'], ['server.yml']],
    ['a folder', ['dev', '--data', ''], ['site']],
    ['nothing of what nobody knows', ['submissions', 'show', ''], []],
  ])('%s', async (_, words, expected) => {
    expect(await offered(words)).toEqual(expected);
  });

  test('every command and every option', async () => {
    expect(await offered([''])).toEqual(program.commands.map(({ path }) => path.at(-1)));
    const leaves = leavesOf(program);
    const answers = await offeredForEach(leaves.map(({ path }) => [...path, '-']));
    for (const [i, { path, options }] of leaves.entries()) {
      const expected = options.flatMap(({ long, short }) => (short === undefined ? [long] : [long, short]));
      expect([path, answers[i]]).toEqual([path, expected]);
    }
  });
});
