/**
 * Reads the files of the configuration. What a project names (`html_file`, `logo`) is read relative to the project's file and
 * never from outside its own folder and the `templates` folder beside it, whatever symbolic links say.
 */
import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';
import { dataUrlOf, imageTypeOf, MAX_IMAGE_BYTES } from './images.ts';
import type { Clock } from '../lib/clock.ts';

const MAX_BYTES = 1024 * 1024;
const PLACES = ['./config/server.yml', '/etc/postern/server.yml'];

/** Where the service keeps its data. */
export const STATE_FOLDER = '/var/lib/postern';

/** The server.yml to use: the path given, else `$POSTERN_CONFIG`, else the usual places. */
export async function findServerFile(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const given = path ?? env['POSTERN_CONFIG'];
  if (given !== undefined && given !== '') return given;
  for (const place of PLACES) {
    if (await exists(place)) return place;
  }
  const misnamed = PLACES.map((place) => place.replace(/yml$/, 'yaml'));
  for (const place of misnamed)
    if (await exists(place)) throw new UserError(`${place}: rename this file to server.yml`);
  throw new UserError(
    `no configuration found: neither --config nor $POSTERN_CONFIG is given, and there is no ${PLACES.join(' or ')}`,
  );
}

/** Names of the project files beside this server.yml, `projects/<name>.yml` or `.yaml`, sorted; none without the folder. */
export async function listProjects(serverFile: string): Promise<string[]> {
  const names = await listFolder(join(dirname(serverFile), 'projects'));
  return names.filter((name) => PROJECT_FILE.test(name)).map((name) => `projects/${name}`);
}

const PROJECT_FILE = /^[^.].*\.ya?ml$/;
/** Whoever keeps these means them to be loaded: `shop.YML`, `shop.yml.txt`, `shop.json`. Backups of editors are not among them. */
const MISNAMED = /^[^.].*(?:\.ya?ml\.txt|\.ya?ml|\.json)$/i;

/** Files that look like projects and are not loaded, by their paths from the folder of server.yml: why. */
export async function unloadedFiles(serverFile: string): Promise<ReadonlyMap<string, string>> {
  const folder = dirname(serverFile);
  const [beside, projects] = await Promise.all([listFolder(folder), listFolder(join(folder, 'projects'))]);
  const elsewhere = beside.filter((name) => PROJECT_FILE.test(name) && name !== basename(serverFile));
  const misnamed = projects.filter((name) => MISNAMED.test(name) && !PROJECT_FILE.test(name));
  return new Map([
    ...elsewhere.map((name) => [name, 'move it into the projects folder'] as const),
    ...misnamed.map((name) => [`projects/${name}`, 'its name must end in .yml or .yaml'] as const),
  ]);
}

/** Names in a folder, sorted; none where there is no folder. Throws UserError where it cannot be read. */
async function listFolder(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw new UserError(`${folder}: ${unreadable(error, folder)}`, { cause: error });
  }
}

/** Why a file cannot be had, in words that name it. */
interface Unreadable {
  readonly problem: string;
  /** There is none. */
  readonly missing: boolean;
  /** The same without its name, and where in it. */
  readonly why: string;
  readonly line: number;
  readonly column: number;
}

/** The text of a file, or why it cannot be had. */
export type FileText = { readonly text: string } | Unreadable;

/** Reads a whole file of UTF-8 text up to 1 MiB. */
export function readText(path: string): Promise<FileText> {
  return readWhole(path, MAX_BYTES, (bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes));
}

/** Reads a file that a project names: an image as a data: URL, all else as text. */
function readNamed(path: string, name: string): Promise<FileText> {
  const type = imageTypeOf(name);
  return type === undefined ? readText(path) : readWhole(path, MAX_IMAGE_BYTES, (bytes) => dataUrlOf(type, bytes));
}

async function readWhole(path: string, most: number, textOf: (bytes: Buffer) => string): Promise<FileText> {
  try {
    // Opening a pipe would wait for its other end.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stat = await file.stat();
      if (!stat.isFile()) return refused(path, 'not a file');
      if (stat.size > most) return refused(path, `larger than ${most === MAX_BYTES ? '1 MiB' : '64 KiB'}`);
      const bytes = await file.readFile();
      try {
        return { text: textOf(bytes) };
      } catch {
        return refused(path, 'this is not UTF-8 text; save the file as UTF-8', firstInvalid(bytes));
      }
    } finally {
      await file.close();
    }
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') return refused(path, unreadable(error, path));
    return { ...refused(path, 'there is no such file'), problem: `there is no file ${path}`, missing: true };
  }
}

/** Why the file system refuses a file or a folder, in words. */
function unreadable(error: unknown, path: string): string {
  switch (codeOf(error)) {
    case 'EACCES':
      return `no permission to read it: let the group of the service read it (chgrp postern and chmod g+r ${path}) and enter its folders (chmod g+x)`;
    case 'ELOOP':
      return 'a symbolic link that points to itself';
    case 'ENOTDIR':
      return 'part of its path is not a folder';
    default:
      return `it cannot be read: ${messageOf(error)}`;
  }
}

/** Line and column of the first byte that is not UTF-8. */
function firstInvalid(bytes: Buffer): { line: number; column: number } {
  const lines = bytes.toString('latin1').split('\n');
  const at = lines.findIndex((line) => !isUtf8(Buffer.from(line, 'latin1')));
  return {
    line: at + 1,
    column:
      Buffer.from(lines[at] ?? '', 'latin1')
        .toString()
        .indexOf('\uFFFD') + 1,
  };
}

/** The contents of the files that a project names, and why others could not be had; both by the name as written. */
export async function readBeside(
  projectFile: string,
  names: readonly string[],
): Promise<{ files: Record<string, string>; refused: Record<string, string> }> {
  const files: [string, string][] = [];
  const refused: [string, string][] = [];
  for (const name of names) {
    const path = await pathWithin(projectFile, name);
    const result = 'problem' in path ? path : await readNamed(path.path, name);
    if ('text' in result) files.push([name, result.text]);
    else refused.push([name, result.problem]);
  }
  return { files: Object.fromEntries(files), refused: Object.fromEntries(refused) };
}

async function pathWithin(projectFile: string, name: string): Promise<{ path: string } | { problem: string }> {
  const folder = dirname(resolve(projectFile));
  const problem = `${name} is outside the project's folder`;
  if (name.includes('\0') || isAbsolute(name)) return { problem };
  const wanted = resolve(folder, name);
  const allowed = basename(folder) === 'projects' ? [folder, join(dirname(folder), 'templates')] : [folder];
  if (!allowed.some((root) => wanted.startsWith(root + sep))) return { problem };
  try {
    const path = await realpath(wanted);
    const roots = await Promise.all(allowed.map(realOrSame));
    return roots.some((root) => path.startsWith(root + sep)) ? { path } : { problem };
  } catch (error) {
    return { problem: codeOf(error) === 'ENOENT' ? `there is no file ${name}` : `${name}: ${unreadable(error, name)}` };
  }
}

async function realOrSame(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

async function exists(path: string): Promise<boolean> {
  const result = await readText(path);
  return 'text' in result || !result.missing;
}

function refused(path: string, why: string, place?: { line: number; column: number }): Unreadable {
  const where = place === undefined ? path : `${path}:${place.line}:${place.column}`;
  return { problem: `${where}: ${why}`, missing: false, why, line: 1, column: 1, ...place };
}

// Reloads when a file of the configuration changes. Polls instead of asking the kernel: it works on every file system and
// with every editor's way of saving, and sees one change where an editor makes three.

const INTERVAL = 1000;

export interface WatchOptions {
  /** Path of server.yml; it and `projects/*.yml` beside it are watched. */
  readonly file: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Whether `server.watch` is on now; it may change with any reload. */
  readonly enabled: () => boolean;
  readonly reload: () => Promise<unknown>;
}

/**
 * Looks every second until `signal` aborts; calls `reload` once what it sees differs from before and has stayed the same
 * for a second, so that a file is not read while it is being written.
 */
export async function watchConfig({ file, clock, signal, enabled, reload }: WatchOptions): Promise<void> {
  let loaded = await fingerprint(file);
  let seen = loaded;
  for (;;) {
    await clock.sleep(INTERVAL, signal);
    if (signal.aborted) return;
    const now = await fingerprint(file);
    const settled = now === seen;
    seen = now;
    if (!settled || now === loaded) continue;
    loaded = now;
    if (enabled()) await reload();
  }
}

/** Time, size and identity of every file. */
async function fingerprint(file: string): Promise<string> {
  const projects = await listProjects(file).catch((error: unknown) => [String(codeOf(error))]);
  const lines = await Promise.all([file, ...projects.map((name) => join(dirname(file), name))].map(describe));
  return lines.join('\n');
}

async function describe(path: string): Promise<string> {
  try {
    const { mtimeNs, size, ino } = await stat(path, { bigint: true });
    return `${path} ${mtimeNs} ${size} ${ino}`;
  } catch (error) {
    return `${path} ${codeOf(error)}`;
  }
}
