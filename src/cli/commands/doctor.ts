/** `doctor`: whether everything is as mail needs it. */
import type { CliCommand } from '../command.ts';
import type { DoctorFlags } from '../doctor.ts';
import { domainName, listOf } from '../values.ts';
import { operating, operatingOptions, type AskingFlags, type Cli } from './asking.ts';

/** Adds `doctor`. */
export function addDoctorCommand(program: CliCommand, cli: Cli): void {
  const doctor = program
    .command('doctor')
    .description("look at the server's name in DNS, its way out, its certificate, disk, queue and configuration")
    .option('--dnsbl <list>', 'look its addresses up in these DNS block lists too', listOf(domainName))
    .option('--port25 <host>', 'a mail server to try, with a port or without (else the smarthost, or well-known ones)')
    .example('doctor', 'what is wrong, and what to do about it; exit code 1 where something failed')
    .example('doctor --dnsbl zen.spamhaus.org', 'whether the server is on a block list as well');
  operating(doctor).action(async ({ url, config, json, ...flags }: DoctorFlags & AskingFlags) => {
    const { doctorRun } = await import('../doctor.ts');
    cli.exit(await doctorRun(await operatingOptions(cli, { url, config, json }), flags));
  });
}
