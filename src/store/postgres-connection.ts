/**
 * How every connection to PostgreSQL is opened. Nothing waits for a connection that has died without a word: the server
 * ends a statement that takes too long, and a connection on which nothing moves for a little longer is cut and replaced.
 * A server that would lose what it has acknowledged in a power cut is refused.
 */
import { Socket } from 'node:net';
import pg from 'pg';
import { PassingError, UserError } from '../lib/errors.ts';

const INT8 = 20;
const KEEP_ALIVE_MS = 5000;

/** How long what may take, ms. */
interface Patience {
  /** To get a connection. */
  readonly connect: number;
  /** A statement; 0: without end. */
  readonly statement: number;
  /** A connection on which nothing moves: longer than a statement, and than the pool keeps an idle one. 0: without end. */
  readonly silence: number;
}

const OF_POOL: Patience = { connect: 10_000, statement: 10_000, silence: 12_000 };
/** Migrations take as long as they take. */
const OF_MIGRATIONS: Patience = { connect: 10_000, statement: 0, silence: 0 };
const OF_CLIENT: Patience = { connect: 3000, statement: 4000, silence: 6000 };

/** What all connections to this server have in common. int8 is read as a number: all of ours are times in ms or counts. */
function settingsOf(url: string, { connect, silence }: Patience) {
  return {
    connectionString: url,
    connectionTimeoutMillis: connect,
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

/** A pool. A connection that breaks fails the query that needs it and is replaced; it ends nothing else. */
export function createPool(url: string, size: number): pg.Pool {
  return openPool(url, size, OF_POOL);
}

/** The same for the one connection that migrations run on. */
export function createMigrationPool(url: string): pg.Pool {
  return openPool(url, 1, OF_MIGRATIONS);
}

function openPool(url: string, size: number, patience: Patience): pg.Pool {
  const pool = new pg.Pool({
    ...settingsOf(url, patience),
    max: size,
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, which its types do not say
    onConnect: (client) => prepare(client, patience),
  });
  // The pool replaces an idle connection that breaks; whatever runs on one rejects by itself.
  pool.on('error', () => undefined);
  // Between two statements nobody else listens.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** A connection of its own, which is expected to answer at once. The caller ends it. Rejects where it cannot be made. */
export async function connectClient(url: string): Promise<pg.Client> {
  const client = new pg.Client(settingsOf(url, OF_CLIENT));
  client.on('error', () => undefined);
  try {
    await client.connect();
    await prepare(client, OF_CLIENT);
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
}

interface Server {
  readonly fsync: string;
  readonly is_standby: boolean;
  readonly read_only: string;
}

/** The session's settings. A commit waits for the disk, whatever the server's configuration says. */
async function prepare(client: pg.ClientBase, { statement }: Patience): Promise<void> {
  const { rows } = await client.query<Server>(`
    SELECT set_config('statement_timeout', '${statement}', false),
           set_config('idle_in_transaction_session_timeout', '${statement}', false),
           set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
             ELSE current_setting('synchronous_commit') END, false),
           current_setting('fsync') AS fsync,
           pg_is_in_recovery() AS is_standby,
           current_setting('transaction_read_only') AS read_only`);
  const [server] = rows;
  if (server === undefined || server.is_standby) {
    throw new PassingError('the server is a standby, which takes no writes');
  }
  if (server.read_only !== 'off') {
    throw new PassingError('the server is read-only for us: set default_transaction_read_only=off');
  }
  if (server.fsync !== 'on') {
    throw new UserError(
      'the server runs with fsync=off and would lose accepted mail in a power cut: set fsync=on in postgresql.conf',
    );
  }
}
