/** The SQLite store as a thread sees it: reads on its own read-only connection, writes through the store thread. */
import { once } from 'node:events';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import type Database from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { TurnBatch } from '../lib/batch.ts';
import { openForReading } from './sqlite-connection.ts';
import {
  packUnit,
  unpackAnswers,
  type Answer,
  type Call,
  type FromClient,
  type Outcome,
  type ToClient,
  type UnitCall,
} from './sqlite-protocol.ts';
import { Compiler, type Definition, type Result, type Statement, type Value } from './statement.ts';
import { StoreError, UnmetError, type Results, type Store, type StoreHandle, type Unit } from './store.ts';
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

const WRITES_ACCOUNTS = /^(?:insert into|update|delete from) "(?:api_keys|tenants)"/;
/** So many units go to the store thread without waiting for the end of the turn: the two then work side by side. */
const AT_ONCE = 16;

interface Settle {
  resolve(results: readonly Result[]): void;
  reject(error: Error): void;
}

function openClient(path: string, port: MessagePort, end: () => Promise<void>): Store {
  const database = openForReading(path);
  const read = new Kysely<Tables>({ dialect: new SqliteDialect({ database }) });
  const compiler = new Compiler(read, 'sqlite');
  const prepared = new Map<string, Database.Statement>();
  const numbers = new Map<Definition, number>();
  const pending = new Map<number, Settle>();
  let define: [number, string][] = [];
  /** Of the statements that write keys or tenants. */
  const ofAccounts = new Set<number>();
  let accountVersion = 0;
  let nextUnit = 0;

  const batch = new TurnBatch<UnitCall>((calls) => {
    const units: Value[] = [];
    for (const unit of calls) packUnit(unit, units);
    port.postMessage({ define, units } satisfies FromClient);
    define = [];
  }, AT_ONCE);
  port.on('message', (message: ToClient) => {
    if ('answers' in message) for (const answer of unpackAnswers(message.answers)) settle(answer);
  });

  function settle(answer: Answer): void {
    const waiting = pending.get(answer.id);
    pending.delete(answer.id);
    if (waiting === undefined) return;
    if ('outcomes' in answer) return waiting.resolve(answer.outcomes.map(asResult));
    const { message, code } = answer.failure;
    waiting.reject(code === 'UNMET' ? new UnmetError(message) : new StoreError(message, code));
  }

  function call(statement: Statement): Call {
    const { sql, bind } = compiler.compile(statement.definition);
    const parameters = bind(statement.values);
    let number = numbers.get(statement.definition);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(statement.definition, number);
      define.push([number, sql]);
      if (WRITES_ACCOUNTS.test(sql)) ofAccounts.add(number);
    }
    return { statement: number, expect: statement.expect, parameters };
  }

  return {
    dialect: 'sqlite',
    read,
    write<const U extends Unit>(unit: U) {
      return new Promise<Results<U>>((resolve, reject) => {
        const id = nextUnit++;
        const calls = unit.map(call);
        const step = calls.some(({ statement }) => ofAccounts.has(statement)) ? 1 : 0;
        accountVersion += step;
        pending.set(id, {
          resolve(results) {
            accountVersion += step;
            resolve(results as Results<U>);
          },
          reject(error) {
            accountVersion += step;
            reject(error);
          },
        });
        batch.add({ id, calls });
      });
    },
    select<Row>(statement: Statement<Row>) {
      const { sql, bind } = compiler.compile(statement.definition);
      let query = prepared.get(sql);
      if (query === undefined) prepared.set(sql, (query = database.prepare(sql)));
      return Promise.resolve(query.all(...bind(statement.values)) as Row[]);
    },
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

function asResult(outcome: Outcome): Result {
  return typeof outcome === 'number' ? { rows: [], changes: outcome } : { rows: [...outcome], changes: outcome.length };
}
