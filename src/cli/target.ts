/**
 * Which server a command speaks to, and as whom. The address: `--url`, `$POSTERN_URL`, the credentials file, else the
 * operator's socket of the server.yml on this machine. The key: `$POSTERN_API_KEY`, else the credentials file's for its own
 * address. Commands for operators skip the credentials file: on the server itself the socket lets them do all.
 */
import { UserError } from '../lib/errors.ts';
import type { Address, ClientOptions } from './client.ts';
import { adminSocket } from './config.ts';
import { credentialsFile, readCredentials, type Credentials } from './credentials.ts';
import { UsageError } from './run.ts';
import { isServerAddress, SERVER_ADDRESS } from './values.ts';

export interface ServerFlags {
  /** `--url` */
  readonly url?: string | undefined;
  /** `--config`: server.yml, for its socket. */
  readonly config?: string | undefined;
}

export interface TargetFlags extends ServerFlags {
  /** The command is for whoever runs the server. */
  readonly operator: boolean;
}

export interface Server {
  readonly address: Address;
  /** Who named it, for people: `--url`, `$POSTERN_URL`, the path of a file. */
  readonly addressFrom: string;
}

export interface Target extends Server, ClientOptions {
  /** The same of the key; undefined where there is none, which only a socket does with. */
  readonly keyFrom?: string | undefined;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Throws UsageError where no server is named, or a key is missing. */
export async function findTarget({ operator, ...flags }: TargetFlags, env: Env): Promise<Target> {
  const keptCounts = !operator && flags.config === undefined && !namesBoth(flags, env);
  const kept = keptCounts ? await readCredentials(env) : undefined;
  const server = await findServer(flags, env, { kept, operator });
  const { address } = server;
  const isSocket = address.startsWith('unix:');
  // Whoever names the server.yml, or operates, is let in by the socket and is meant as the operator.
  const given = isSocket && (operator || flags.config !== undefined) ? undefined : set(env['POSTERN_API_KEY']);
  if (given !== undefined) return { ...server, key: given, keyFrom: '$POSTERN_API_KEY' };
  if (kept?.url === address) return { ...server, key: kept.key, keyFrom: credentialsFile(env) };
  if (isSocket) return server;
  throw new UsageError(
    `no API key for ${address}: set POSTERN_API_KEY, or make an account with postern signup --url ${address}`,
  );
}

/** Whether flags and environment name server and key, so that a file that nobody can read is in nobody's way. */
function namesBoth({ url }: ServerFlags, env: Env): boolean {
  return (url ?? set(env['POSTERN_URL'])) !== undefined && set(env['POSTERN_API_KEY']) !== undefined;
}

interface Asker {
  /** What signup remembered, where that counts. */
  readonly kept?: Credentials | undefined;
  readonly operator?: boolean;
}

/** Where the server is, whoever asks it. Throws UsageError where none is named. */
export async function findServer(
  { url, config }: ServerFlags,
  env: Env,
  { kept, operator = false }: Asker = {},
): Promise<Server> {
  if (url !== undefined) return { address: trimmed(url), addressFrom: '--url' };
  if (config === undefined) {
    const named = set(env['POSTERN_URL']);
    if (named !== undefined && !isServerAddress(named))
      throw new UsageError(`POSTERN_URL is ${named}, which is no address of a server: ${SERVER_ADDRESS}`);
    if (named !== undefined) return { address: trimmed(named), addressFrom: '$POSTERN_URL' };
    if (kept !== undefined) return { address: kept.url, addressFrom: credentialsFile(env) };
  }
  const socket = await adminSocket(config, env).catch((error: unknown) => {
    if (config !== undefined || !(error instanceof UserError)) throw error;
    const how = operator
      ? 'This is for whoever runs it: with a key that has admin give --url, or set POSTERN_URL, and set POSTERN_API_KEY.'
      : 'Give --url, or set POSTERN_URL and POSTERN_API_KEY; postern signup --url https://… makes an account and remembers both.';
    throw new UsageError(`which server? ${how} On the server itself: ${error.message}`);
  });
  return { address: `unix:${socket}`, addressFrom: 'server.admin_socket of server.yml' };
}

function trimmed(address: Address): Address {
  return address.startsWith('unix:') ? address : address.replace(/\/+$/, '');
}

function set(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}
