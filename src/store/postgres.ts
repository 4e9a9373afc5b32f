/**
 * The same store on PostgreSQL: a unit is a transaction on a pooled connection, hot statements are named and kept. Where
 * the reply to a COMMIT is lost, the transaction's own number tells on another connection what became of it.
 */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Kysely, PostgresDialect } from 'kysely';
import type pg from 'pg';
import { systemClock } from '../lib/clock.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { connectClient, createStorePool, type PostgresOptions } from './postgres-connection.ts';
import { createCompiler, type Result, type Statement } from './statement.ts';
import {
  StoreError,
  UnknownOutcomeError,
  UnmetError,
  type Results,
  type Store,
  type Listener,
  type Notices,
  type Topic,
  type Unit,
} from './store.ts';
import type { Tables } from './tables.ts';

/** Two units that lock the same rows in opposite order: PostgreSQL undoes one of them, which then simply goes again. */
const DEADLOCK = '40P01';
const MOST_TRIES = 5;
/** For so long it is asked what became of a transaction, ms. */
const FIND_OUT_MS = 10_000;
const ASK_EVERY_MS = 250;

/** Opens the store in this thread; every thread and every daemon has its own pool. */
export function openPostgresStore(options: PostgresOptions): Store {
  const { prepare = true } = options;
  /** The server itself. */
  const url = options.listenUrl ?? options.url;
  const pool = createStorePool(options);
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const compile = createCompiler(read, 'postgres');
  const names = new Map<string, string>();
  /** Rises when a newer version has changed what prepared statements answer. */
  let generation = 0;

  async function run(client: pg.Pool | pg.PoolClient, statement: Statement): Promise<Result> {
    const { sql, bind } = compile(statement.definition);
    if (!prepare) {
      const { rows, rowCount } = await client.query({ text: sql, values: bind(statement.values, []) });
      return { rows, changes: rowCount ?? 0 };
    }
    let name = names.get(sql);
    if (name === undefined)
      names.set(sql, (name = createHash('sha256').update(`${generation} ${sql}`).digest('hex').slice(0, 32)));
    const { rows, rowCount } = await client.query({ name, text: sql, values: bind(statement.values, []) });
    return { rows, changes: rowCount ?? 0 };
  }

  async function transact(unit: Unit): Promise<Result[]> {
    const client = await pool.connect();
    const results: Result[] = [];
    let transaction: string;
    try {
      transaction = numberOf(await client.query('BEGIN; SELECT pg_current_xact_id()::text AS id'));
      for (const statement of unit) {
        const result = await run(client, statement);
        if (statement.expect !== undefined && result.changes !== statement.expect) {
          throw new UnmetError(`expected ${statement.expect} rows, not ${result.changes}`);
        }
        results.push(result);
      }
    } catch (error) {
      await giveUp(client, error);
      throw error;
    }
    try {
      await client.query('COMMIT');
    } catch (error) {
      client.release(true);
      if (!(await wasCommitted(url, transaction, error))) throw error;
      return results;
    }
    client.release();
    return results;
  }

  return {
    dialect: 'postgres',
    read,
    async write<const U extends Unit>(unit: U) {
      for (let tries = 1; ; tries++) {
        try {
          return (await transact(unit)) as Results<U>;
        } catch (error) {
          if (error instanceof UnmetError) throw error;
          if (tries === MOST_TRIES || codeOf(error) !== DEADLOCK) throw asStoreError(error);
        }
      }
    },
    async select<Row>(statement: Statement<Row>) {
      const { rows } = await run(pool, statement)
        .catch((error: unknown) => {
          if (!isStalePlan(error)) throw error;
          generation++;
          names.clear();
          return run(pool, statement);
        })
        .catch((error: unknown) => {
          throw asStoreError(error);
        });
      return rows as Row[];
    },
    ...createNotices(url, pool),
    accountVersion: () => undefined,
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
    }),
    share: () => ({ dialect: 'postgres', options }),
    // Not Kysely's destroy(): it ends no pool through which it has sent nothing itself.
    close: () => pool.end(),
  };
}

/** A newer version has added a column to a table of which a prepared statement selects all. */
function isStalePlan(error: unknown): boolean {
  return codeOf(error) === '0A000' && /cached plan must not change/.test(messageOf(error));
}

/** The number in the second of the two results. */
function numberOf(results: unknown): string {
  const [, { rows }] = results as [unknown, pg.QueryResult<{ id: string }>];
  const [row] = rows;
  if (row === undefined) throw new Error('the server has given the transaction no number');
  return row.id;
}

/** Ends a transaction that was not committed; where the server did not answer, with its connection. */
async function giveUp(client: pg.PoolClient, error: unknown): Promise<void> {
  const hasAnswered = error instanceof UnmetError || /^[0-9A-Z]{5}$/.test(codeOf(error) ?? '');
  if (!hasAnswered) return client.release(true);
  await client.query('ROLLBACK').then(
    () => client.release(),
    () => client.release(true),
  );
}

/**
 * Whether a transaction was committed whose COMMIT has failed with this error. One that still waits on a connection which
 * nobody has any more is ended. Throws UnknownOutcomeError where the server cannot be asked in time.
 */
async function wasCommitted(url: string, transaction: string, cause: unknown): Promise<boolean> {
  const until = systemClock.monotonic() + FIND_OUT_MS;
  let why = messageOf(cause);
  while (systemClock.monotonic() < until) {
    try {
      const status = await statusOf(url, transaction);
      if (status === 'committed') return true;
      if (status === 'aborted') return false;
    } catch (error) {
      why = messageOf(error);
    }
    await systemClock.sleep(ASK_EVERY_MS);
  }
  throw new UnknownOutcomeError(`whether the transaction was committed could not be found out: ${why}`, { cause });
}

async function statusOf(url: string, transaction: string): Promise<string | null | undefined> {
  const client = await connectClient(url);
  try {
    const { rows } = await client.query<{ status: string | null }>('SELECT pg_xact_status($1::text::xid8) AS status', [
      transaction,
    ]);
    const status = rows[0]?.status;
    if (status === 'in progress') {
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = ($1::text::xid8)::xid',
        [transaction],
      );
    }
    return status;
  } finally {
    await client.end().catch(() => undefined);
  }
}

function asStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  return new StoreError(messageOf(error), codeOf(error) ?? 'STORE_FAILED', { cause: error });
}

const CHANNEL = 'postern';
/** Before a connection that broke is made again, ms. */
const PAUSE_MS = 1000;
/** So often the server is asked whether it is there: nobody else notices that it says nothing any more. */
const HEARTBEAT_MS = 3000;
/** Whoever holds this advisory lock leads. */
const LEAD = "SELECT pg_try_advisory_lock(hashtext('postern jobs')) AS leads";
const ALIVE = 'SELECT true AS leads';
/** The server ends a session that says nothing more, and gives its lock to another: of a process that was stopped, of a machine that is gone. */
const WITNESS = "SELECT set_config('idle_session_timeout', '10s', false), set_config('tcp_user_timeout', '10s', false)";

/**
 * Word between the daemons that share a database, by LISTEN and NOTIFY. It is quick and not certain: a connection that
 * breaks is made again, and what was said meanwhile is lost, so that whoever listens also looks from time to time. What
 * `notify` says is not heard by the one who said it.
 */
function createNotices(url: string, pool: pg.Pool): Notices {
  const self = randomUUID();

  async function notify(topic: Topic): Promise<void> {
    await pool.query('SELECT pg_notify($1, $2)', [CHANNEL, `${self} ${topic}`]);
  }

  function listen(listener: Listener): () => Promise<void> {
    const stop = new AbortController();
    const listening = keepListening(listener, stop.signal);
    return async () => {
      stop.abort();
      await listening;
    };
  }

  async function keepListening(listener: Listener, signal: AbortSignal): Promise<void> {
    let isLost = false;
    while (!signal.aborted) {
      try {
        await listenOnce(listener, signal);
      } catch (error) {
        if (!isLost && !signal.aborted) listener.onLost(error);
        isLost = true;
      }
      if (!signal.aborted) await systemClock.sleep(PAUSE_MS, signal);
    }

    /** Rejects when the connection breaks; resolves when nobody listens any more. */
    async function listenOnce({ hear, onConnected, onLead }: Listener, ending: AbortSignal): Promise<void> {
      const client = await connectClient(url);
      const broken = once(client, 'end').then(() => {
        throw new Error('the connection was cut');
      });
      client.on('notification', ({ payload = '' }) => {
        const [from, topic] = payload.split(' ');
        if (from !== self && (topic === 'config' || topic === 'queue')) hear(topic);
      });
      try {
        await Promise.race([client.query(`LISTEN ${CHANNEL}`), broken]);
        await Promise.race([client.query(WITNESS), broken]);
        isLost = false;
        onConnected();
        let isLeading = false;
        while (!ending.aborted) {
          const answer: Promise<pg.QueryResult<{ leads: boolean }>> = client.query(isLeading ? ALIVE : LEAD);
          const leads: boolean = (await Promise.race([answer, broken])).rows[0]?.leads ?? false;
          if (!isLeading && leads) onLead();
          isLeading = leads;
          await Promise.race([systemClock.sleep(HEARTBEAT_MS, ending), broken]);
        }
      } finally {
        broken.catch(() => undefined);
        await client.end().catch(() => undefined);
      }
    }
  }

  return { notify, listen };
}
