/** Opens the database that `database.url` names: migrated to today's schema, locked where one daemon alone may have it. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, resolve } from 'node:path';
import { Kysely, PostgresDialect, SqliteAdapter, SqliteDialect, sql, type QueryExecutorProvider } from 'kysely';
import { Migrator } from 'kysely/migration';
import { systemClock } from '../lib/clock.ts';
import { PassingError, UserError, messageOf } from '../lib/errors.ts';
import { silentLog, type Log } from '../lib/log.ts';
import { withoutPassword } from '../lib/postgres-url.ts';
import { copyBeforeMigration, migrationCopies } from './copies.ts';
import { divideEvents } from './event-days.ts';
import { isDamaged, isForbidden, isPassing } from './faults.ts';
import { migrationsFor } from './migrations/index.ts';
import type { PostgresOptions, PostgresSettings } from './postgres-connection.ts';
import { holdLock, openForWriting } from './sqlite-connection.ts';
import { connectSqliteStore, createSqliteStore, openSqliteReader } from './sqlite.ts';
import type { Dialect } from './statement.ts';
import type { Store, StoreHandle } from './store.ts';

export interface StoreOptions {
  readonly log?: Log;
  /** Bytes of disk that stay free beside a copy. */
  readonly reserve?: number;
  /** Whether a SQLite database is copied before it is migrated; default: true. */
  readonly copy?: boolean;
  /** How PostgreSQL is reached, beside its address. */
  readonly postgres?: PostgresSettings;
}

/**
 * Opens the store for the daemon. `url` is `sqlite:/path` or `postgres://…`. A SQLite database that has to be migrated is
 * copied first. Throws UserError where it cannot be opened.
 */
export async function createStore(url: string, options: StoreOptions = {}): Promise<Store> {
  try {
    const file = databaseFile(url);
    if (file === undefined) return await createPostgresStore({ url, ...options.postgres });
    return await createLocked(resolve(file), options);
  } catch (error) {
    const what = `the database ${placeOf(url)} cannot be opened: ${messageOf(error)}`;
    if (isPassing(error)) throw new PassingError(what, { cause: error });
    const file = databaseFile(url);
    if (file !== undefined && isForbidden(error)) {
      throw new UserError(`${what} (${whoMustWrite(file)})`, { cause: error });
    }
    throw new UserError(isDamaged(error) ? `${what}. ${AFTER_DAMAGE}` : what, { cause: error });
  }
}

/**
 * Opens the store for reading only, without a lock: for whoever looks into it while no daemon runs. Throws UserError where
 * there is no database, it cannot be read, or another version has written it.
 */
export async function openForReadingOnly(url: string, settings: PostgresSettings = {}): Promise<Store> {
  const file = databaseFile(url);
  const what = `the database ${placeOf(url)}`;
  if (file !== undefined && !existsSync(file)) throw new UserError(`${what} does not exist`);
  let store: Store | undefined;
  try {
    if (file === undefined) {
      const { connectClient } = await import('./postgres-connection.ts');
      await (await connectClient(settings.listenUrl ?? url)).end();
      store = await openPostgres({ url, ...settings });
    } else store = openSqliteReader(resolve(file));
    const done = await migrationNames(store.read, store.dialect);
    const wanted = Object.keys(migrationsFor(store.dialect));
    if (done.length !== wanted.length || done.some((name) => !wanted.includes(name))) {
      const other = `its schema is ${done.at(-1) ?? 'of no version'}, but this version reads ${wanted.at(-1)}`;
      throw new UserError(`${other}. The daemon migrates an older one when it starts`);
    }
    return store;
  } catch (error) {
    await store?.close();
    throw new UserError(`${what} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

async function createPostgresStore(options: PostgresOptions): Promise<Store> {
  const { url, listenUrl = url, prepare = true } = options;
  const { connectClient, createMigrationPool, refuseTransactionPooling } = await import('./postgres-connection.ts');
  // In words of its own: whether the server is there, and whether it keeps what it is told.
  await (await connectClient(listenUrl)).end();
  if (prepare) await refuseTransactionPooling(url);
  await migrate(new Kysely({ dialect: new PostgresDialect({ pool: createMigrationPool(listenUrl) }) }), 'postgres');
  const store = await openPostgres(options);
  try {
    await sql`select 1`.execute(store.read);
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

function placeOf(url: string): string {
  return databaseFile(url) === undefined ? withoutPassword(url) : url;
}

/** The file behind `sqlite:/path`; undefined where the database is a server's. */
export function databaseFile(url: string): string | undefined {
  return url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;
}

const SQLITE = 'sqlite:';

/** What an operator does then. */
const AFTER_DAMAGE =
  'The file is damaged: keep a copy of it and of its -wal, and restore the newest backup in its place (docs/operating.md, Backup and restore)';

function whoMustWrite(file: string): string {
  const folder = dirname(resolve(file));
  return `${userInfo().username} must be able to write to ${folder} and the files in it`;
}

async function createLocked(path: string, { log = silentLog, reserve = 0, copy = true }: StoreOptions): Promise<Store> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const lock = holdLock(path);
  try {
    refuseRemains(path);
    const isNew = !existsSync(path);
    if (isNew) closeSync(openSync(path, 'a', 0o600));
    chmodSync(path, 0o600);
    try {
      await migrate(new Kysely({ dialect: new SqliteMigrationDialect({ database: openForWriting(path) }) }), 'sqlite', {
        copy: () => (copy ? copyBeforeMigration(path, { log, reserve }) : Promise.resolve()),
        copies: () => migrationCopies(path),
      });
    } catch (error) {
      // Nothing of it was written: the next start begins anew, and does not find an empty file.
      if (isNew && statSync(path).size === 0) rmSync(path);
      throw error;
    }
    const store = await createSqliteStore(path);
    return { ...store, close: () => store.close().finally(() => lock.close()) };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Throws UserError where there was a database and is none: a new one would have new keys, and know of no mail. */
function refuseRemains(path: string): void {
  const next = `restore a backup in its place, or delete ${path}, ${path}-wal and ${path}-shm to start with a new server`;
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === 0) throw new UserError(`the file is empty: ${next}`);
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (size === undefined && log > 0) throw new UserError(`the file is missing, but its ${path}-wal exists: ${next}`);
}

/** Opens the store in another thread of the daemon. */
export async function connectStore(handle: StoreHandle): Promise<Store> {
  if (handle.dialect === 'sqlite') return connectSqliteStore(handle.path, handle.port);
  return openPostgres(handle.options);
}

/** Its driver takes 1.4 MiB, which SQLite does without. */
async function openPostgres(options: PostgresOptions): Promise<Store> {
  const { openPostgresStore } = await import('./postgres.ts');
  return openPostgresStore(options);
}

interface Copying {
  /** Makes a copy of the database as it is. */
  copy(): Promise<void>;
  /** The paths of those that were made, newest first. */
  copies(): string[];
}

/** Throws UserError where a newer version of this program has written the database. */
async function migrate(
  db: Kysely<unknown>,
  dialect: Dialect,
  { copy, copies }: Copying = { copy: () => Promise.resolve(), copies: () => [] },
): Promise<void> {
  try {
    const migrations = migrationsFor(dialect);
    const provider = { getMigrations: () => Promise.resolve(migrations) };
    // A step is numbered when work on it begins, and may come after one with a higher number.
    const migrator = new Migrator({ db, provider, allowUnorderedMigrations: true });
    const done = await migrationNames(db, dialect);
    const newer = done.find((name) => migrations[name] === undefined);
    if (newer !== undefined) throw new UserError(newerText(newer, copies()));
    if (done.length > 0 && done.length < Object.keys(migrations).length) await copy();
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw new Error(`a migration failed: ${messageOf(error)}`, { cause: error });
    if (dialect === 'postgres') await divideEvents(db, systemClock.now());
  } finally {
    await db.destroy();
  }
}

/** The names of the migrations that have run on it, in order; none of a new database. */
export async function migrationNames(db: QueryExecutorProvider, dialect: Dialect): Promise<string[]> {
  const table =
    dialect === 'sqlite'
      ? sql<{ name: string | null }>`select name from sqlite_master where name = 'kysely_migration'`
      : sql<{ name: string | null }>`select to_regclass('kysely_migration')::text as name`;
  if (((await table.execute(db)).rows[0]?.name ?? null) === null) return [];
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  return rows.map(({ name }) => name);
}

/** Stands among the migrations of a database into which another is copied (transfer.ts): no version starts on it. */
export const UNFINISHED_COPY = '9999-unfinished-copy';

function newerText(schema: string, [copy]: readonly string[]): string {
  if (schema === UNFINISHED_COPY) return 'another database is being copied into it: run postern migrate-store again';
  const back =
    copy === undefined ? 'restore a backup of this version' : `restore ${copy}, the copy from before the upgrade`;
  return `it was written by a newer version of Postern (schema ${schema}): install that version, or ${back} (docs/upgrade.md)`;
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
