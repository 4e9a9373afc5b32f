/** `postern doctor`: the daemon's checks of everything that mail depends on, with advice. */
import { doctor } from '../contract/server.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, EXIT, run, writeJson, type CommandOptions } from './run.ts';
import { messageOf } from '../lib/errors.ts';
import { DaemonUnreachable } from './client.ts';

import { counted } from './output.ts';
import { printable, type Terminal } from './terminal.ts';

export interface DoctorFlags {
  readonly dnsbl?: readonly string[] | undefined;
  readonly port25?: string | undefined;
}

type Status = AnswerOf<typeof doctor.check>['checks'][number]['status'];

const COLOURS = { ok: 'green', warning: 'yellow', failed: 'red', unknown: 'cyan' } as const satisfies Record<
  Status,
  string
>;

/** Has the daemon make its checks and shows them. Returns 1 if a check failed. */
export function doctorRun(options: CommandOptions, { dnsbl = [], port25 }: DoctorFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const query = new URLSearchParams(dnsbl.map((zone): [string, string] => ['dnsbl', zone]));
    if (port25 !== undefined) query.set('port25', port25);
    terminal.progress('Checking …');
    const data = await client.get(`/admin/doctor?${query.toString()}`).catch(explain);
    terminal.progress('');
    const found = readAnswer(doctor.check, data);
    if (json) writeJson(terminal, data);
    else show(found, terminal);
    return found.ok ? EXIT.done : EXIT.failed;
  });
}

/** The daemon makes the checks, with its own network and permissions. */
function explain(error: unknown): never {
  if (!(error instanceof DaemonUnreachable)) throw error;
  throw new DaemonUnreachable(
    `${messageOf(error).replace(/\.?$/, '.')} The checks run in the daemon. If it is not running, see systemctl status postern and journalctl -u postern, and check its configuration with postern config check.`,
    { cause: error },
  );
}

function show({ checks }: AnswerOf<typeof doctor.check>, terminal: Terminal): void {
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
