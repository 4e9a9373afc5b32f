/**
 * Figures for Prometheus: on the Unix socket, and on a listener of its own where `server.metrics.listen` says so; never on
 * the public one.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Registry } from 'prom-client';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { CertificateState } from '../lib/certificate.ts';
import { listenOn, parseListenAddress, type ListenAddress } from '../lib/sockets.ts';
import type { Log } from '../lib/log.ts';
import { Tally } from '../lib/tally.ts';
import { readFigures } from '../store/figures.ts';
import type { Store } from '../store/store.ts';
import type { Answer } from './answer.ts';

export interface MetricsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** What other servers count: the name of the metric, what it is about, and its counts by `outcome`. */
  readonly tallies?: readonly { readonly name: string; readonly help: string; readonly tally: Entries }[];
  /** The certificates of HTTPS and STARTTLS. */
  readonly certificates?: () => readonly CertificateState[];
}

type Entries = Pick<Tally<string>, 'entries'>;

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
  const servers: Server[] = [];

  /** All figures as they are now. */
  async function text(): Promise<string> {
    const now = clock.now();
    const figures = await readFigures(store, now);
    const registry = new Registry();
    const { user, system } = process.cpuUsage();
    const dueSeconds = figures.dueSince === null ? 0 : (now - figures.dueSince) / 1000;
    add('postern_submissions_accepted_total', 'Of all forms, ever.', figures.submissions);
    add(
      'postern_deliveries',
      'By state and transport (smtp: mail, http: webhooks), without those that are delivered.',
      figures.deliveries.map(({ count, ...labels }) => [labels, count]),
    );
    add(
      'postern_domains',
      'By state.',
      figures.domains.map(({ count, ...labels }) => [labels, count]),
    );
    add('postern_queue_oldest_due_seconds', 'How long the oldest due mail has waited.', dueSeconds);
    add('postern_destinations_paused', 'Left alone until their next try.', figures.paused);
    add('postern_destinations_held', 'Held by the operator.', figures.held);
    add('postern_info', 'Which version runs.', [[{ version: parts.version }, 1]]);
    add('process_cpu_seconds_total', 'Processor time of all threads.', (user + system) / 1e6);
    add('process_resident_memory_bytes', 'Memory in use.', process.memoryUsage.rss());
    add('process_uptime_seconds', 'Since the start.', Math.floor(process.uptime()));
    add('postern_event_loop_delay_seconds', 'Of the main thread, 99 % since the last look.', lag.percentile(99) / 1e9);
    lag.reset();
    add('postern_http_requests_total', 'Answered requests, by the class of their status.', labelled('class', requests));
    for (const { name, help, tally } of parts.tallies ?? []) add(name, help, labelled('outcome', tally));
    const ends = (parts.certificates?.() ?? []).flatMap(({ name, expiresAt }): Sample[] =>
      expiresAt === undefined ? [] : [[{ name }, expiresAt / 1000]],
    );
    add('postern_tls_certificate_expiry_timestamp_seconds', 'When the certificate of a name ends.', ends);
    return registry.metrics();

    function add(name: string, help: string, value: number | readonly Sample[]): void {
      const samples = typeof value === 'number' ? [[{}, value] as const] : value;
      const options = { name, help, labelNames: Object.keys(samples[0]?.[0] ?? {}), registers: [registry] };
      const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
      for (const [labels, count] of samples) metric.inc(labels, count);
    }
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

type Sample = readonly [labels: Readonly<Record<string, string>>, count: number];

function labelled(label: string, tally: Entries): Sample[] {
  return tally.entries().map(([value, count]) => [{ [label]: value }, count]);
}
