/**
 * Which server a command speaks to, and as whom. The address: `--url`, `$POSTERN_URL`, the credentials file, else the
 * operator's socket of the server.yml on this machine. The key: `$POSTERN_API_KEY`, else the credentials file's for its own
 * address. Commands for operators skip the credentials file: on the server itself the socket lets them do all.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { UserError, codeOf, messageOf } from '../lib/errors.ts';
import { type Address, type ClientOptions, UsageError } from './client.ts';
import type { LocalServer } from './local-server.ts';
import { isServerAddress, SERVER_ADDRESS } from './values.ts';

export interface ServerFlags {
  /** `--url` */
  readonly url?: string | undefined;
  /** `--config`: server.yml, for its socket. */
  readonly config?: string | undefined;
}

export interface Server {
  readonly address: Address;
  /** Who named it, for people: `--url`, `$POSTERN_URL`, the path of a file. */
  readonly addressFrom: string;
  /** The server of this machine, where nobody names another one. */
  readonly local?: LocalServer | undefined;
}

export interface Target extends Server, ClientOptions {
  /** The same of the key; undefined where there is none, which only a socket does with. */
  readonly keyFrom?: string | undefined;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Throws UsageError where no server is named, or a key is missing. */
export async function findTarget(flags: ServerFlags, env: Env, operator: boolean): Promise<Target> {
  const named = nonEmpty(env['POSTERN_API_KEY']);
  // A file that nobody can read is in nobody's way where flags and environment name server and key.
  const isNamed = named !== undefined && (flags.url ?? nonEmpty(env['POSTERN_URL'])) !== undefined;
  const saved = operator || flags.config !== undefined || isNamed ? undefined : await readCredentials(env);
  const server = await findServer(flags, env, { saved, operator });
  const { address } = server;
  const isSocket = address.startsWith('unix:');
  // Whoever names the server.yml, or operates, is let in by the socket and is meant as the operator.
  const given = isSocket && (operator || flags.config !== undefined) ? undefined : named;
  if (given !== undefined) return { ...server, key: given, keyFrom: '$POSTERN_API_KEY' };
  if (saved?.url === address) return { ...server, key: saved.key, keyFrom: credentialsFile(env) };
  if (isSocket) return server;
  throw new UsageError(
    `No API key for ${address}. Set POSTERN_API_KEY, or create an account with: postern signup --url ${address}`,
  );
}

/** The server to use; `saved` is what signup remembered, where that counts. Throws UsageError if none is configured. */
export async function findServer(
  { url, config }: ServerFlags,
  env: Env,
  { saved, operator = false }: { readonly saved?: Credentials | undefined; readonly operator?: boolean } = {},
): Promise<Server> {
  if (url !== undefined) return { address: trimmed(url), addressFrom: '--url' };
  if (config === undefined) {
    const named = nonEmpty(env['POSTERN_URL']);
    if (named !== undefined && !isServerAddress(named))
      throw new UsageError(`POSTERN_URL is not a server URL: ${named}. Must be ${SERVER_ADDRESS}.`);
    if (named !== undefined) return { address: trimmed(named), addressFrom: '$POSTERN_URL' };
    if (saved !== undefined) return { address: saved.url, addressFrom: credentialsFile(env) };
  }
  // Loaded here alone: with a URL no configuration is read.
  const { findLocalServer } = await import('./local-server.ts');
  const local = await findLocalServer(config, env).catch((error: unknown) => {
    if (config !== undefined || !(error instanceof UserError)) throw error;
    const how = operator
      ? 'Pass --url and set POSTERN_API_KEY to a key with the permission admin.'
      : 'Pass --url and set POSTERN_API_KEY, or create an account with: postern signup --url https://….';
    throw new UsageError(`No server configured. ${how} On the server itself: ${error.message}`);
  });
  return { address: `unix:${local.socket}`, addressFrom: 'server.admin_socket of server.yml', local };
}

function trimmed(address: Address): Address {
  return address.startsWith('unix:') ? address : address.replace(/\/+$/, '');
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}

/** `url` is as `--url` takes it. */
const credentials = z.object({ url: z.string().min(1), key: z.string().min(1) });

type Credentials = z.output<typeof credentials>;

/** `$XDG_CONFIG_HOME/postern/credentials.json`, else below `~/.config`. */
export function credentialsFile(env: Env): string {
  const home = nonEmpty(env['XDG_CONFIG_HOME']) ?? join(env['HOME'] ?? homedir(), '.config');
  return join(home, 'postern/credentials.json');
}

/** What the file holds; undefined where there is none. Throws UserError where it cannot be read. */
export async function readCredentials(env: Env): Promise<Credentials | undefined> {
  const file = credentialsFile(env);
  try {
    return credentials.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    const why = codeOf(error) === undefined ? 'it does not contain {"url": …, "key": …}' : messageOf(error);
    throw new UserError(`Cannot use ${file}: ${why}. Fix or delete it, or run: postern signup --force`);
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
