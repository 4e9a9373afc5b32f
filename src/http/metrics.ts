/**
 * Figures for Prometheus (text format 0.0.4): on the Unix socket, and on a listener of its own where
 * `server.metrics.listen` says so; never on the public one.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { readFigures, type Figures } from '../store/figures.ts';
import type { Store } from '../store/store.ts';
import type { Answer } from './answer.ts';
import { listenOn, parseListenAddress, type ListenAddress } from './listen.ts';

export interface MetricsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
}

export interface Metrics {
  answer(): Promise<Answer>;
  /** Serves them on these addresses; answers where. Throws UserError where it cannot. */
  listen(addresses: readonly string[]): Promise<ListenAddress[]>;
  close(): Promise<void>;
}

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

export function createMetrics({ store, clock, log, version }: MetricsParts): Metrics {
  const lag = monitorEventLoopDelay({ resolution: 20 });
  lag.enable();
  const servers: Server[] = [];

  function serve(_: IncomingMessage, response: ServerResponse): void {
    text().then(
      (body) => response.writeHead(200, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' }).end(body),
      (error: unknown) => {
        log.error('metrics.failed', errorFields(error));
        response.writeHead(503).end();
      },
    );
  }

  async function text(): Promise<string> {
    const now = clock.now();
    const p99 = lag.percentile(99) / 1e9;
    lag.reset();
    return [
      metric(['postern_info', 'gauge'], 'Which version runs.', [[{ version }, 1]]),
      ...figures(await readFigures(store, now), now),
      metric(['process_resident_memory_bytes', 'gauge'], 'Memory in use.', [[{}, process.memoryUsage.rss()]]),
      metric(['process_cpu_seconds_total', 'counter'], 'Processor time of all threads.', [[{}, cpuSeconds()]]),
      metric(['process_uptime_seconds', 'gauge'], 'Since the start.', [[{}, Math.floor(process.uptime())]]),
      metric(['postern_event_loop_delay_seconds', 'gauge'], 'Of the main thread, 99 % since the last look.', [
        [{}, p99],
      ]),
    ].join('');
  }

  return {
    answer: async () => ({ status: 200, type: 'text/plain; charset=utf-8', body: await text() }),
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

function figures({ deliveries, dueSince, paused, held, domains, submissions }: Figures, now: number): string[] {
  const waiting = deliveries.map(({ state, count }): Sample => [{ state }, count]);
  const age = dueSince === null ? 0 : (now - dueSince) / 1000;
  return [
    metric(['postern_submissions_accepted_total', 'counter'], 'Of all forms, ever.', [[{}, submissions]]),
    metric(['postern_deliveries', 'gauge'], 'By state, without those that are delivered.', waiting),
    metric(['postern_queue_oldest_due_seconds', 'gauge'], 'How long the oldest due mail has waited.', [[{}, age]]),
    metric(['postern_destinations_paused', 'gauge'], 'Left alone until their next try.', [[{}, paused]]),
    metric(['postern_destinations_held', 'gauge'], 'Held by the operator.', [[{}, held]]),
    metric(
      ['postern_domains', 'gauge'],
      'By state.',
      domains.map(({ status, count }): Sample => [{ status }, count]),
    ),
  ];
}

/** `name` is its name and its type. */
function metric(
  [name, type]: readonly [string, 'gauge' | 'counter'],
  help: string,
  samples: readonly Sample[],
): string {
  const lines = samples.map(([labels, value]) => {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`);
    return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}\n`;
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
