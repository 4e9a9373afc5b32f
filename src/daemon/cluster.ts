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
  /** There is mail to send, here or elsewhere. */
  mailQueued(): void;
  /** Whether this daemon runs the jobs of which one run is enough for all. */
  leads(): boolean;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Another daemon says so. */
  readonly hear: (topic: Topic) => void;
  /** Wakes this daemon's own delivery. */
  readonly wakeHere: () => void;
}

/** Any of them may have been told while nobody listened. */
const TOPICS: readonly Topic[] = ['config', 'queue'];
/** So often at most is the same thing told, ms. */
const PAUSE = 50;

/** Nothing where the database is a file, which one daemon alone has. */
export function joinCluster({ store, clock, log, hear, wakeHere }: ClusterOptions): Cluster {
  if (store.dialect === 'sqlite') {
    return { configChanged() {}, mailQueued: wakeHere, leads: () => true, close: () => Promise.resolve() };
  }
  const stop = new AbortController();
  const telling = new Set<Topic>();
  const again = new Set<Topic>();
  let isLeading = false;
  const leave = store.listen({
    hear,
    onLost(error) {
      isLeading = false;
      log.warn('cluster.connection_lost', errorFields(error));
    },
    onLead() {
      isLeading = true;
      log.info('cluster.leads');
    },
    onConnected() {
      log.info('cluster.connected');
      for (const topic of TOPICS) hear(topic);
    },
  });

  /** At once; what is to be told in the pause after it is told once, at its end. */
  async function tell(topic: Topic): Promise<void> {
    if (telling.has(topic)) return void again.add(topic);
    telling.add(topic);
    do {
      again.delete(topic);
      await store
        .notify(topic)
        .catch((error: unknown) => log.warn('cluster.notify_failed', { topic, ...errorFields(error) }));
      await clock.sleep(PAUSE, stop.signal);
    } while (again.has(topic) && !stop.signal.aborted);
    telling.delete(topic);
  }

  return {
    configChanged: () => void tell('config'),
    mailQueued() {
      wakeHere();
      void tell('queue');
    },
    leads: () => isLeading,
    async close() {
      stop.abort();
      await leave();
    },
  };
}
