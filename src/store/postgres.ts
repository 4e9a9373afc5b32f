/**
 * The same store on PostgreSQL: units are transactions on pooled connections (postgres-writer.ts), and statements are named
 * and kept. Where the reply to a COMMIT is lost, the transaction's own number tells on another connection what became of it.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Kysely, PostgresDialect } from 'kysely';
import type pg from 'pg';
import { systemClock } from '../lib/clock.ts';
import { codeOf, messageOf } from '../lib/errors.ts';
import { connectClient, createStorePool, type PostgresOptions } from './postgres-connection.ts';
import { asStoreError, createWriter, Queries, HISTORY, type TransactionId } from './postgres-writer.ts';
import { createCompiler, type Statement } from './statement.ts';
import { ROW_BLOBS, UnknownOutcomeError, type Store, type Listener, type Notices, type Topic } from './store.ts';
import type { Tables } from './tables.ts';

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
  const queries = new Queries(createCompiler(read, 'postgres'), { named: prepare });

  function isCommitted(transaction: TransactionId, cause: unknown): Promise<boolean> {
    return wasCommitted(url, transaction, cause);
  }

  return {
    dialect: 'postgres',
    read,
    blobs: ROW_BLOBS,
    write: createWriter({ pool, queries, wasCommitted: isCommitted }),
    async select<Row>({ definition, values }: Statement<Row>) {
      const { rows } = await pool
        .query(queries.of(definition, values))
        .catch((error: unknown) => {
          if (!isStalePlan(error)) throw error;
          queries.rename();
          return pool.query(queries.of(definition, values));
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

/**
 * Whether a transaction was committed whose COMMIT has failed with this error. One that still waits on a connection which
 * nobody has any more is ended. Throws UnknownOutcomeError where the server cannot be asked in time, has crashed since, or
 * another has taken its place.
 */
async function wasCommitted(url: string, transaction: TransactionId, cause: unknown): Promise<boolean> {
  const until = systemClock.monotonic() + FIND_OUT_MS;
  let why = messageOf(cause);
  while (systemClock.monotonic() < until) {
    try {
      const status = await statusOf(url, transaction);
      if (status === 'committed') return true;
      if (status === 'aborted') return false;
      if (status === 'in another history') {
        why = 'the server has crashed since, or another one accepts writes';
        break;
      }
    } catch (error) {
      why = messageOf(error);
    }
    await systemClock.sleep(ASK_EVERY_MS);
  }
  throw new UnknownOutcomeError(`it is unknown whether the transaction was committed: ${why}`, { cause });
}

async function statusOf(url: string, { xid, history }: TransactionId): Promise<string | null | undefined> {
  const client = await connectClient(url);
  try {
    const asked = await client.query<{ history: string }>(`SELECT ${HISTORY} AS history`);
    // A standby that was promoted gives out again the numbers of transactions that it had not received, and a server that has
    // crashed those of which nothing was on its disk.
    if (asked.rows[0]?.history !== history) return 'in another history';
    const { rows } = await client.query<{ status: string | null }>('SELECT pg_xact_status($1::text::xid8) AS status', [
      xid,
    ]);
    const status = rows[0]?.status;
    if (status === 'in progress') {
      // What waits for a standby has been written here: ended, it would pass for committed.
      await client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE backend_xid = ($1::text::xid8)::xid AND wait_event IS DISTINCT FROM 'SyncRep'`,
        [xid],
      );
    }
    // Nor does a restart leave a trace of what waited: what comes after it is with the standby once this is.
    if (status === 'committed') await client.query("SELECT pg_logical_emit_message(true, 'postern', '')");
    return status;
  } finally {
    await client.end().catch(() => undefined);
  }
}

const CHANNEL = 'postern';
/** Before a connection that broke is made again, ms. */
const PAUSE_MS = 1000;
/** So often the server is asked whether it is there: nobody else notices that it says nothing any more. */
const HEARTBEAT_MS = 3000;
/** Whoever holds this advisory lock leads. */
const LEAD = "SELECT pg_try_advisory_lock(hashtext('postern jobs')) AS leads";
const ALIVE = 'SELECT true AS leads';

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
