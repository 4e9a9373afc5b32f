/** What the server does now, for whoever watches it: figures of the queue, what was counted, and what is wrong. */
import { performance } from 'node:perf_hooks';
import type { Snapshot } from '../config/snapshot.ts';
import type { status } from '../contract/server.ts';
import type { Clock } from '../lib/clock.ts';
import { relayPause } from '../store/destinations.ts';
import { countQueuedSince, readFigures, worstDestinations } from '../store/figures.ts';
import type { FreeSpace } from '../store/sqlite.ts';
import type { Store } from '../store/store.ts';
import type { DataOf } from './api/route.ts';
import type { Metrics, Reading } from './metrics.ts';
import type { Attention } from './overview.ts';

export type Status = () => Promise<DataOf<typeof status.show>>;

export interface StatusParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly version: string;
  readonly metrics: Pick<Metrics, 'counted'>;
  readonly snapshot: () => Snapshot;
  /** What is wrong with the server. */
  readonly problems: () => Promise<readonly Attention[]>;
}

export interface ProblemsParts extends Pick<StatusParts, 'store' | 'clock' | 'snapshot'> {
  readonly freeSpace: FreeSpace;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  readonly queueProblem: () => string | undefined;
}

/** What is wrong with the server itself, the worst first. */
export function createProblems({
  store,
  clock,
  snapshot,
  freeSpace,
  queueProblem,
}: ProblemsParts): StatusParts['problems'] {
  return async () => {
    const { server, problems: ofConfiguration, waiting } = snapshot();
    const { hostname } = server.server;
    const queue = queueProblem();
    const relay = await relayPause(store, clock.now());
    const found: (Omit<Attention, 'since' | 'subject'> & { readonly subject?: string })[] = [
      ...(queue === undefined ? [] : [{ kind: 'queue' as const, message: queue }]),
      ...(relay === undefined
        ? []
        : [
            {
              kind: 'relay' as const,
              message: `the smarthost is paused after ${relay.failures} failures: ${relay.error}`,
            },
          ]),
      ...(freeSpace.below(server.limits.free_disk)
        ? [{ kind: 'disk' as const, message: 'the disk is almost full: no mail and no submissions are accepted' }]
        : []),
      ...ofConfiguration.map((message) => ({ kind: 'configuration' as const, message })),
      ...(waiting.length === 0
        ? []
        : [
            {
              kind: 'restart_needed' as const,
              message: `a restart is needed for the new values of ${waiting.join(', ')}`,
            },
          ]),
    ];
    return found.map((one) => ({ subject: hostname, since: null, ...one }));
  };
}

const MINUTE_MS = 60_000;
const MAX_DESTINATIONS = 20;

export function createStatus(parts: StatusParts): Status {
  const { store, clock, version, metrics, snapshot, problems } = parts;

  return async () => {
    const now = clock.now();
    const figures = await readFigures(store, now);
    const counted = await metrics.counted();
    const { user, system } = process.cpuUsage();
    const destinations = await worstDestinations(store, MAX_DESTINATIONS);
    function inState(state: string): number {
      return sumOf(figures.deliveries.flatMap((row) => (row.state === state ? [row.count] : [])));
    }
    return {
      hostname: snapshot().server.server.hostname,
      version,
      now,
      started_at: Math.round(performance.timeOrigin),
      memory: process.memoryUsage.rss(),
      cpu_seconds: (user + system) / 1e6,
      queue: {
        queued: inState('queued'),
        sending: inState('sending'),
        deferred: inState('deferred'),
        oldest_due_seconds: figures.dueSince === null ? 0 : (now - figures.dueSince) / 1000,
        paused: figures.paused,
        held: figures.held,
      },
      accepted_last_minute: await countQueuedSince(store, now - MINUTE_MS),
      deliveries: {
        delivered: endsOf(counted, 'delivered'),
        deferred: endsOf(counted, 'deferred'),
        bounced: endsOf(counted, 'bounced'),
        expired: endsOf(counted, 'expired'),
      },
      latencies: {
        form: histogramOf(counted, 'postern_http_request_duration_seconds', { handler: 'form' }),
        smtp: histogramOf(counted, 'postern_smtp_transaction_duration_seconds'),
        delivery: histogramOf(counted, 'postern_delivery_duration_seconds'),
      },
      destinations: destinations.map(({ last_error: error, last_reply: reply, paused_until: until, ...row }) => ({
        ...row,
        paused_until: until !== null && until > now ? until : null,
        reason: error ?? reply,
      })),
      problems: (await problems()).map(({ message }) => message),
    };
  };
}

interface Value {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  /** Of a histogram: which of its series it belongs to. */
  readonly metricName?: string;
}

function valuesOf(reading: Reading, name: string): readonly Value[] {
  return reading.filter((metric) => metric.name === name).flatMap(({ values }): readonly Value[] => values);
}

function endsOf(reading: Reading, outcome: string): number {
  const values = valuesOf(reading, 'postern_deliveries_total');
  return sumOf(values.flatMap(({ labels, value }) => (labels['outcome'] === outcome ? [value] : [])));
}

/** The histogram with these labels, those of all others added up. */
function histogramOf(reading: Reading, name: string, of: Readonly<Record<string, string>> = {}) {
  const series = valuesOf(reading, name).filter(({ labels }) =>
    Object.entries(of).every(([label, wanted]) => labels[label] === wanted),
  );
  const buckets = Map.groupBy(
    series.filter(({ metricName }) => metricName?.endsWith('_bucket')),
    ({ labels }) => Number(labels['le'] === '+Inf' ? Infinity : labels['le']),
  );
  const sorted = [...buckets].sort(([a], [b]) => a - b);
  return {
    buckets: sorted.map(([le, values]) => ({
      le: Number.isFinite(le) ? le : null,
      count: sumOf(values.map(({ value }) => value)),
    })),
    count: sumOf(series.flatMap(({ metricName, value }) => (metricName?.endsWith('_count') ? [value] : []))),
  };
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
