/**
 * What of the configuration belongs into a backup: server.yml, the folders `projects` and `templates` beside it, and the files elsewhere
 * that they name by their paths (certificates, CA files, `file:/…` secrets). What is below /run is made anew at each start, and is
 * left out.
 */
import { createHash } from 'node:crypto';
import { glob, readFile, stat } from 'node:fs/promises';
import { dirname, join, normalize, relative, sep } from 'node:path';
import { readYaml } from '../config/yaml.ts';
import { codeOf, fileFault } from '../lib/errors.ts';
import { CONFIG, contentFrom, ELSEWHERE, SERVER_FILE, type Entry } from './archive.ts';
import { CommandFailed } from './client.ts';

/** A path, or a reference to a secret in a file. */
const NAMED = /^(?:file:)?(\/.+)$/;
const MADE_AT_START = '/run/';

/** The files of the configuration, server.yml first. Throws CommandFailed where this user may not read one. */
export async function configurationFiles(serverFile: string): Promise<Entry[]> {
  const folder = dirname(serverFile);
  const found = new Map([[serverFile, SERVER_FILE]]);
  for await (const path of glob('{projects,templates}/**', { cwd: folder })) {
    found.set(join(folder, path), CONFIG + path);
  }
  const entries: Entry[] = [];
  const named = new Set<string>();
  for (const [path, name] of found) {
    const bytes = await read(path);
    if (path === serverFile && bytes === undefined) throw new CommandFailed(`There is no file ${path} here`);
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
    const words = `Cannot read ${path}, which belongs into the backup: ${fileFault(error)}. Run the command as root.`;
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
