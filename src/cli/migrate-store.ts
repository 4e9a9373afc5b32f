/** `postern migrate-store`: moves a server from SQLite to PostgreSQL or back, while the daemon is stopped. */
import { resolve } from 'node:path';
import { findServerFile } from '../config/files.ts';
import { loadReadable } from '../config/folder.ts';
import { knownDatabaseUrl } from '../config/parse.ts';
import { machineSecrets, maskPasswords, resolveSecrets } from '../config/secrets.ts';
import { messageOf, PassingError, UserError } from '../lib/errors.ts';
import { CommandFailed, UsageError } from './client.ts';
import { CONFIG_OPTION, JSON_OUT, type CliCommand } from './command.ts';
import { barText, counted, writeJson } from './output.ts';
import type { Terminal } from './terminal.ts';

interface MigrateFlags {
  readonly config?: string;
  readonly json: boolean;
}

/** Adds `migrate-store`. */
export function addCommands(program: CliCommand): void {
  const { terminal } = program.cli;
  program
    .command('migrate-store')
    .summary('Move to PostgreSQL, or back to SQLite')
    .argument('<url>', 'The new database, written as in database.url; ${NAME} and file:/path refer to secrets')
    .description(
      'Copy the database of a stopped daemon to an empty one of the other kind, and compare the row count and checksum of every table. An ' +
        'interrupted copy continues when the command is run again. server.yml is not changed',
    )
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .example("migrate-store 'postgres://postern:${DB_PASSWORD}@db.internal/postern'", 'From SQLite to PostgreSQL')
    .example('migrate-store sqlite:/var/lib/postern/postern.db', 'From PostgreSQL to SQLite')
    .action((url: string, flags: MigrateFlags) => migrateStore(terminal, url, flags));
}

async function migrateStore(terminal: Terminal, url: string, { config, json }: MigrateFlags): Promise<void> {
  const { env } = terminal;
  if (!/^(?:sqlite:\/|postgres(?:ql)?:\/\/)/.test(url)) {
    throw new UsageError(
      `${maskPasswords(url)} is not a database URL, such as postgres://user@host/name or sqlite:/path`,
    );
  }
  const serverFile = resolve(terminal.folder, await findServerFile(config, env));
  const from = knownDatabaseUrl(await loadReadable(serverFile, machineSecrets(env)));
  const { transferDatabase } = await import('../store/transfer.ts');
  const moved = await transferDatabase({
    from,
    to: resolveUrl(url, env),
    onProgress: ({ step, done, total }) =>
      terminal.progress(`${step === 'copying' ? 'Copying ' : 'Checking'}  ${barText(done, total, `${total} rows`)}`),
  }).catch((error: unknown) => {
    terminal.progress('');
    if (error instanceof PassingError) throw new CommandFailed(messageOf(error), { cause: error });
    if (error instanceof UserError) throw error;
    const words = `The copy was interrupted: ${messageOf(error)}. To continue it, run the command again`;
    throw new CommandFailed(words, { cause: error });
  });
  terminal.progress('');
  if (json) return writeJson(terminal, moved);
  const { tables, rows, resumed } = moved;
  const part = resumed === 0 ? '' : ` (${resumed} of them before the interruption)`;
  terminal.write(
    `Copied ${counted(rows, 'row')} in ${counted(tables, 'table')}${part}; all tables are identical in both databases.\n` +
      `Now set database.url to ${maskPasswords(url)} in ${serverFile} and start the daemon.\n` +
      'Do not start a daemon on the old database again: it would send the queued mail a second time.\n',
  );
}

/** The URL with its references to secrets replaced. Throws UserError where one leads nowhere. */
function resolveUrl(url: string, env: NodeJS.ProcessEnv): string {
  const { value, findings } = resolveSecrets(url, machineSecrets(env), 'text');
  const [finding] = findings;
  if (finding !== undefined) throw new UserError(`${url}: ${finding.message}`);
  return String(value);
}
