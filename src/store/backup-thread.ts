/**
 * A thread that makes one verified copy of a SQLite database while others write to it. It reads within one transaction:
 * what is committed meanwhile is not in the copy, and does not make the copying begin anew, as it would without.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { workerData, type MessagePort } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { messageOf } from '../lib/errors.ts';
import { openForReading } from './sqlite-connection.ts';

const { from, to, port } = workerData as { from: string; to: string; port: MessagePort };

/** What this thread says to the one that began the copy. */
export type CopyNews =
  /** Bytes. */
  | { readonly kind: 'copying'; readonly done: number; readonly total: number }
  | { readonly kind: 'verifying' }
  | ({ readonly kind: 'verified' } & VerifiedCopy)
  | { readonly kind: 'failed'; readonly reason: string };

export interface VerifiedCopy {
  /** Bytes. */
  readonly size: number;
  /** Of the whole file, in hex. */
  readonly sha256: string;
  /** In all tables. */
  readonly rows: number;
  /** The name of its newest migration. */
  readonly schema: string;
  /** By table, its rows. */
  readonly tables: Readonly<Record<string, number>>;
}

/** Copied at a time: what passes between two words of progress. */
const STEP_PAGES = 2048;

/** What is compared: the tables with the number of their rows, and the steps that made them. */
interface Contents {
  readonly rows: Readonly<Record<string, number>>;
  /** Names, in order. */
  readonly migrations: readonly string[];
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
    if (found !== 'ok') throw new Error(`the copy is damaged: ${found}`);
    if (JSON.stringify(contentsOf(database)) !== JSON.stringify(wanted)) {
      throw new Error('the copy differs from the database');
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
    migrations: names(database, 'select name from kysely_migration order by name'),
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

/** Size and SHA-256. Not synced: whoever fetches the copy writes the file that lasts. */
async function sumsOf(file: string): Promise<Pick<VerifiedCopy, 'size' | 'sha256'>> {
  const hash = createHash('sha256');
  let size = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { size, sha256: hash.digest('hex') };
}

try {
  const contents = await copy();
  say({ kind: 'verifying' });
  verify(contents);
  const rows = Object.values(contents.rows).reduce((sum, each) => sum + each, 0);
  const schema = contents.migrations.at(-1) ?? '';
  say({ kind: 'verified', ...(await sumsOf(to)), rows, schema, tables: contents.rows });
} catch (error) {
  say({ kind: 'failed', reason: messageOf(error) });
}
port.close();
