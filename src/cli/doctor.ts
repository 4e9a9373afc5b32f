/** `postern doctor`: the checks of everything that mail depends on, with advice. They are the daemon's, if it runs. */
import type { AnswerOffline } from '../contract/offline.ts';
import type { AnswerOf } from '../contract/route.ts';
import { doctor as routes } from '../contract/server.ts';
import type { CliCommand } from './command.ts';
import { counted, writeJson } from './output.ts';
import { EXIT, type Api } from './run.ts';
import { printable } from '../lib/printable.ts';
import type { Terminal } from './terminal.ts';
import { domainName, listOf } from './values.ts';

interface DoctorFlags {
  readonly dnsbl?: readonly string[] | undefined;
  readonly port25?: string | undefined;
}

/** Adds `doctor`. */
export function addCommands(program: CliCommand, { answerOffline }: { readonly answerOffline: AnswerOffline }): void {
  program
    .command('doctor')
    .description(
      "Check the server's DNS records, outbound port 25, certificate, disk, queue and configuration. If the daemon is not " +
        'running, say why, and check what can be checked without it',
    )
    .option('--dnsbl <list>', "Also look up the server's IP addresses in these DNS blocklists", listOf(domainName))
    .option(
      '--port25 <host>',
      'Mail server to connect to, with an optional port (default: the smarthost, or well-known servers)',
    )
    .example('doctor', 'Show problems and how to fix them. Exits with 1 if a check fails')
    .example('doctor --dnsbl zen.spamhaus.org', 'Also check a blocklist')
    .operator(doctor, answerOffline);
}

/** Has the checks made and shows them. Returns 1 if a check failed. */
async function doctor({ client, terminal, json }: Api, query: DoctorFlags): Promise<number> {
  terminal.progress('Checking …');
  const { data, read } = await client.ask({ route: routes.check, query });
  terminal.progress('');
  const found = read();
  if (json) writeJson(terminal, data);
  else {
    showChecks(found.checks, terminal);
    writeCounts(found.checks, terminal);
  }
  return found.ok ? EXIT.done : EXIT.failed;
}

const COLOURS = { ok: 'green', warning: 'yellow', failed: 'red', unknown: 'cyan' } as const;

export type Check = AnswerOf<typeof routes.check>['checks'][number];

/** A line for each check, with what to do below it. */
export function showChecks(checks: readonly Check[], terminal: Terminal): void {
  const width = Math.max(0, ...checks.map(({ name }) => name.length));
  for (const { name, status, found, advice } of checks) {
    const word = terminal.style(COLOURS[status], status.padEnd(7));
    terminal.write(`${word}  ${name.padEnd(width)}  ${printable(found)}\n`);
    if (advice !== undefined) terminal.write(`${' '.repeat(width + 11)}→ ${printable(advice)}\n`);
  }
}

function writeCounts(checks: readonly Check[], terminal: Terminal): void {
  const counts = (['failed', 'warning', 'unknown'] as const).flatMap((status) => {
    const count = checks.filter((check) => check.status === status).length;
    return count === 0 ? [] : [status === 'warning' ? counted(count, status) : `${count} ${status}`];
  });
  terminal.write(`\n${counted(checks.length, 'check')}${counts.length === 0 ? ' passed' : `: ${counts.join(', ')}`}\n`);
}
