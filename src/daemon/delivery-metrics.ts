/** What delivery counts for Prometheus, in its own thread; `GET /metrics` adds it to the figures of the main thread. */
import { Counter, Histogram, Registry } from 'prom-client';
import type { Reading } from '../http/metrics.ts';
import type { Counted } from '../queue/results.ts';

export interface DeliveryMetrics {
  /** As of now. */
  read(): Promise<Reading>;
  counted(counted: Counted): void;
  /** A transaction with another mail server has ended after so many ms. */
  transaction(ms: number): void;
}

/** Seconds: from a server next door to the last retry. */
const DELIVERY_BUCKETS = [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400];
const TRANSACTION_BUCKETS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export function createDeliveryMetrics(): DeliveryMetrics {
  const registry = new Registry();
  const registers = [registry];
  const deliveries = new Counter({
    name: 'postern_deliveries_total',
    help: 'Ends of delivery attempts, by outcome and receiver.',
    labelNames: ['outcome', 'receiver'],
    registers,
  });
  const durations = new Histogram({
    name: 'postern_delivery_duration_seconds',
    help: 'Time from acceptance to delivery, by receiver.',
    labelNames: ['receiver'],
    buckets: DELIVERY_BUCKETS,
    registers,
  });
  const transactions = new Histogram({
    name: 'postern_smtp_transaction_duration_seconds',
    help: 'Duration of outbound SMTP transactions.',
    buckets: TRANSACTION_BUCKETS,
    registers,
  });
  return {
    read: () => registry.getMetricsAsJSON(),
    counted({ outcome, receiver, age }) {
      deliveries.inc({ outcome, receiver });
      if (outcome === 'delivered') durations.observe({ receiver }, age / 1000);
    },
    transaction: (ms) => transactions.observe(ms / 1000),
  };
}
