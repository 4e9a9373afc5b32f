/** `postern console`: a link that signs in to the web console as the operator. */
import { consoleLink } from '../contract/sessions.ts';
import type { CliCommand } from './command.ts';
import { print, shortTime } from './output.ts';
import type { Api } from './run.ts';
import { printable } from '../lib/printable.ts';

/** Adds `console`. */
export function addCommands(program: CliCommand): void {
  program
    .command('console')
    .summary('Print a link to the web console')
    .description('Print a link that signs you in to the web console as the operator. It works once, within 5 minutes')
    .operator(printLink);
}

function printLink(api: Api): Promise<number | void> {
  const { terminal } = api;
  return print(api, { route: consoleLink.create }, ({ url, expires_at }) => {
    terminal.write(`${printable(url)}\n`);
    terminal.writeError(`The link signs you in as the operator. It works once, until ${shortTime(expires_at)}.\n`);
    const { hostname, port, protocol } = new URL(url);
    if (hostname !== 'localhost' || protocol === 'https:') return;
    const number = port === '' ? '80' : port;
    terminal.writeError(
      `Without HTTPS, it works only on the server itself. From your machine: ssh -L ${number}:localhost:${number} SERVER\n`,
    );
  });
}
