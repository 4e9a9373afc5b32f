/** `postern doctor`: the daemon's checks of everything that mail depends on, with advice. */
import type { AnswerOf } from '../contract/route.ts';
import { doctor as routes } from '../contract/server.ts';
import { messageOf } from '../lib/errors.ts';
import type { CliCommand } from './command.ts';
import { counted, writeJson } from './output.ts';
import { EXIT, type Api } from './run.ts';
import { DaemonUnreachable } from './client.ts';
import { printable, type Terminal } from './terminal.ts';
import { domainName, listOf } from './values.ts';

interface DoctorFlags {
  readonly dnsbl?: readonly string[] | undefined;
  readonly port25?: string | undefined;
}

/** Adds `doctor`. */
export function addCommands(program: CliCommand): void {
  program
    .command('doctor')
    .description("Check the server's DNS records, outbound port 25, certificate, disk, queue and configuration")
    .option('--dnsbl <list>', "Also look up the server's IP addresses in these DNS blocklists", listOf(domainName))
    .option(
      '--port25 <host>',
      'Mail server to connect to, with an optional port (default: the smarthost, or well-known servers)',
    )
    .example('doctor', 'Show problems and how to fix them. Exits with 1 if a check fails')
    .example('doctor --dnsbl zen.spamhaus.org', 'Also check a blocklist')
    .operator(doctor);
}

/** Has the daemon make its checks and shows them. Returns 1 if a check failed. */
async function doctor({ client, terminal, json }: Api, query: DoctorFlags): Promise<number> {
  terminal.progress('Checking …');
  const { data, read } = await client.ask({ route: routes.check, query }).catch(explain);
  terminal.progress('');
  const found = read();
  if (json) writeJson(terminal, data);
  else show(found, terminal);
  return found.ok ? EXIT.done : EXIT.failed;
}

/** The daemon makes the checks, with its own network and permissions. */
function explain(error: unknown): never {
  if (!(error instanceof DaemonUnreachable)) throw error;
  throw new DaemonUnreachable(
    `${messageOf(error).replace(/\.?$/, '.')} The checks run in the daemon. If it is not running, see systemctl status postern and journalctl -u postern, and check its configuration with postern config check.`,
    { cause: error },
  );
}

const COLOURS = { ok: 'green', warning: 'yellow', failed: 'red', unknown: 'cyan' } as const;

function show({ checks }: AnswerOf<typeof routes.check>, terminal: Terminal): void {
  const width = Math.max(0, ...checks.map(({ name }) => name.length));
  for (const { name, status, found, advice } of checks) {
    const word = terminal.style(COLOURS[status], status.padEnd(7));
    terminal.write(`${word}  ${name.padEnd(width)}  ${printable(found)}\n`);
    if (advice !== undefined) terminal.write(`${' '.repeat(width + 11)}→ ${printable(advice)}\n`);
  }
  const counts = (['failed', 'warning', 'unknown'] as const).flatMap((status) => {
    const count = checks.filter((check) => check.status === status).length;
    return count === 0 ? [] : [status === 'warning' ? counted(count, status) : `${count} ${status}`];
  });
  terminal.write(`\n${counted(checks.length, 'check')}${counts.length === 0 ? ' passed' : `: ${counts.join(', ')}`}\n`);
}
