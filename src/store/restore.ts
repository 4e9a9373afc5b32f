/**
 * Puts the SQLite database of a backup in the place of the server's, while no daemon runs. It is written beside it and takes its
 * place in one step when it is whole; a database that was there stays beside it under another name.
 */
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { lchown, link, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type Database from 'better-sqlite3';
import { systemClock } from '../lib/clock.ts';
import { UserError } from '../lib/errors.ts';
import { createStore } from './database.ts';
import { holdAll } from './messages.ts';
import { recomputeAllDue } from './destinations.ts';
import { takeBackLeases } from './leases.ts';
import { migrationsFor } from './migrations/index.ts';
import { holdLock, openForReading, openForWriting } from './sqlite-connection.ts';

export interface Restore {
  /** Where to write the database, with mode 0600; nothing is there yet. */
  readonly draft: string;
  /** How many deliveries wait in it. Throws UserError where it is of a newer version of Postern. */
  inspect(): number;
  /** Holds all of them until the operator releases them. */
  holdQueue(): Promise<void>;
  /** Gives it its place. `aside` is what the path of a file that is there is continued by. */
  place(aside: string): Promise<void>;
  /** Lets daemons start again; what has no place yet is gone. */
  close(): Promise<void>;
}

/** Of a database, beside its file. */
const COMPANIONS = ['-wal', '-shm'];

/** Begins to replace the database; no daemon can start on it until the end. Throws PassingError where one runs. */
export async function beginRestore(path: string): Promise<Restore> {
  const draft = `${path}.restore`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const lock = holdLock(path);
  // What one that was killed has left.
  await clean();

  async function clean(): Promise<void> {
    for (const end of ['', ...COMPANIONS, '.lock']) await rm(`${draft}${end}`, { force: true });
  }

  return {
    draft,
    inspect() {
      const database = openForReading(draft);
      try {
        refuseNewer(database);
        return countWaiting(database);
      } finally {
        database.close();
      }
    },
    async holdQueue() {
      const store = await createStore(`sqlite:${draft}`, { copy: false });
      try {
        const now = systemClock.now();
        await takeBackLeases(store, Number.MAX_SAFE_INTEGER, now);
        await store.write([holdAll({}), recomputeAllDue({ now: 0 })]);
      } finally {
        await store.close();
      }
    },
    async place(aside) {
      finish(draft);
      // The service writes it, and root restores it; what the service has put in its place is not followed.
      if (process.getuid?.() === 0) {
        const { uid, gid } = statSync(existsSync(path) ? path : dirname(path));
        await lchown(draft, uid, gid);
        await lchown(`${path}.lock`, uid, gid);
      }
      if (existsSync(path)) await link(path, `${path}${aside}`);
      // What the database that was there has committed and is not yet in its file.
      if (existsSync(`${path}-wal`)) await rename(`${path}-wal`, `${path}${aside}-wal`);
      await rm(`${path}-shm`, { force: true });
      await sync(draft);
      await rename(draft, path);
      await sync(dirname(path));
    },
    async close() {
      lock.close();
      await clean();
    },
  };
}

/** PRAGMA auto_vacuum. */
const INCREMENTAL = 2;

/** Makes it one file with nothing beside it, whose free pages can go back to the file system. */
function finish(path: string): void {
  const database = openForWriting(path);
  try {
    database.pragma('journal_mode = DELETE');
    if (database.pragma('auto_vacuum', { simple: true }) !== INCREMENTAL) {
      // What is rebuilt does not fit into memory.
      database.pragma('temp_store = FILE');
      database.pragma('auto_vacuum = INCREMENTAL');
      database.exec('VACUUM');
    }
  } finally {
    database.close();
  }
}

function refuseNewer(database: Database.Database): void {
  const migrations = migrationsFor('sqlite');
  const done = database.prepare<[], { name: string }>('select name from kysely_migration order by name').all();
  const newer = done.find(({ name }) => migrations[name] === undefined);
  if (newer === undefined) return;
  throw new UserError(
    `The backup was made by a newer version of Postern (schema ${newer.name}): install that version first`,
  );
}

function countWaiting(database: Database.Database): number {
  const query = "select count(*) as count from deliveries where state in ('queued', 'sending', 'deferred')";
  return database.prepare<[], { count: number }>(query).get()?.count ?? 0;
}

async function sync(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
