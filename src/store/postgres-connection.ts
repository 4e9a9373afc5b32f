/**
 * Connections to PostgreSQL. Of several hosts the one is used that takes writes; when it is lost, the next that does. Nothing
 * waits for a connection that has died without a word: the server ends a statement that takes too long, and a connection on
 * which nothing moves for a little longer is cut and replaced. A server that would lose what it has acknowledged in a power
 * cut is refused.
 */
import { Socket } from 'node:net';
import { userInfo } from 'node:os';
import pg from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import pgpass, { type PasswordPlace } from 'pgpass';
import { PassingError, UserError, codeOf, messageOf } from '../lib/errors.ts';
import { parsePostgresUrl, sslModeOf, type PostgresHost, type SslMode } from '../lib/postgres-url.ts';
import { isPassing } from './faults.ts';

/** How PostgreSQL is reached, beside its address. */
export interface PostgresSettings {
  /** The server itself where `url` is a connection pooler: for LISTEN, locks and migrations. */
  readonly listenUrl?: string | undefined;
  /** Connections of each pool; every thread of a daemon has one. */
  readonly poolSize?: number;
  /** Whether statements are prepared, which a pooler in transaction mode does not support. */
  readonly prepare?: boolean;
}

export interface PostgresOptions extends PostgresSettings {
  readonly url: string;
}

const DEFAULT_POOL_SIZE = 10;
const DEFAULT_PORT = 5432;
const INT8 = 20;
const KEEP_ALIVE_MS = 5000;
/** To get a connection where another host can be tried, ms. */
const MAX_CONNECT_OF_SEVERAL_MS = 3000;

/** How long what may take, ms. */
interface Patience {
  /** To get a connection. */
  readonly connect: number;
  /** A statement; 0: without end. */
  readonly statement: number;
  /** A lock that another session has; 0: as long as the statement. */
  readonly lock: number;
  /** A connection on which nothing moves: longer than a statement, and than the pool keeps an idle one. 0: without end. */
  readonly silence: number;
}

const OF_POOL: Patience = { connect: 10_000, statement: 10_000, lock: 0, silence: 12_000 };
/**
 * Migrations take as long as they take. For a lock they wait shortly: all that comes later to the table waits behind them.
 */
const OF_MIGRATIONS: Patience = { connect: 10_000, statement: 0, lock: 5000, silence: 0 };
const OF_CLIENT: Patience = { connect: 3000, statement: 4000, lock: 0, silence: 6000 };

/** One way to reach one host. */
interface Target extends PostgresHost {
  readonly isEncrypted: boolean;
}

/** The hosts of an address, and which of them is used. */
class Servers {
  readonly #base: string;
  readonly #mode: SslMode;
  readonly #connectMs: number;
  /** For each host the ways to try; several where encryption may be done without. */
  readonly #hosts: readonly (readonly Target[])[];
  #host = 0;
  #way = 0;

  constructor(url: string, connectMs: number) {
    const { base, hosts, parameters } = parsePostgresUrl(url);
    const seconds = Number(parameters.get('connect_timeout') ?? 0);
    const usual = hosts.length > 1 ? Math.min(connectMs, MAX_CONNECT_OF_SEVERAL_MS) : connectMs;
    this.#base = base;
    this.#mode = sslModeOf(parameters, process.env);
    this.#connectMs = seconds > 0 ? seconds * 1000 : usual;
    this.#hosts = hosts.map((host) => waysOf(host, this.#mode));
  }

  get count(): number {
    return this.#hosts.length;
  }

  /** How often a connection is tried before it is given up; twice each, because others who try at the same time move on as well. */
  get mostTries(): number {
    return this.#hosts.flat().length * (this.#hosts.length > 1 ? 2 : 1);
  }

  get current(): Target {
    const target = this.#hosts[this.#host]?.[this.#way];
    if (target === undefined) throw new Error('there is no host');
    return target;
  }

  /** The settings of a connection to the current host. Certificates are read anew: they may have been renewed. */
  config(): pg.ClientConfig {
    const { host, port, isEncrypted } = this.current;
    const address = new URL(this.#base);
    for (const ours of ['connect_timeout', 'target_session_attrs']) address.searchParams.delete(ours);
    address.searchParams.set('sslmode', isEncrypted ? stronger(this.#mode) : 'disable');
    // Without a file of its own, Node's authorities vouch for the server.
    if (address.searchParams.get('sslrootcert') === 'system') address.searchParams.delete('sslrootcert');
    const {
      host: _host,
      port: _port,
      password,
      ...rest
    } = toClientConfig(parse(address.href, { useLibpqCompat: true }));
    const isGiven = typeof password === 'string' && password !== '';
    const { env } = process;
    const user = rest.user || env['PGUSER'] || userInfo().username;
    const place = {
      host: passwordHost(host ?? env['PGHOST'] ?? 'localhost'),
      port: port ?? Number(env['PGPORT'] ?? DEFAULT_PORT),
      database: rest.database || env['PGDATABASE'] || user,
      user,
    };
    return {
      ...rest,
      ...(host === undefined ? {} : { host }),
      ...(port === undefined ? {} : { port }),
      password: isGiven ? password : (env['PGPASSWORD'] ?? (() => passwordFromFile(place))),
      connectionTimeoutMillis: this.#connectMs,
    };
  }

  /**
   * Goes on to what is tried next after the current host has failed with this error. Answers false where another try is in
   * vain: the server is there and refuses us.
   */
  next(error: unknown, failed: Target): boolean {
    const isOther = failed !== this.current;
    const hasWay = this.#way + 1 < (this.#hosts[this.#host]?.length ?? 0);
    if (isRefusedAsItIs(error)) {
      if (isOther) return true;
      if (hasWay) this.#way++;
      else this.#way = 0;
      return hasWay;
    }
    if (!isPassing(error)) return false;
    if (!isOther) {
      this.#host = (this.#host + 1) % this.#hosts.length;
      this.#way = 0;
    }
    return this.#hosts.length > 1;
  }
}

/** With `prefer` and `allow` encryption is a matter of what the server wants. A Unix socket has none. */
function waysOf(host: PostgresHost, mode: SslMode): Target[] {
  const encrypted = { ...host, isEncrypted: true };
  const plain = { ...host, isEncrypted: false };
  const name = host.host ?? process.env['PGHOST'] ?? '';
  if (name.startsWith('/') || mode === 'disable') return [plain];
  if (mode === 'prefer') return [encrypted, plain];
  if (mode === 'allow') return [plain, encrypted];
  return [encrypted];
}

function stronger(mode: SslMode): SslMode {
  return mode === 'allow' || mode === 'disable' ? 'prefer' : mode;
}

/** The server knows no TLS, or pg_hba.conf has no line for a connection with it, or without it (28000). */
function isRefusedAsItIs(error: unknown): boolean {
  return codeOf(error) === '28000' || /does not support SSL/.test(messageOf(error));
}

/** The name by which a password file knows the host of a Unix socket. */
function passwordHost(host: string): string {
  return host.startsWith('/') ? 'localhost' : host;
}

/** What PGPASSFILE or ~/.pgpass says. Rejects where it has no password, because a server has asked for one. */
function passwordFromFile(place: PasswordPlace): Promise<string> {
  return new Promise((resolve, reject) => {
    pgpass(place, (password) => {
      if (password !== undefined) return resolve(password);
      reject(
        new UserError(
          'the server asks for a password, but database.url, PGPASSWORD and the file of PGPASSFILE (or ~/.pgpass) contain none',
        ),
      );
    });
  });
}

/** What all connections have in common. int8 is read as a number: all of ours are times in ms or counts. */
function settingsOf({ silence }: Patience) {
  return {
    fallback_application_name: 'postern',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    stream: () => openSocket(silence),
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary'): unknown =>
        oid === INT8 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  };
}

/** Cut where nothing comes and nothing goes: the server has answered or ended every statement before. */
function openSocket(silence: number): Socket {
  const socket = new Socket();
  socket.setTimeout(silence, () => {
    socket.destroy(Object.assign(new Error('the database server does not answer'), { code: 'ETIMEDOUT' }));
  });
  return socket;
}

/** Tries the hosts until one gives a connection. Throws what the last of them said, or where there are several, what all said. */
async function connectAny<Client>(servers: Servers, connect: () => Promise<Client>, isFull = () => false) {
  const reasons = new Map<string, string>();
  let mayPass = false;
  for (let tries = 1; ; tries++) {
    const target = servers.current;
    try {
      return await connect();
    } catch (error) {
      const host = `${target.host ?? 'localhost'}${target.port === undefined ? '' : `:${target.port}`}`;
      // That it knows no TLS is no reason where it was reached without.
      if (!isRefusedAsItIs(error) || !reasons.has(host)) reasons.set(host, messageOf(error));
      mayPass ||= isPassing(error);
      // Others try at the same time, and what they find out changes what is tried next: that tries run out says nothing.
      const hasMore = !isFull() && servers.next(error, target);
      if (hasMore && tries < servers.mostTries) continue;
      if (servers.count === 1 || !(hasMore || mayPass)) throw error;
      const all = Array.from(reasons, ([host, reason]) => `${host}: ${reason}`).join('; ');
      throw new PassingError(`no server accepts writes (${all})`, { cause: error });
    }
  }
}

/** A pool whose connections are to whichever host takes writes. */
class Pool extends pg.Pool {
  readonly #servers: Servers;
  readonly #size: number;

  constructor(servers: Servers, config: pg.PoolConfig & { readonly max: number }) {
    class Client extends pg.Client {
      constructor(common?: pg.ClientConfig) {
        super({ ...common, ...servers.config() });
      }
    }
    super({ ...config, Client });
    this.#servers = servers;
    this.#size = config.max;
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(callback: Connected): void;
  override connect(callback?: Connected): Promise<pg.PoolClient> | undefined {
    if (callback === undefined) return this.#connect();
    void this.#answer(callback);
    return undefined;
  }

  #connect(): Promise<pg.PoolClient> {
    // Where all connections are in use for too long, another host is no help.
    const isFull = () => this.totalCount >= this.#size;
    return connectAny(this.#servers, () => super.connect(), isFull);
  }

  async #answer(callback: Connected): Promise<void> {
    const client = await this.#connect().catch((error: unknown) => asError(error));
    if (client instanceof Error) callback(client, undefined, () => undefined);
    else callback(undefined, client, (error) => client.release(error));
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

type Connected = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  done: (release?: Error | boolean) => void,
) => void;

/** The pool of the one connection that migrations run on; the address is that of the server itself. */
export function createMigrationPool(url: string): pg.Pool {
  return openPool({ url, size: 1, patience: OF_MIGRATIONS, begin: setSession });
}

/** The pool of a store. */
export function createStorePool({ url, poolSize = DEFAULT_POOL_SIZE, prepare = true }: PostgresOptions): pg.Pool {
  return openPool({ url, size: poolSize, patience: OF_POOL, begin: prepare ? setSession : checkRole });
}

interface PoolParts {
  readonly url: string;
  readonly size: number;
  readonly patience: Patience;
  /** What a connection begins with. */
  readonly begin: (client: pg.ClientBase, patience: Patience) => Promise<void>;
}

/** A connection that breaks fails the query that needs it and is replaced; it ends nothing else. */
function openPool({ url, size, patience, begin }: PoolParts): pg.Pool {
  const pool = new Pool(new Servers(url, patience.connect), {
    ...settingsOf(patience),
    connectionTimeoutMillis: patience.connect,
    max: size,
    // A query is sent without waiting for the answer to the one before.
    pipeline: true,
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, which its types do not say
    onConnect: (client) => begin(client, patience),
  });
  // The pool replaces an idle connection that breaks; whatever runs on one rejects by itself.
  pool.on('error', () => undefined);
  // Between two statements nobody else listens.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/**
 * A connection of its own to the server itself, which is expected to answer at once. The caller ends it. Rejects where it
 * cannot be made.
 */
export function connectClient(url: string): Promise<pg.Client> {
  const servers = new Servers(url, OF_CLIENT.connect);
  return connectAny(servers, async () => {
    const client = new pg.Client({ ...settingsOf(OF_CLIENT), ...servers.config() });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await setSession(client, OF_CLIENT);
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
  });
}

/**
 * Throws UserError where the address is that of a pooler which gives every transaction another connection: what is prepared,
 * set or listened to on one would be lost.
 */
export async function refuseTransactionPooling(url: string): Promise<void> {
  const [one, other] = [await connectClient(url), await connectClient(url)];
  try {
    const first = await backendOf(one);
    await other.query('BEGIN');
    const second = await backendOf(other);
    if (first !== second && first === (await backendOf(one))) return;
  } finally {
    await Promise.all([one, other].map((client) => client.end().catch(() => undefined)));
  }
  throw new UserError(
    'it is reached through a connection pooler in transaction mode: set database.prepare: false, and database.listen_url to the server itself (docs/cluster.md)',
  );
}

async function backendOf(client: pg.ClientBase): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return rows[0]?.pid;
}

interface Server {
  readonly fsync: string;
  readonly is_standby: boolean;
  readonly read_only: string;
}

const SERVER = `
  current_setting('fsync') AS fsync,
  pg_is_in_recovery() AS is_standby,
  current_setting('transaction_read_only') AS read_only`;

/**
 * The session's settings. A commit waits for the disk, whatever the server's configuration says. The server ends a session
 * that says nothing for too long, as we close one on which nothing moves: a machine or a network that is gone would keep it,
 * and its locks, for the two hours of TCP, until the server has no connection left.
 */
async function setSession(client: pg.ClientBase, { statement, lock, silence }: Patience): Promise<void> {
  const { rows } = await client.query<Server>(`
    SELECT set_config('statement_timeout', '${statement}', false),
           set_config('idle_in_transaction_session_timeout', '${statement}', false),
           set_config('idle_session_timeout', '${silence}', false),
           set_config('tcp_user_timeout', '${silence}', false),
           set_config('lock_timeout', '${lock}', false),
           set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
             ELSE current_setting('synchronous_commit') END, false), ${SERVER}`);
  checkServer(rows[0]);
}

interface Role {
  readonly role: string;
  readonly statement_timeout: string;
  readonly idle_timeout: string;
  readonly synchronous_commit: string;
}

/** A pooler gives a session away after each transaction, so that the settings are those of the role. */
async function checkRole(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<Server & Role>(`
    SELECT current_user AS role, current_setting('statement_timeout') AS statement_timeout,
           current_setting('idle_in_transaction_session_timeout') AS idle_timeout,
           current_setting('synchronous_commit') AS synchronous_commit, ${SERVER}`);
  checkServer(rows[0]);
  const [{ role, statement_timeout: statement, idle_timeout: idle, synchronous_commit: commit }] = rows;
  const missing = [
    statement === '0' ? "statement_timeout = '10s'" : '',
    idle === '0' ? "idle_in_transaction_session_timeout = '10s'" : '',
    commit === 'off' ? 'synchronous_commit = on' : '',
  ].filter((setting) => setting !== '');
  if (missing.length === 0) return;
  const statements = missing.map((setting) => `ALTER ROLE ${role} SET ${setting};`).join(' ');
  throw new UserError(`with database.prepare: false, its role needs these settings: ${statements}`);
}

function checkServer(server: Server | undefined): asserts server {
  if (server === undefined || server.is_standby) {
    throw new PassingError('the server is a standby, which accepts no writes');
  }
  if (server.read_only !== 'off') {
    throw new PassingError('the server does not let this user write: set default_transaction_read_only=off');
  }
  if (server.fsync !== 'on') {
    throw new UserError(
      'the server runs with fsync=off and would lose accepted mail in a power failure: set fsync=on in postgresql.conf',
    );
  }
}
