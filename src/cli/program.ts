/**
 * Every command of `postern`, its arguments, options and words: the one definition from which help, the man page, the page
 * of documentation and shell completion are made. The files of the commands hold definition and code; only the one that is
 * needed is loaded.
 */
import { Argument } from 'commander';
import type { AnswerOffline } from '../contract/offline.ts';
import { CliCommand, CONFIG_OPTION, type Cli } from './command.ts';
import type { Preflight } from './setup.ts';
import { wholeNumber } from './values.ts';

/** The server's own code, which loads native modules. */
export interface Services {
  /** Runs the daemon. */
  serve(configFile: string | undefined): Promise<void>;
  /** Runs it in a local environment. */
  dev(options: { readonly data: string; readonly port: number; readonly smtpPort: number }): Promise<void>;
  /** Answers what only reads while no daemon runs. */
  readonly answerOffline: AnswerOffline;
  /** What setup looks at beside the daemon. */
  readonly preflight: Preflight;
}

export interface ProgramOptions extends Cli {
  readonly services: Services;
  /** Whether errors are JSON: what commander says of wrong usage is then the thrower's to write. */
  readonly json?: boolean;
  /** The command that will run: only its file is loaded. All are loaded unless it is the name of a command. */
  readonly command?: string | undefined;
}

/** The files of the commands in the order of help: heading, names of the commands, and how to load them. */
type Part = readonly [
  group: string,
  names: readonly string[],
  load: () => Promise<{ addCommands(program: CliCommand, services: Services): void }>,
];

const [ACCOUNT, PROJECT, MAIL, SERVER] = ['Account:', 'Project:', 'Forms and mail:', 'Server:'] as const;

function parts(): Part[] {
  return [
    [ACCOUNT, ['signup', 'auth'], () => import('./account.ts')],
    [PROJECT, ['init', 'push', 'rollback', 'projects'], () => import('./projects.ts')],
    [PROJECT, ['templates'], () => import('./templates.ts')],
    [PROJECT, ['domains'], () => import('./domains.ts')],
    [PROJECT, ['test'], () => import('./test.ts')],
    [MAIL, ['instant', 'forms', 'recipients', 'submissions'], () => import('./forms.ts')],
    [MAIL, ['suppressions', 'events', 'webhooks'], () => import('./mail.ts')],
    [MAIL, ['erase'], () => import('./erase.ts')],
    [MAIL, ['analytics'], () => import('./analytics.ts')],
    [SERVER, ['serve', 'dev'], () => Promise.resolve({ addCommands: addServices })],
    [SERVER, ['setup'], () => import('./setup.ts')],
    [SERVER, ['doctor'], () => import('./doctor.ts')],
    [SERVER, ['backup'], () => import('./backup.ts')],
    [SERVER, ['restore'], () => import('./restore.ts')],
    [SERVER, ['migrate-store'], () => import('./migrate-store.ts')],
    [SERVER, ['config'], () => import('./config.ts')],
    [SERVER, ['reload'], () => import('./reload.ts')],
    [SERVER, ['console'], () => import('./console.ts')],
    [SERVER, ['top'], () => import('./top.ts')],
    [SERVER, ['queue', 'inbound', 'explain', 'trace'], () => import('./queue.ts')],
    [SERVER, ['tenants', 'usage', 'billing'], () => import('./tenants.ts')],
    ['Command line:', ['completion'], () => Promise.resolve({ addCommands: addCompletion })],
  ];
}

/** The program, ready to parse arguments. Wrong usage throws CommanderError, whose words are written already, unless `json`. */
export async function createProgram({ services, command, json = false, ...cli }: ProgramOptions): Promise<CliCommand> {
  const { write, writeError, width } = cli.terminal;
  const program = new CliCommand(cli, 'postern')
    .description('A mail appliance: web forms in, DKIM-signed mail out, nothing lost in between.')
    .version(cli.version, '-V, --version', 'Print the version')
    .configureOutput({
      writeOut: write,
      writeErr: json ? () => undefined : writeError,
      getOutHelpWidth: () => width ?? 80,
      getErrHelpWidth: () => width ?? 80,
    })
    .helpOption('-h, --help', 'Show help')
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(add --help for usage)');
  const all = parts();
  // Completion is of all commands.
  const named = all.filter(([, names]) => command !== undefined && command !== 'completion' && names.includes(command));
  for (const [group, , load] of named.length > 0 ? named : all) {
    program.commandsGroup(group);
    (await load()).addCommands(program, services);
  }
  return program;
}

function addServices(program: CliCommand, services: Services): void {
  program
    .command('serve')
    .summary('Run the daemon')
    .description(
      'Run the daemon until it is stopped with SIGTERM or SIGINT. systemd starts it with this command. The log goes to ' +
        'standard output',
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
    .option(
      '--smtp-port <number>',
      'Port of the SMTP server (a free port if it is in use)',
      wholeNumber(1024, 65_535),
      2525,
    )
    .action((options: { data: string; port: number; smtpPort: number }) => services.dev(options));
}

const SHELLS = ['bash', 'zsh', 'fish'] as const;

function addCompletion(program: CliCommand): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'The shell').choices(SHELLS))
    .description('Print a shell completion script')
    .example(
      'completion bash > /etc/bash_completion.d/postern',
      'bash, for all users; requires the bash-completion package',
    )
    .example('completion bash > ~/.postern.bash', 'bash, for you: also add `source ~/.postern.bash` to ~/.bashrc')
    .example('completion zsh > /usr/local/share/zsh/site-functions/_postern', 'zsh')
    .example('completion fish > ~/.config/fish/completions/postern.fish', 'fish')
    .action(async (shell: (typeof SHELLS)[number]) => {
      const { completionFor } = await import('./reference/completion.ts');
      program.cli.terminal.write(completionFor(shell, program));
    });
}
