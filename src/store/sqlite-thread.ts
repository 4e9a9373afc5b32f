/**
 * The store thread: owns the only writing connection. It takes all units that wait at its ports, runs them in one
 * transaction, syncs once and settles each caller: a slow disk blocks no event loop. Where a unit fails, they run again
 * with a savepoint each, so that it fails alone. After an I/O error nothing more is acknowledged on that handle: it is
 * closed and opened afresh. Where it was the sync of a commit that failed, the whole commit is in the log and would be
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
export type ToClient = { readonly answers: readonly Answer[] } | { readonly ready: true };

interface Request {
  /** New statements, numbered in this order from where the last request ended: their text crosses once, then their number. */
  readonly define: readonly Prepared[];
  readonly units: readonly UnitCall[];
}

export interface Prepared {
  readonly sql: string;
  /** How many it takes. */
  readonly parameters: number;
}

/**
 * The id of the unit; then of each statement its number, the rows that it must touch (undefined: any) and its parameters.
 * One flat list, because threads exchange objects at five times its price (bench row 1).
 */
export type UnitCall = readonly (Value | undefined)[];

/** The rows of a statement that returns some, else how many it changed. */
export type Outcome = readonly unknown[] | number;

export type Answer =
  | { readonly id: number; readonly outcomes: readonly Outcome[] }
  | { readonly id: number; readonly failure: { readonly message: string; readonly code: string } };

const { path, port } = workerData as { path: string; port: MessagePort };

interface Client {
  readonly port: MessagePort;
  readonly statements: Prepared[];
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
  const client: Client = { port: clientPort, statements: [] };
  clientPort.on('message', (request: FromClient) => receive(client, request));
}

function receive(client: Client, request: FromClient): void {
  if ('client' in request) return listen(request.client);
  if ('close' in request) return close();
  take(client, request);
}

function take(client: Client, request: Request): void {
  client.statements.push(...request.define);
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
    return units.map((item) => ({ id: idOf(item), failure }));
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
    return transaction(db, () => units.map((item) => ({ id: idOf(item), outcomes: runUnit(db, item) })));
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
  const id = idOf(item);
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

function idOf({ unit: [id] }: Waiting): number {
  return Number(id);
}

function runUnit(db: Database.Database, { client, unit }: Waiting): Outcome[] {
  const outcomes: Outcome[] = [];
  for (let i = 1; i < unit.length;) {
    const number = unit[i];
    const expect = unit[i + 1];
    const prepared = client.statements[Number(number)];
    if (prepared === undefined) throw new Error(`statement ${String(number)} was never defined`);
    const { sql, parameters } = prepared;
    const outcome = statement(db, sql)(unit.slice(i + 2, i + 2 + parameters));
    const changes = typeof outcome === 'number' ? outcome : outcome.length;
    if (expect !== undefined && changes !== expect) {
      throw Object.assign(new Error(`expected ${String(expect)} rows, not ${changes}: ${sql}`), { code: 'UNMET' });
    }
    outcomes.push(outcome);
    i += 2 + parameters;
  }
  return outcomes;
}

function statement(db: Database.Database, sql: string): (parameters: readonly unknown[]) => Outcome {
  let run = statements.get(sql);
  if (run === undefined) statements.set(sql, (run = prepare(db, sql)));
  return run;
}

function prepare(db: Database.Database, sql: string): (parameters: readonly unknown[]) => Outcome {
  // It has a step for each page that it moves, and no rows: run() would do one.
  if (sql.startsWith('pragma ')) {
    return () => {
      db.exec(sql);
      return 0;
    };
  }
  const prepared = db.prepare(sql);
  return prepared.reader ? (parameters) => prepared.all(parameters) : (parameters) => prepared.run(parameters).changes;
}

function close(): void {
  if (waiting.length > 0) commitWaiting();
  database?.close();
  database = undefined;
  port.close();
  process.exit(0);
}

open();
listen(port);
port.postMessage({ ready: true } satisfies ToClient);
