/** `postern backup`: the daemon makes and verifies the copy, this side writes it and checks what arrived. */
import { createHash, randomUUID } from 'node:crypto';
import { link, open, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { backups } from '../contract/server.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import type { CliCommand } from './command.ts';
import { barText, counted, sizeText, writeJson } from './output.ts';
import { poll, type Api } from './run.ts';
import { CommandFailed, DaemonUnreachable } from './client.ts';
import { Interrupted } from './terminal.ts';

const MAX_POLL_INTERVAL_MS = 500;

/** Adds `backup`. */
export function addCommands(program: CliCommand): void {
  program
    .command('backup')
    .summary('Back up the database')
    .argument('<file>', 'File to write, readable only by its owner')
    .description('Back up and verify the SQLite database while the daemon runs (PostgreSQL: use pg_dump)')
    .option('--force', 'Overwrite an existing file', false)
    .example('backup /var/backups/postern.db --force', 'A nightly backup')
    .operator(backup);
}

/** Writes a verified backup of the daemon's database to a file of mode 0600, in one piece or not at all. */
async function backup(api: Api, output: string, { force }: { readonly force: boolean }): Promise<void> {
  const { terminal, json } = api;
  const file = resolve(terminal.folder, output);
  const temporary = join(dirname(file), `.${basename(file)}.${randomUUID().slice(0, 8)}`);
  const target = await create(temporary, file, force);
  const end = new AbortController();
  function interrupt(): void {
    end.abort(new Interrupted('interrupted'));
  }
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  try {
    const copy = await makeCopy(api, end.signal);
    await fetchInto(target, copy, { ...api, signal: end.signal });
    await moveInto(temporary, file, force);
    terminal.progress('');
    if (json) return writeJson(terminal, { file, ...copy });
    const what = `${sizeText(copy.size)}, ${counted(copy.rows, 'row')}, integrity checked`;
    terminal.write(
      `${output}: ${what}\nThe backup contains all secrets of the server. Protect it like the server itself.\n`,
    );
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    terminal.progress('');
    await target.close();
    await rm(temporary, { force: true });
  }
}

/** The new file beside the one to be; created first, so that a folder that cannot be written is reported before the copy is made. */
async function create(temporary: string, file: string, force: boolean): Promise<FileHandle> {
  if (!force && (await exists(file))) throw alreadyExists(file);
  return open(temporary, 'wx', 0o600).catch((error: unknown) => {
    throw new CommandFailed(`Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  });
}

function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT',
  );
}

function alreadyExists(file: string): CommandFailed {
  return new CommandFailed(`${file} already exists. To overwrite it, add --force`);
}

type Copy = Readonly<{ size: number; sha256: string; rows: number }>;

/** Has the daemon make its copy, and waits until that is verified. */
async function makeCopy({ client, terminal }: Api, signal: AbortSignal): Promise<Copy> {
  await client.ask({ route: backups.begin }).catch((error: unknown) => {
    if (!(error instanceof DaemonUnreachable)) throw error;
    const alternative = 'If the daemon is stopped, copy the database file (database.url) together with its -wal file.';
    throw new DaemonUnreachable(`${error.message}. ${alternative}`, { cause: error });
  });
  const {
    state,
    reason = 'it was aborted',
    size,
    sha256,
    rows,
  } = await poll({
    async ask() {
      if (signal.aborted) await client.ask({ route: backups.cancel });
      signal.throwIfAborted();
      return client.call({ route: backups.show });
    },
    isDone: (answer) => !['copying', 'verifying'].includes(answer.state),
    onWait: ({ state: what, done = 0, total = 0 }) =>
      terminal.progress(
        what === 'verifying' ? 'Verifying …' : total === 0 ? 'Copying …' : `Copying   ${barText(done, total)}`,
      ),
    timeoutMs: Infinity,
    maxIntervalMs: MAX_POLL_INTERVAL_MS,
  });
  if (state !== 'verified' || size === undefined || sha256 === undefined || rows === undefined)
    throw new CommandFailed(`Backup failed: ${reason}`);
  return { size, sha256, rows };
}

async function fetchInto(
  target: FileHandle,
  { size, sha256 }: Copy,
  { client, terminal, signal }: Api & { readonly signal: AbortSignal },
): Promise<void> {
  const source = await client.open({ route: backups.download });
  const hash = createHash('sha256');
  let written = 0;
  try {
    for await (const piece of addAbortSignal(signal, source) as AsyncIterable<Buffer>) {
      hash.update(piece);
      await target.appendFile(piece);
      written += piece.length;
      terminal.progress(`Writing   ${barText(written, size)}`);
    }
    await target.sync();
  } catch (error) {
    signal.throwIfAborted();
    const words = `The backup is incomplete: ${messageOf(error)}`;
    if (codeOf(error) === 'ECONNRESET') throw new DaemonUnreachable(words, { cause: error });
    throw new CommandFailed(words, { cause: error });
  }
  if (hash.digest('hex') !== sha256)
    throw new CommandFailed('The backup is corrupt: its checksum differs from that of the server');
}

/** Gives the file its name; the name too is on the disk when this resolves. */
async function moveInto(temporary: string, file: string, force: boolean): Promise<void> {
  try {
    if (force) await rename(temporary, file);
    else await link(temporary, file);
    const folder = await open(dirname(file));
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw alreadyExists(file);
    throw new CommandFailed(`Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
}
