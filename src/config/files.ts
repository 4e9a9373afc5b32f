/**
 * Reads the files of the configuration. What a project names (`html_file`, `logo`) is read relative to the project's file and
 * never from outside its own folder and the `templates` folder beside it, whatever symbolic links say.
 */
import { constants } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';
import { dataUrlOf, imageTypeOf, MAX_IMAGE_BYTES } from './images.ts';
import type { Clock } from '../lib/clock.ts';

const MAX_BYTES = 1024 * 1024;
const PLACES = ['./config/server.yml', '/etc/postern/server.yml'];

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
  throw new UserError(
    `no configuration found: neither --config nor $POSTERN_CONFIG is given, and there is no ${PLACES.join(' or ')}`,
  );
}

/** Names of the project files beside this server.yml, `projects/<name>.yml` or `.yaml`, sorted; none without the folder. */
export async function listProjects(serverFile: string): Promise<string[]> {
  try {
    const names = await readdir(join(dirname(serverFile), 'projects'));
    return names
      .filter((name) => /^[^.].*\.ya?ml$/.test(name))
      .sort()
      .map((name) => `projects/${name}`);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** The text of a file, or why it cannot be had; `missing` where there is none. */
export type FileText = { readonly text: string } | { readonly problem: string; readonly missing: boolean };

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
      if (!stat.isFile()) return refused(`${path} is not a file`);
      if (stat.size > most) return refused(`${path} is larger than ${most === MAX_BYTES ? '1 MiB' : '64 KiB'}`);
      return { text: textOf(await file.readFile()) };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof TypeError) return refused(`${path} is not UTF-8 text`);
    if (codeOf(error) === 'ENOENT') return { problem: `there is no file ${path}`, missing: true };
    if (codeOf(error) === 'EACCES') {
      return refused(`no permission to read ${path}: let the user of the service read it, or run as that user`);
    }
    if (codeOf(error) === 'ELOOP') return refused(`${path} is a symbolic link that leads to itself`);
    return refused(`cannot read ${path}: ${messageOf(error)}`);
  }
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
  const problem = `${name} lies outside the project's folder`;
  if (name.includes('\0') || isAbsolute(name)) return { problem };
  const wanted = resolve(folder, name);
  const allowed = basename(folder) === 'projects' ? [folder, join(dirname(folder), 'templates')] : [folder];
  if (!allowed.some((root) => wanted.startsWith(root + sep))) return { problem };
  try {
    const path = await realpath(wanted);
    const roots = await Promise.all(allowed.map(realOrSame));
    return roots.some((root) => path.startsWith(root + sep)) ? { path } : { problem };
  } catch (error) {
    return { problem: codeOf(error) === 'ENOENT' ? `there is no file ${name}` : messageOf(error) };
  }
}

async function realOrSame(path: string): Promise<string> {
  return realpath(path).catch(() => path);
}

async function exists(path: string): Promise<boolean> {
  const result = await readText(path);
  return 'text' in result || !result.missing;
}

function refused(problem: string): FileText {
  return { problem, missing: false };
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
