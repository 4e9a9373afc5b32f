/** The two ways to count, in memory and in the database, as `limits.ts` sees them; promises only where a database is asked. */
import type { Limit, Verdict } from './sliding-window.ts';

export interface Counters {
  /** Counts one more where the limit allows it. */
  take(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** What `take` would answer, without counting. */
  peek(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** Takes back what was counted at `at`. */
  giveBack(bucket: string, limit: Limit, at: number): void | Promise<void>;
  close(): Promise<void>;
}
