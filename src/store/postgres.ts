/** The same store on PostgreSQL: a unit is a transaction on a pooled connection, hot statements are named and kept. */
import { createHash } from 'node:crypto';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { codeOf, messageOf } from '../lib/errors.ts';
import { createNotices } from './postgres-notices.ts';
import { Compiler, type Result, type Statement } from './statement.ts';
import { StoreError, UnmetError, type Results, type Store, type Unit } from './store.ts';
import type { Tables } from './tables.ts';

const INT8 = 20;
/** Two units that lock the same rows in opposite order: PostgreSQL undoes one of them, which then simply goes again. */
const DEADLOCK = '40P01';
const MOST_TRIES = 5;

/**
 * A pool that gives int8 as numbers: all of ours are times in ms or counts, far below 2^53. A connection that breaks fails
 * the query that needs it and is replaced; it ends nothing else, wherever in a transaction that happens.
 */
export function createPool(url: string, size: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: size,
    connectionTimeoutMillis: 10_000,
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary'): unknown =>
        oid === INT8 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  // The pool replaces an idle connection that breaks; whatever runs on one rejects by itself.
  pool.on('error', () => undefined);
  // Between two statements nobody else listens.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

/** Opens the store in this thread; every thread and every daemon has its own pool. */
export function openPostgresStore(url: string): Store {
  const pool = createPool(url, 10);
  const read = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  const compiler = new Compiler(read, 'postgres');
  const names = new Map<string, string>();

  async function run(client: pg.Pool | pg.PoolClient, statement: Statement): Promise<Result> {
    const { sql, bind } = compiler.compile(statement.definition);
    let name = names.get(sql);
    if (name === undefined) names.set(sql, (name = createHash('sha256').update(sql).digest('hex').slice(0, 32)));
    const { rows, rowCount } = await client.query({ name, text: sql, values: bind(statement.values) });
    return { rows, changes: rowCount ?? 0 };
  }

  async function transact(unit: Unit): Promise<Result[]> {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const results: Result[] = [];
      for (const statement of unit) {
        const result = await run(client, statement);
        if (statement.expect !== undefined && result.changes !== statement.expect) {
          throw new UnmetError(`expected ${statement.expect} rows, not ${result.changes}`);
        }
        results.push(result);
      }
      await client.query('COMMIT');
      client.release();
      return results;
    } catch (error) {
      await client.query('ROLLBACK').then(
        () => client.release(),
        (broken: Error) => client.release(broken),
      );
      throw error;
    }
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
      const { rows } = await run(pool, statement).catch((error: unknown) => {
        throw asStoreError(error);
      });
      return rows as Row[];
    },
    ...createNotices(url, pool),
    accountVersion: () => undefined,
    share: () => ({ dialect: 'postgres', url }),
    // Not Kysely's destroy(): it ends no pool through which it has sent nothing itself.
    close: () => pool.end(),
  };
}

function asStoreError(error: unknown): StoreError {
  return new StoreError(messageOf(error), codeOf(error) ?? 'STORE_FAILED', { cause: error });
}
