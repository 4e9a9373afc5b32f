/** The file in which `signup` keeps where a server is and the key for it, so that the next command needs neither. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { codeOf, messageOf, UserError } from '../lib/errors.ts';
import type { Address } from './client.ts';

type Env = Readonly<Record<string, string | undefined>>;

export interface Credentials {
  /** As `--url` takes it. */
  readonly url: Address;
  readonly key: string;
}

const shape = z.object({ url: z.string().min(1), key: z.string().min(1) });

/** `$XDG_CONFIG_HOME/postern/credentials.json`, else below `~/.config`. */
export function credentialsFile(env: Env): string {
  const configHome = env['XDG_CONFIG_HOME'];
  const home = configHome === undefined || configHome === '' ? join(env['HOME'] ?? homedir(), '.config') : configHome;
  return join(home, 'postern/credentials.json');
}

/** What the file holds; undefined where there is none. Throws UserError where it cannot be read. */
export async function readCredentials(env: Env): Promise<Credentials | undefined> {
  const file = credentialsFile(env);
  try {
    return shape.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    const why = codeOf(error) === undefined ? 'it does not hold {"url": …, "key": …}' : messageOf(error);
    throw new UserError(`cannot use ${file}: ${why}. Mend or remove it; postern signup --force writes a new one`);
  }
}

/** Writes the file, readable for its owner alone. Answers its path. */
export async function saveCredentials(env: Env, { url, key }: Credentials): Promise<string> {
  const file = credentialsFile(env);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.new`;
  await rm(draft, { force: true }); // one that a crash left may have another mode
  await writeFile(draft, `${JSON.stringify({ url, key }, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
  await rename(draft, file);
  return file;
}
