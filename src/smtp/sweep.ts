/** Sweeps the SMTP door: pieces of what was never taken, and old entries of the log. */
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import { deleteRawOrphans, forgetInboundLog } from '../store/inbound.ts';
import type { Store } from '../store/store.ts';

const HOUR = 3_600_000;
/** No transaction lasts so long. */
const ORPHAN_AGE = 3 * HOUR;
const EVERY = HOUR;
/** So many entries go in one commit, so that what is taken meanwhile waits for milliseconds. */
const BATCH = 1000;

export interface SweepParts {
  readonly store: Store;
  readonly clock: Clock;
  /** For how long what was said at the door is kept, ms. */
  readonly keep: () => number;
}

/** A job to run every few seconds. */
export function sweepInbound({ store, clock, keep }: SweepParts): () => Promise<void> {
  let until = 0;
  return async () => {
    const now = clock.now();
    const before = now - ORPHAN_AGE;
    if (Math.abs(before - until) < EVERY) return;
    await store.write([deleteRawOrphans({ since: until, before })]);
    until = before;
    const oldest = firstId('inl', now - keep());
    for (let gone = BATCH; gone === BATCH;) {
      const [{ changes }] = await store.write([forgetInboundLog({ before: oldest, most: BATCH })]);
      gone = changes;
    }
  };
}
