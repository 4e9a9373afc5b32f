/**
 * The store thread: owns the only writing connection. It takes all units that wait at its ports, runs them in one
 * transaction, syncs once and settles each caller: a slow disk blocks no event loop. Where a unit fails, they run again
 * with a savepoint each, so that it fails alone. After an I/O error nothing more is acknowledged on that handle: it is
 * closed and opened afresh. Where it was the sync of a commit that failed, the whole commit stands in the log and would be
 * found there after a crash: another one is written over it before anybody is told that nothing happened.
 */
import { workerData, type MessagePort } from 'node:worker_threads';
import type Database from 'better-sqlite3';
import { codeOf, messageOf } from '../lib/errors.ts';
import { OUTCOME_UNKNOWN } from './store.ts';
import { assertDurable, openForWriting } from './sqlite-connection.ts';
import type { Value } from './statement.ts';

/** What the store thread and its clients say to each other: everything of one turn of the event loop crosses together. */
export type FromClient = Request | { readonly client: MessagePort } | { readonly close: true };
export type ToClient = { readonly answers: readonly Answer[] } | { readonly ready: true } | { readonly closed: true };

interface Request {
  /** SQL text crosses once per client and statement, then its number. */
  readonly define: readonly (readonly [number, string])[];
  readonly units: readonly UnitCall[];
}

export interface UnitCall {
  readonly id: number;
  readonly calls: readonly Call[];
}

export interface Call {
  readonly statement: number;
  /** Rows that it must touch. */
  readonly expect: number | undefined;
  readonly parameters: readonly Value[];
}

/** The rows of a statement that returns some, else how many it changed. */
export type Outcome = readonly unknown[] | number;

export type Answer =
  | { readonly id: number; readonly outcomes: readonly Outcome[] }
  | { readonly id: number; readonly failure: { readonly message: string; readonly code: string } };

const { path, port } = workerData as { path: string; port: MessagePort };

interface Client {
  readonly port: MessagePort;
  /** By their numbers. */
  readonly sql: string[];
}

interface Waiting {
  readonly client: Client;
  readonly unit: UnitCall;
}

/** `user_version` is ours to count in, and a signed number of 32 bits. */
const MAX_VERSION = 2 ** 31;

let database: Database.Database | undefined;
/** What runs a statement, by its SQL. */
let statements = new Map<string, (parameters: readonly unknown[]) => Outcome>();
let waiting: Waiting[] = [];
let asserted = false;

function open(): Database.Database {
  return (database ??= openForWriting(path));
}

function listen(clientPort: MessagePort): void {
  const client: Client = { port: clientPort, sql: [] };
  clientPort.on('message', (request: FromClient) => receive(client, request));
}

function receive(client: Client, request: FromClient): void {
  if ('client' in request) return listen(request.client);
  if ('close' in request) return close();
  take(client, request);
}

function take(client: Client, request: Request): void {
  for (const [id, sql] of request.define) client.sql[id] = sql;
  if (waiting.length === 0) setImmediate(commitWaiting);
  for (const unit of request.units) waiting.push({ client, unit });
}

function commitWaiting(): void {
  const units = waiting;
  waiting = [];
  const answers = new Map<Client, Answer[]>();
  for (const [i, answer] of commit(units).entries()) {
    const client = units[i]?.client;
    if (client === undefined) continue;
    let list = answers.get(client);
    if (list === undefined) answers.set(client, (list = []));
    list.push(answer);
  }
  for (const [client, list] of answers) client.port.postMessage({ answers: list } satisfies ToClient);
}

function commit(units: readonly Waiting[]): Answer[] {
  try {
    const db = open();
    // Savepoints cost a third of a commit, and nearly always no unit fails: they are for the second try.
    const answers = commitPlainly(db, units) ?? transaction(db, () => units.map((item) => runAlone(db, item)));
    if (!asserted) {
      assertDurable(db);
      asserted = true;
    }
    return answers;
  } catch (error) {
    const code = codeOf(error) ?? 'STORE_FAILED';
    const isUnknown = error instanceof UnsyncedCommit && !overwriteCommit();
    abandon(code);
    const failure = { message: messageOf(error), code: isUnknown ? OUTCOME_UNKNOWN : code };
    return units.map(({ unit }) => ({ id: unit.id, failure }));
  }
}

/** A COMMIT that failed after its frames may have been written whole, commit mark and all. */
class UnsyncedCommit extends Error {
  readonly code: string;
  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
    this.code = codeOf(cause) ?? 'SQLITE_IOERR';
  }
}

/**
 * Commits something else in the place of what was not synced: with its first frame gone, no later one has the right
 * checksum (https://sqlite.org/fileformat2.html#checksum_algorithm). On a handle of its own, while the old one is still
 * open: the last one to close would leave the reading of the log to the next.
 */
function overwriteCommit(): boolean {
  let fresh: Database.Database | undefined;
  try {
    if (database?.inTransaction === true) database.exec('ROLLBACK');
    fresh = openForWriting(path);
    const version = Number(fresh.pragma('user_version', { simple: true }));
    fresh.pragma(`user_version = ${(version + 1) % MAX_VERSION}`);
    return true;
  } catch {
    // The disk still fails; the error of the commit itself is the one to tell.
    return false;
  } finally {
    fresh?.close();
  }
}

/** All units in one transaction; undefined, and nothing written, where one of them fails. */
function commitPlainly(db: Database.Database, units: readonly Waiting[]): Answer[] | undefined {
  try {
    return transaction(db, () => units.map((item) => ({ id: item.unit.id, outcomes: runUnit(db, item) })));
  } catch (error) {
    if (isFatal(error)) throw error;
    if (db.inTransaction) db.exec('ROLLBACK');
    return undefined;
  }
}

function transaction<T>(db: Database.Database, work: () => T): T {
  statement(db, 'BEGIN IMMEDIATE')([]);
  const result = work();
  try {
    statement(db, 'COMMIT')([]);
  } catch (error) {
    // A write that failed leaves the last frame incomplete, which no recovery takes.
    if (/^SQLITE_IOERR(?!_WRITE)/.test(codeOf(error) ?? '')) throw new UnsyncedCommit(error);
    throw error;
  }
  return result;
}

/** The disk's or the file's fault, not a unit's: it ends the whole transaction. */
function isFatal(error: unknown): boolean {
  return /^SQLITE_(FULL|IOERR|CORRUPT|NOMEM|READONLY|BUSY)/.test(codeOf(error) ?? '');
}

/** Leaves no transaction open; a handle that failed to read, write or sync is given up, a merely full disk is not. */
function abandon(code: string): void {
  const broken = !code.startsWith('SQLITE_FULL');
  try {
    if (database?.inTransaction === true) database.exec('ROLLBACK');
    if (broken) database?.close();
  } finally {
    if (broken) {
      database = undefined;
      statements = new Map();
    }
  }
}

/** A unit under a savepoint: where it fails, it fails alone. */
function runAlone(db: Database.Database, item: Waiting): Answer {
  const { id } = item.unit;
  db.exec('SAVEPOINT unit');
  try {
    const outcomes = runUnit(db, item);
    db.exec('RELEASE unit');
    return { id, outcomes };
  } catch (error) {
    // SQLite may have rolled everything back already.
    if (!db.inTransaction || isFatal(error)) throw error;
    db.exec('ROLLBACK TO unit');
    db.exec('RELEASE unit');
    return { id, failure: { message: messageOf(error), code: codeOf(error) ?? 'STORE_FAILED' } };
  }
}

function runUnit(db: Database.Database, { client, unit }: Waiting): Outcome[] {
  return unit.calls.map(({ statement: number, parameters, expect }) => {
    const sql = client.sql[number];
    if (sql === undefined) throw new Error(`statement ${number} was never defined`);
    const outcome = statement(db, sql)(parameters);
    const changes = typeof outcome === 'number' ? outcome : outcome.length;
    if (expect !== undefined && changes !== expect) {
      throw Object.assign(new Error(`expected ${expect} rows, not ${changes}: ${sql}`), { code: 'UNMET' });
    }
    return outcome;
  });
}

function statement(db: Database.Database, sql: string): (parameters: readonly unknown[]) => Outcome {
  let run = statements.get(sql);
  if (run === undefined) statements.set(sql, (run = prepare(db, sql)));
  return run;
}

function prepare(db: Database.Database, sql: string): (parameters: readonly unknown[]) => Outcome {
  const prepared = db.prepare(sql);
  return prepared.reader
    ? (parameters) => prepared.all(...parameters)
    : (parameters) => prepared.run(...parameters).changes;
}

function close(): void {
  if (waiting.length > 0) commitWaiting();
  database?.close();
  database = undefined;
  port.postMessage({ closed: true } satisfies ToClient);
  port.close();
  process.exit(0);
}

open();
listen(port);
port.postMessage({ ready: true } satisfies ToClient);
