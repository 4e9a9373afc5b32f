/** `postern backup`: the daemon makes and verifies the copy, this side writes it and checks what arrived. */
import { backups } from '../contract/server.ts';
import type { AnswerOf } from '../contract/route.ts';
import { readAnswer, poll, CommandFailed, run, writeJson, type CommandOptions } from './run.ts';
import { createHash, randomUUID } from 'node:crypto';
import { link, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { z } from 'zod';
import { codeOf, messageOf } from '../lib/errors.ts';
import { DaemonUnreachable, type Client } from './client.ts';

import { Interrupted, type Terminal } from './terminal.ts';
import { barText, counted, sizeText } from './output.ts';

const verified = z.object({ size: z.number(), sha256: z.string(), rows: z.number() });
type State = AnswerOf<typeof backups.show>;
type Verified = z.output<typeof verified>;

export interface BackupFlags {
  /** Replace what is there. */
  readonly force: boolean;
}

const PATH = '/admin/backup';
const MAX_POLL_INTERVAL_MS = 500;

/** Writes a verified backup of the daemon's database to a file of mode 0600, in one piece or not at all. */
export function backup(options: CommandOptions, output: string, { force }: BackupFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const file = resolve(terminal.folder, output);
    const temporary = join(dirname(file), `.${basename(file)}.${randomUUID().slice(0, 8)}`);
    const target = await create(temporary, file, force);
    const end = new AbortController();
    const { signal } = end;
    function interrupt(): void {
      end.abort(new Interrupted('interrupted'));
    }
    process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
    try {
      const copy = await makeCopy({ client, terminal, signal });
      await fetchInto(target, copy, { client, terminal, signal });
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
  });
}

/** The new file beside the one to be; created first, so that a folder that cannot be written is reported before the copy is made. */
async function create(temporary: string, file: string, force: boolean): Promise<FileHandle> {
  if (!force && (await exists(file))) throw alreadyExists(file);
  return open(temporary, 'wx', 0o600).catch((error: unknown) => {
    throw new CommandFailed(`Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  });
}

async function exists(file: string): Promise<boolean> {
  try {
    await (await open(file)).close();
    return true;
  } catch (error) {
    return codeOf(error) !== 'ENOENT';
  }
}

function alreadyExists(file: string): CommandFailed {
  return new CommandFailed(`${file} already exists. To overwrite it, add --force`);
}

interface Context {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Has the daemon make its copy, and waits until that is verified. */
async function makeCopy({ client, terminal, signal }: Context): Promise<Verified> {
  await client.post(PATH).catch((error: unknown) => {
    if (!(error instanceof DaemonUnreachable)) throw error;
    const alternative = 'If the daemon is stopped, copy the database file (database.url) together with its -wal file.';
    throw new DaemonUnreachable(`${error.message}. ${alternative}`, { cause: error });
  });
  const last = await poll({
    async ask() {
      if (signal.aborted) await client.delete(PATH);
      signal.throwIfAborted();
      return client.get(PATH);
    },
    isDone: (answer) => !['copying', 'verifying'].includes(readAnswer(backups.show, answer).state),
    onWait: (answer) => terminal.progress(progressOf(readAnswer(backups.show, answer))),
    timeoutMs: Infinity,
    maxIntervalMs: MAX_POLL_INTERVAL_MS,
  });
  const { state: end, reason = 'it was aborted' } = readAnswer(backups.show, last);
  if (end !== 'verified') throw new CommandFailed(`Backup failed: ${reason}`);
  return verified.parse(last);
}

function progressOf({ state: what, done = 0, total = 0 }: State): string {
  if (what === 'verifying') return 'Verifying …';
  return total === 0 ? 'Copying …' : `Copying   ${barText(done, total)}`;
}

async function fetchInto(
  target: FileHandle,
  { size, sha256 }: Verified,
  { client, terminal, signal }: Context,
): Promise<void> {
  const source = await client.open({ method: 'GET', path: `${PATH}/file` });
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
