/** The commands that need no daemon of their own in this process, as commander knows them. Each loads its code when it is asked for. */
import { Argument, type Command } from 'commander';
import type { ConfigOptions } from './config.ts';
import type { InboundFilter } from './inbound.ts';
import type { ListFilter } from './queue.ts';
import type { CommandOptions } from './run.ts';

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Standard output, line breaks included. */
  readonly write: (text: string) => void;
  /** Standard error. */
  readonly complain: (text: string) => void;
  /** Columns, where it is a terminal. */
  readonly width: number | undefined;
  /** Takes the exit code of the command that ran. */
  readonly exit: (code: number) => void;
}

export const CONFIG_OPTION = [
  '--config <file>',
  'server.yml (else $POSTERN_CONFIG, ./config/server.yml, /etc/postern/server.yml)',
] as const;

/** Adds `config …`. */
export function addConfigCommands(program: Command, terminal: Terminal): void {
  const { write, exit } = terminal;
  const config = program.command('config').description('check and show the configuration, without a running daemon');
  config
    .command('check')
    .description('report every error and warning of server.yml and all projects')
    .option(...CONFIG_OPTION)
    .action(async (options: { config?: string }) => {
      const { configCheck } = await import('./config.ts');
      exit(await configCheck(await configOptions(terminal, options.config)));
    });
  config
    .command('show')
    .description('print the configuration of the server, with all defaults')
    .option(...CONFIG_OPTION)
    .option('--changed', 'only what differs from the defaults', false)
    .option('--json', 'as JSON', false)
    .action(async (options: { config?: string; changed: boolean; json: boolean }) => {
      const { configShow } = await import('./config.ts');
      const { changed, json } = options;
      exit(await configShow({ ...(await configOptions(terminal, options.config)), changed, json }));
    });
  config
    .command('schema')
    .description('print the JSON Schema for editors')
    .addArgument(new Argument('<kind>').choices(['server', 'project']))
    .action(async (kind: 'server' | 'project') => {
      const { configSchema } = await import('./config.ts');
      exit(configSchema(kind, write));
    });
}

/** Adds `queue …`. */
export function addQueueCommands(program: Command, terminal: Terminal): void {
  const queue = asking(program.command('queue').description('look at what waits, and steer it'));
  queue
    .command('list')
    .description('deliveries, newest first')
    .option('--state <state>', 'queued, sending, deferred, delivered, bounced, expired, cancelled, suppressed')
    .option('--domain <domain>', 'to this destination')
    .option('--limit <count>', 'at most so many')
    .option('--cursor <cursor>', 'go on after the page before')
    .action(async (filter: ListFilter) => {
      const { queueList } = await import('./queue.ts');
      terminal.exit(await queueList(await commandOptions(terminal, queue.opts()), filter));
    });
  for (const [name, description, command] of [
    ['show <id>', 'a message with every recipient and attempt', 'queueShow'],
    ['retry <id>', 'try what waits of a message or delivery now', 'queueRetry'],
    ['cancel <id>', 'end what waits of a message or delivery', 'queueCancel'],
    ['hold <domain>', 'let no mail to a domain leave', 'queueHold'],
    ['release <domain>', 'end a hold', 'queueRelease'],
  ] as const) {
    queue
      .command(name)
      .description(description)
      .action(async (what: string) => {
        const commands = await import('./queue.ts');
        terminal.exit(await commands[command](await commandOptions(terminal, queue.opts()), what));
      });
  }
}

/** Adds `inbound …`. */
export function addInboundCommands(program: Command, terminal: Terminal): void {
  const inbound = asking(program.command('inbound').description('look at mail that came in, or was refused'));
  inbound
    .command('list')
    .description('what senders were told about each recipient, newest first')
    .option('--outcome <outcome>', 'accepted, rejected, deferred')
    .option('--domain <domain>', 'for this domain')
    .option('--reason <reason>', 'for this reason, such as unknown_recipient')
    .option('--from <time>', 'since this date or time')
    .option('--to <time>', 'until this date (that whole day) or time')
    .option('--limit <count>', 'at most so many')
    .option('--cursor <cursor>', 'go on after the page before')
    .action(async (filter: InboundFilter) => {
      const { inboundList } = await import('./inbound.ts');
      terminal.exit(await inboundList(await commandOptions(terminal, inbound.opts()), filter));
    });
}

/** The options of commands that ask the daemon. */
function asking(command: Command): Command {
  return command
    .option('--socket <file>', 'Unix socket of the daemon (else server.admin_socket of the configuration)')
    .option(...CONFIG_OPTION)
    .option('--json', "the daemon's JSON instead of a table", false);
}

async function configOptions({ env, write }: Terminal, path: string | undefined): Promise<ConfigOptions> {
  const [{ machineSecrets }, { checkTemplates }] = await Promise.all([
    import('../config/secrets.ts'),
    import('../templates/engine.ts'),
  ]);
  return { path, env, reading: { secrets: machineSecrets(env), checkTemplates }, write };
}

interface AskingFlags {
  readonly socket?: string;
  readonly config?: string;
  readonly json: boolean;
}

async function commandOptions(terminal: Terminal, { socket, config, json }: AskingFlags): Promise<CommandOptions> {
  const [{ createClient }, { adminSocket }] = await Promise.all([import('./client.ts'), import('./config.ts')]);
  const { env, write, complain, width } = terminal;
  return { client: createClient(socket ?? (await adminSocket(config, env))), write, complain, json, width };
}
