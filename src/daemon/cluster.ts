/**
 * What the daemons on one PostgreSQL database tell each other: that projects or domains have changed, and that there is mail
 * to send. Quick as a rule, never needed: each also looks by itself.
 */
import { errorFields } from '../lib/errors.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Store, Topic } from '../store/store.ts';

export interface Cluster {
  configChanged(): void;
  mailQueued(): void;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Another daemon says so. */
  readonly hear: (topic: Topic) => void;
}

/** Any of them may have been told while nobody listened. */
const TOPICS: readonly Topic[] = ['config', 'queue'];
/** So often at most is the same thing told, ms. */
const PAUSE = 50;

/** Nothing where the database is a file, which one daemon alone has. */
export function joinCluster({ store, clock, log, hear }: ClusterOptions): Cluster {
  if (store.dialect === 'sqlite') return { configChanged() {}, mailQueued() {}, close: () => Promise.resolve() };
  const stop = new AbortController();
  const telling = new Map<Topic, { again: boolean }>();
  const leave = store.listen({
    hear,
    onLost: (error) => log.warn('cluster.connection_lost', errorFields(error)),
    onConnected() {
      log.info('cluster.connected');
      for (const topic of TOPICS) hear(topic);
    },
  });

  /** At once; what is to be told while that is under way is told once, after it. */
  async function tell(topic: Topic): Promise<void> {
    const running = telling.get(topic);
    if (running !== undefined) {
      running.again = true;
      return;
    }
    const state = { again: true };
    telling.set(topic, state);
    while (state.again && !stop.signal.aborted) {
      state.again = false;
      await store
        .notify(topic)
        .catch((error: unknown) => log.warn('cluster.notify_failed', { topic, ...errorFields(error) }));
      await clock.sleep(PAUSE, stop.signal);
    }
    telling.delete(topic);
  }

  return {
    configChanged: () => void tell('config'),
    mailQueued: () => void tell('queue'),
    async close() {
      stop.abort();
      await leave();
    },
  };
}
