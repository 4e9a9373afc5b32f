/**
 * A thread that makes one verified copy of a SQLite database while others write to it. It reads within one transaction:
 * what is committed meanwhile is not in the copy, and does not make the copying begin anew, as it would without.
 */
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync } from 'node:fs';
import { workerData, type MessagePort } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { messageOf } from '../lib/errors.ts';
import { openForReading } from './sqlite-connection.ts';
import type { CopyNews } from './sqlite-copy-news.ts';

const { from, to, port } = workerData as { from: string; to: string; port: MessagePort };

/** Copied at a time: what passes between two words of progress. */
const STEP_PAGES = 2048;
const BLOCK = 1024 * 1024;

/** What is compared: the tables with the number of their rows, and the steps that made them. */
interface Contents {
  readonly rows: Readonly<Record<string, number>>;
  readonly migrations: string;
}

function say(news: CopyNews): void {
  port.postMessage(news);
}

async function copy(): Promise<Contents> {
  const database = openForReading(from);
  try {
    database.exec('BEGIN');
    const contents = contentsOf(database);
    const pageSize = Number(database.pragma('page_size', { simple: true }));
    await database.backup(to, {
      progress({ totalPages, remainingPages }) {
        say({ kind: 'copying', done: (totalPages - remainingPages) * pageSize, total: totalPages * pageSize });
        return STEP_PAGES;
      },
    });
    return contents;
  } finally {
    database.close();
  }
}

/** Throws where the copy is not what was read. */
function verify(wanted: Contents): void {
  const database = new Database(to);
  try {
    // One file and nothing beside it.
    database.pragma('journal_mode = DELETE');
    const found = String(database.pragma('integrity_check(1)', { simple: true }));
    if (found !== 'ok') throw new Error(`the copy is not whole: ${found}`);
    if (JSON.stringify(contentsOf(database)) !== JSON.stringify(wanted)) {
      throw new Error('the copy holds something else than the database');
    }
  } finally {
    database.close();
  }
}

function contentsOf(database: Database.Database): Contents {
  const tables = names(database, "select name from sqlite_master where type = 'table' order by name");
  const rows = tables.map((table) => [table, count(database, table)] as const);
  return {
    rows: Object.fromEntries(rows),
    migrations: names(database, 'select name from kysely_migration order by name').join(),
  };
}

function names(database: Database.Database, query: string): string[] {
  return database
    .prepare<[], { name: string }>(query)
    .all()
    .map(({ name }) => name);
}

function count(database: Database.Database, table: string): number {
  return database.prepare<[], { rows: number }>(`select count(*) as rows from "${table}"`).get()?.rows ?? 0;
}

/** Syncs the file and answers its size and SHA-256. */
function seal(): { size: number; sha256: string } {
  const file = openSync(to, 'r+');
  try {
    fsyncSync(file);
    const hash = createHash('sha256');
    const block = Buffer.alloc(BLOCK);
    let size = 0;
    for (let read = readSync(file, block); read > 0; read = readSync(file, block)) {
      hash.update(block.subarray(0, read));
      size += read;
    }
    return { size, sha256: hash.digest('hex') };
  } finally {
    closeSync(file);
  }
}

try {
  const contents = await copy();
  say({ kind: 'verifying' });
  verify(contents);
  const rows = Object.values(contents.rows).reduce((sum, each) => sum + each, 0);
  say({ kind: 'verified', ...seal(), rows });
} catch (error) {
  say({ kind: 'failed', reason: messageOf(error) });
}
port.close();
