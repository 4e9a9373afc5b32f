/**
 * How often: every limit is a sliding window over a bucket. Windows of ten minutes and more are promises, and outlive the
 * process: on SQLite they are counted in memory and written behind within a second (a crash forgives that second), on
 * PostgreSQL they are counted in the database, for all daemons together; so are an account's, however short. Other short
 * ones protect this daemon and are counted by it alone.
 */
import ipaddr from 'ipaddr.js';

import type { Form } from '../config/forms.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import { writeBehind } from './usage.ts';
import type { LimitRow } from '../store/tables-accounts.ts';
import {
  type Counted,
  judgeWindow,
  type Limit,
  nameOf,
  sliceAt,
  SlidingWindows,
  type Verdict,
} from './sliding-window.ts';
import { errorFields } from '../lib/errors.ts';
import { allSlices, dropOldSlices, lockBucket, saveSlice, slicesOf, takeSlice, untakeSlice } from '../store/limits.ts';

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
  const lasting = isAlone ? memory : databaseCounters(store, clock);
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
    const old = [HOUR, DAY].map((windowMs) =>
      dropOldSlices({ of: nameOf('%', windowMs), before: clock.now() - windowMs }),
    );
    await store
      .write([...old, dropOldSlices({ of: '%', before: clock.now() - DAY })])
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
    },
  };
}

interface MemoryCounters extends Counters {
  restore(row: LimitRow): void;
  /** The slices that the store does not know, each once. */
  changes(): Counted[];
  /** Has them among the next changes. */
  notSaved(rows: readonly Counted[]): void;
}

/** Counters of this process; where it `isAlone`, those of ten minutes and more are to be written behind. */
function memoryCounters(clock: Clock, maxBuckets: number, isAlone: boolean): MemoryCounters {
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
    takeAll(buckets) {
      const verdicts = buckets.map(peek);
      if (verdicts.some(({ allowed }) => !allowed)) return verdicts;
      return buckets.map(({ name, limit }) => take(name, limit));
    },
    peek,
    giveBack: ({ name, limit }, at) => windowsOf(limit.windowMs).giveBack(name, at),
    restore(row) {
      // Of a clock that was ahead.
      if (row.starts_at > clock.now()) return;
      const colon = row.bucket.indexOf(':');
      windowsOf(Number(row.bucket.slice(0, colon))).restore(row.bucket.slice(colon + 1), row);
    },
    changes() {
      for (const window of windows.values()) window.forgetIdle(clock.now());
      const rows = [...changed];
      changed.clear();
      return rows;
    },
    notSaved(rows) {
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
