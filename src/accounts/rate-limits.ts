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
import { type Store, UnmetError } from '../store/store.ts';
import { type Limit, type Verdict, SlidingWindows, type Change, judgeWindow, sliceAt } from './sliding-window.ts';
import { errorFields } from '../lib/errors.ts';
import {
  allSlices,
  dropSlices,
  saveSlice,
  dropOldSlices,
  lockBucket,
  slicesOf,
  takeSlice,
  untakeSlice,
} from '../store/limits.ts';
import type { Statement } from '../store/statement.ts';

export interface Admission {
  readonly verdict: Verdict;
  /** To be called when the post was refused after all: it then counts among the refused attempts. */
  refused(): Promise<void>;
}

export interface Limits {
  /** Counts one more in the bucket, or refuses. */
  take(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
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
  /**
   * Counts one more in each bucket of an account, or in none where one of them is full: a refused request costs nothing.
   * Whoever takes several of the same buckets names them in the same order.
   */
  takeAll(buckets: readonly Bucket[]): readonly Verdict[] | Promise<readonly Verdict[]>;
  /** What `takeAll` would answer for one of them, without counting. */
  peek(bucket: Bucket): Verdict | Promise<Verdict>;
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
const KEPT_FROM = 600_000;
const REFUSED_FACTOR = 5;

/** The limits, as far as they were used when the last process ended. */
export async function createLimits({ store, clock, log, maxBuckets = 100_000 }: LimitsOptions): Promise<Limits> {
  const brief = await memoryCounters({ clock, log, maxBuckets });
  const lasting =
    store.dialect === 'sqlite'
      ? await memoryCounters({ clock, log, maxBuckets, store })
      : databaseCounters({ clock, log, store });

  async function takeSubmission(form: Pick<Form, 'id' | 'rateLimit'>, ip: string): Promise<Admission> {
    const client = clientBucket(ip);
    const refusals = { bucket: `refused:${form.id}:${client}`, count: form.rateLimit * REFUSED_FACTOR, windowMs: HOUR };
    const refusal = await lasting.peek(refusals.bucket, refusals);
    if (!refusal.allowed) return { verdict: refusal, refused: () => Promise.resolve() };
    const accepted = { bucket: `accepted:${form.id}:${client}`, count: form.rateLimit, windowMs: HOUR };
    const at = clock.now();
    const verdict = await lasting.take(accepted.bucket, accepted);
    return {
      verdict,
      async refused() {
        if (!verdict.allowed) return;
        await lasting.giveBack(accepted.bucket, accepted, at);
        await lasting.take(refusals.bucket, refusals);
      },
    };
  }

  return {
    take: (bucket, limit) => (limit.windowMs < KEPT_FROM ? brief : lasting).take(bucket, limit),
    takeSubmission,
    takePost({ id, maxPerHour }) {
      const counters = store.dialect === 'sqlite' ? lasting : brief;
      return counters.take(`posts:${id}`, { count: maxPerHour, windowMs: HOUR });
    },
    takeAll: (buckets) => lasting.takeAll(buckets),
    peek: ({ name, limit }) => lasting.peek(name, limit),
    async close() {
      await brief.close();
      await lasting.close();
    },
  };
}

// Limits counted in memory, written behind where there is a store.

export interface MemoryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly maxBuckets: number;
  /** Where the counts of windows of ten minutes and more are kept; without one they end with the process. */
  readonly store?: Store;
}

const FLUSH_MS = 1000;
const KEPT_FROM_LIMITS_MEMORY = 600_000;
/** So many changed buckets go into one commit, so that a flood of clients never holds up the submissions beside it. */
const BATCH = 250;

/** Counters that know what the store knew. */
async function memoryCounters({ clock, log, maxBuckets, store }: MemoryOptions): Promise<Counters> {
  const windows = new Map<number, SlidingWindows>();
  const ended = new AbortController();

  function windowsOf(windowMs: number): SlidingWindows {
    let known = windows.get(windowMs);
    if (known === undefined) {
      known = new SlidingWindows({
        windowMs,
        maxBuckets,
        kept: store !== undefined && windowMs >= KEPT_FROM_LIMITS_MEMORY,
      });
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

// Limits counted in a database that several daemons share.

const SWEEP_MS = 600_000;
/** No window is longer. */
const MAX_WINDOW_MS = 86_400_000;

/** Counters of which each is one transaction. */
function databaseCounters({ store, clock, log }: { store: Store; clock: Clock; log: Log }): Counters {
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
      const before = clock.now() - MAX_WINDOW_MS;
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

/** One bucket and how much it takes. */
export interface Bucket {
  readonly name: string;
  readonly limit: Limit;
}

export interface Counters {
  /** Counts one more where the limit allows it. */
  take(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** Counts one more in each of the buckets, or in none where one of them is full; their verdicts in the same order. */
  takeAll(buckets: readonly Bucket[]): readonly Verdict[] | Promise<readonly Verdict[]>;
  /** What `take` would answer, without counting. */
  peek(bucket: string, limit: Limit): Verdict | Promise<Verdict>;
  /** Takes back what was counted at `at`. */
  giveBack(bucket: string, limit: Limit, at: number): void | Promise<void>;
  close(): Promise<void>;
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
