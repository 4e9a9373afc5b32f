/** What the definitions of commands share. Each action loads its code when it runs: loaded at start it costs 55 to 100 ms. */
import { Option, type Command } from 'commander';
import type { CommandOptions } from '../run.ts';
import type { Target } from '../target.ts';
import type { Terminal } from '../terminal.ts';
import { dateOrTime, serverAddress, wholeNumber } from '../values.ts';

/** What every group of commands is given. */
export interface Cli {
  readonly terminal: Terminal;
  /** Takes the exit code of the command that ran. */
  readonly exit: (code: number) => void;
}

export const CONFIG_OPTION = [
  '--config <file>',
  'Path of server.yml (default: $POSTERN_CONFIG, then ./config/server.yml, then /etc/postern/server.yml)',
] as const;

/** For commands that use no API. */
export const JSON_OUT = ['--json', 'Print JSON', false] as const;

/** For commands that ask for confirmation. */
export const YES = ['--yes', 'Do not ask for confirmation', false] as const;

/** For commands that wait. */
export function timeoutOption(): Option {
  return new Option('--timeout <seconds>', 'How long to wait').argParser(wholeNumber(1, 86_400));
}

/** The options that `apiCommand` and `operatorCommand` add, as commander hands them over. */
export interface ApiFlags {
  readonly url?: string | undefined;
  readonly config?: string | undefined;
  readonly json: boolean;
}

/** Adds the options of a command that uses the API for an account. */
export function apiCommand<Asking extends Command>(command: Asking): Asking {
  return command
    .option(
      '--url <address>',
      'URL of the server (default: $POSTERN_URL, then the server saved by signup, then the server on this machine)',
      serverAddress,
    )
    .addOption(
      new Option('--config <file>', 'Connect as the operator through the admin socket of this server.yml').conflicts(
        'url',
      ),
    )
    .option('--json', 'Print the JSON answer of the API', false);
}

/** Adds the options of a command for operators. */
export function operatorCommand<Operating extends Command>(command: Operating): Operating {
  return command
    .option(
      '--url <address>',
      'URL of the server; needs $POSTERN_API_KEY with the permission `admin` (default: $POSTERN_URL, then the server on this machine)',
      serverAddress,
    )
    .addOption(
      new Option(
        '--config <file>',
        'server.yml with the admin socket (default: $POSTERN_CONFIG, then ./config/server.yml, then /etc/postern/server.yml)',
      ).conflicts('url'),
    )
    .option('--json', 'Print the JSON answer of the API', false);
}

/** What `withPages` adds. */
export interface PageFlags {
  readonly limit?: number | undefined;
  /** The `next_cursor` of the page before. */
  readonly cursor?: string | undefined;
}

/** Adds the options of a list that comes in pages. */
export function withPages<Listing extends Command>(command: Listing): Listing {
  return command
    .option('--limit <count>', 'Maximum number of rows, 1 to 200 (default: 50)', wholeNumber(1, 200))
    .option('--cursor <cursor>', 'Continue after the previous page');
}

/** What `withTimeRange` adds. */
export interface TimeRangeFlags {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Adds the options of what happened in a span of time. */
export function withTimeRange<Spanned extends Command>(command: Spanned): Spanned {
  return command
    .option('--from <time>', 'Start date or time', dateOrTime)
    .option('--to <time>', 'End date (inclusive) or time', dateOrTime);
}

/** What the code of a command needs that uses the API. */
export interface ApiOptions extends CommandOptions {
  readonly target: Target;
}

/** What the code of an `apiCommand` command needs. */
export function apiOptions(cli: Cli, flags: ApiFlags): Promise<ApiOptions> {
  return optionsFor(cli, flags, false);
}

/** What the code of an `operatorCommand` command needs. */
export function operatorOptions(cli: Cli, flags: ApiFlags): Promise<ApiOptions> {
  return optionsFor(cli, flags, true);
}

async function optionsFor({ terminal }: Cli, flags: ApiFlags, operator: boolean): Promise<ApiOptions> {
  const [{ createClient }, { findTarget }] = await Promise.all([import('../client.ts'), import('../target.ts')]);
  const { url, config, json } = flags;
  const target = await findTarget({ url, config, operator }, terminal.env);
  return { client: createClient(target), target, terminal, json };
}

/** Runs the code of an `apiCommand`, and sets the exit code that it returns. */
export async function accountCall(
  cli: Cli,
  { url, config, json }: ApiFlags,
  work: (api: ApiOptions) => Promise<number>,
): Promise<void> {
  cli.exit(await work(await apiOptions(cli, { url, config, json })));
}

/** Runs the code of an `operatorCommand`, and sets the exit code that it returns. */
export async function operatorCall(
  cli: Cli,
  { url, config, json }: ApiFlags,
  work: (api: ApiOptions) => Promise<number>,
): Promise<void> {
  cli.exit(await work(await operatorOptions(cli, { url, config, json })));
}
