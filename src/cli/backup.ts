/** `postern backup`: the daemon makes and verifies the copy, this side writes it and checks what arrived. */
import { createHash, randomUUID } from 'node:crypto';
import { link, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { z } from 'zod';
import { codeOf, messageOf } from '../lib/errors.ts';
import { DaemonUnreachable, type Client } from './client.ts';
import { poll } from './poll.ts';
import { CommandFailed, run, writeJson, type CommandOptions } from './run.ts';
import { Interrupted, type Terminal } from './terminal.ts';
import { barText, counted, sizeText } from './words.ts';

const state = z.object({
  state: z.string(),
  done: z.number().default(0),
  total: z.number().default(0),
  reason: z.string().optional(),
});
const verified = z.object({ size: z.number(), sha256: z.string(), rows: z.number() });
type State = z.output<typeof state>;
type Verified = z.output<typeof verified>;

export interface BackupFlags {
  /** Replace what is there. */
  readonly force: boolean;
}

const PATH = '/admin/backup';
const SLOWEST_MS = 500;

/** Writes a verified backup of the daemon's database to a file of mode 0600, in one piece or not at all. */
export function backup(options: CommandOptions, output: string, { force }: BackupFlags): Promise<number> {
  return run(options, async ({ client, terminal, json }) => {
    const file = resolve(terminal.folder, output);
    const part = join(dirname(file), `.${basename(file)}.${randomUUID().slice(0, 8)}`);
    const target = await create(part, file, force);
    const end = new AbortController();
    const { signal } = end;
    function interrupt(): void {
      end.abort(new Interrupted('interrupted'));
    }
    process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
    try {
      const copy = await made({ client, terminal, signal });
      await fetchInto(target, copy, { client, terminal, signal });
      await place(part, file, force);
      terminal.progress('');
      if (json) return writeJson(terminal, { file, ...copy });
      const what = `${sizeText(copy.size)}, ${counted(copy.rows, 'row')}, integrity checked`;
      terminal.write(`${output}: ${what}\nIt holds every secret of the server: keep it as safe as the server.\n`);
    } finally {
      process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
      terminal.progress('');
      await target.close();
      await rm(part, { force: true });
    }
  });
}

/** The new file beside the one to be; made first, so that a folder that cannot be written is told before the work. */
async function create(part: string, file: string, force: boolean): Promise<FileHandle> {
  if (!force && (await exists(file))) throw taken(file);
  return open(part, 'wx', 0o600).catch((error: unknown) => {
    throw new CommandFailed(`${file} cannot be written: ${messageOf(error)}`, { cause: error });
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

function taken(file: string): CommandFailed {
  return new CommandFailed(`${file} is there already; --force replaces it`);
}

interface Asking {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

/** Has the daemon make its copy, and waits until that is verified. */
async function made({ client, terminal, signal }: Asking): Promise<Verified> {
  await client.post(PATH).catch((error: unknown) => {
    if (!(error instanceof DaemonUnreachable)) throw error;
    const otherwise = 'While no daemon runs, copy the file of database.url together with its -wal.';
    throw new DaemonUnreachable(`${error.message}. ${otherwise}`, { cause: error });
  });
  const last = await poll({
    async ask() {
      if (signal.aborted) await client.delete(PATH);
      signal.throwIfAborted();
      return client.get(PATH);
    },
    isDone: (answer) => !['copying', 'verifying'].includes(state.parse(answer).state),
    onWait: (answer) => terminal.progress(progressOf(state.parse(answer))),
    patience: Infinity,
    slowest: SLOWEST_MS,
  });
  const { state: end, reason = 'it was given up' } = state.parse(last);
  if (end !== 'verified') throw new CommandFailed(`there is no backup: ${reason}`);
  return verified.parse(last);
}

function progressOf({ state: what, done, total }: State): string {
  if (what === 'verifying') return 'Verifying …';
  return total === 0 ? 'Copying …' : `Copying   ${barText(done, total)}`;
}

async function fetchInto(
  target: FileHandle,
  { size, sha256 }: Verified,
  { client, terminal, signal }: Asking,
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
    const words = `the backup is not whole: ${messageOf(error)}`;
    if (codeOf(error) === 'ECONNRESET') throw new DaemonUnreachable(words, { cause: error });
    throw new CommandFailed(words, { cause: error });
  }
  if (hash.digest('hex') !== sha256) throw new CommandFailed('the backup is not whole: it is not what the daemon sent');
}

/** Gives the file its name; the name too is on the disk when this resolves. */
async function place(part: string, file: string, force: boolean): Promise<void> {
  try {
    if (force) await rename(part, file);
    else await link(part, file);
    const folder = await open(dirname(file));
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw taken(file);
    throw new CommandFailed(`${file} cannot be written: ${messageOf(error)}`, { cause: error });
  }
}
