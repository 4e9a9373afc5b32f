/**
 * What each key asked for, per UTC day: counted in memory, so that no request waits for it, and added to the store within
 * seconds and at the end. Daemons that share a store add to the same rows. A crash forgets those seconds.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { LogEvent } from '../lib/log-events.ts';
import type { Log } from '../lib/log.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { UsageRow } from '../store/tables.ts';
import { addUsage } from '../store/usage.ts';
import { accountIdOf, type Principal } from './principal.ts';

const DAY = 86_400_000;
/** So many rows go into one commit, so that they never hold up what is written beside them. */
const BATCH = 250;

/** Writes the rows, and answers those that the store did not take, which is told in the log. */
export async function writeBehind<Row>(
  rows: readonly Row[],
  statement: (row: Row) => Statement,
  { store, log, failure }: { readonly store: Store; readonly log: Log; readonly failure: LogEvent },
): Promise<Row[]> {
  const left: Row[] = [];
  for (let i = 0; i < rows.length; i += BATCH) {
    const some = rows.slice(i, i + BATCH);
    await store.write(some.map((row) => statement(row))).catch((error: unknown) => {
      log.warn(failure, errorFields(error));
      left.push(...some);
    });
  }
  return left;
}

/** What is counted and not in the store yet. */
export class Usage {
  readonly #parts: { readonly store: Store; readonly clock: Clock; readonly log: Log };
  #counts = new Map<string, UsageRow>();
  #flushing = Promise.resolve();

  constructor(parts: { readonly store: Store; readonly clock: Clock; readonly log: Log }) {
    this.#parts = parts;
  }

  /** Counts what became of a request with a key: its HTTP status. */
  used(principal: Principal, status: number): void {
    const { key } = principal;
    if (key === undefined) return;
    const now = this.#parts.clock.now();
    this.#add({
      tenant: accountIdOf(principal),
      key: key.id,
      day: now - (now % DAY),
      requests: 1,
      errors: status >= 400 && status !== 429 ? 1 : 0,
      rate_limited: status === 429 ? 1 : 0,
    });
  }

  /**
   * Adds to the store what was counted before the call, one flush at a time. What the store does not take is logged and kept
   * for the next time.
   */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#save());
    return this.#flushing;
  }

  #add(row: UsageRow): void {
    const name = `${row.key} ${row.day}`;
    const { requests, errors, rate_limited } = this.#counts.get(name) ?? { requests: 0, errors: 0, rate_limited: 0 };
    this.#counts.set(name, {
      ...row,
      requests: requests + row.requests,
      errors: errors + row.errors,
      rate_limited: rate_limited + row.rate_limited,
    });
  }

  async #save(): Promise<void> {
    // In one order everywhere: daemons that share a store lock the same rows.
    const rows = [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#counts = new Map();
    for (const row of await writeBehind(rows, addUsage, { ...this.#parts, failure: 'usage.not_saved' })) this.#add(row);
  }
}
