/** `postern reload`: has the daemon read its configuration again, and says what came of that. */
import type { AnswerOf } from '../contract/route.ts';
import { configCheck as routes } from '../contract/server.ts';
import type { CliCommand } from './command.ts';
import { counted, listed, writeJson } from './output.ts';
import { EXIT, type Api } from './run.ts';
import { printable } from '../lib/printable.ts';

/** Adds `reload`. */
export function addCommands(program: CliCommand): void {
  program
    .command('reload')
    .summary('Reload the configuration')
    .description(
      'Make the daemon reread server.yml and the project files, as SIGHUP does. Exits with 1 if a file is invalid; ' +
        'its last valid version then stays active',
    )
    .operator(reload);
}

/** Projects may be rendered to be checked. */
const PATIENCE_MS = 115_000;

async function reload({ client, terminal, json }: Api): Promise<number> {
  const { data, read } = await client.ask({ route: routes.reload, body: {}, idleMs: PATIENCE_MS });
  const answer = read();
  if (json) writeJson(terminal, data);
  else write(answer, terminal);
  return answer.problems.length === 0 ? EXIT.done : EXIT.failed;
}

const SIGNS = { add: ['+', 'green'], remove: ['-', 'red'], change: ['~', 'yellow'] } as const;

function write(
  { outcome, changes, waiting, problems }: AnswerOf<typeof routes.reload>,
  terminal: Api['terminal'],
): void {
  for (const [file, ofFile] of Map.groupBy(changes, ({ file }) => file)) {
    terminal.write(`${printable(file)}: ${counted(ofFile.length, 'change')} applied\n`);
    for (const { op, path } of ofFile) {
      const [sign, colour] = SIGNS[op];
      terminal.write(`  ${terminal.style(colour, sign)} ${printable(path)}\n`);
    }
  }
  if (outcome === 'applied' && changes.length === 0 && problems.length === 0) terminal.write('Applied.\n');
  if (outcome === 'unchanged') terminal.write('Nothing has changed since the last reload.\n');
  if (waiting.length > 0) terminal.write(`Takes effect after a restart: ${printable(listed(waiting, 20))}\n`);
  for (const problem of problems) terminal.writeError(`${printable(problem)}\n`);
}
