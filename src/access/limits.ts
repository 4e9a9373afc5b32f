/**
 * How often: every limit is a sliding window over a bucket. Windows of ten minutes and more are promises, and outlive the
 * process: on SQLite they are counted in memory and written behind within a second (a crash forgives that second), on
 * PostgreSQL they are counted in the database, for all daemons together; so are an account's, however short. Other short
 * ones protect this daemon and are counted by it alone.
 */
import type { Form } from '../config/snapshot.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Store } from '../store/store.ts';
import { clientBucket } from './client-bucket.ts';
import type { Bucket } from './counters.ts';
import { databaseCounters } from './limits-database.ts';
import { memoryCounters } from './limits-memory.ts';
import type { Limit, Verdict } from './sliding-window.ts';

export { clientBucket };
export type { Bucket, Limit, Verdict };

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
