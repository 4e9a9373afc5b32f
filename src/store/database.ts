/** Opens the database that `database.url` names: migrated to today's schema, locked where one daemon alone may have it. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, resolve } from 'node:path';
import { Kysely, PostgresDialect, SqliteAdapter, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { PassingError, UserError, codeOf, messageOf } from '../lib/errors.ts';
import { migrationsFor } from './migrations/index.ts';
import { createPool, openPostgresStore } from './postgres.ts';
import { holdLock, openForWriting } from './sqlite-connection.ts';
import { connectSqliteStore, createSqliteStore } from './sqlite.ts';
import type { Store, StoreHandle } from './store.ts';

/** Opens the store for the daemon. `url` is `sqlite:/path` or `postgres://…`. Throws UserError where it cannot be. */
export async function createStore(url: string): Promise<Store> {
  try {
    const file = databaseFile(url);
    if (file === undefined) {
      await migrate(new Kysely({ dialect: new PostgresDialect({ pool: createPool(url, 1) }) }), 'postgres');
      return openPostgresStore(url);
    }
    return await createLocked(resolve(file));
  } catch (error) {
    const what = `the database ${withoutPassword(url)} cannot be opened: ${messageOf(error)}`;
    if (isPassing(error)) throw new PassingError(what, { cause: error });
    const file = databaseFile(url);
    const isOurs = file !== undefined && isForbidden(error);
    throw new UserError(isOurs ? `${what} (${whoMustWrite(file)})` : what, { cause: error });
  }
}

/** The file behind `sqlite:/path`; undefined where the database is a server's. */
export function databaseFile(url: string): string | undefined {
  return url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;
}

const SQLITE = 'sqlite:';

const PASSING = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOSPC',
  'SQLITE_FULL',
  'SQLITE_BUSY',
  // PostgreSQL: starting up or shutting down, and too many connections.
  '57P03',
  '53300',
]);

/** A server that is not up yet, a disk without room, a daemon that has not ended yet. */
function isPassing(error: unknown): boolean {
  return causesOf(error).some((cause) => cause instanceof PassingError || PASSING.has(codeOf(cause) ?? ''));
}

function isForbidden(error: unknown): boolean {
  const codes = ['EACCES', 'EPERM', 'EROFS', 'SQLITE_CANTOPEN', 'SQLITE_READONLY'];
  return causesOf(error).some((cause) => codes.some((code) => codeOf(cause)?.startsWith(code)));
}

function whoMustWrite(file: string): string {
  const folder = dirname(resolve(file));
  return `${userInfo().username} must be able to write to ${folder} and the files in it`;
}

function causesOf(error: unknown): unknown[] {
  return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
}

async function createLocked(path: string): Promise<Store> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const lock = holdLock(path);
  try {
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    chmodSync(path, 0o600);
    await migrate(new Kysely({ dialect: new SqliteMigrationDialect({ database: openForWriting(path) }) }), 'sqlite');
    const store = await createSqliteStore(path);
    return { ...store, close: () => store.close().finally(() => lock.close()) };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Opens the store in another thread of the daemon. */
export function connectStore(handle: StoreHandle): Store {
  return handle.dialect === 'sqlite' ? connectSqliteStore(handle.path, handle.port) : openPostgresStore(handle.url);
}

async function migrate(db: Kysely<unknown>, dialect: 'sqlite' | 'postgres'): Promise<void> {
  try {
    const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrationsFor(dialect)) } });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw new Error(`a migration failed: ${messageOf(error)}`, { cause: error });
  } finally {
    await db.destroy();
  }
}

/** SQLite does roll DDL back; Kysely assumes that it does not, and would leave half of a failed migration behind. */
class SqliteMigrationDialect extends SqliteDialect {
  override createAdapter(): SqliteAdapter {
    return new TransactionalAdapter();
  }
}

class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
  override async acquireMigrationLock(): Promise<void> {}
}

function withoutPassword(url: string): string {
  return url.replace(/:[^:@/]*@/, ':***@');
}
