/** Forgets what nobody needs any longer of mail that came in: pieces of what was never taken, bytes of what is settled, and old entries of the log. */
import type { Clock } from '../lib/clock.ts';
import { firstId } from '../lib/ids.ts';
import { SWEPT_AT_ONCE, deleteRawOrphans, forgetInboundLog, sweepRaw } from '../store/inbound.ts';
import type { Store } from '../store/store.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
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
    for (let looked = SWEPT_AT_ONCE; looked === SWEPT_AT_ONCE;) looked = await sweepRaw(store, now, now + DAY);
    const before = now - ORPHAN_AGE;
    if (before - until < EVERY) return;
    await store.write([deleteRawOrphans({ since: until, before })]);
    until = before;
    const oldest = firstId('inl', now - keep());
    for (let gone = BATCH; gone === BATCH;) {
      const [{ changes }] = await store.write([forgetInboundLog({ before: oldest, most: BATCH })]);
      gone = changes;
    }
  };
}
