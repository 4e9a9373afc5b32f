/**
 * How often: every limit is a sliding window over a bucket. Windows of ten minutes and more are promises, and outlive the
 * process: on SQLite they are counted in memory and written behind within a second (a crash forgives that second), on
 * PostgreSQL they are counted in the database, for all daemons together; so are an account's, however short. Of posts to
 * forms each daemon counts its own in memory, and the daemons exchange their counts every second, so that no post waits for
 * the row of a client. Other short ones are divided among the daemons that live, and each counts its own.
 *
 * A window is counted in sixtieths, and what was counted leaves it with its sixtieth. Nobody waits longer
 * than the window, and nobody gets more than the limit within 59 sixtieths of it. No I/O, no clock of its own.
 */
import ipaddr from 'ipaddr.js';
import type { LimitRow } from '../store/tables.ts';
import type { Form } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Store, writeBehind, writeIfMet } from '../store/store.ts';
import { errorFields } from '../lib/errors.ts';
import { LruMap } from '../lib/lru.ts';
import { addToSlice, allSlices, dropOldSlices, lockBucket, saveSlice, slicesOf, takeSlice } from '../store/limits.ts';

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
function sliceAt(now: number, windowMs: number): number {
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

/** A slice as the store has it; `bucket` begins with the length of the window. */
type Counted = Pick<LimitRow, 'bucket' | 'starts_at'> & { count: number };

/** The bucket's name in the store. */
function nameOf(bucket: string, windowMs: number): string {
  return `${windowMs}:${bucket}`;
}

export interface Admission {
  readonly verdict: Verdict;
  /** To be called when the post was refused after all, or failed: it then counts among the refused attempts. */
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
}

/** What posts to forms are counted with. */
interface PostCounters extends Omit<Counters, 'takeAll'> {
  /** Takes back what was counted at `at`. Never rejects. */
  giveBack(bucket: Bucket, at: number): void | Promise<void>;
}

export interface Limits extends Counters {
  /**
   * Admits a post to a form: `rateLimit` counts accepted posts per client and hour; refused attempts have a cap of their
   * own, five times as high, so that a visitor who mistypes is not locked out and one who tries everything is.
   */
  takeSubmission(form: Pick<Form, 'id' | 'rateLimit'>, ip: string): Promise<Admission>;
  /**
   * Counts an accepted post of the form, whoever sent it. On PostgreSQL the limit is divided among the daemons, and each counts
   * its own: all posts of a form would wait for one row otherwise.
   */
  takePost(form: Pick<Form, 'id' | 'maxPerHour'>): Verdict | Promise<Verdict>;
  /** Writes what is not written yet. */
  close(): Promise<void>;
}

const HOUR = 3_600_000;
/** No window is longer. */
const DAY = 24 * HOUR;
const KEPT_FROM_MS = 600_000;
const REFUSED_FACTOR = 5;
const FLUSH_MS = 1000;
const MAX_EXCHANGED = 100_000;
const IDLE_MS = 60_000;
const SWEEP_MS = 600_000;

/** The limits, as far as they were used when the last process ended. */
export async function createLimits(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** This daemon's part of what all daemons together allow; without it, there is no other. */
  readonly share?: ((count: number) => number) | undefined;
}): Promise<Limits> {
  const { store, clock, log, share = (count) => count } = parts;
  const isAlone = store.dialect === 'sqlite';
  const memory = new MemoryCounters({ clock, ...(isAlone && { keptFromMs: KEPT_FROM_MS }) });
  const lasting: Counters = isAlone ? memory : databaseCounters(store, clock);
  const exchanged = isAlone ? undefined : new ExchangedCounters({ store, clock });
  const ofPosts: PostCounters = exchanged ?? memory;
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
    memory.forgetIdle();
    const failure = 'limits.not_saved';
    memory.notSaved(await writeBehind(memory.changes(), (row) => saveSlice({ ...row }), { store, log, failure }));
    exchanged?.forgetIdle();
    exchanged?.told(await writeBehind(exchanged.changes(), (row) => addToSlice({ ...row }), { store, log, failure }));
  }

  async function sweep(): Promise<void> {
    const now = clock.now();
    const ofHours = dropOldSlices({ of: nameOf('%', HOUR), before: now - HOUR });
    await store
      .write([ofHours, dropOldSlices({ of: '%', before: now - DAY })])
      .catch((error: unknown) => log.warn('limits.not_swept', errorFields(error)));
  }

  return {
    take: (bucket, limit) =>
      limit.windowMs < KEPT_FROM_MS
        ? memory.take(bucket, { ...limit, count: share(limit.count) })
        : lasting.take(bucket, limit),
    takeAll: (buckets) => lasting.takeAll(buckets),
    peek: (bucket) => lasting.peek(bucket),
    async takeSubmission(form, ip) {
      const client = clientBucket(ip);
      const refusals = {
        name: `refused:${form.id}:${client}`,
        limit: { count: form.rateLimit * REFUSED_FACTOR, windowMs: HOUR },
      };
      const refusal = await ofPosts.peek(refusals);
      if (!refusal.allowed) return { verdict: refusal, refused: nothing };
      const accepted = { name: `accepted:${form.id}:${client}`, limit: { count: form.rateLimit, windowMs: HOUR } };
      const at = clock.now();
      const verdict = await ofPosts.take(accepted.name, accepted.limit);
      if (!verdict.allowed) return { verdict, refused: nothing };
      return {
        verdict,
        async refused() {
          await ofPosts.giveBack(accepted, at);
          await ofPosts.take(refusals.name, refusals.limit);
        },
      };
    },
    takePost: ({ id, maxPerHour }) => memory.take(`posts:${id}`, { count: share(maxPerHour), windowMs: HOUR }),
    async close() {
      ended.abort();
      await Promise.all(running);
      // What was counted while the last flush ran.
      await flush();
    },
  };
}

async function nothing(): Promise<void> {}

interface Window {
  /** The slices of each bucket, oldest first. */
  readonly buckets: LruMap<Counted[]>;
  /** When their next turn is due, ms: what is not used between two of them has left the window. */
  turnAt: number;
}

/** Counters of this process: of each length of window so many buckets, the longest untouched go first. */
export class MemoryCounters implements Counters {
  readonly #clock: Clock;
  readonly #maxBuckets: number;
  readonly #keptFromMs: number;
  /** By their length. */
  readonly #windows = new Map<number, Window>();
  readonly #changed = new Set<Counted>();

  /** Windows of `keptFromMs` and more are to be written behind. */
  constructor({ clock, maxBuckets = 100_000, keptFromMs = Infinity }: MemoryOptions) {
    this.#clock = clock;
    this.#maxBuckets = maxBuckets;
    this.#keptFromMs = keptFromMs;
  }

  /** How many buckets are remembered. */
  get size(): number {
    return [...this.#windows.values()].reduce((sum, { buckets }) => sum + buckets.size, 0);
  }

  take(bucket: string, limit: Limit): Verdict {
    const { windowMs, count } = limit;
    const now = this.#clock.now();
    const slices = this.#slicesOf(bucket, windowMs);
    const allowed = usedIn(slices) < count;
    if (allowed) {
      const starts_at = sliceAt(now, windowMs);
      let slice = slices.at(-1);
      if (slice === undefined || slice.starts_at < starts_at) {
        slice = { bucket: nameOf(bucket, windowMs), starts_at, count: 0 };
        slices.push(slice);
      }
      slice.count++;
      this.#bucketsOf(windowMs).set(bucket, slices);
      if (windowMs >= this.#keptFromMs) this.#changed.add(slice);
    }
    return judgeWindow(slices, { limit, allowed, now });
  }

  takeAll(buckets: readonly Bucket[]): Verdict[] {
    const verdicts = buckets.map((bucket) => this.peek(bucket));
    if (verdicts.some(({ allowed }) => !allowed)) return verdicts;
    return buckets.map(({ name, limit }) => this.take(name, limit));
  }

  peek({ name, limit }: Bucket): Verdict {
    const slices = this.#slicesOf(name, limit.windowMs);
    return judgeWindow(slices, { limit, allowed: usedIn(slices) < limit.count, now: this.#clock.now() });
  }

  giveBack({ name, limit: { windowMs } }: Bucket, at: number): void {
    const start = sliceAt(at, windowMs);
    const slice = this.#slicesOf(name, windowMs).find(({ starts_at }) => starts_at === start);
    if (slice === undefined || slice.count === 0) return;
    slice.count--;
    if (windowMs >= this.#keptFromMs) this.#changed.add(slice);
  }

  /** Puts back what the store knew, oldest slice first. */
  restore(row: LimitRow): void {
    // Of a clock that was ahead.
    if (row.starts_at > this.#clock.now()) return;
    const colon = row.bucket.indexOf(':');
    const bucket = row.bucket.slice(colon + 1);
    const buckets = this.#bucketsOf(Number(row.bucket.slice(0, colon)));
    buckets.set(bucket, [...(buckets.get(bucket) ?? []), { ...row }]);
  }

  /** The slices that the store does not know, each once. */
  changes(): Counted[] {
    const rows = [...this.#changed];
    this.#changed.clear();
    return rows;
  }

  /** Has them among the next changes. */
  notSaved(rows: readonly Counted[]): void {
    for (const row of rows) this.#changed.add(row);
  }

  /** Forgets buckets whose window is empty. */
  forgetIdle(): void {
    const now = this.#clock.now();
    for (const [windowMs, window] of this.#windows) {
      if (now < window.turnAt) continue;
      window.buckets.turn();
      window.turnAt = now + windowMs;
    }
  }

  #bucketsOf(windowMs: number): LruMap<Counted[]> {
    let window = this.#windows.get(windowMs);
    if (window === undefined) {
      window = { buckets: new LruMap(this.#maxBuckets), turnAt: this.#clock.now() + windowMs };
      this.#windows.set(windowMs, window);
    }
    return window.buckets;
  }

  /** Those in the window; none that a clock which was set back has left in the future, or they would never leave it. */
  #slicesOf(bucket: string, windowMs: number): Counted[] {
    const now = this.#clock.now();
    const last = now + windowMs / SLICES;
    const slices = this.#bucketsOf(windowMs).get(bucket) ?? [];
    function isWithin({ starts_at }: Counted): boolean {
      return starts_at > now - windowMs && starts_at <= last;
    }
    return slices.every(isWithin) ? slices : slices.filter(isWithin);
  }
}

interface MemoryOptions {
  readonly clock: Clock;
  readonly maxBuckets?: number;
  readonly keptFromMs?: number;
}

/** A bucket in which other daemons count as well. */
interface Exchanged {
  /** When the store was asked, on the monotonic clock. */
  readonly askedAt: number;
  /** As the store had them, oldest first, with what this daemon has counted since. */
  readonly slices: Promise<Counted[]>;
}

/**
 * Counters of several daemons on one database: each counts in memory, tells the database every second, and asks it for what
 * is in use when it has not for a second. What others have counted since does not count yet.
 */
class ExchangedCounters implements PostCounters {
  readonly #parts: { readonly store: Store; readonly clock: Clock };
  /** By their name in the store. */
  readonly #buckets = new LruMap<Exchanged>(MAX_EXCHANGED);
  /** What the store does not know, by name and slice; and what it is being told. */
  #counted = new Map<string, Counted>();
  #telling: readonly Counted[] = [];
  #turnAt = 0;

  constructor(parts: { readonly store: Store; readonly clock: Clock }) {
    this.#parts = parts;
  }

  async take(name: string, limit: Limit): Promise<Verdict> {
    const slices = await this.#slicesOf({ name, limit });
    const verdict = this.#judge(slices, limit);
    if (!verdict.allowed) return verdict;
    this.#add(slices, { name, limit }, { at: this.#parts.clock.now(), count: 1 });
    return { ...this.#judge(slices, limit), allowed: true };
  }

  async peek(bucket: Bucket): Promise<Verdict> {
    return this.#judge(await this.#slicesOf(bucket), bucket.limit);
  }

  /** Asks the store nothing: it may be what has failed. */
  async giveBack(bucket: Bucket, at: number): Promise<void> {
    const known = this.#buckets.get(nameOf(bucket.name, bucket.limit.windowMs));
    this.#add((await known?.slices.catch(() => undefined)) ?? [], bucket, { at, count: -1 });
  }

  /** What the store is to be told, in one order everywhere: daemons that share it lock the same rows. */
  changes(): readonly Counted[] {
    const rows = [...this.#counted].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#counted = new Map();
    this.#telling = rows.filter(({ count }) => count !== 0);
    return this.#telling;
  }

  /** The store knows the last changes now but for these, which are among the next. */
  told(but: readonly Counted[]): void {
    this.#telling = [];
    for (const row of but) this.#count(row);
  }

  /** Forgets buckets that nobody uses. */
  forgetIdle(): void {
    const now = this.#parts.clock.monotonic();
    if (now < this.#turnAt) return;
    this.#buckets.turn();
    this.#turnAt = now + IDLE_MS;
  }

  #judge(slices: readonly Counted[], limit: Limit): Verdict {
    const now = this.#parts.clock.now();
    const within = slices.filter(({ starts_at }) => starts_at > now - limit.windowMs);
    return judgeWindow(within, { limit, allowed: usedIn(within) < limit.count, now });
  }

  /** Whoever asks meanwhile waits for the same answer. Rejects where the store cannot answer. */
  #slicesOf(bucket: Bucket): Promise<Counted[]> {
    const { name, limit } = bucket;
    const key = nameOf(name, limit.windowMs);
    const now = this.#parts.clock.monotonic();
    const known = this.#buckets.get(key);
    if (known !== undefined && now - known.askedAt < FLUSH_MS) return known.slices;
    const asked = { askedAt: now, slices: this.#ask(bucket) };
    this.#buckets.set(key, asked);
    asked.slices.catch(() => this.#buckets.delete(key));
    return asked.slices;
  }

  async #ask(bucket: Bucket): Promise<Counted[]> {
    const { store, clock } = this.#parts;
    const window = windowOf(bucket, clock.now());
    const rows = await store.select(slicesOf(window));
    const slices = rows.map(({ starts_at, count }) => ({ bucket: window.bucket, starts_at, count }));
    for (const row of [...this.#telling, ...this.#counted.values()]) {
      if (row.bucket === window.bucket) addTo(slices, row);
    }
    return slices;
  }

  #add(slices: Counted[], { name, limit }: Bucket, { at, count }: { at: number; count: number }): void {
    const row = { bucket: nameOf(name, limit.windowMs), starts_at: sliceAt(at, limit.windowMs), count };
    addTo(slices, row);
    this.#count(row);
  }

  #count(row: Counted): void {
    const key = `${row.bucket} ${row.starts_at}`;
    const known = this.#counted.get(key);
    if (known === undefined) this.#counted.set(key, { ...row });
    else known.count += row.count;
  }
}

function addTo(slices: Counted[], row: Counted): void {
  const slice = slices.find(({ starts_at }) => starts_at === row.starts_at);
  if (slice !== undefined) slice.count = Math.max(0, slice.count + row.count);
  else if (row.count > 0) slices.push({ ...row });
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

  return { take, takeAll, peek };
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
