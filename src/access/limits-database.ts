/** Limits counted in a database that several daemons share. */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { dropOldSlices, lockBucket, slicesOf, takeSlice, untakeSlice } from '../store/limits.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { Bucket, Counters } from './counters.ts';
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

  /** Locks in the order given: whoever takes several of the same buckets names them in the same order. */
  async function takeAll(buckets: readonly Bucket[]): Promise<Verdict[]> {
    const now = clock.now();
    try {
      await store.write(
        buckets.flatMap(({ name: bucket, limit }) => {
          const name = nameOf(bucket, limit);
          const { windowMs, count: max } = limit;
          const slice = sliceAt(now, windowMs);
          return [lockBucket({ bucket: name }), takeSlice({ bucket: name, slice, since: now - windowMs, max }, 1)];
        }),
      );
    } catch (error) {
      if (!(error instanceof UnmetError)) throw error;
      const verdicts = await peekAll(buckets);
      // Where there is room by now, it can be had.
      return verdicts.every(({ allowed }) => allowed) ? takeAll(buckets) : verdicts;
    }
    return (await peekAll(buckets)).map((verdict) => ({ ...verdict, allowed: true }));
  }

  function peekAll(buckets: readonly Bucket[]): Promise<Verdict[]> {
    return Promise.all(buckets.map(({ name, limit }) => peek(name, limit)));
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
    takeAll,
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
