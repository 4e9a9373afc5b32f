/** Limits counted in a database that several daemons share. */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { dropOldSlices, lockBucket, slicesOf, takeSlice, untakeSlice } from '../store/limits.ts';
import type { Store } from '../store/store.ts';
import type { Counters } from './counters.ts';
import { judgeWindow, sliceAt, type Limit, type Verdict } from './sliding-window.ts';

const SWEEP_MS = 600_000;
/** No window is longer. */
const LONGEST_MS = 86_400_000;

/** Counters of which each is one transaction. */
export function databaseCounters({ store, clock, log }: { store: Store; clock: Clock; log: Log }): Counters {
  const ended = new AbortController();

  async function take(bucket: string, limit: Limit): Promise<Verdict> {
    const now = clock.now();
    const name = nameOf(bucket, limit);
    const since = now - limit.windowMs;
    const slice = sliceAt(now, limit.windowMs);
    const [, taken, slices] = await store.write([
      lockBucket({ bucket: name }),
      takeSlice({ bucket: name, slice, since, max: limit.count }),
      slicesOf({ bucket: name, since }),
    ]);
    return judgeWindow(slices.rows, { limit, allowed: taken.changes === 1, now });
  }

  async function peek(bucket: string, limit: Limit): Promise<Verdict> {
    const now = clock.now();
    const slices = await store.select(slicesOf({ bucket: nameOf(bucket, limit), since: now - limit.windowMs }));
    const used = slices.reduce((sum, { count }) => sum + count, 0);
    return judgeWindow(slices, { limit, allowed: used < limit.count, now });
  }

  async function giveBack(bucket: string, limit: Limit, at: number): Promise<void> {
    await store.write([untakeSlice({ bucket: nameOf(bucket, limit), slice: sliceAt(at, limit.windowMs) })]);
  }

  async function sweep(): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(SWEEP_MS, ended.signal);
      const before = clock.now() - LONGEST_MS;
      await store.write([dropOldSlices({ before })]).catch((error: unknown) => {
        log.warn('limits.not_swept', errorFields(error));
      });
    }
  }

  const sweeping = sweep();
  return {
    take,
    peek,
    giveBack,
    async close() {
      ended.abort();
      await sweeping;
    },
  };
}

function nameOf(bucket: string, { windowMs }: Limit): string {
  return `${windowMs}:${bucket}`;
}
