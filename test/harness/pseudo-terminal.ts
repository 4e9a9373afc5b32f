/** Programs in a pseudo-terminal, that of script(1) from Debian's bsdutils, with somebody who types. */
import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { endWithUs } from './child.ts';
import { bareEnvironment, LAUNCHER, type CommandSettings } from './command.ts';

export interface Seen {
  readonly code: number | null;
  /** All that is to be seen, without what only a terminal understands. */
  readonly text: string;
  /** As it came. */
  readonly raw: string;
}

export interface Typing extends CommandSettings {
  /** In turn: what has to be seen, and the keys that are pressed then, or what is done. */
  readonly keys?: readonly (readonly [seen: string, keys: string | (() => void)])[];
}

/** Runs `postern ARGS…` in a terminal of 100 columns. */
export function runInTerminal(args: readonly string[], typing: Typing): Promise<Seen> {
  return typeIn([LAUNCHER, ...args], typing);
}

/** The same for any program. */
export async function typeIn(program: readonly string[], { folder, env = {}, keys = [] }: Typing): Promise<Seen> {
  const command = ['stty cols 100 rows 40 &&', ...program.map(quoted)].join(' ');
  const child = spawn('script', ['--quiet', '--return', '--flush', '--command', command, '/dev/null'], {
    cwd: folder,
    env: { ...bareEnvironment(folder), TERM: 'xterm', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  endWithUs(child);
  const left = [...keys];
  let raw = '';
  let read = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    raw += text;
    for (let [next] = left; next !== undefined && raw.includes(next[0], read); [next] = left) {
      read = raw.length;
      left.shift();
      if (typeof next[1] === 'string') child.stdin.write(next[1]);
      else next[1]();
    }
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (left.length > 0) throw new Error(`nothing asked ${left.map(([seen]) => seen).join(', ')}:\n${raw}`);
  return { code, raw, text: stripVTControlCharacters(raw).replaceAll('\r\n', '\n') };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
