/** `postern backup`: the daemon makes and verifies the copy of the database, this side adds the configuration, writes the archive and reads it again. */
import { createHash, randomUUID } from 'node:crypto';
import { glob, link, open, readFile, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join, normalize, relative, resolve, sep } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { readYaml } from '../config/yaml.ts';
import { backups } from '../contract/server.ts';
import { systemClock } from '../lib/clock.ts';
import { codeOf, fileFault, messageOf } from '../lib/errors.ts';
import {
  CONFIG,
  contentFrom,
  DATABASE,
  ELSEWHERE,
  readArchive,
  readPassphrase,
  SERVER_FILE,
  writeArchive,
  type Entry,
  type NewArchive,
} from './archive.ts';
import { CommandFailed, DaemonUnreachable } from './client.ts';
import { PASSPHRASE_OPTION, type CliCommand } from './command.ts';
import { barText, counted, sizeText, writeJson } from './output.ts';
import { poll, type Api } from './run.ts';
import { Interrupted } from './terminal.ts';

const MAX_POLL_INTERVAL_MS = 500;

/** Adds `backup`. */
export function addCommands(program: CliCommand): void {
  program
    .command('backup')
    .summary('Back up the database and the configuration')
    .argument('<file>', 'File to write, readable only by its owner')
    .description(
      'Write a backup while the daemon runs: a verified copy of the SQLite database, server.yml, the project files and the files ' +
        'they refer to, as a compressed tar archive. With a passphrase, it is encrypted, and age can decrypt it. For PostgreSQL, use pg_dump',
    )
    .option('--force', 'Overwrite an existing file', false)
    .option(...PASSPHRASE_OPTION)
    .example('backup /var/backups/postern.tar.gz --force', 'A nightly backup')
    .example('backup postern.tar.gz.age --passphrase-file /root/backup-passphrase', 'An encrypted backup')
    .operator(backup);
}

interface BackupFlags {
  readonly force: boolean;
  readonly passphraseFile?: string;
}

/** Writes a verified backup to a file of mode 0600, in one piece or not at all. */
async function backup(api: Api, output: string, { force, passphraseFile }: BackupFlags): Promise<void> {
  const { terminal, json } = api;
  const passphrase = await readPassphrase(terminal, passphraseFile);
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
    const writing = { ...api, passphrase, signal: end.signal };
    await writeCopy(target, copy, writing);
    await verify(temporary, copy, writing);
    const { size } = await target.stat();
    await moveInto(temporary, file, force);
    terminal.progress('');
    const { rows, bucket } = copy.manifest;
    if (json) {
      const encrypted = passphrase !== undefined;
      return writeJson(terminal, { file, size, rows, files: copy.files.length, encrypted, bucket });
    }
    const what = `${counted(rows, 'row')} and ${counted(copy.files.length, 'file')} of the configuration, verified`;
    terminal.write(`${output}: ${sizeText(size)}, ${what}\n`);
    if (bucket !== null) {
      terminal.write(`It does not contain the objects of ${bucket}. Back them up as well.\n`);
    }
    if (passphrase === undefined) {
      terminal.write('The backup contains all secrets of the server. Protect it like the server itself.\n');
    }
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
    throw new CommandFailed(`Cannot write ${file}: ${fileFault(error)}`, { cause: error });
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

/** A verified copy that waits at the daemon. */
interface Copy {
  readonly size: number;
  readonly sha256: string;
  readonly manifest: NewArchive['manifest'];
  /** Of the configuration. */
  readonly files: readonly Entry[];
}

/** Has the daemon make its copy, reads the configuration meanwhile, and waits until the copy is verified. */
async function makeCopy({ client, terminal }: Api, signal: AbortSignal): Promise<Copy> {
  const begun = await client.call({ route: backups.begin }).catch((error: unknown) => {
    if (!(error instanceof DaemonUnreachable)) throw error;
    const alternative =
      'If it cannot start, copy the database file (database.url) with its -wal file, and /etc/postern. The copies are a backup as well.';
    throw new DaemonUnreachable(`${error.message}\n${alternative}`, { cause: error });
  });
  const createdAt = new Date(systemClock.now()).toISOString();
  const files = await configurationFiles(begun.server_file).catch(async (error: unknown) => {
    await client.ask({ route: backups.cancel });
    throw error;
  });
  const { state, reason, size, sha256, rows, schema } = await poll({
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
  if (state !== 'verified' || size === undefined || sha256 === undefined || rows === undefined || schema === undefined)
    throw new CommandFailed(`Backup failed: ${reason ?? 'it was aborted'}`);
  const { version, hostname, bucket } = begun;
  return { size, sha256, files, manifest: { created_at: createdAt, hostname, version, schema, rows, bucket } };
}

interface Writing extends Api {
  readonly passphrase: string | undefined;
  readonly signal: AbortSignal;
}

/** Fetches the copy and writes the archive. */
async function writeCopy(target: FileHandle, { manifest, files, size, sha256 }: Copy, writing: Writing): Promise<void> {
  const { client, terminal, passphrase, signal } = writing;
  const source = addAbortSignal(signal, await client.open({ route: backups.download }));
  const database = { name: DATABASE, size, sha256, mode: 0o600, content: bytes() };
  try {
    await writeArchive(target, { manifest, entries: [...files, database], passphrase }, signal);
  } catch (error) {
    signal.throwIfAborted();
    const words = `The backup is incomplete: ${messageOf(error)}`;
    if (codeOf(error) === 'ECONNRESET') throw new DaemonUnreachable(words, { cause: error });
    throw new CommandFailed(words, { cause: error });
  } finally {
    source.destroy();
  }

  async function* bytes(): AsyncGenerator<Uint8Array> {
    let written = 0;
    for await (const piece of source as AsyncIterable<Buffer>) {
      written += piece.length;
      terminal.progress(`Writing   ${barText(written, size)}`);
      yield piece;
    }
  }
}

/** Reads the file as a restore would. */
async function verify(file: string, { size }: Copy, { terminal, passphrase, signal }: Writing): Promise<void> {
  let read = 0;
  await readArchive(file, passphrase, async ({ content }) => {
    for await (const piece of content) {
      signal.throwIfAborted();
      read += piece.length;
      terminal.progress(`Checking  ${barText(Math.min(read, size), size)}`);
    }
  });
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
    throw new CommandFailed(`Cannot write ${file}: ${fileFault(error)}`, { cause: error });
  }
}

// What of the configuration belongs in a backup: server.yml, the folders `projects` and `templates` beside it, and the files elsewhere
// that they name by their paths (certificates, CA files, `file:/…` secrets). What is below /run is made anew at each start, and is
// left out.

/** A path, or a reference to a secret in a file. */
const NAMED = /^(?:file:)?(\/.+)$/;
const MADE_AT_START = '/run/';

/** The files of the configuration, server.yml first. Throws CommandFailed where this user may not read one. */
async function configurationFiles(serverFile: string): Promise<Entry[]> {
  const folder = dirname(serverFile);
  const found = new Map([[serverFile, SERVER_FILE]]);
  for await (const path of glob('{projects,templates}/**', { cwd: folder })) {
    found.set(join(folder, path), CONFIG + path);
  }
  const entries: Entry[] = [];
  const named = new Set<string>();
  for (const [path, name] of found) {
    const bytes = await read(path);
    if (path === serverFile && bytes === undefined) throw new CommandFailed(`The file ${path} does not exist`);
    if (bytes === undefined) continue;
    entries.push(await entryOf(path, name, bytes));
    if (/\.ya?ml$/.test(name)) for (const each of pathsIn(bytes.toString())) named.add(each);
  }
  for (const path of named) {
    if (path.startsWith(MADE_AT_START) || found.has(path)) continue;
    const bytes = await read(path);
    const name = path.startsWith(folder + sep) ? CONFIG + relative(folder, path) : ELSEWHERE + path.slice(1);
    if (bytes !== undefined) entries.push(await entryOf(path, name, bytes));
  }
  return entries;
}

async function entryOf(path: string, name: string, bytes: Buffer): Promise<Entry> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const { mode } = await stat(path);
  return { name, size: bytes.length, sha256, mode: mode & 0o777, content: contentFrom(bytes) };
}

/** The content; undefined of what is no file, such as a folder or a socket, or is not there. */
async function read(path: string): Promise<Buffer | undefined> {
  try {
    return (await stat(path)).isFile() ? await readFile(path) : undefined;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    const words = `Cannot read ${path}, which belongs in the backup: ${fileFault(error)}. Run the command as root.`;
    throw new CommandFailed(words, { cause: error });
  }
}

/** The paths of files that the values of a YAML file name, also of one with mistakes in it. */
function pathsIn(text: string): string[] {
  const paths: string[] = [];
  function walk(value: unknown): void {
    if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) walk(each);
    const path = typeof value === 'string' ? NAMED.exec(value)?.[1] : undefined;
    if (path !== undefined && !path.includes('\0')) paths.push(normalize(path));
  }
  walk(readYaml(text, '').value);
  return paths;
}
