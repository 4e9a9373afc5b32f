/** What a person is told beside the result, on standard error: the command goes on. */
import { formatProblem } from '../config/problem.ts';
import type { LocalServer } from './local-server.ts';
import { printable, type Terminal } from './terminal.ts';

/** Says what is wrong with server.yml, and what was used of it. */
export function warnOfErrors(
  { writeError }: Pick<Terminal, 'writeError'>,
  { file, socket, errors }: LocalServer,
): void {
  if (errors.length === 0) return;
  for (const error of errors) writeError(`${printable(formatProblem(error))}\n`);
  const cure = 'Correct it, and check it with: postern config check';
  writeError(`warning: ${file} is not valid, using the admin socket ${socket}. ${cure}\n`);
}

/** Says that the database answered in place of the daemon. */
export function warnOfSource({ writeError }: Pick<Terminal, 'writeError'>, source: string): void {
  writeError(`warning: The daemon is not running. This is read from ${source}. To see why, run: postern doctor\n`);
}
