/** The real command, `bin/postern ARGS…`, run to its end without a terminal. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { endWithUs } from './child.ts';

export const LAUNCHER = join(import.meta.dirname, '../../bin/postern');

export interface Finished {
  /** null after a signal. */
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export interface CommandSettings {
  readonly folder: string;
  /** In place of everything that this process has but the PATH. */
  readonly env?: Readonly<Record<string, string>>;
}

/** What every program has; the compiled code of the checkout is nobody's own, and takes long to make. */
export function bareEnvironment(folder: string): NodeJS.ProcessEnv {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, HOME: folder, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) };
}

/** Runs a program with nothing on its standard input. */
export async function runProgram(
  command: string,
  args: readonly string[],
  { folder, env = {} }: CommandSettings,
): Promise<Finished> {
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...bareEnvironment(folder), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithUs(child);
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return { code, ...said };
}

/** Runs `bin/postern`. */
export function runBinary(args: readonly string[], settings: CommandSettings): Promise<Finished> {
  return runProgram(LAUNCHER, args, settings);
}
