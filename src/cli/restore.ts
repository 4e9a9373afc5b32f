/**
 * `postern restore`: puts a backup in place while the daemon is stopped. Everything is written beside its place and checked first, so
 * that a damaged backup changes nothing. What is replaced stays beside its successor.
 */
import { createHash } from 'node:crypto';
import { chmod, chown, link, mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { findServerFile } from '../config/files.ts';
import { codeOf, messageOf, PassingError, UserError } from '../lib/errors.ts';
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
import { databaseUrl, sqliteFile } from './database-url.ts';
import { barText, counted, listed, shortTime, writeJson } from './output.ts';
import type { Terminal } from './terminal.ts';

const DEFAULT_SERVER_FILE = '/etc/postern/server.yml';

interface RestoreFlags {
  readonly force: boolean;
  readonly holdQueue: boolean;
  readonly databaseOnly: boolean;
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
    .argument('<file>', 'A file that postern backup has written')
    .description(
      'Restore the database and the configuration while the daemon is stopped, on this or another host. All checksums are verified ' +
        'before anything is changed',
    )
    .option('--force', 'Replace files that exist; the old ones are kept beside them', false)
    .option('--hold-queue', 'Hold all queued mail until you release it', false)
    .option('--database-only', 'Leave the configuration as it is', false)
    .option(...PASSPHRASE_OPTION)
    .option(...CONFIG_OPTION)
    .option(...JSON_OUT)
    .example('restore /var/backups/postern.tar.gz', 'On a new host')
    .example('restore /var/backups/postern.tar.gz --force --hold-queue', 'In place of what is there')
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
  let database: (Restore & { readonly path: string }) | undefined;
  try {
    const manifest = await readArchive(file, passphrase, async (entry) => {
      if (entry.name !== DATABASE) {
        const placed = { path: placeOf(entry.name, serverFile), bytes: await bytesOf(entry), mode: entry.mode };
        if (!flags.databaseOnly) configuration.push(placed);
        return;
      }
      database = await openDatabase(terminal, serverFile, { configuration, force: flags.force });
      await write(entry, database.draft, terminal);
    });
    terminal.progress('');
    if (database === undefined) throw new CommandFailed(`${file} has no database`);
    const waiting = database.inspect();
    const changed: Placed[] = [];
    for (const placed of configuration) {
      const state = await compare(placed);
      // A certificate may have been renewed since.
      if (state === 'other' && !isBeside(placed.path, serverFile)) kept.push(placed.path);
      else if (state !== 'same') changed.push(placed);
    }
    if (!flags.force) await refuseExisting(changed);
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

async function bytesOf({ content }: Entry): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of content) pieces.push(piece);
  return Buffer.concat(pieces);
}

interface Configuration {
  /** That of the backup; empty where that of this machine stays. */
  readonly configuration: readonly Placed[];
  readonly force: boolean;
}

/** Locks the place of the database. Throws CommandFailed where it is taken and may not be replaced. */
async function openDatabase(
  { env }: Terminal,
  serverFile: string,
  { configuration, force }: Configuration,
): Promise<Restore & { readonly path: string }> {
  const restored = configuration.find(({ path }) => path === serverFile);
  const text = restored?.bytes.toString() ?? (await readText(serverFile));
  const path = sqliteFile(databaseUrl(text, serverFile, env));
  if (path === undefined) {
    throw new CommandFailed(
      `The backup is of SQLite, and database.url of ${serverFile} is PostgreSQL. Restore it with database.url: sqlite:/path, and move ` +
        'it with: postern migrate-store',
    );
  }
  if (!force && (await exists(path))) throw existing([path]);
  const { beginRestore } = await import('../store/restore.ts');
  const begun = await beginRestore(path).catch((error: unknown) => {
    if (!(error instanceof PassingError)) throw error;
    throw new CommandFailed(`A daemon is using ${path}. Stop it first: systemctl stop postern`, { cause: error });
  });
  return { ...begun, path };
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    throw new CommandFailed(`Cannot read ${file}: ${messageOf(error)}`, { cause: error });
  });
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
    throw new CommandFailed(`Cannot read ${path}: ${messageOf(error)}`, { cause: error });
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
    `${listed(paths)} already ${exist}. To replace ${them} and keep the old beside the new, add --force; to leave the configuration as ` +
      'it is, add --database-only',
  );
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR',
  );
}

/** Writes a file of the configuration, for the owner and the group of its folder. */
async function put({ path, bytes, mode }: Placed, aside: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o750 });
  const draft = join(folder, `.${basename(path)}.${createHash('sha256').update(bytes).digest('hex').slice(0, 8)}`);
  await rm(draft, { force: true });
  await writeFile(draft, bytes, { mode: 0o600, flag: 'wx' });
  await chmod(draft, mode);
  if (process.getuid?.() === 0) {
    const { uid, gid } = await stat(folder);
    await chown(draft, uid, gid);
    // The service is a member of the group, and may have owned the file where the backup was made.
    if (gid !== 0) await chmod(draft, mode | 0o040);
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
  const { created_at: created, hostname, version, rows } = manifest;
  const files = changed.map((placed) => placed.path);
  if (json)
    return writeJson(terminal, { database: path, created_at: created, rows, waiting, held: holdQueue, files, kept });
  const lines = [
    `Restored the backup of ${hostname} from ${shortTime(created)} (Postern ${version}): ${counted(rows, 'row')} to ${path}` +
      (files.length === 0 ? '.' : ` and ${counted(files.length, 'file')} of the configuration.`),
    ...(force ? ['What was there before is beside it, as *.before-restore-….'] : []),
    ...(kept.length === 0 ? [] : [`Left as they are, because they differ from the backup: ${listed(kept)}`]),
    ...queueLines(waiting, shortTime(created), holdQueue),
    'Start the daemon with: systemctl start postern',
  ];
  terminal.write(`${lines.join('\n')}\n`);
}

function queueLines(waiting: number, created: string, held: boolean): string[] {
  if (waiting === 0) return [];
  if (held) {
    return [
      `Held in the queue: ${counted(waiting, 'delivery')}. Nothing of it is sent before you release it.`,
      'After the start, see it with postern queue list, and send it with postern queue release --older-than 1m.',
    ];
  }
  return [
    `In the queue: ${counted(waiting, 'delivery')}. What has been delivered since ${created} is sent a second time, with the same Message-ID.`,
    'To decide that yourself, restore again with --force --hold-queue before you start the daemon.',
  ];
}
