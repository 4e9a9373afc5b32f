/**
 * What each key asked for, per UTC day: counted in memory, so that no request waits for it, and added to the store within
 * seconds and at the end. Daemons that share a store add to the same rows. A crash forgets those seconds.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { UsageRow } from '../store/tables.ts';
import { addUsage } from '../store/usage.ts';
import { accountIdOf, type Principal } from './principal.ts';

export interface Usage {
  /** Counts what became of a request with a key: its HTTP status. */
  used(principal: Principal, status: number): void;
  /** Adds to the store what was counted. What the store does not take is told in the log and kept for the next time. */
  flush(): Promise<void>;
  /** Ends the counting, flushed. */
  close(): Promise<void>;
}

const FLUSH_MS = 5000;
const DAY = 86_400_000;
/** So many rows go into one commit, so that they never hold up what is written beside them. */
const BATCH = 250;

/** Writes the rows, and answers those that the store did not take, which is told in the log. */
export async function writeBehind<Row>(
  rows: readonly Row[],
  statement: (row: Row) => Statement,
  { store, log, failure }: { readonly store: Store; readonly log: Log; readonly failure: string },
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

/** Counts until it is closed. */
export function createUsage({ store, clock, log }: { store: Store; clock: Clock; log: Log }): Usage {
  const ended = new AbortController();
  let counts = new Map<string, UsageRow>();
  let flushing = Promise.resolve();

  function add(row: UsageRow): void {
    const name = `${row.key} ${row.day}`;
    const { requests, errors, rate_limited } = counts.get(name) ?? { requests: 0, errors: 0, rate_limited: 0 };
    counts.set(name, {
      ...row,
      requests: requests + row.requests,
      errors: errors + row.errors,
      rate_limited: rate_limited + row.rate_limited,
    });
  }

  /** One at a time: after it, all is in the store that was counted before it. */
  function flush(): Promise<void> {
    flushing = flushing.then(save);
    return flushing;
  }

  async function save(): Promise<void> {
    // In one order everywhere: daemons that share a store lock the same rows.
    const rows = [...counts.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    counts = new Map();
    for (const row of await writeBehind(rows, addUsage, { store, log, failure: 'usage.not_saved' })) add(row);
  }

  async function keep(): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(FLUSH_MS, ended.signal);
      await flush();
    }
  }
  const keeping = keep();

  return {
    used(principal, status) {
      const { key } = principal;
      if (key === undefined) return;
      const now = clock.now();
      add({
        tenant: accountIdOf(principal),
        key: key.id,
        day: now - (now % DAY),
        requests: 1,
        errors: status >= 400 && status !== 429 ? 1 : 0,
        rate_limited: status === 429 ? 1 : 0,
      });
    },
    flush,
    async close() {
      ended.abort();
      await keeping;
    },
  };
}
