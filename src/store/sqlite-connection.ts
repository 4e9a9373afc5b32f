/**
 * How every SQLite connection is opened. better-sqlite3's build runs WAL at `synchronous=NORMAL`, where a power cut loses
 * acknowledged rows: FULL is set on every open and asserted (docs/dependencies.md).
 */
import Database from 'better-sqlite3';
import { hashedAddress } from '../lib/addresses.ts';
import { PassingError, codeOf } from '../lib/errors.ts';

/** The writing connection. The file is made with mode 0600: it holds DKIM keys. */
export function openForWriting(path: string): Database.Database {
  const database = new Database(path, { timeout: 10_000 });
  // Of a new file, before anything is written to it: free pages can go back to the file system (free-pages.ts).
  database.pragma('auto_vacuum = INCREMENTAL');
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  database.pragma('foreign_keys = ON');
  // A savepoint keeps the pages that it may have to give back: 19 a submission, by default in a file.
  database.pragma('temp_store = MEMORY');
  database.pragma('cache_size = -16384');
  // 8 MiB between checkpoints, each of which writes and syncs the pages that changed once, however often they did: more would
  // be fewer, but each holds up whoever waits for the commit.
  database.pragma('wal_autocheckpoint = 2048');
  // PostgreSQL can do that itself.
  database.function('hashed_address', { deterministic: true }, (address) => hashedAddress(String(address)));
  assertDurable(database);
  return database;
}

/** A connection that refuses writes. */
export function openForReading(path: string): Database.Database {
  const database = new Database(path, { readonly: true, timeout: 10_000 });
  database.pragma('query_only = ON');
  // What is read is mostly read once, and the system keeps pages, too; better-sqlite3 would keep 16 MiB in each thread.
  database.pragma('cache_size = -2048');
  return database;
}

/** Throws unless a commit on this connection survives a power cut. */
export function assertDurable(database: Database.Database): void {
  const journal = database.pragma('journal_mode', { simple: true });
  const synchronous = database.pragma('synchronous', { simple: true });
  if (journal !== 'wal' || synchronous !== 2) {
    throw new Error(
      `the database runs with journal_mode=${String(journal)} and synchronous=${String(synchronous)}, not wal and 2`,
    );
  }
}

/** Lets one daemon at a time have the file: a lock that the kernel drops with the process, however it ends. */
export function holdLock(path: string): Database.Database {
  const lock = new Database(`${path}.lock`, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    if (codeOf(error) !== 'SQLITE_BUSY') throw error;
    throw new PassingError('another daemon is using it', { cause: error });
  }
}
