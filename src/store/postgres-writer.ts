/**
 * Group commit on PostgreSQL. Units of one kind, which consist of the same statements and whose statements each have a
 * form for many, wait together while a transaction of that kind is on its way, and then share the next one: each statement
 * runs once, with the values of all of them. Where one of the units fails, or any expectation does not hold, nothing is
 * committed and each half is tried again, so that in the end it fails alone. All other units are transactions of their own.
 *
 * A transaction takes two round trips, however many statements it has: all of them are sent at once, and COMMIT when all
 * of them are answered, because a COMMIT whose reply is lost is asked about by the number of the transaction.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import { codeOf, messageOf } from '../lib/errors.ts';
import type { CompiledStatement, Definition, ManyForm, Result, Statement } from './statement.ts';
import { StoreError, UnmetError, type Results, type Store, type Unit } from './store.ts';

/** Two units that lock the same rows in opposite order: PostgreSQL undoes one of them, which then simply goes again. */
const DEADLOCK = '40P01';
const MAX_TRIES = 5;
const MAX_UNITS = 100;

/** Data, constraints, SQL, limits of a statement (PostgreSQL, appendix A): the fault of one of those who share a transaction. */
const OF_ONE_UNIT = /^(?:0A|2[0-9]|3[0-9]|4[0-4]|54|P0)...$/;
const SQLSTATE = /^[0-9A-Z]{5}$/;

export interface WriterParts {
  /** Of connections that send a query without waiting for the answer to the one before (`pipeline`). */
  readonly pool: pg.Pool;
  readonly queries: Queries;
  /**
   * Whether a transaction was committed whose COMMIT has failed with this error. Rejects where that cannot be found out.
   */
  readonly wasCommitted: (transaction: TransactionId, cause: unknown) => Promise<boolean>;
}

/** Names a transaction also after a failover and a crash, which give the same numbers to other transactions. */
export interface TransactionId {
  readonly xid: string;
  readonly history: string;
}

/**
 * The history of a server that takes writes, within which no number is given twice: its timeline, and since when it keeps
 * statistics, which it does anew after each crash and not after a restart.
 */
export const HISTORY =
  "concat_ws(' ', substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time()))";
const BEGIN = `BEGIN; SELECT pg_current_xact_id()::text AS xid, ${HISTORY} AS history`;

/** Statements with their values as queries, which each connection prepares once unless they have no names. */
export class Queries {
  readonly #compile: (definition: Definition) => CompiledStatement;
  readonly #named: boolean;
  readonly #names = new Map<string, string>();
  #generation = 0;

  constructor(compile: (definition: Definition) => CompiledStatement, { named }: { readonly named: boolean }) {
    this.#compile = compile;
    this.#named = named;
  }

  of(definition: Definition, values: object): pg.QueryConfig {
    const { sql: text, bind } = this.#compile(definition);
    const query = { text, values: bind(values, []) };
    if (!this.#named) return query;
    let name = this.#names.get(text);
    if (name === undefined) {
      name = createHash('sha256').update(`${this.#generation} ${text}`).digest('hex').slice(0, 32);
      this.#names.set(text, name);
    }
    return { name, ...query };
  }

  /** A newer version has changed what prepared statements answer: from now on all are prepared anew. */
  rename(): void {
    this.#generation++;
    this.#names.clear();
  }
}

/** A unit that waits for its commit. */
interface Waiting {
  /** Statements that follow each other in the same words are one step. */
  readonly steps: readonly (readonly Statement[])[];
  resolve(results: readonly Result[]): void;
  reject(error: unknown): void;
}

/** What is sent: a statement of one unit, or of many. */
interface Call {
  readonly query: pg.QueryConfig;
  readonly statements: readonly Statement[];
  readonly touches: ManyForm['touches'];
}

/** A statement for many that has not touched one row for each: which of the units is to blame is to be found out. */
class SharedMismatch extends Error {}

/** The writing half of a store. */
export function createWriter({ pool, queries, wasCommitted }: WriterParts): Store['write'] {
  const numbers = new WeakMap<Definition, number>();
  let lastNumber = 0;
  /** Those of which a transaction is on its way, and who waits for the next. */
  const kinds = new Map<string, Waiting[]>();

  /** What units must have in common to share a transaction. */
  function kindOf(steps: Waiting['steps']): string {
    return steps
      .map(([first]) => {
        if (first === undefined) return 0;
        let number = numbers.get(first.definition);
        if (number === undefined) numbers.set(first.definition, (number = ++lastNumber));
        return number;
      })
      .join();
  }

  function write<const U extends Unit>(unit: U): Promise<Results<U>> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { steps: stepsOf(unit), resolve: (results) => resolve(results as Results<U>), reject };
      if (unit.every(({ definition }) => definition.many !== undefined)) share(waiting);
      else void settle([waiting]);
    });
  }

  function share(unit: Waiting): void {
    const kind = kindOf(unit.steps);
    const waiting = kinds.get(kind);
    if (waiting !== undefined) return void waiting.push(unit);
    const units = [unit];
    kinds.set(kind, units);
    void settleInTurn(kind, units);
  }

  /** One transaction after the other: what comes meanwhile shares the next. */
  async function settleInTurn(kind: string, units: Waiting[]): Promise<void> {
    // Whatever is written in the same turn goes along.
    await setImmediate();
    while (units.length > 0) await settle(units.splice(0, MAX_UNITS));
    kinds.delete(kind);
  }

  /** Commits the units, or those of them that can be, and tells each. Never rejects. */
  async function settle(units: readonly Waiting[]): Promise<void> {
    try {
      const results = await commit(units);
      for (const [i, unit] of units.entries()) unit.resolve(results[i] ?? []);
    } catch (error) {
      if (units.length > 1 && isOfOneUnit(error)) {
        const half = Math.ceil(units.length / 2);
        await settle(units.slice(0, half));
        await settle(units.slice(half));
      } else {
        for (const { reject } of units) reject(failureOf(error));
      }
    }
  }

  async function commit(units: readonly Waiting[]): Promise<Result[][]> {
    for (let tries = 1; ; tries++) {
      try {
        return await transact(units);
      } catch (error) {
        if (tries === MAX_TRIES || codeOf(error) !== DEADLOCK) throw error;
      }
    }
  }

  async function transact(units: readonly Waiting[]): Promise<Result[][]> {
    const calls = callsOf(units);
    const client = await pool.connect();
    let transaction: TransactionId;
    let results: Map<Statement, Result>;
    try {
      // Sent in one go: none of them waits for the answer to the one before.
      const began = client.query(BEGIN);
      const answers = await Promise.allSettled([began, ...calls.map(({ query }) => client.query(query))]);
      // After the first that fails, all others do.
      const [first, ...others] = answers;
      transaction = idOf(valueOf(first));
      results = resultsOf(calls, others);
    } catch (error) {
      await giveUp(client, error);
      throw error;
    }
    try {
      await client.query('COMMIT');
    } catch (error) {
      client.release(true);
      if (!(await wasCommitted(transaction, error))) throw error;
      return ordered(units, results);
    }
    client.release();
    return ordered(units, results);
  }

  /** Statements of one step go together, but for values that JSON does not carry as they are. */
  function callsOf(units: readonly Waiting[]): Call[] {
    const [one] = units;
    if (one === undefined) return [];
    if (units.length === 1) return one.steps.flat().map(single);
    return one.steps.flatMap((_, step) => {
      const statements = units.flatMap((unit) => unit.steps[step] ?? []);
      const many = statements[0]?.definition.many;
      if (many === undefined) return statements.map(single);
      const shared = statements.filter((statement) => isCarried(statement, many));
      const calls = statements.filter((statement) => !isCarried(statement, many)).map(single);
      if (shared.length === 0) return calls;
      const query = queries.of(many.definition, { rows: JSON.stringify(shared.map(({ values }) => values)) });
      if (many.searches) delete query.name;
      return [{ query, statements: shared, touches: many.touches }, ...calls];
    });
  }

  function single(statement: Statement): Call {
    return { query: queries.of(statement.definition, statement.values), statements: [statement], touches: 'any' };
  }

  return write;
}

function stepsOf(unit: Unit): Statement[][] {
  const steps: Statement[][] = [];
  for (const statement of unit) {
    const last = steps.at(-1);
    // A copy: what became of it is found by it, also where a caller gives the same one twice.
    if (last?.[0]?.definition === statement.definition) last.push({ ...statement });
    else steps.push([{ ...statement }]);
  }
  return steps;
}

/** Whether the statement means the same with its values in JSON, and what it is expected to touch can be told. */
function isCarried({ values, expect }: Statement, { columns, touches }: ManyForm): boolean {
  if (expect !== undefined && (touches === 'any' || expect !== 1)) return false;
  const given = values as Record<string, unknown>;
  return columns.every((column) => {
    const value = given[column];
    return typeof value === 'string' ? value.isWellFormed() : typeof value === 'number' || value === null;
  });
}

function valueOf<T>(answer: PromiseSettledResult<T> | undefined): T {
  if (answer === undefined) throw new Error('a query has no answer');
  if (answer.status === 'rejected') throw answer.reason;
  return answer.value;
}

/** Throws for the first that failed, or did not touch what it should. */
function resultsOf(
  calls: readonly Call[],
  answers: readonly PromiseSettledResult<pg.QueryResult>[],
): Map<Statement, Result> {
  const results = new Map<Statement, Result>();
  for (const [i, { statements, touches }] of calls.entries()) {
    const { rows, rowCount } = valueOf(answers[i]);
    const changes = rowCount ?? 0;
    if (touches === 'each' && changes !== statements.length) throw new SharedMismatch();
    for (const statement of statements) {
      const result = touches === 'each' ? { rows: [], changes: 1 } : { rows, changes };
      if (statement.expect !== undefined && result.changes !== statement.expect) {
        throw new UnmetError(`expected ${statement.expect} rows, not ${result.changes}`);
      }
      results.set(statement, result);
    }
  }
  return results;
}

function ordered(units: readonly Waiting[], results: ReadonlyMap<Statement, Result>): Result[][] {
  return units.map(({ steps }) => steps.flat().map((statement) => results.get(statement) ?? { rows: [], changes: 0 }));
}

/** What the second of the two results says. */
function idOf(results: unknown): TransactionId {
  const [, { rows }] = results as [unknown, pg.QueryResult<TransactionId>];
  const [row] = rows;
  if (row === undefined) throw new Error('the server has given the transaction no number');
  return row;
}

/** Ends a transaction that was not committed; where the server did not answer, with its connection. */
async function giveUp(client: pg.PoolClient, error: unknown): Promise<void> {
  const hasAnswered =
    error instanceof UnmetError || error instanceof SharedMismatch || SQLSTATE.test(codeOf(error) ?? '');
  if (!hasAnswered) return client.release(true);
  await client.query('ROLLBACK').then(
    () => client.release(),
    () => client.release(true),
  );
}

function isOfOneUnit(error: unknown): boolean {
  if (error instanceof UnmetError || error instanceof SharedMismatch || error instanceof TypeError) return true;
  return OF_ONE_UNIT.test(codeOf(error) ?? '');
}

function failureOf(error: unknown): Error {
  return error instanceof UnmetError ? error : asStoreError(error);
}

/** What the database's client says, as a store says it. */
export function asStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  return new StoreError(messageOf(error), codeOf(error) ?? 'STORE_FAILED', { cause: error });
}
