/**
 * Every command of `postern`, its arguments, options and words: the one definition from which help, the man page, the page
 * of documentation and shell completion are made.
 */
import { CliCommand } from './command.ts';
import { addAuthCommands, addSignupCommand } from './commands/account.ts';
import {
  addAnalyticsCommands,
  addEventsCommands,
  addSuppressionsCommands,
  addWebhooksCommands,
} from './commands/mail.ts';
import { CONFIG_OPTION, type Cli } from './commands/options.ts';
import {
  addBackupCommand,
  addConfigCommands,
  addDoctorCommand,
  addInsightCommands,
  addInboundCommands,
  addQueueCommands,
  addBillingCommands,
  addTenantsCommands,
} from './commands/server.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addDomainsCommands } from './commands/domains.ts';
import {
  addFormsCommands,
  addInstantCommands,
  addRecipientsCommands,
  addSubmissionsCommands,
} from './commands/forms.ts';
import { addProjectsCommands, addPushCommands, addTemplatesCommands, addTestCommands } from './commands/projects.ts';
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
  const { write, writeError, width } = cli.terminal;
  const program = new CliCommand('postern')
    .description('A mail appliance: web forms in, DKIM-signed mail out, nothing lost in between.')
    .version(version, '-V, --version', 'Print the version')
    .configureOutput({
      writeOut: write,
      writeErr: writeError,
      getOutHelpWidth: () => width ?? 80,
      getErrHelpWidth: () => width ?? 80,
    })
    .helpOption('-h, --help', 'Show help')
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(add --help for usage)');
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
  program.commandsGroup('Server:');
  program
    .command('serve')
    .summary('Run the daemon')
    .description(
      'Run the daemon. Certificates are read from files (no ACME). Outbound TLS is opportunistic: MTA-STS and DANE are ' +
        'not applied, and TLS reports are neither sent nor read',
    )
    .option(...CONFIG_OPTION)
    .action((options: { config?: string }) => services.serve(options.config));
  program
    .command('dev')
    .summary('Run a local environment for development')
    .description(
      'Run the daemon in a local environment with DNS, a mail server that captures all mail, and an outbox page',
    )
    .option('--data <folder>', 'Folder for all data', '.postern')
    .option('--port <number>', 'Port of the web pages (a free port if it is in use)', wholeNumber(1024, 65_535), 8025)
    .action((options: { data: string; port: number }) => services.dev(options));
  addDoctorCommand(program, cli);
  addBackupCommand(program, cli);
  addConfigCommands(program, cli);
  addQueueCommands(program, cli);
  addInboundCommands(program, cli);
  addInsightCommands(program, cli);
  addTenantsCommands(program, cli);
  addBillingCommands(program, cli);
  program.commandsGroup('Command line:');
  addCompletionCommand(program, cli);
  return program;
}
