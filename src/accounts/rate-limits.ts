/**
 * How often: every limit is a sliding window over a bucket. Windows of ten minutes and more are promises, and outlive the
 * process: on SQLite they are counted in memory and written behind within a second (a crash forgives that second), on
 * PostgreSQL they are counted in the database, for all daemons together; so are an account's, however short. Other short
 * ones protect this daemon and are counted by it alone.
 *
 * A window is counted in sixtieths, and what was counted leaves it with its sixtieth. Nobody waits longer
 * than the window, and nobody gets more than the limit within 59 sixtieths of it. No I/O, no clock of its own.
 */
import ipaddr from 'ipaddr.js';
import type { LimitRow } from '../store/tables.ts';
import type { Form } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import { writeBehind } from './usage.ts';
import { errorFields } from '../lib/errors.ts';
import { allSlices, dropOldSlices, lockBucket, saveSlice, slicesOf, takeSlice, untakeSlice } from '../store/limits.ts';

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
function nameOf(bucket: string, windowMs: number): string {
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

export interface Admission {
  readonly verdict: Verdict;
  /** To be called when the post was refused after all: it then counts among the refused attempts. */
  refused(): Promise<void>;
}

/** One bucket and how much it takes. */
export interface Bucket {
  readonly name: string;
  readonly limit: Limit;
}

/** Where windows are counted. */
interface Counters {
  /** Counts one more in the bucket, or refuses. */
  take(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /**
   * Counts one more in each bucket of an account, or in none where one of them is full: a refused request costs nothing.
   * Whoever takes several of the same buckets names them in the same order.
   */
  takeAll(buckets: readonly Bucket[]): readonly Verdict[] | Promise<readonly Verdict[]>;
  /** What `takeAll` would answer for one of them, without counting. */
  peek(bucket: Bucket): Verdict | Promise<Verdict>;
  /** Takes back what was counted at `at`. */
  giveBack(bucket: Bucket, at: number): void | Promise<void>;
}

export interface Limits extends Omit<Counters, 'giveBack'> {
  /**
   * Admits a post to a form: `rateLimit` counts accepted posts per client and hour; refused attempts have a cap of their
   * own, five times as high, so that a visitor who mistypes is not locked out and one who tries everything is.
   */
  takeSubmission(form: Pick<Form, 'id' | 'rateLimit'>, ip: string): Promise<Admission>;
  /**
   * Counts an accepted post of the form, whoever sent it. On PostgreSQL each daemon counts its own: all posts of a form would
   * wait for one row otherwise.
   */
  takePost(form: Pick<Form, 'id' | 'maxPerHour'>): Verdict | Promise<Verdict>;
  /** Writes what is not written yet. */
  close(): Promise<void>;
}

export interface LimitsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Clients that are remembered at once, per window. */
  readonly maxBuckets?: number;
}

const HOUR = 3_600_000;
/** No window is longer. */
const DAY = 24 * HOUR;
const KEPT_FROM_MS = 600_000;
const REFUSED_FACTOR = 5;
const FLUSH_MS = 1000;
const SWEEP_MS = 600_000;

/** The limits, as far as they were used when the last process ended. */
export async function createLimits({ store, clock, log, maxBuckets = 100_000 }: LimitsOptions): Promise<Limits> {
  const isAlone = store.dialect === 'sqlite';
  const memory = memoryCounters(clock, maxBuckets, isAlone);
  const lasting: Counters = isAlone ? memory : databaseCounters(store, clock);
  if (isAlone) for (const row of await allSlices(store)) memory.restore(row);
  const ended = new AbortController();
  const running = [every(FLUSH_MS, flush), every(SWEEP_MS, sweep)];

  async function every(ms: number, step: () => Promise<void>): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(ms, ended.signal);
      await step();
    }
  }

  async function flush(): Promise<void> {
    const failure = 'limits.not_saved';
    memory.notSaved(await writeBehind(memory.changes(), (row) => saveSlice({ ...row }), { store, log, failure }));
  }

  async function sweep(): Promise<void> {
    const now = clock.now();
    const ofHours = dropOldSlices({ of: nameOf('%', HOUR), before: now - HOUR });
    await store
      .write([ofHours, dropOldSlices({ of: '%', before: now - DAY })])
      .catch((error: unknown) => log.warn('limits.not_swept', errorFields(error)));
  }

  return {
    take: (bucket, limit) => (limit.windowMs < KEPT_FROM_MS ? memory : lasting).take(bucket, limit),
    takeAll: (buckets) => lasting.takeAll(buckets),
    peek: (bucket) => lasting.peek(bucket),
    async takeSubmission(form, ip) {
      const client = clientBucket(ip);
      const refusals = {
        name: `refused:${form.id}:${client}`,
        limit: { count: form.rateLimit * REFUSED_FACTOR, windowMs: HOUR },
      };
      const refusal = await lasting.peek(refusals);
      if (!refusal.allowed) return { verdict: refusal, refused: () => Promise.resolve() };
      const accepted = { name: `accepted:${form.id}:${client}`, limit: { count: form.rateLimit, windowMs: HOUR } };
      const at = clock.now();
      const verdict = await lasting.take(accepted.name, accepted.limit);
      return {
        verdict,
        async refused() {
          if (!verdict.allowed) return;
          await lasting.giveBack(accepted, at);
          await lasting.take(refusals.name, refusals.limit);
        },
      };
    },
    takePost: ({ id, maxPerHour }) => memory.take(`posts:${id}`, { count: maxPerHour, windowMs: HOUR }),
    async close() {
      ended.abort();
      await Promise.all(running);
      // What was counted while the last flush ran.
      await flush();
    },
  };
}

/** Counters of this process; where it `isAlone`, those of ten minutes and more are to be written behind. */
function memoryCounters(clock: Clock, maxBuckets: number, isAlone: boolean) {
  const windows = new Map<number, SlidingWindows>();
  const changed = new Set<Counted>();

  function windowsOf(windowMs: number): SlidingWindows {
    let known = windows.get(windowMs);
    if (known === undefined) {
      known = new SlidingWindows({
        windowMs,
        maxBuckets,
        changed: isAlone && windowMs >= KEPT_FROM_MS ? changed : undefined,
      });
      windows.set(windowMs, known);
    }
    return known;
  }

  function peek({ name, limit }: Bucket): Verdict {
    return windowsOf(limit.windowMs).peek(name, limit, clock.now());
  }

  function take(bucket: string, limit: Limit): Verdict {
    return windowsOf(limit.windowMs).take(bucket, limit, clock.now());
  }

  return {
    take,
    takeAll(buckets: readonly Bucket[]) {
      const verdicts = buckets.map(peek);
      if (verdicts.some(({ allowed }) => !allowed)) return verdicts;
      return buckets.map(({ name, limit }) => take(name, limit));
    },
    peek,
    giveBack: ({ name, limit }: Bucket, at: number) => windowsOf(limit.windowMs).giveBack(name, at),
    restore(row: LimitRow) {
      // Of a clock that was ahead.
      if (row.starts_at > clock.now()) return;
      const colon = row.bucket.indexOf(':');
      windowsOf(Number(row.bucket.slice(0, colon))).restore(row.bucket.slice(colon + 1), row);
    },
    /** The slices that the store does not know, each once. */
    changes(): Counted[] {
      for (const window of windows.values()) window.forgetIdle(clock.now());
      const rows = [...changed];
      changed.clear();
      return rows;
    },
    /** Has them among the next changes. */
    notSaved(rows: readonly Counted[]) {
      for (const row of rows) changed.add(row);
    },
  };
}

/** Counters in a database that several daemons share, of which each is one transaction. */
function databaseCounters(store: Store, clock: Clock): Counters {
  async function take(bucket: string, limit: Limit): Promise<Verdict> {
    const now = clock.now();
    const window = windowOf({ name: bucket, limit }, now);
    const [, taken, slices] = await store.write([lockBucket(window), takeSlice(window), slicesOf(window)]);
    return judgeWindow(slices.rows, { limit, allowed: taken.changes === 1, now });
  }

  /** Locks in the order given: whoever takes several of the same buckets names them in the same order. */
  async function takeAll(buckets: readonly Bucket[]): Promise<Verdict[]> {
    const now = clock.now();
    const windows = buckets.map((bucket) => windowOf(bucket, now));
    const unit = windows.flatMap((window) => [lockBucket(window), takeSlice(window, 1)]);
    if ((await writeIfMet(store, unit)) === undefined) {
      const verdicts = await Promise.all(buckets.map(peek));
      // Where there is room by now, it can be had.
      return verdicts.every(({ allowed }) => allowed) ? takeAll(buckets) : verdicts;
    }
    const verdicts = await Promise.all(buckets.map(peek));
    return verdicts.map((verdict) => ({ ...verdict, allowed: true }));
  }

  async function peek(bucket: Bucket): Promise<Verdict> {
    const now = clock.now();
    const { limit } = bucket;
    const slices = await store.select(slicesOf(windowOf(bucket, now)));
    const used = slices.reduce((sum, { count }) => sum + count, 0);
    return judgeWindow(slices, { limit, allowed: used < limit.count, now });
  }

  async function giveBack(bucket: Bucket, at: number): Promise<void> {
    await store.write([untakeSlice(windowOf(bucket, at))]);
  }

  return { take, takeAll, peek, giveBack };
}

function windowOf({ name, limit: { windowMs, count: max } }: Bucket, now: number) {
  return { bucket: nameOf(name, windowMs), slice: sliceAt(now, windowMs), since: now - windowMs, max };
}

/**
 * An IPv4 address is a client, and so is an IPv6 /64: that is what one household or server is given (RFC 6177). An
 * IPv4-mapped address is the IPv4 address. What is no address at all, such as the peer of a Unix socket, is itself.
 */
export function clientBucket(ip: string): string {
  if (!ip.includes(':')) return ip;
  if (!ipaddr.IPv6.isValid(ip)) return ip;
  const address = ipaddr.IPv6.parse(ip);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  const network = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
