/**
 * Sliding windows: a window is counted in sixtieths, and what was counted leaves it with its sixtieth. Nobody waits longer
 * than the window, and nobody gets more than the limit within 59 sixtieths of it. No I/O, no clock of its own.
 */

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
  const used = slices.reduce((sum, { count }) => sum + count, 0);
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

interface Used {
  /** Oldest first. */
  readonly slices: Counted[];
  /** The beginning of the slice in which it was used last. */
  at: number;
}

interface Counted {
  readonly starts_at: number;
  count: number;
  /** What the store knows. */
  saved: number;
}

/** What became of a bucket since it was last asked. */
export interface Change {
  readonly bucket: string;
  readonly slices: readonly Slice[];
  /** The store's slices that began at this time or earlier are gone. */
  readonly until: number | undefined;
  saved(): void;
}

export interface WindowsOptions {
  readonly windowMs: number;
  readonly maxBuckets: number;
  /** Whether `changes` is asked for. */
  readonly kept: boolean;
}

/** All buckets of one window length, in memory: bounded, the longest untouched go first. */
export class SlidingWindows {
  readonly #windowMs: number;
  readonly #maxBuckets: number;
  readonly #kept: boolean;
  /** In the order of the slices in which they were last used: to move one at every use would cost more than to count. */
  readonly #buckets = new Map<string, Used>();
  readonly #changed = new Set<string>();
  readonly #expired = new Map<string, number>();

  constructor({ windowMs, maxBuckets, kept }: WindowsOptions) {
    this.#windowMs = windowMs;
    this.#maxBuckets = maxBuckets;
    this.#kept = kept;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Puts back what the store knew, oldest slice first. */
  restore(bucket: string, { starts_at, count }: Slice): void {
    this.#touch(bucket, starts_at).push({ starts_at, count, saved: count });
  }

  /** Counts one more where the limit allows it. */
  take(bucket: string, limit: Limit, now: number): Verdict {
    const slices = this.#current(bucket, now);
    const allowed = slices.reduce((sum, { count }) => sum + count, 0) < limit.count;
    if (allowed) this.#add(bucket, slices, now);
    return judgeWindow(slices, { limit, allowed, now });
  }

  /** What `take` would answer, without counting. */
  peek(bucket: string, limit: Limit, now: number): Verdict {
    const slices = this.#buckets.has(bucket) ? this.#current(bucket, now) : [];
    const allowed = slices.reduce((sum, { count }) => sum + count, 0) < limit.count;
    return judgeWindow(slices, { limit, allowed, now });
  }

  /** Takes back what was counted at `at`. */
  giveBack(bucket: string, at: number): void {
    const start = sliceAt(at, this.#windowMs);
    const slice = this.#buckets.get(bucket)?.slices.find(({ starts_at }) => starts_at === start);
    if (slice === undefined || slice.count === 0) return;
    slice.count--;
    this.#note(bucket);
  }

  /** Forgets buckets whose window is empty. */
  forgetIdle(now: number): void {
    for (const [bucket, { slices }] of this.#buckets) {
      if ((slices.at(-1)?.starts_at ?? 0) > now - this.#windowMs) return;
      this.#forget(bucket, slices);
    }
  }

  /** What the store does not know yet. */
  changes(): Change[] {
    const buckets = new Set([...this.#changed, ...this.#expired.keys()]);
    return [...buckets].map((bucket) => this.#change(bucket));
  }

  #change(bucket: string): Change {
    const until = this.#expired.get(bucket);
    const changed = (this.#buckets.get(bucket)?.slices ?? []).filter(({ count, saved }) => count !== saved);
    const slices = changed.map(({ starts_at, count }) => ({ starts_at, count }));
    return {
      bucket,
      slices,
      until,
      saved: () => {
        for (const [i, slice] of changed.entries()) slice.saved = slices[i]?.count ?? slice.saved;
        if (changed.every(({ count, saved }) => count === saved)) this.#changed.delete(bucket);
        if (this.#expired.get(bucket) === until) this.#expired.delete(bucket);
      },
    };
  }

  /** The bucket's slices in the window; none where the clock was set back, or they would never leave it. */
  #current(bucket: string, now: number): Counted[] {
    const slices = this.#touch(bucket, sliceAt(now, this.#windowMs));
    const ahead = (slices.at(-1)?.starts_at ?? 0) > now + this.#windowMs / SLICES;
    const kept = ahead ? -1 : slices.findIndex(({ starts_at }) => starts_at > now - this.#windowMs);
    if (kept !== 0) this.#expire(bucket, slices.splice(0, kept === -1 ? slices.length : kept));
    return slices;
  }

  #add(bucket: string, slices: Counted[], now: number): void {
    const start = sliceAt(now, this.#windowMs);
    const last = slices.at(-1);
    if (last !== undefined && last.starts_at >= start) last.count++;
    else slices.push({ starts_at: start, count: 1, saved: 0 });
    this.#note(bucket);
  }

  #touch(bucket: string, at: number): Counted[] {
    const known = this.#buckets.get(bucket);
    if (known?.at === at) return known.slices;
    const used = known ?? { slices: [], at };
    used.at = at;
    this.#buckets.delete(bucket);
    this.#buckets.set(bucket, used);
    if (this.#buckets.size > this.#maxBuckets) {
      const [oldest] = this.#buckets;
      if (oldest !== undefined) this.#forget(oldest[0], oldest[1].slices);
    }
    return used.slices;
  }

  #forget(bucket: string, slices: readonly Counted[]): void {
    this.#buckets.delete(bucket);
    this.#changed.delete(bucket);
    this.#expire(bucket, slices);
  }

  #note(bucket: string): void {
    if (this.#kept) this.#changed.add(bucket);
  }

  #expire(bucket: string, slices: readonly Counted[]): void {
    const last = slices.at(-1);
    if (!this.#kept || last === undefined) return;
    this.#expired.set(bucket, Math.max(last.starts_at, this.#expired.get(bucket) ?? 0));
  }
}
