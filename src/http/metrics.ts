/**
 * Figures for Prometheus: on the Unix socket, and on a listener of its own where `server.metrics.listen` says so; never on
 * the public one.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { listenOn, parseListenAddress, type ListenAddress } from '../lib/sockets.ts';
import type { Log } from '../lib/log.ts';
import { Tally } from '../lib/tally.ts';
import { readFigures, type Figures } from '../store/figures.ts';
import type { Store } from '../store/store.ts';
import type { Answer } from './answer.ts';

export interface MetricsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** What other doors count: the name of the metric, what it is about, and its counts by `outcome`. */
  readonly tallies?: readonly TallyMetric[];
  /** When the certificate ends, ms; undefined where there is none. */
  readonly certificateEnds?: () => number | undefined;
}

export interface TallyMetric {
  readonly name: string;
  readonly help: string;
  readonly tally: Pick<Tally<string>, 'entries'>;
}

export interface Metrics {
  answer(): Promise<Answer>;
  /** Counts an answer of the public side or of the socket, by the class of its status. */
  answered(status: number): void;
  /** Serves them on these addresses; answers where. Throws UserError where it cannot. */
  listen(addresses: readonly string[]): Promise<ListenAddress[]>;
  close(): Promise<void>;
}

const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

export function createMetrics(parts: MetricsParts): Metrics {
  const { store, clock, log } = parts;
  const lag = monitorEventLoopDelay({ resolution: 20 });
  lag.enable();
  const requests = new Tally(CLASSES);
  const registry = new Registry();
  const figures = registerFigures(registry);
  registerProcess(registry, parts.version, () => {
    const p99 = lag.percentile(99) / 1e9;
    lag.reset();
    return p99;
  });
  registerTally(registry, 'class', {
    name: 'postern_http_requests_total',
    help: 'Answered requests, by the class of their status.',
    tally: requests,
  });
  for (const metric of parts.tallies ?? []) registerTally(registry, 'outcome', metric);
  const ends = parts.certificateEnds;
  if (ends?.() !== undefined)
    gauge(registry, ['postern_certificate_end_seconds', 'When it ends, since the epoch.'], () => (ends() ?? 0) / 1000);
  const servers: Server[] = [];

  function serve(_: IncomingMessage, response: ServerResponse): void {
    text().then(
      (body) => response.writeHead(200, { 'Content-Type': Registry.PROMETHEUS_CONTENT_TYPE }).end(body),
      (error: unknown) => {
        log.error('metrics.failed', errorFields(error));
        response.writeHead(503).end();
      },
    );
  }

  async function text(): Promise<string> {
    const now = clock.now();
    figures(await readFigures(store, now), now);
    return registry.metrics();
  }

  return {
    answer: async () => ({ status: 200, type: 'text/plain; charset=utf-8', body: await text() }),
    answered(status) {
      const name = CLASSES[Math.floor(status / 100) - 1];
      if (name !== undefined) requests.count(name);
    },
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

/** Registers what the store knows; the function that it answers takes a new look over. */
function registerFigures(registry: Registry): (figures: Figures, now: number) => void {
  const registers = [registry];
  const submissions = new Counter({
    name: 'postern_submissions_accepted_total',
    help: 'Of all forms, ever.',
    registers,
  });
  const deliveries = new Gauge({
    name: 'postern_deliveries',
    help: 'By state and transport (smtp: mail, http: webhooks), without those that are delivered.',
    labelNames: ['state', 'transport'],
    registers,
  });
  const domains = byLabel('postern_domains', 'By state.', 'status');
  const age = plain('postern_queue_oldest_due_seconds', 'How long the oldest due mail has waited.');
  const paused = plain('postern_destinations_paused', 'Left alone until their next try.');
  const held = plain('postern_destinations_held', 'Held by the operator.');

  function plain(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers });
  }

  function byLabel(
    name: string,
    help: string,
    label: string,
  ): (counts: readonly (readonly [string, number])[]) => void {
    const gauge = new Gauge({ name, help, labelNames: [label], registers });
    return (counts) => {
      gauge.reset();
      for (const [value, count] of counts) gauge.set({ [label]: value }, count);
    };
  }

  return (figures, now) => {
    submissions.reset();
    submissions.inc(figures.submissions);
    deliveries.reset();
    for (const { state, transport, count } of figures.deliveries) deliveries.set({ state, transport }, count);
    domains(figures.domains.map(({ status, count }) => [status, count]));
    age.set(figures.dueSince === null ? 0 : (now - figures.dueSince) / 1000);
    paused.set(figures.paused);
    held.set(figures.held);
  };
}

function registerProcess(registry: Registry, version: string, eventLoopDelay: () => number): void {
  const info = new Gauge({
    name: 'postern_info',
    help: 'Which version runs.',
    labelNames: ['version'],
    registers: [registry],
  });
  info.set({ version }, 1);
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'Processor time of all threads.',
    registers: [registry],
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  gauge(registry, ['process_resident_memory_bytes', 'Memory in use.'], () => process.memoryUsage.rss());
  gauge(registry, ['process_uptime_seconds', 'Since the start.'], () => Math.floor(process.uptime()));
  gauge(
    registry,
    ['postern_event_loop_delay_seconds', 'Of the main thread, 99 % since the last look.'],
    eventLoopDelay,
  );
}

function registerTally(registry: Registry, label: string, { name, help, tally }: TallyMetric): void {
  new Counter({
    name,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      this.reset();
      for (const [value, count] of tally.entries()) this.inc({ [label]: value }, count);
    },
  });
}

/** One value, looked at when it is asked for. */
function gauge(registry: Registry, [name, help]: readonly [string, string], value: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(value());
    },
  });
}
