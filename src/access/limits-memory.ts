/** Limits counted in memory, written behind where there is a store. */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { allSlices, dropSlices, saveSlice } from '../store/limits.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { Bucket, Counters } from './counters.ts';
import { SlidingWindows, type Change, type Limit, type Verdict } from './sliding-window.ts';

export interface MemoryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxBuckets: number;
  /** Where the counts of windows of ten minutes and more are kept; without one they end with the process. */
  readonly store?: Store;
}

const FLUSH_MS = 1000;
const KEPT_FROM = 600_000;
/** So many changed buckets go into one commit, so that a flood of clients never holds up the submissions beside it. */
const BATCH = 250;

/** Counters that know what the store knew. */
export async function memoryCounters({ clock, log, maxBuckets, store }: MemoryOptions): Promise<Counters> {
  const windows = new Map<number, SlidingWindows>();
  const ended = new AbortController();

  function windowsOf(windowMs: number): SlidingWindows {
    let known = windows.get(windowMs);
    if (known === undefined) {
      known = new SlidingWindows({ windowMs, maxBuckets, kept: store !== undefined && windowMs >= KEPT_FROM });
      windows.set(windowMs, known);
    }
    return known;
  }

  async function load(from: Store): Promise<void> {
    for (const { bucket, starts_at, count } of await allSlices(from)) {
      const colon = bucket.indexOf(':');
      windowsOf(Number(bucket.slice(0, colon))).restore(bucket.slice(colon + 1), { starts_at, count });
    }
  }

  async function flush(to: Store): Promise<void> {
    for (const [windowMs, window] of windows) {
      const changes = window.changes();
      for (let i = 0; i < changes.length; i += BATCH) {
        const some = changes.slice(i, i + BATCH);
        await to.write(some.flatMap((change) => statementsFor(windowMs, change)));
        for (const change of some) change.saved();
      }
    }
  }

  async function tick(): Promise<void> {
    for (const window of windows.values()) window.forgetIdle(clock.now());
    if (store === undefined) return;
    await flush(store).catch((error: unknown) => log.warn('limits.not_saved', errorFields(error)));
  }

  async function keep(): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(FLUSH_MS, ended.signal);
      await tick();
    }
  }

  function takeAll(buckets: readonly Bucket[]): Verdict[] {
    const now = clock.now();
    const verdicts = buckets.map(({ name, limit }) => windowsOf(limit.windowMs).peek(name, limit, now));
    if (verdicts.some(({ allowed }) => !allowed)) return verdicts;
    return buckets.map(({ name, limit }) => windowsOf(limit.windowMs).take(name, limit, now));
  }

  if (store !== undefined) await load(store);
  const keeping = keep();

  return {
    take: (bucket: string, limit: Limit) => windowsOf(limit.windowMs).take(bucket, limit, clock.now()),
    takeAll,
    peek: (bucket: string, limit: Limit) => windowsOf(limit.windowMs).peek(bucket, limit, clock.now()),
    giveBack: (bucket: string, limit: Limit, at: number) => windowsOf(limit.windowMs).giveBack(bucket, at),
    async close() {
      ended.abort();
      await keeping;
    },
  };
}

function statementsFor(windowMs: number, { bucket, slices, until }: Change): Statement[] {
  const name = `${windowMs}:${bucket}`;
  return [
    ...(until === undefined ? [] : [dropSlices({ bucket: name, until })]),
    ...slices.map(({ starts_at, count }) => saveSlice({ bucket: name, starts_at, count })),
  ];
}
