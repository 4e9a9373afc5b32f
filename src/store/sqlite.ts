/** The SQLite store as a thread sees it: reads on its own read-only connection, writes through the store thread. */
import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import type Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { TurnBatch } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { openForReading } from './sqlite-connection.ts';
import type { Answer, FromClient, Outcome, Prepared, ToClient, UnitCall } from './sqlite-thread.ts';
import {
  createCompiler,
  type CompiledStatement,
  type Definition,
  type Result,
  type Statement,
  type Value,
} from './statement.ts';
import {
  OUTCOME_UNKNOWN,
  ROW_BLOBS,
  StoreError,
  UnknownOutcomeError,
  UnmetError,
  type Results,
  type Store,
  type StoreHandle,
  type Unit,
} from './store.ts';
import type { Tables } from './tables.ts';

/** Starts the store thread for this file and opens the store in the calling thread; the caller holds the lock. */
export async function createSqliteStore(path: string): Promise<Store> {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL('./sqlite-thread.ts', import.meta.url), {
    workerData: { path, port: port2 },
    transferList: [port2],
    name: 'store',
  });
  const failed = once(worker, 'error').then(([error]: unknown[]) => {
    throw error;
  });
  await Promise.race([once(port1, 'message'), failed]);
  failed.catch((error: unknown) => {
    // Without its store the daemon can promise nothing; systemd starts it again and the queue goes on.
    process.nextTick(() => {
      throw error;
    });
  });
  return openClient(path, port1, async () => {
    const exited = once(worker, 'exit');
    port1.postMessage({ close: true } satisfies FromClient);
    await exited;
  });
}

/** Opens the store in another thread, with the handle that `share()` gave. */
export function connectSqliteStore(path: string, port: MessagePort): Store {
  return openClient(path, port, () => {
    port.close();
    return Promise.resolve();
  });
}

const WRITES_ACCOUNTS = /^(?:insert into|update|delete from) "?(?:api_keys|tenants)\b/;
/** So many units go to the store thread without waiting for the end of the turn: both threads then work (bench row 1: a fifth). */
const AT_ONCE = 16;

/** A statement as the store thread knows it. */
interface Known {
  readonly statement: number;
  readonly compiled: CompiledStatement;
  /** Whether it writes keys or tenants. */
  readonly ofAccounts: boolean;
}

interface Settle {
  /** What its end adds to the version of accounts. */
  readonly step: number;
  resolve(results: readonly Result[]): void;
  reject(error: Error): void;
}

/** Opens the store of a file that nobody writes to here, whether a daemon runs or not. */
export function openSqliteReader(path: string): Store {
  const { database, read, select } = readerOf(path);
  return {
    dialect: 'sqlite',
    read,
    blobs: ROW_BLOBS,
    select,
    write: () => Promise.reject(new StoreError('the database is open read-only', 'SQLITE_READONLY')),
    accountVersion: () => undefined,
    notify: () => Promise.resolve(),
    listen: () => () => Promise.resolve(),
    share() {
      throw new Error('a store that is open read-only is not shared');
    },
    close() {
      database.close();
      return Promise.resolve();
    },
  };
}

/** A connection for reading, and what reads through it. */
function readerOf(path: string) {
  const database = openForReading(path);
  const read = new Kysely<Tables>({ dialect: new SqliteDialect({ database }) });
  const compile = createCompiler(read, 'sqlite');
  const prepared = new Map<string, Database.Statement>();

  function select<Row>(statement: Statement<Row>): Promise<Row[]> {
    const { sql, bind } = compile(statement.definition);
    let query = prepared.get(sql);
    if (query === undefined) prepared.set(sql, (query = database.prepare(sql)));
    return Promise.resolve(query.all(...bind(statement.values, [])) as Row[]);
  }

  return { database, read, compile, select };
}

function openClient(path: string, port: MessagePort, end: () => Promise<void>): Store {
  const { database, read, compile, select } = readerOf(path);
  const known = new Map<Definition, Known>();
  /** Whoever waits for an answer, by the id of the unit. */
  const pending = new Map<number, Settle>();
  let lastId = 0;
  let define: Prepared[] = [];
  let accountVersion = 0;

  const batch = new TurnBatch<UnitCall>((units) => {
    port.postMessage({ define, units } satisfies FromClient);
    define = [];
  }, AT_ONCE);
  port.on('message', (message: ToClient) => {
    if ('answers' in message) for (const answer of message.answers) settle(answer);
  });

  function settle(answer: Answer): void {
    const waiting = pending.get(answer.id);
    if (waiting === undefined) return;
    pending.delete(answer.id);
    accountVersion += waiting.step;
    if ('outcomes' in answer) return waiting.resolve(answer.outcomes.map(asResult));
    const { message, code } = answer.failure;
    waiting.reject(failureOf(message, code));
  }

  function knownOf(definition: Definition): Known {
    const found = known.get(definition);
    if (found !== undefined) return found;
    const compiled = compile(definition);
    const made = { statement: known.size, compiled, ofAccounts: WRITES_ACCOUNTS.test(compiled.sql) };
    known.set(definition, made);
    define.push({ sql: compiled.sql, parameters: compiled.parameters });
    return made;
  }

  return {
    dialect: 'sqlite',
    read,
    blobs: ROW_BLOBS,
    write<const U extends Unit>(unit: U) {
      return new Promise<Results<U>>((resolve, reject) => {
        let step = 0;
        const id = ++lastId;
        const call: (Value | undefined)[] = [id];
        for (const { definition, values, expect } of unit) {
          const { statement, compiled, ofAccounts } = knownOf(definition);
          if (ofAccounts) step = 1;
          call.push(statement, expect);
          compiled.bind(values, call);
        }
        accountVersion += step;
        // No function of ours: it would hold on to the unit while the disk writes (a third of what a post leaves in the old heap).
        pending.set(id, { step, resolve: resolve as Settle['resolve'], reject });
        batch.add(call);
      });
    },
    select,
    accountVersion: () => accountVersion,
    // One daemon alone has the file.
    notify: () => Promise.resolve(),
    listen: () => () => Promise.resolve(),
    share(): StoreHandle {
      const { port1, port2 } = new MessageChannel();
      port.postMessage({ client: port2 } satisfies FromClient, [port2]);
      return { dialect: 'sqlite', path, port: port1 };
    },
    async close() {
      await end();
      // Not Kysely's destroy(): it closes nothing through which it has read nothing itself.
      database.close();
    },
  };
}

function failureOf(message: string, code: string): Error {
  switch (code) {
    case 'UNMET':
      return new UnmetError(message);
    case OUTCOME_UNKNOWN:
      return new UnknownOutcomeError(`it is unknown whether the transaction was committed: ${message}`);
    default:
      return new StoreError(message, code);
  }
}

function asResult(outcome: Outcome): Result {
  return typeof outcome === 'number' ? { rows: [], changes: outcome } : { rows: [...outcome], changes: outcome.length };
}

/** How long what is known of the disk counts, ms. */
const FREE_SPACE_MS = 1000;

export interface FreeSpace {
  /** Whether less than `least` bytes are free, as of a second ago at most while requests come. */
  below(least: number): boolean;
}

/**
 * Watches the file system of `path`, so that below the low-water mark nothing is accepted, before it is really full; on
 * PostgreSQL there is none of ours to watch.
 */
export function watchFreeSpace(path: string | undefined, { clock, log }: { clock: Clock; log: Log }): FreeSpace {
  if (path === undefined) return { below: () => false };
  const folder = dirname(path);
  const first = statfsSync(folder);
  let free = first.bavail * first.bsize;
  let asked = clock.monotonic();
  let asking = false;

  async function ask(): Promise<void> {
    asking = true;
    try {
      const { bavail, bsize } = await statfs(folder);
      free = bavail * bsize;
    } catch (error) {
      log.error('disk.not_known', { folder, ...errorFields(error) });
    } finally {
      asked = clock.monotonic();
      asking = false;
    }
  }

  return {
    below(least) {
      if (!asking && clock.monotonic() - asked >= FREE_SPACE_MS) void ask();
      return free < least;
    },
  };
}
