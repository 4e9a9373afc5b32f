/**
 * Sliding windows: a window is counted in sixtieths, and what was counted leaves it with its sixtieth. Nobody waits longer
 * than the window, and nobody gets more than the limit within 59 sixtieths of it. No I/O, no clock of its own.
 */
import type { LimitRow } from '../store/tables-accounts.ts';

export interface Limit {
  /** How many within the window. */
  readonly count: number;
  readonly windowMs: number;
}

export interface Verdict {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Unix seconds: when there is room again, or more room. */
  readonly reset: number;
}

export interface Slice {
  readonly starts_at: number;
  readonly count: number;
}

const SLICES = 60;

/** The slice that holds `now`. */
export function sliceAt(now: number, windowMs: number): number {
  return now - (now % Math.ceil(windowMs / SLICES));
}

/** What the slices of a window (oldest first, expired ones left out) say. */
export function judgeWindow(
  slices: readonly Slice[],
  { limit, allowed, now }: { limit: Limit; allowed: boolean; now: number },
): Verdict {
  const used = usedIn(slices);
  let over = used - limit.count;
  let free = now;
  for (const { starts_at, count } of slices) {
    if (count === 0) continue;
    free = starts_at + limit.windowMs;
    over -= count;
    if (over < 0) break;
  }
  return { allowed, limit: limit.count, remaining: Math.max(0, limit.count - used), reset: Math.ceil(free / 1000) };
}

function usedIn(slices: readonly Slice[]): number {
  return slices.reduce((sum, { count }) => sum + count, 0);
}

interface Used {
  /** Oldest first. */
  readonly slices: Counted[];
  /** The beginning of the slice in which it was used last. */
  at: number;
}

/** A slice as the store has it; `bucket` begins with the length of the window. */
export type Counted = Pick<LimitRow, 'bucket' | 'starts_at'> & { count: number };

export interface WindowsOptions {
  readonly windowMs: number;
  readonly maxBuckets: number;
  /** Gets each slice that changes; without it the counts end with the process. */
  readonly changed?: Set<Counted> | undefined;
}

/** The bucket's name in the store. */
export function nameOf(bucket: string, windowMs: number): string {
  return `${windowMs}:${bucket}`;
}

/** All buckets of one window length, in memory: bounded, the longest untouched go first. */
export class SlidingWindows {
  readonly #windowMs: number;
  readonly #maxBuckets: number;
  readonly #changed: Set<Counted> | undefined;
  /** In the order of the slices in which they were last used: to move one at every use would cost more than to count. */
  readonly #buckets = new Map<string, Used>();

  constructor({ windowMs, maxBuckets, changed }: WindowsOptions) {
    this.#windowMs = windowMs;
    this.#maxBuckets = maxBuckets;
    this.#changed = changed;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Puts back what the store knew, oldest slice first. */
  restore(bucket: string, slice: LimitRow): void {
    this.#touch(bucket, slice.starts_at).push({ ...slice });
  }

  /** Counts one more where the limit allows it. */
  take(bucket: string, limit: Limit, now: number): Verdict {
    const slices = this.#current(bucket, now);
    const allowed = usedIn(slices) < limit.count;
    if (allowed) this.#add(bucket, slices, now);
    return judgeWindow(slices, { limit, allowed, now });
  }

  /** What `take` would answer, without counting. */
  peek(bucket: string, limit: Limit, now: number): Verdict {
    const slices = this.#buckets.has(bucket) ? this.#current(bucket, now) : [];
    return judgeWindow(slices, { limit, allowed: usedIn(slices) < limit.count, now });
  }

  /** Takes back what was counted at `at`. */
  giveBack(bucket: string, at: number): void {
    const start = sliceAt(at, this.#windowMs);
    const slice = this.#buckets.get(bucket)?.slices.find(({ starts_at }) => starts_at === start);
    if (slice === undefined || slice.count === 0) return;
    slice.count--;
    this.#changed?.add(slice);
  }

  /** Forgets buckets whose window is empty. */
  forgetIdle(now: number): void {
    for (const [bucket, { slices }] of this.#buckets) {
      if ((slices.at(-1)?.starts_at ?? 0) > now - this.#windowMs) return;
      this.#buckets.delete(bucket);
    }
  }

  /** The bucket's slices in the window; none where the clock was set back, or they would never leave it. */
  #current(bucket: string, now: number): Counted[] {
    const slices = this.#touch(bucket, sliceAt(now, this.#windowMs));
    const ahead = (slices.at(-1)?.starts_at ?? 0) > now + this.#windowMs / SLICES;
    const kept = ahead ? -1 : slices.findIndex(({ starts_at }) => starts_at > now - this.#windowMs);
    if (kept !== 0) slices.splice(0, kept === -1 ? slices.length : kept);
    return slices;
  }

  #add(bucket: string, slices: Counted[], now: number): void {
    const starts_at = sliceAt(now, this.#windowMs);
    let slice = slices.at(-1);
    if (slice === undefined || slice.starts_at < starts_at) {
      slice = { bucket: nameOf(bucket, this.#windowMs), starts_at, count: 0 };
      slices.push(slice);
    }
    slice.count++;
    this.#changed?.add(slice);
  }

  #touch(bucket: string, at: number): Counted[] {
    const known = this.#buckets.get(bucket);
    if (known?.at === at) return known.slices;
    const used = known ?? { slices: [], at };
    used.at = at;
    this.#buckets.delete(bucket);
    this.#buckets.set(bucket, used);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > this.#maxBuckets && oldest !== undefined) this.#buckets.delete(oldest);
    return used.slices;
  }
}
