/**
 * A command of `postern`: commander's, with examples of its use, the options that commands share, and help that says no
 * more than is worth reading.
 */
import { Command, Help, Option, type Argument, type HelpContext } from 'commander';
import type { AnswerOffline } from '../contract/offline.ts';
import type { Api } from './run.ts';
import type { Terminal } from './terminal.ts';
import { dateOrTime, serverAddress, wholeNumber } from './values.ts';

export interface Example {
  /** As it is typed: `postern auth list-keys`. */
  readonly line: string;
  /** What it is good for, in a few words. */
  readonly does: string;
}

export interface Cli {
  readonly version: string;
  readonly terminal: Terminal;
  /** Takes the exit code of the command that ran. */
  readonly exit: (code: number) => void;
}

/** The options that `account` and `operator` add, as commander hands them over. */
export interface ApiFlags {
  readonly url?: string | undefined;
  readonly config?: string | undefined;
  readonly json: boolean;
}

const SERVER_FILES = '(default: $POSTERN_CONFIG, then ./config/server.yml, then /etc/postern/server.yml)';

export const CONFIG_OPTION = ['--config <file>', `Path of server.yml ${SERVER_FILES}`] as const;

export const PASSPHRASE_OPTION = [
  '--passphrase-file <file>',
  'Encrypt or decrypt the backup with the passphrase on the first line of this file',
] as const;

/** For commands that use no API. */
export const JSON_OUT = ['--json', 'Print JSON', false] as const;

const SERVER = {
  account: {
    url: 'URL of the server (default: $POSTERN_URL, then the server saved by signup, then the server on this machine)',
    config: 'Connect as the operator through the admin socket of this server.yml',
  },
  operator: {
    url: 'URL of the server; needs $POSTERN_API_KEY with the permission `admin` (default: $POSTERN_URL, then the server on this machine)',
    config: `server.yml that names the admin socket ${SERVER_FILES}`,
  },
} as const;

/** The work of a command that uses the API. Answers its exit code, which is 0 where it answers none. */
type Work<Args extends unknown[]> = (api: Api, ...args: Args) => Promise<number | void>;

export class CliCommand extends Command {
  readonly cli: Cli;
  readonly #examples: Example[] = [];
  #isRunnable = false;

  constructor(cli: Cli, name?: string) {
    super(name);
    this.cli = cli;
  }

  get examples(): readonly Example[] {
    return this.#examples;
  }

  /** Whether it does something by itself, which a mere group of commands does not. */
  get isRunnable(): boolean {
    return this.#isRunnable;
  }

  override action(...args: Parameters<Command['action']>): this {
    this.#isRunnable = true;
    return super.action(...args);
  }

  /** Adds an example; the program's name is put in front of the line. */
  example(line: string, does: string): this {
    this.#examples.push({ line: `postern ${line}`, does });
    return this;
  }

  /** Adds the options of a list that comes in pages. */
  pages(): this {
    return this.option('--limit <count>', 'Maximum number of rows, 1 to 200 (default: 50)', wholeNumber(1, 200)).option(
      '--cursor <cursor>',
      'Continue after the previous page',
    );
  }

  /** Adds the options of what happened in a span of time. */
  timeRange(): this {
    return this.option('--from <time>', 'Start date or time', dateOrTime).option(
      '--to <time>',
      'End date (inclusive) or time',
      dateOrTime,
    );
  }

  /** Adds the option of a command that asks for confirmation. */
  confirmed(): this {
    return this.option('--yes', 'Do not ask for confirmation', false);
  }

  /** Adds an option with a fixed set of values. */
  choice(flags: string, description: string, values: readonly string[]): this {
    return this.addOption(new Option(flags, description).choices(values));
  }

  /** Makes it a command that uses the API for an account. */
  account<Args extends unknown[]>(work: Work<Args>): this {
    return this.accountOptions().action((...args: Args) => this.call(false, (api) => work(api, ...args)));
  }

  /** Makes it a command for operators; with `offline` one that only reads, and goes on where no daemon runs. */
  operator<Args extends unknown[]>(work: Work<Args>, offline?: AnswerOffline): this {
    return this.#apiOptions(SERVER.operator).action((...args: Args) =>
      this.call(true, (api) => work(api, ...args), offline),
    );
  }

  /** Adds the options of `account`. */
  accountOptions(): this {
    return this.#apiOptions(SERVER.account);
  }

  #apiOptions({ url, config }: { readonly url: string; readonly config: string }): this {
    return this.option('--url <address>', url, serverAddress)
      .addOption(new Option('--config <file>', config).conflicts('url'))
      .option('--json', 'Print the JSON answer of the API', false);
  }

  /** Does work that uses the API, and sets the exit code. */
  async call(operator: boolean, work: Work<[]>, offline?: AnswerOffline): Promise<void> {
    const [{ createClient, offlineClient }, { findTarget }, { run, warn }] = await Promise.all([
      import('./client.ts'),
      import('./target.ts'),
      import('./run.ts'),
    ]);
    const { terminal, exit } = this.cli;
    const { url, config, json } = this.opts<ApiFlags>();
    const target = await findTarget({ url, config }, terminal.env, operator);
    const { local } = target;
    const client = createClient(target);
    const api = { client, target, terminal, json };
    if (local !== undefined && local.errors.length > 0) {
      const message = `${local.file} is not valid. Using the admin socket ${local.socket}. Correct the file, then run: postern config check`;
      warn(terminal, { code: 'CONFIGURATION_INVALID', message, details: local.errors }, json);
    }
    if (local?.file === undefined || offline === undefined) return exit(await run(api, work));
    const { file } = local;
    function onOffline(source: string): void {
      const message = `The daemon is not running. This was read from ${source}. To see why it is not running, run: postern doctor`;
      warn(terminal, { code: 'DAEMON_DOWN', message }, json);
    }
    exit(await run({ ...api, client: offlineClient(client, { file, answer: offline, onOffline }) }, work));
  }

  override createCommand(name?: string): CliCommand {
    return new CliCommand(this.cli, name);
  }

  override createHelp(): CliHelp {
    return Object.assign(new CliHelp(), this.configureHelp());
  }

  override helpInformation(context?: HelpContext): string {
    const examples = this.#examples.map(({ line, does }) => `  # ${does}\n  ${line}\n`);
    const help = super.helpInformation(context);
    return examples.length === 0 ? help : `${help}\nExamples:\n${examples.join('\n')}`;
  }
}

/** The option of a command that waits. */
export function timeoutOption(): Option {
  return new Option('--timeout <seconds>', 'How long to wait').argParser(wholeNumber(1, 86_400));
}

const COMMON: ReadonlySet<string> = new Set(['--url', '--config', '--json', '--help']);

/** Help as commander has it, without what is the same for every command. */
class CliHelp extends Help {
  override visibleCommands(command: Command): Command[] {
    return [...command.commands];
  }

  /** Those that nearly every command has come last. */
  override visibleOptions(command: Command): Option[] {
    const options = super.visibleOptions(command);
    const { true: common = [], false: own = [] } = Object.groupBy(options, ({ long = '' }) => `${COMMON.has(long)}`);
    return [...own, ...common];
  }

  override subcommandTerm(command: Command): string {
    return super.subcommandTerm(command).replaceAll(/(?<=^\S+)\|\S+| \[options\]/g, '');
  }

  override optionDescription(option: Option): string {
    const { description, argChoices = [] } = option;
    const defaultValue: unknown = option.defaultValue;
    const text = typeof defaultValue === 'string' ? defaultValue : JSON.stringify(defaultValue);
    const isShown = !option.isBoolean() && defaultValue !== undefined;
    return withNotes(description, [argChoices.join(', '), isShown ? `default: ${text}` : '']);
  }

  override argumentDescription({ description, argChoices = [] }: Argument): string {
    return withNotes(description, [argChoices.join(', ')]);
  }
}

function withNotes(text: string, notes: readonly string[]): string {
  const given = notes.filter((note) => note !== '');
  return given.length === 0 ? text : `${text} (${given.join('; ')})`;
}
