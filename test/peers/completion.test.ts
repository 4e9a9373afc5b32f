/** What programs of Debian make of the completions for other shells, and of the man page. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { fishCompletion, zshCompletion } from '../../src/cli/reference/completion.ts';
import { manPage } from '../../src/cli/reference/documents.ts';
import { programTree } from '../cli/reference/tree.ts';
import { runProgram } from '../harness/command.ts';
import { needPackage, succeeds } from '../harness/debian.ts';
import { typeIn } from '../harness/pseudo-terminal.ts';
import { temporaryFolder } from '../harness/store.ts';

beforeAll(() => {
  const programs = ['zsh', 'fish', 'groff', 'mandoc'];
  needPackage(() => programs.every((name) => succeeds('which', [name])), 'zsh fish groff mandoc man-db');
});

const program = await programTree();

async function written(name: string, text: string): Promise<{ folder: string; file: string }> {
  const folder = await temporaryFolder();
  const file = join(folder, name);
  await writeFile(file, text);
  return { folder, file };
}

async function offeredByFish(line: string): Promise<string[]> {
  const { folder, file } = await written('postern.fish', fishCompletion(program));
  const said = await runProgram('fish', ['--no-config', '-c', `source ${file}; complete -C '${line}'`], { folder });
  expect([said.code, said.err]).toEqual([0, '']);
  return said.out.split('\n').flatMap((text) => (text === '' ? [] : [text.split('\t')[0] ?? '']));
}

test.each([
  ['postern que', ['queue']],
  ['postern queue re', ['release', 'retry']],
  ['postern queue list --state de', ['deferred', 'delivered']],
  ['postern auth list-keys --limit 5 --cur', ['--cursor']],
  ['postern config schema ', ['project', 'server']],
  ['postern submissions show ', []],
])('fish: %s', async (line, expected) => {
  expect((await offeredByFish(line)).toSorted()).toEqual(expected);
});

/** Ctrl-X shows the line as it stands. */
const ZSHRC = `autoload -U compinit && compinit -u -D
source "$ZDOTDIR/_postern"
show() { print -r -- "LINE<$BUFFER>END"; zle redisplay }
zle -N show
bindkey '^X' show
PS1='READY> '
`;

test.each([
  ['postern que', 'postern queue '],
  ['postern queue lis', 'postern queue list '],
  ['postern queue list --state cancel', 'postern queue list --state cancelled '],
  ['postern auth list-keys --limit 5 --cur', 'postern auth list-keys --limit 5 --cursor '],
  ['postern config schema proj', 'postern config schema project '],
])('zsh: %s', async (typed, expected) => {
  const { folder } = await written('_postern', zshCompletion(program));
  await writeFile(join(folder, '.zshrc'), ZSHRC);
  const keys = [
    ['READY> ', `${typed}\t\u0018`],
    ['>END', '\u0015exit\r'],
  ] as const;
  const { raw } = await typeIn(['zsh', '-i'], { folder, keys, env: { ZDOTDIR: folder, TERM: 'dumb' } });
  expect(/LINE<([^>]*)>/.exec(raw)?.[1], raw).toBe(expected);
});

test('groff, mandoc and man find nothing wrong with the man page', async () => {
  const { folder, file } = await written('postern.1', manPage(program));
  const groff = await runProgram('groff', ['-man', '-ww', '-Tutf8', file], { folder });
  expect([groff.code, groff.err]).toEqual([0, '']);
  expect(groff.out).toContain('postern signup --url https://mail.example.net');
  // It has no date, so that it changes only with the commands.
  const mandoc = await runProgram('mandoc', ['-Tlint', '-Wwarning', file], { folder });
  expect(mandoc.out.split('\n').filter((line) => !line.includes('missing date'))).toEqual(['']);
  const man = await runProgram('man', ['--warnings', '-l', file], { folder, env: { MANPAGER: 'cat' } });
  expect([man.code, man.err]).toEqual([0, '']);
});
