/**
 * `postern restore`: puts a backup in place while the daemon is stopped. Everything is written beside its place and checked first, so
 * that a damaged backup changes nothing. What is replaced stays beside its successor. Root runs it, and whoever made the file
 * may not be trusted like root: it names no place outside the folder of server.yml that is written without being asked for, and
 * nothing else than a regular file that only its owner may write.
 */
import { createHash } from 'node:crypto';
import { link, mkdir, open, readFile, realpath, rename, rm, stat, statfs } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { findServerFile, STATE_FOLDER } from '../config/files.ts';
import { knownDatabaseUrl, readableServer } from '../config/parse.ts';
import { machineSecrets } from '../config/secrets.ts';
import { PassingError, UserError, codeOf, fileFault, messageOf } from '../lib/errors.ts';
import { systemClock } from '../lib/clock.ts';
import type { Restore } from '../store/restore.ts';
import {
  CONFIG,
  DATABASE,
  ELSEWHERE,
  readArchive,
  readPassphrase,
  SERVER_FILE,
  type Entry,
  type Manifest,
} from './archive.ts';
import { CommandFailed } from './client.ts';
import { CONFIG_OPTION, JSON_OUT, PASSPHRASE_OPTION, type CliCommand } from './command.ts';
import { barText, counted, listed, shortTime, sizeText, writeJson } from './output.ts';
import type { Terminal } from './terminal.ts';

const DEFAULT_SERVER_FILE = '/etc/postern/server.yml';
/** Of the configuration in a backup, which is read into memory. */
const MAX_CONFIGURATION_BYTES = 256 * 1024 * 1024;

interface RestoreFlags {
  readonly force: boolean;
  readonly holdQueue: boolean;
  readonly databaseOnly: boolean;
  readonly outsideFiles?: 'create' | 'skip';
  readonly config?: string;
  readonly passphraseFile?: string;
  readonly json: boolean;
}

/** Adds `restore`. */
export function addCommands(program: CliCommand): void {
  const { terminal } = program.cli;
  program
    .command('restore')
    .summary('Restore a backup')
    .argument('<file>', 'A file written by postern backup')
    .description(
      'Restore the database and the configuration while the daemon is stopped, on this or another host. All checksums are verified ' +
        'before anything is changed',
    )
    .option('--force', 'Replace existing files; the old ones are kept next to them', false)
    .option('--hold-queue', 'Hold all queued mail until you release it', false)
    .option('--database-only', 'Do not restore the configuration', false)
    .choice('--outside-files <create|skip>', 'What to do with files outside the folder of server.yml', [
      'create',
      'skip',
    ])
    .option(...PASSPHRASE_OPTION)
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .example('restore /var/backups/postern.tar.gz', 'On a new host')
    .example('restore /var/backups/postern.tar.gz --force --hold-queue', 'Replace what is already there')
    .action((file: string, flags: RestoreFlags) => restore(terminal, file, flags));
}

/** A file of the configuration, and where it goes. */
interface Placed {
  readonly path: string;
  readonly bytes: Buffer;
  readonly mode: number;
}

async function restore(terminal: Terminal, input: string, flags: RestoreFlags): Promise<void> {
  const file = resolve(terminal.folder, input);
  const passphrase = await readPassphrase(terminal, flags.passphraseFile);
  const serverFile = await targetServerFile(terminal, flags.config);
  const configuration: Placed[] = [];
  const kept: string[] = [];
  let bytes = 0;
  let database: (Restore & { readonly path: string }) | undefined;
  try {
    const manifest = await readArchive(file, passphrase, async (entry) => {
      if (entry.name !== DATABASE) {
        bytes += entry.size;
        if (bytes > MAX_CONFIGURATION_BYTES) {
          throw new CommandFailed(`${file} contains more than ${sizeText(MAX_CONFIGURATION_BYTES)} of configuration`);
        }
        const path = placeOf(entry.name, serverFile);
        const placed = { path, bytes: await bytesOf(entry), mode: entry.mode & READABLE };
        if (!flags.databaseOnly) configuration.push(placed);
        return;
      }
      database = await openDatabase(terminal, serverFile, { configuration, flags, size: entry.size });
      await write(entry, database.draft, terminal);
    });
    terminal.progress('');
    if (database === undefined) throw new CommandFailed(`${file} contains no database`);
    const waiting = database.inspect();
    const changed: Placed[] = [];
    const outside: Placed[] = [];
    for (const placed of configuration) {
      const state = await compare(placed);
      if (state === 'same') continue;
      if (isBeside(placed.path, serverFile)) changed.push(placed);
      // A certificate may have been renewed since.
      else if (state === 'other') kept.push(placed.path);
      else outside.push(placed);
    }
    for (const { path } of changed) await refuseLinkedFolder(path, serverFile);
    if (outside.length > 0 && flags.outsideFiles === undefined) throw refuseOutside(outside, serverFile);
    if (!flags.force) await refuseExisting(changed);
    if (flags.outsideFiles === 'create') changed.push(...outside);
    if (flags.holdQueue) await database.holdQueue();
    const aside = `.before-restore-${isoBasic(systemClock.now())}`;
    await database.place(aside);
    for (const placed of changed) await put(placed, aside);
    report(terminal, { manifest, path: database.path, changed, kept, waiting }, flags);
  } catch (error) {
    if (error instanceof UserError) throw error;
    // A full disk, a folder that this user may not write.
    throw new CommandFailed(`Cannot restore ${file}: ${messageOf(error)}`, { cause: error });
  } finally {
    terminal.progress('');
    await database?.close();
  }
}

async function targetServerFile(terminal: Terminal, config: string | undefined): Promise<string> {
  const named = config ?? terminal.env['POSTERN_CONFIG'];
  if (named !== undefined && named !== '') return resolve(terminal.folder, named);
  return findServerFile(undefined, terminal.env).then(
    (found) => resolve(terminal.folder, found),
    () => DEFAULT_SERVER_FILE,
  );
}

function placeOf(name: string, serverFile: string): string {
  if (name === SERVER_FILE) return serverFile;
  return name.startsWith(CONFIG)
    ? join(dirname(serverFile), name.slice(CONFIG.length))
    : `/${name.slice(ELSEWHERE.length)}`;
}

function isBeside(path: string, serverFile: string): boolean {
  return path.startsWith(`${dirname(serverFile)}/`);
}

function refuseOutside(files: readonly Pick<Placed, 'path'>[], serverFile: string): CommandFailed {
  return new CommandFailed(
    `The backup has files outside ${dirname(serverFile)}: ${listed(files.map(({ path }) => path))}. To create them, add ` +
      '--outside-files create; to leave them out, add --outside-files skip',
  );
}

/** Throws CommandFailed where a symbolic link on the way to the file leads out of the folder of server.yml. */
async function refuseLinkedFolder(path: string, serverFile: string): Promise<void> {
  const root = dirname(serverFile);
  for (let folder = dirname(path); folder.startsWith(`${root}/`); folder = dirname(folder)) {
    const real = await realpath(folder).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    });
    if (real === undefined || `${real}/`.startsWith(`${await realpath(root)}/`)) continue;
    throw new CommandFailed(
      `${folder} is a symbolic link to ${real}, and restore does not write through links. Replace it with a folder, or restore ` +
        'only the database with --database-only',
    );
  }
}

async function bytesOf({ content }: Entry): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of content) pieces.push(piece);
  return Buffer.concat(pieces);
}

interface Configuration {
  /** That of the backup; empty where that of this machine stays. */
  readonly configuration: readonly Placed[];
  readonly flags: RestoreFlags;
  /** Of the database in the backup. */
  readonly size: number;
}

/** Locks the place of the database. Throws CommandFailed where it is taken and may not be replaced, or has no room. */
async function openDatabase(
  { env }: Terminal,
  serverFile: string,
  { configuration, flags: { force, outsideFiles }, size }: Configuration,
): Promise<Restore & { readonly path: string }> {
  const restored = configuration.find(({ path }) => path === serverFile)?.bytes.toString();
  const here = await textHere(serverFile);
  const text = restored ?? here;
  if (text === undefined) throw new CommandFailed(`The file ${serverFile} does not exist`);
  const path = sqliteFile(text);
  if (path === undefined) {
    throw new CommandFailed(
      `The backup contains an SQLite database, but database.url in ${serverFile} is PostgreSQL. Restore it with database.url: sqlite:/path, then move ` +
        'it with: postern migrate-store',
    );
  }
  const isKnownPlace = isBeside(path, serverFile) || dirname(path) === STATE_FOLDER;
  if (!isKnownPlace && outsideFiles !== 'create' && (here === undefined || sqliteFile(here) !== path)) {
    throw refuseOutside([{ path }], serverFile);
  }
  if (!force && (await exists(path))) throw existing([path]);
  const { beginRestore } = await import('../store/restore.ts');
  const begun = await beginRestore(path).catch((error: unknown) => {
    if (!(error instanceof PassingError)) throw error;
    throw new CommandFailed(`A daemon is using ${path}. Stop it first: systemctl stop postern`, { cause: error });
  });
  const { bavail, bsize } = await statfs(dirname(path));
  if (bavail * bsize < size) {
    await begun.close();
    const [needed, free] = [sizeText(size), sizeText(bavail * bsize)];
    throw new CommandFailed(`The database needs ${needed}, but ${free} are free in ${dirname(path)}`);
  }
  return { ...begun, path };

  /** The file of the database of this server.yml; undefined of PostgreSQL. */
  function sqliteFile(serverYml: string): string | undefined {
    return sqlitePath(knownDatabaseUrl(readableServer(serverYml, serverFile, machineSecrets(env))));
  }
}

/** Undefined where there is no such file. */
async function textHere(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new CommandFailed(`Cannot read ${file}: ${fileFault(error)}`, { cause: error });
  });
}

const SQLITE = 'sqlite:';

function sqlitePath(url: string): string | undefined {
  return url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;
}

async function write({ content, size }: Entry, draft: string, terminal: Terminal): Promise<void> {
  let written = 0;
  async function* shown(): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      written += piece.length;
      terminal.progress(`Restoring ${barText(written, size)}`);
      yield piece;
    }
  }
  const target = await open(draft, 'wx', 0o600);
  await pipeline(shown(), target.createWriteStream());
}

/** Whether there is something else in its place. */
async function compare({ path, bytes }: Placed): Promise<'none' | 'same' | 'other'> {
  try {
    return (await readFile(path)).equals(bytes) ? 'same' : 'other';
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'none';
    throw new CommandFailed(`Cannot read ${path}: ${fileFault(error)}`, { cause: error });
  }
}

async function refuseExisting(files: readonly Placed[]): Promise<void> {
  const found: string[] = [];
  for (const { path } of files) if (await exists(path)) found.push(path);
  if (found.length > 0) throw existing(found);
}

function existing(paths: readonly string[]): CommandFailed {
  const [exist, them] = paths.length === 1 ? ['exists', 'it'] : ['exist', 'them'];
  return new CommandFailed(
    `${listed(paths)} already ${exist}. To replace ${them} and keep a copy of the old version, add --force; to restore only ` +
      'the database, add --database-only',
  );
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR',
  );
}

/** Of the permissions in the backup: nobody but the owner may write, and nobody execute. */
const READABLE = 0o644;

/** Writes a file of the configuration, for the owner and the group of its folder. */
async function put({ path, bytes, mode }: Placed, aside: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const draft = join(folder, `.${basename(path)}.${createHash('sha256').update(bytes).digest('hex').slice(0, 8)}`);
  await rm(draft, { force: true });
  // By its handle: whoever else may write to the folder cannot put a link in its place.
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(bytes);
    const { uid, gid } = await stat(folder);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) await handle.chown(uid, gid);
    // The service is a member of the group, and may have owned the file where the backup was made.
    await handle.chmod(isRoot && gid !== 0 ? mode | 0o040 : mode);
  } finally {
    await handle.close();
  }
  if (await exists(path)) await link(path, `${path}${aside}`);
  await rename(draft, path);
}

/** `20260105T140311Z` */
function isoBasic(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

interface Restored {
  readonly manifest: Manifest;
  readonly path: string;
  readonly changed: readonly Placed[];
  readonly kept: readonly string[];
  readonly waiting: number;
}

function report(terminal: Terminal, restored: Restored, { holdQueue, json, force }: RestoreFlags): void {
  const { manifest, path, changed, kept, waiting } = restored;
  const { created_at: created, hostname, version, rows, bucket } = manifest;
  const files = changed.map((placed) => placed.path);
  if (json)
    return writeJson(terminal, {
      database: path,
      created_at: created,
      rows,
      waiting,
      held: holdQueue,
      files,
      kept,
      bucket,
    });
  const lines = [
    `Restored the backup of ${hostname} from ${shortTime(created)} (Postern ${version}): ${counted(rows, 'row')} to ${path}` +
      (files.length === 0 ? '.' : ` and ${counted(files.length, 'file')} of the configuration.`),
    ...(force ? ['The previous files are next to the restored ones, as *.before-restore-….'] : []),
    ...(bucket === null
      ? []
      : [`It refers to objects in ${bucket}. Restore those that were deleted there since ${shortTime(created)}.`]),
    ...(kept.length === 0 ? [] : [`Not restored, because they exist and differ from the backup: ${listed(kept)}`]),
    ...queueLines(waiting, shortTime(created), holdQueue),
    'Start the daemon with: systemctl start postern',
  ];
  terminal.write(`${lines.join('\n')}\n`);
}

function queueLines(waiting: number, created: string, held: boolean): string[] {
  if (waiting === 0) return [];
  if (held) {
    return [
      `Held in the queue: ${counted(waiting, 'delivery')}. Nothing is sent until you release the queue.`,
      'After the start, list the queue with postern queue list, and send it with postern queue release --older-than 1m.',
    ];
  }
  return [
    `In the queue: ${counted(waiting, 'delivery')}. Mail that has been delivered since ${created} is sent again, with the same Message-ID.`,
    'To prevent this, restore again with --force --hold-queue before you start the daemon.',
  ];
}
