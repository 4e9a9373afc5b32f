/** Shows a file with whatever this desktop shows such files with. */
import { spawn } from 'node:child_process';
import { platform } from 'node:os';
import { messageOf } from '../lib/errors.ts';
import { CommandFailed } from './run.ts';
import type { Terminal } from './terminal.ts';

/** Starts it and does not wait for its end. Throws CommandFailed where there is nothing to start. */
export async function openFile(path: string, { env }: Pick<Terminal, 'env'>): Promise<void> {
  const [command, ...args] = openerOf(platform());
  const child = spawn(command, [...args, path], { detached: true, stdio: 'ignore', env });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) =>
      reject(new CommandFailed(`cannot open it with ${command}: ${messageOf(error)}. The file is ${path}`)),
    );
  });
  child.unref();
}

function openerOf(system: NodeJS.Platform): readonly [string, ...string[]] {
  switch (system) {
    case 'darwin':
      return ['open'];
    case 'win32':
      return ['explorer.exe'];
    default:
      return ['xdg-open'];
  }
}
