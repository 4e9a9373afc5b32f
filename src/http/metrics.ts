/**
 * Metrics for Prometheus: on the Unix socket, and on a listener of its own where `server.metrics.listen` says so; never on
 * the public one. Counters are since the start of this process, gauges as of the scrape.
 */
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { listenOn, parseListenAddress, type ListenAddress } from '../lib/sockets.ts';
import type { Counted } from '../queue/results.ts';
import { readFigures } from '../store/figures.ts';
import { UnmetError, type Store } from '../store/store.ts';
import type { Answer } from './answer.ts';

/** All metrics of a registry, as plain data that another thread can send. */
export type Reading = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

interface MetricsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** What other servers count: the name of the metric, what it is about, and its counts by `outcome`. */
  readonly counters?: readonly { readonly name: string; readonly help: string; readonly counts: Counts }[];
  /** What others know as of now. */
  readonly figures?: () => readonly Figure[];
  /** What the threads have counted. */
  readonly threads?: () => Promise<Reading>;
}

/** Since the start, by name. */
type Counts = Readonly<Record<string, number>>;

/** A metric as of now. */
export interface Figure {
  readonly name: string;
  readonly help: string;
  readonly value: number | readonly Sample[];
}

type Sample = readonly [labels: Readonly<Record<string, string>>, count: number];

/** What became of a form post. */
export type SubmissionOutcome = 'accepted' | 'pending' | 'spam' | 'repeated' | 'rejected' | 'failed';

export interface Metrics {
  answer(): Promise<Answer>;
  /** What is counted as it happens, here and in delivery. */
  counted(): Promise<Reading>;
  /** Counts an answer of the public side or of the socket. */
  answered(answered: { readonly status: number; readonly ms: number; readonly handler: 'form' | 'other' }): void;
  submitted(outcome: SubmissionOutcome): void;
  /** Serves them on these addresses; answers where. Throws UserError where it cannot. */
  listen(addresses: readonly string[]): Promise<ListenAddress[]>;
  close(): Promise<void>;
}

const REQUEST_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

export function createMetrics(parts: MetricsParts): Metrics {
  const { store, clock, log } = parts;
  const lag = monitorEventLoopDelay({ resolution: 20 });
  lag.enable();
  const requests: Record<string, number> = { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 };
  const submissions: Record<SubmissionOutcome, number> = {
    accepted: 0,
    pending: 0,
    spam: 0,
    repeated: 0,
    rejected: 0,
    failed: 0,
  };
  const lasting = new Registry();
  const durations = new Histogram({
    name: 'postern_http_request_duration_seconds',
    help: 'Duration of HTTP requests, until the end of the response.',
    labelNames: ['handler'],
    buckets: REQUEST_BUCKETS,
    registers: [lasting],
  });
  const servers: Server[] = [];

  async function text(): Promise<string> {
    return AggregatorRegistry.aggregate([await read(), await counted()]).metrics();
  }

  async function counted(): Promise<Reading> {
    return [...(await lasting.getMetricsAsJSON()), ...((await parts.threads?.()) ?? [])];
  }

  /** What is known as of now, and what is counted by one label or none. */
  async function read(): Promise<Reading> {
    const now = clock.now();
    const figures = await readFigures(store, now);
    const registry = new Registry();
    const dueSeconds = figures.dueSince === null ? 0 : (now - figures.dueSince) / 1000;
    const all: Figure[] = [
      {
        name: 'postern_build_info',
        help: 'Versions of Postern and Node.js.',
        value: [[{ version: parts.version, node: process.versions.node }, 1]],
      },
      {
        name: 'postern_queue_deliveries',
        help: 'Unfinished deliveries by state and transport (smtp: mail, http: webhooks).',
        value: figures.deliveries.map(({ count, ...labels }) => [labels, count]),
      },
      { name: 'postern_queue_oldest_due_seconds', help: 'Age of the oldest due delivery.', value: dueSeconds },
      {
        name: 'postern_destinations_paused',
        help: 'Destinations that are waiting for their next attempt.',
        value: figures.paused,
      },
      {
        name: 'postern_relay_failing',
        help: '1 while all mail is waiting because the smarthost is failing.',
        value: figures.relayFailing,
      },
      { name: 'postern_destinations_held', help: 'Destinations held by the operator.', value: figures.held },
      {
        name: 'postern_domains',
        help: 'Domains by status.',
        value: figures.domains.map(({ count, ...labels }) => [labels, count]),
      },
      { name: 'postern_submissions_total', help: 'Form posts by outcome.', value: labelled('outcome', submissions) },
      {
        name: 'postern_http_requests_total',
        help: 'Answered HTTP requests by status class.',
        value: labelled('class', requests),
      },
      {
        name: 'postern_event_loop_delay_seconds',
        help: '99th percentile of the event loop delay in the main thread since the last scrape.',
        value: lag.percentile(99) / 1e9,
      },
      ...(parts.counters ?? []).map(({ counts, ...each }) => ({ ...each, value: labelled('outcome', counts) })),
      ...(parts.figures?.() ?? []),
      ...(await processFigures()),
    ];
    lag.reset();
    for (const { name, help, value } of all) {
      const samples = typeof value === 'number' ? [[{}, value] as const] : value;
      const options = { name, help, labelNames: Object.keys(samples[0]?.[0] ?? {}), registers: [registry] };
      const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
      for (const [labels, count] of samples) metric.inc(labels, count);
    }
    return registry.getMetricsAsJSON();
  }

  function serve(_: IncomingMessage, response: ServerResponse): void {
    text().then(
      (body) => response.writeHead(200, { 'Content-Type': Registry.PROMETHEUS_CONTENT_TYPE }).end(body),
      (error: unknown) => {
        log.error('metrics.failed', errorFields(error));
        response.writeHead(503).end();
      },
    );
  }

  return {
    answer: async () => ({ status: 200, type: 'text/plain; charset=utf-8', body: await text() }),
    counted,
    answered({ status, ms, handler }) {
      const name = `${Math.floor(status / 100)}xx`;
      requests[name] = (requests[name] ?? 0) + 1;
      durations.observe({ handler }, ms / 1000);
    },
    submitted: (outcome) => void submissions[outcome]++,
    async listen(addresses) {
      const bound: ListenAddress[] = [];
      for (const address of addresses) {
        const server = createServer({ requestTimeout: 10_000 }, serve);
        servers.push(server);
        bound.push(await listenOn(server, parseListenAddress(address)));
      }
      return bound;
    },
    async close() {
      lag.disable();
      for (const server of servers.filter(({ listening }) => listening)) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
}

function labelled(label: string, counts: Counts): Sample[] {
  return Object.entries(counts).map(([value, count]) => [{ [label]: value }, count]);
}

/** Of the process as a whole, by the names that all client libraries of Prometheus use. */
async function processFigures(): Promise<Figure[]> {
  const { user, system } = process.cpuUsage();
  const [descriptors, limits] = await Promise.all([
    readdir('/proc/self/fd').catch(() => undefined),
    readFile('/proc/self/limits', 'utf8').catch(() => ''),
  ]);
  const [, most] = /^Max open files +(\d+)/m.exec(limits) ?? [];
  return [
    { name: 'process_cpu_seconds_total', help: 'CPU time of all threads.', value: (user + system) / 1e6 },
    { name: 'process_resident_memory_bytes', help: 'Resident memory.', value: process.memoryUsage.rss() },
    {
      name: 'process_start_time_seconds',
      help: 'Start time of the process, in seconds since the epoch.',
      value: Math.round(performance.timeOrigin / 1000),
    },
    ...(descriptors === undefined
      ? []
      : [{ name: 'process_open_fds', help: 'Open file descriptors.', value: descriptors.length }]),
    ...(most === undefined
      ? []
      : [{ name: 'process_max_fds', help: 'Maximum number of open file descriptors.', value: Number(most) }]),
  ];
}

// What a thread counts of its use of the database, for Prometheus. The figures of both threads are added.

/** Seconds: from a commit that shares its sync with others to the end of all patience. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

interface DatabaseMetrics {
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
    help: 'Failed database reads and writes.',
    registers,
  });
  const durations = new Histogram({
    name: 'postern_database_duration_seconds',
    help: 'Duration of database reads and writes, including the wait for a connection.',
    labelNames: ['operation'],
    buckets: BUCKETS,
    registers,
  });
  const { connections } = opened;
  if (connections !== undefined) {
    new Gauge({
      name: 'postern_database_connections',
      help: 'PostgreSQL connections in use or idle, and requests waiting for one.',
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
    store: {
      ...opened,
      write(unit) {
        const written = opened.write(unit);
        void observe('write', written);
        return written;
      },
      select(statement) {
        const read = opened.select(statement);
        void observe('read', read);
        return read;
      },
    },
    read: () => registry.getMetricsAsJSON(),
  };

  async function observe(operation: 'read' | 'write', work: Promise<unknown>): Promise<void> {
    const began = clock.monotonic();
    try {
      await work;
      durations.observe({ operation }, (clock.monotonic() - began) / 1000);
    } catch (error) {
      // A condition that did not hold is an answer.
      if (!(error instanceof UnmetError)) errors.inc();
    }
  }
}

// What delivery counts for Prometheus, in its own thread; `GET /metrics` adds it to the figures of the main thread.

export interface DeliveryMetrics {
  /** As of now. */
  read(): Promise<Reading>;
  counted(counted: Counted): void;
  /** A transaction with another mail server has ended after so many ms. */
  transaction(ms: number): void;
  /** From now on this says whether mail servers can be reached from here. */
  watchRoute(hasRoute: () => boolean): void;
}

/** Seconds: from a server next door to the last retry. */
const DELIVERY_BUCKETS = [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400];
const TRANSACTION_BUCKETS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export function createDeliveryMetrics(): DeliveryMetrics {
  const registry = new Registry();
  const registers = [registry];
  const deliveries = new Counter({
    name: 'postern_deliveries_total',
    help: 'Completed delivery attempts, by outcome and receiver.',
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
  const noRoute = new Gauge({
    name: 'postern_delivery_no_route',
    help: '1 while no mail server can be reached from this machine and the other daemons deliver its mail.',
    registers,
  });
  let hasRoute: (() => boolean) | undefined;
  return {
    watchRoute(next) {
      hasRoute = next;
    },
    read() {
      noRoute.set(hasRoute?.() === false ? 1 : 0);
      return registry.getMetricsAsJSON();
    },
    counted({ outcome, receiver, age }) {
      deliveries.inc({ outcome, receiver });
      if (outcome === 'delivered') durations.observe({ receiver }, age / 1000);
    },
    transaction: (ms) => transactions.observe(ms / 1000),
  };
}
