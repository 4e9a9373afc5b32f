/** `explain` and `trace`: why mail goes where it goes, and how it went. */
import type { CliCommand } from '../command.ts';
import { operating, operatingOptions, type AskingFlags, type Cli } from './asking.ts';

/** Adds `explain` and `trace`. */
export function addInsightCommands(program: CliCommand, cli: Cli): void {
  operating(program.command('explain'))
    .argument('<what>', 'an address, or a form: example.com/contact, c/team/join, frm_…')
    .description('say what would happen to mail, step by step and why; exit code 1 where something stops it')
    .example('explain hello+news@example.com', 'which rule of forwarding matches, and where the mail ends')
    .example('explain example.com/contact', 'who gets what is posted, signed by which key, over which hosts')
    .action(async (what: string, flags: AskingFlags) => {
      const { explain } = await import('../explain.ts');
      cli.exit(await explain(await operatingOptions(cli, flags), what));
    });
  operating(program.command('trace'))
    .argument('<id>', 'of a request (X-Request-Id), submission, message, delivery, event, or inbound message')
    .description('follow one thing from the request to the last SMTP reply')
    .example('trace req_01k9xvcz2m4d7e8f9g0h1j2k3m', 'what became of a request')
    .action(async (id: string, flags: AskingFlags) => {
      const { trace } = await import('../trace.ts');
      cli.exit(await trace(await operatingOptions(cli, flags), id));
    });
}
