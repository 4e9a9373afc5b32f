/** The two ways to count, in memory and in the database, as `limits.ts` sees them; promises only where a database is asked. */
import type { Limit, Verdict } from './sliding-window.ts';

/** One bucket and how much it takes. */
export interface Bucket {
  readonly name: string;
  readonly limit: Limit;
}

export interface Counters {
  /** Counts one more where the limit allows it. */
  take(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** Counts one more in each of the buckets, or in none where one of them is full; their verdicts in the same order. */
  takeAll(buckets: readonly Bucket[]): readonly Verdict[] | Promise<readonly Verdict[]>;
  /** What `take` would answer, without counting. */
  peek(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** Takes back what was counted at `at`. */
  giveBack(bucket: string, limit: Limit, at: number): void | Promise<void>;
  close(): Promise<void>;
}
