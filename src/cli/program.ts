/**
 * Every command of `postern`, its arguments, options and words: the one definition from which help, the man page, the page
 * of documentation and shell completion are made.
 */
import { CliCommand } from './command.ts';
import { addAuthCommands, addSignupCommand } from './commands/account.ts';
import { addAnalyticsCommands } from './commands/analytics.ts';
import { CONFIG_OPTION, type Cli } from './commands/asking.ts';
import { addBackupCommand } from './commands/backup.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addConfigCommands } from './commands/config.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addDomainsCommands } from './commands/domains.ts';
import {
  addFormsCommands,
  addInstantCommands,
  addRecipientsCommands,
  addSubmissionsCommands,
} from './commands/forms.ts';
import { addEventsCommands, addSuppressionsCommands, addWebhooksCommands } from './commands/mail.ts';
import { addProjectsCommands, addPushCommands } from './commands/projects.ts';
import { addInsightCommands } from './commands/insight.ts';
import { addInboundCommands, addQueueCommands } from './commands/queue.ts';
import { addTemplatesCommands } from './commands/templates.ts';
import { addBillingCommands, addTenantsCommands } from './commands/tenants.ts';
import { addTestCommands } from './commands/test.ts';
import { wholeNumber } from './values.ts';

/** What runs until a signal ends it, and so is not of the command line. */
export interface Services {
  /** Runs the daemon. */
  serve(configFile: string | undefined): Promise<void>;
  /** Runs it with a small mail world round it. */
  dev(options: { readonly data: string; readonly port: number }): Promise<void>;
}

export interface ProgramOptions extends Cli {
  readonly version: string;
  readonly services: Services;
}

/** The program, ready to parse arguments. Wrong usage throws CommanderError, whose words are written already. */
export function createProgram({ version, services, ...cli }: ProgramOptions): CliCommand {
  const { write, complain, width } = cli.terminal;
  const program = new CliCommand('postern')
    .description('A mail appliance: web forms in, DKIM-signed mail out, nothing lost in between.')
    .version(version)
    .configureOutput({
      writeOut: write,
      writeErr: complain,
      getOutHelpWidth: () => width ?? 80,
      getErrHelpWidth: () => width ?? 80,
    })
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(--help shows how it is used)');
  program.commandsGroup('Account:');
  addSignupCommand(program, cli);
  addAuthCommands(program, cli, version);
  program.commandsGroup('Project:');
  addPushCommands(program, cli);
  addProjectsCommands(program, cli);
  addTemplatesCommands(program, cli);
  addDomainsCommands(program, cli);
  addTestCommands(program, cli);
  program.commandsGroup('Forms and mail:');
  addInstantCommands(program, cli);
  addFormsCommands(program, cli);
  addRecipientsCommands(program, cli);
  addSubmissionsCommands(program, cli);
  addSuppressionsCommands(program, cli);
  addEventsCommands(program, cli);
  addWebhooksCommands(program, cli);
  addAnalyticsCommands(program, cli);
  program.commandsGroup('The server:');
  program
    .command('serve')
    .description(
      'run the daemon. Certificates come from files (no ACME). Outbound TLS is opportunistic: MTA-STS and DANE are not ' +
        'applied, and no TLS reports are sent or read',
    )
    .option(...CONFIG_OPTION)
    .action((options: { config?: string }) => services.serve(options.config));
  program
    .command('dev')
    .description('run the daemon with a small mail world round it: DNS, a catching mail server, an outbox page')
    .option('--data <folder>', 'where everything is kept', '.postern')
    .option('--port <number>', 'port of the web pages (a free one where it is taken)', wholeNumber(1024, 65_535), 8025)
    .action((options: { data: string; port: number }) => services.dev(options));
  addDoctorCommand(program, cli);
  addBackupCommand(program, cli);
  addConfigCommands(program, cli);
  addQueueCommands(program, cli);
  addInboundCommands(program, cli);
  addInsightCommands(program, cli);
  addTenantsCommands(program, cli);
  addBillingCommands(program, cli);
  program.commandsGroup('This command line:');
  addCompletionCommand(program, cli);
  return program;
}
