/**
 * `postern config check`, `show` and `schema`: what the configuration says and what is wrong with it. They read files and
 * write text, and need no running daemon; all throw UserError if there is no such file. Secrets are never written:
 * references stay references.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument } from 'commander';
import { stringify } from 'yaml';
import { changesFromDefaults } from '../config/diff.ts';
import { findServerFile } from '../config/files.ts';
import { jsonSchemaText, type SchemaKind } from '../config/schema.ts';
import { checkConfig, loadServer, type Reading } from '../config/folder.ts';
import { machineSecrets } from '../config/secrets.ts';
import { withoutSecrets } from '../config/shown.ts';
import type { AnswerOffline } from '../contract/offline.ts';
import type { AnswerOf } from '../contract/route.ts';
import { configCheck as routes } from '../contract/server.ts';
import { messageOf, UserError } from '../lib/errors.ts';
import { createClient, FilesRefused } from './client.ts';
import { CONFIG_OPTION, JSON_OUT, type CliCommand } from './command.ts';
import { findLocalServer } from './local-server.ts';
import { counted, writeJson } from './output.ts';
import { EXIT } from './run.ts';
import type { Terminal } from './terminal.ts';

interface ConfigFlags {
  readonly config?: string;
  readonly json: boolean;
}

/** Adds `config …`. */
export function addCommands(program: CliCommand, { answerOffline }: { readonly answerOffline: AnswerOffline }): void {
  const { terminal, exit } = program.cli;
  const config = program
    .command('config')
    .description('Check and show the server configuration; needs no running daemon');
  config
    .command('check')
    .description('Check server.yml and all project files')
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .action(async (flags: ConfigFlags) =>
      exit(await configCheck({ ...(await optionsOf(terminal, flags)), answerOffline })),
    );
  config
    .command('show')
    .description('Print the server configuration with all defaults')
    .option(...CONFIG_OPTION)
    .option('--changed', 'Only settings that differ from the defaults', false)
    .option(...JSON_OUT)
    .action(async ({ changed, ...flags }: ConfigFlags & { changed: boolean }) =>
      exit(await configShow({ ...(await optionsOf(terminal, flags)), changed })),
    );
  config
    .command('schema')
    .description('Print the JSON Schema of a configuration file, for editors')
    .addArgument(new Argument('<kind>', 'The kind of configuration file').choices(['server', 'project']))
    .action((kind: SchemaKind) => terminal.write(jsonSchemaText(kind)));
}

async function optionsOf(terminal: Terminal, { config, json }: ConfigFlags): Promise<ConfigOptions> {
  // Loaded here alone: whoever only looks for the admin socket needs no templates.
  const { checkTemplates } = await import('../templates/engine.ts');
  const { env } = terminal;
  return { path: config, env, reading: { secrets: machineSecrets(env), checkTemplates }, json, terminal };
}

interface ConfigCheckOptions extends ConfigOptions {
  readonly answerOffline: AnswerOffline;
}

export interface ConfigOptions {
  /** `--config`; else `$POSTERN_CONFIG` and the usual places. */
  readonly path?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly reading: Reading;
  readonly json: boolean;
  readonly terminal: Pick<Terminal, 'write' | 'writeError'>;
}

/**
 * Writes every error and warning of server.yml and all projects, and a summary. Returns the exit code. A daemon that runs
 * with this server.yml checks the files itself: as its own user, and knowing which account owns which domain. Where none
 * runs, its database says that.
 */
export async function configCheck(options: ConfigCheckOptions): Promise<number> {
  const { path, env, reading, json, terminal } = options;
  const file = await findServerFile(path, env);
  const { projects, errors, warnings } =
    (await checkedByDaemon(file, env)) ??
    (await checkedByDatabase(file, options)) ??
    (await checkConfig(file, reading));
  if (json) writeJson(terminal, { file, projects, valid: errors.length === 0, errors, warnings });
  else {
    for (const error of errors) terminal.write(`${error}\n`);
    for (const warning of warnings) terminal.write(`warning: ${warning}\n`);
    const read = `${file} and ${counted(projects, 'project')}`;
    terminal.write(`${read}: ${counted(errors.length, 'error')}, ${counted(warnings.length, 'warning')}\n`);
  }
  return errors.length === 0 ? EXIT.done : EXIT.configuration;
}

/** Undefined if no daemon that this user may connect to runs with this server.yml. */
async function checkedByDaemon(
  file: string,
  env: ConfigOptions['env'],
): Promise<AnswerOf<typeof routes.check> | undefined> {
  try {
    const { socket } = await findLocalServer(file, env);
    const client = createClient({ address: `unix:${socket}` });
    const answer = await client.call({ route: routes.check });
    return answer.file === resolve(file) ? answer : undefined;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

/** Undefined if there is no database yet. One that cannot be read is a warning. */
async function checkedByDatabase(
  file: string,
  { env, reading, answerOffline }: ConfigCheckOptions,
): Promise<AnswerOf<typeof routes.check> | undefined> {
  const { database } = await findLocalServer(file, env);
  const path = /^sqlite:(.*)/.exec(database)?.[1];
  if (path !== undefined && !existsSync(path)) return undefined;
  try {
    const request = { route: 'POST /admin/config/check', params: {}, query: new URLSearchParams() };
    const answer = await answerOffline(file, request);
    return answer.kind === 'answered' ? routes.check.answer.parse(answer.data) : undefined;
  } catch (error) {
    // Also where there is no native module for this system.
    const found = await checkConfig(file, reading);
    const warning = `the files were not compared with the projects in the database: ${messageOf(error)}`;
    return { ...found, errors: [...found.errors], warnings: [...found.warnings, warning] };
  }
}

/** Writes the server's configuration with all defaults, or only what differs from them. Returns the exit code. */
export async function configShow(options: ConfigOptions & { readonly changed: boolean }): Promise<number> {
  const { path, env, reading, terminal, changed, json } = options;
  const file = await findServerFile(path, env);
  const server = await loadServer(file, reading.secrets);
  if (!('ok' in server)) throw new FilesRefused('', server.errors);
  const written = withoutSecrets(server.ok, server.references);
  if (!changed) {
    if (json) writeJson(terminal, written);
    else terminal.write(stringify(written));
    return EXIT.done;
  }
  const changes = changesFromDefaults(server.ok, written);
  if (json) {
    writeJson(
      terminal,
      changes.map(({ path, from, to }) => ({ path, default: from, value: to })),
    );
  } else {
    for (const { path, from, to } of changes)
      terminal.write(`${path}: ${inline(to)}${from === undefined ? '' : ` (default: ${inline(from)})`}\n`);
  }
  return EXIT.done;
}

function inline(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
