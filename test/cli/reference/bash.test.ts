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
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'server.yml'), '');
  await mkdir(join(folder, 'site'));
  await writeFile(join(folder, 'completion.bash'), bashCompletion(program));
  const script = `source ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _postern; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = await run('bash', ['--norc', '-c', script, 'bash', 'postern', ...words], { cwd: folder });
  expect(stderr).toBe('');
  return stdout.split('\n').filter((line) => line !== '');
}

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
    for (const { path, options } of leavesOf(program)) {
      const expected = options.flatMap(({ long, short }) => (short === undefined ? [long] : [long, short]));
      expect(await offered([...path, '-'])).toEqual(expected);
    }
  });
});
