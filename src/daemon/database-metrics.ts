/** What a thread counts of its use of the database, for Prometheus. The figures of both threads are added. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import type { Reading } from '../http/metrics.ts';
import { observeStore, type Store } from '../store/store.ts';

/** Seconds: from a commit that shares its sync with others to the end of all patience. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export interface DatabaseMetrics {
  /** The same store, whose use is counted. */
  readonly store: Store;
  /** As of now. */
  read(): Promise<Reading>;
}

export function createDatabaseMetrics(opened: Store, clock: Clock): DatabaseMetrics {
  const registry = new Registry();
  const registers = [registry];
  const errors = new Counter({
    name: 'postern_database_errors_total',
    help: 'Failed reads and writes of the database.',
    registers,
  });
  const durations = new Histogram({
    name: 'postern_database_duration_seconds',
    help: 'Duration of reads and writes of the database, with the wait for a connection.',
    labelNames: ['operation'],
    buckets: BUCKETS,
    registers,
  });
  const { connections } = opened;
  if (connections !== undefined) {
    new Gauge({
      name: 'postern_database_connections',
      help: 'Connections to PostgreSQL that are used or idle, and work that waits for one.',
      labelNames: ['state'],
      registers,
      collect() {
        const { used, idle, waiting } = connections();
        this.set({ state: 'used' }, used);
        this.set({ state: 'idle' }, idle);
        this.set({ state: 'waiting' }, waiting);
      },
    });
  }
  return {
    store: observeStore(opened, clock, {
      failed: () => errors.inc(),
      done: (operation, ms) => durations.observe({ operation }, ms / 1000),
    }),
    read: () => registry.getMetricsAsJSON(),
  };
}
