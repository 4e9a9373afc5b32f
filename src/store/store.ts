/**
 * Access to the database. A write is a unit: statements that commit together or not at all; `write` settles only after
 * the commit is on the disk (SQLite: `synchronous=FULL`; PostgreSQL: its commit). Reads see everything committed before.
 */
import type { MessagePort } from 'node:worker_threads';
import type { Kysely } from 'kysely';
import { errorFields } from '../lib/errors.ts';
import type { LogEvent } from '../lib/log-events.ts';
import type { Log } from '../lib/log.ts';
import type { PostgresOptions } from './postgres-connection.ts';
import type { Dialect, Result, Statement } from './statement.ts';
import type { ObjectName, Tables } from './tables.ts';

export type Unit = readonly Statement[];
export type Results<U extends Unit> = {
  -readonly [K in keyof U]: U[K] extends Statement<infer Row> ? Result<Row> : never;
};

/** What daemons on one database tell each other: projects or domains have changed; there is mail to send. */
export type Topic = 'config' | 'queue';

export interface Listener {
  hear(topic: Topic): void;
  /** The connection was lost, or could not be made: nothing is heard until the next `onConnected`. Told once. */
  onLost(error: unknown): void;
  /** Nothing was heard before; what was told meanwhile is lost. */
  onConnected(): void;
  /** Of all that listen, this one runs what only one may run; until the connection is lost. */
  onLead(): void;
}

export interface Notices {
  /** Tells the other daemons on this database; on SQLite there is none. Rejects where the database is away. */
  notify(topic: Topic): Promise<void>;
  /** Hears what others tell, as a rule, until the function that it answers is called. */
  listen(listener: Listener): () => Promise<void>;
}

/** What the row of a chunk holds: the bytes, or the name of the object that has them. */
export interface Blob {
  readonly bytes: Uint8Array;
  readonly object?: ObjectName;
}

/** Where the chunks of files and messages are kept. */
export interface Blobs {
  /**
   * Keeps a chunk. Answers what its row holds; the unit that writes the row also has what `naming` (blobs.ts) makes of it.
   * Rejects with StoreError where the bytes cannot be kept.
   */
  put(bytes: Uint8Array): Promise<Blob>;
  /** The bytes of a chunk whose row holds this. Rejects with StoreError where they cannot be had. */
  get(blob: Blob): Promise<Uint8Array>;
  /** Removes the objects that no row names. */
  sweep(): Promise<void>;
  /** Where objects are; undefined where all is in the database. */
  readonly bucket?: {
    /** For messages. */
    readonly name: string;
    /** Writes, reads and removes an object. Rejects with StoreError. */
    probe(): Promise<void>;
  };
}

export interface Store extends Notices {
  readonly dialect: Dialect;
  /** For reading only: on SQLite the connection refuses writes. */
  readonly read: Kysely<Tables>;
  /**
   * Commits the unit, durably. Rejects with UnmetError where a statement's `expect` failed, with StoreError where the
   * database cannot write (disk full, I/O error, connection lost): then nothing of the unit happened, unless it is an
   * UnknownOutcomeError.
   */
  write<const U extends Unit>(unit: U): Promise<Results<U>>;
  /** The bytes of files and messages. */
  readonly blobs: Blobs;
  /** The rows of a defined query, compiled once. */
  select<Row>(statement: Statement<Row>): Promise<Row[]>;
  /**
   * Rises before and after each commit that concerns keys or tenants, so that what was read of them while it stood still is
   * still so; undefined where other daemons write them, too.
   */
  accountVersion(): number | undefined;
  /** How the connections of this pool are used; undefined where there is no pool. */
  readonly connections?: () => Connections;
  /** What another thread needs to open the same store with `connectStore`; transfer `handle.port` with it. */
  share(): StoreHandle;
  close(): Promise<void>;
}

/** Connections to the database, by what they do; `waiting` are those who have none yet. */
export interface Connections {
  readonly used: number;
  readonly idle: number;
  readonly waiting: number;
}

export type StoreHandle =
  | { readonly dialect: 'sqlite'; readonly path: string; readonly port: MessagePort }
  | { readonly dialect: 'postgres'; readonly options: PostgresOptions };

/** A statement's `expect` did not hold; nothing of its unit was written. */
export class UnmetError extends Error {
  override readonly name = 'UnmetError';
}

/** Commits the unit; answers undefined where a statement's `expect` did not hold. */
export async function writeIfMet<const U extends Unit>(
  store: Pick<Store, 'write'>,
  unit: U,
): Promise<Results<U> | undefined> {
  try {
    return await store.write(unit);
  } catch (error) {
    if (error instanceof UnmetError) return undefined;
    throw error;
  }
}

/**
 * How long a job that deletes much rests after each step, in units of what the step took. SQLite has one writer, for which posts
 * wait: a quarter of its time at most is for such a job. On PostgreSQL nobody waits for it.
 */
export function restOf({ dialect }: Pick<Store, 'dialect'>): number {
  return dialect === 'sqlite' ? 3 : 0;
}

/** Rows of one commit of `writeBehind`: others that write beside it do not wait for more. */
const BATCH_ROWS = 250;

/** Writes rows that nobody waits for; answers those that could not be written, which is logged. */
export async function writeBehind<Row>(
  rows: readonly Row[],
  statement: (row: Row) => Statement,
  { store, log, failure }: { readonly store: Pick<Store, 'write'>; readonly log: Log; readonly failure: LogEvent },
): Promise<Row[]> {
  const left: Row[] = [];
  for (let i = 0; i < rows.length; i += BATCH_ROWS) {
    const some = rows.slice(i, i + BATCH_ROWS);
    await store.write(some.map((row) => statement(row))).catch((error: unknown) => {
      log.warn(failure, errorFields(error));
      left.push(...some);
    });
  }
  return left;
}

/** The database could not commit; `code` is SQLite's, PostgreSQL's or Node's. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: string;
  constructor(message: string, code: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * The connection or the disk failed while the unit was committed, and whether it was could not be found out. `id` is what
 * to look up, where the caller knows one.
 */
export class UnknownOutcomeError extends StoreError {
  readonly id: string | undefined;
  constructor(message: string, options: ErrorOptions & { readonly id?: string | undefined } = {}) {
    super(message, OUTCOME_UNKNOWN, options);
    this.id = options.id;
  }

  /** The same of the unit that makes what has this id. */
  of(id: string | undefined): UnknownOutcomeError {
    return new UnknownOutcomeError(this.message, { cause: this, id });
  }
}

/** The code of an UnknownOutcomeError. */
export const OUTCOME_UNKNOWN = 'OUTCOME_UNKNOWN';

/** The code of a StoreError: the bucket cannot be reached or used. */
export const STORAGE_UNAVAILABLE = 'STORAGE_UNAVAILABLE';

/** All bytes in the database. */
export const ROW_BLOBS: Blobs = {
  put: (bytes) => Promise.resolve({ bytes }),
  get({ bytes, object = null }) {
    if (object === null) return Promise.resolve(bytes);
    const words = `the object ${object} is in a bucket, but storage.url names none`;
    return Promise.reject(new StoreError(words, STORAGE_UNAVAILABLE));
  },
  sweep: () => Promise.resolve(),
};
