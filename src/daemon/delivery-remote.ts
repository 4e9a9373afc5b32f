/** Delivery as the daemon sees it: in a thread of its own, or in this one where a test holds the clock or the name servers. */
import { once } from 'node:events';
import { MessageChannel, Worker as Thread } from 'node:worker_threads';
import { AggregatorRegistry } from 'prom-client';
import type { ServerConfig } from '../config/schema.ts';
import { createDeliveryMetrics, type Reading } from '../http/metrics.ts';
import { TurnBatch } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { isAnyDeliveryOpen } from '../store/figures.ts';
import type { Delivery, DeliveryParts, FromDelivery, Listening, ToDelivery } from './delivery.ts';

/** A thread that has been silent for so long is stuck, ms. */
const MAX_SILENT_MS = 15_000;
/** The same while it starts, on a busy machine. */
const MAX_START_MS = 60_000;
/** Between two looks whether anything is to be delivered, ms. */
const LOOK_MS = 5000;
/** So long after there was something to deliver the thread ends, ms. */
const DELIVERY_IDLE_MS = 60_000;
/** What is accepted while it ends may be in flight already, ms. */
const GRACE_MS = 10_000;

export interface OpenDelivery extends Omit<DeliveryParts, 'random' | 'metrics'> {
  /** Takes the lines of the thread's log. */
  readonly keepLines: (line: string) => void;
  /** What the test holds. */
  readonly parts: Partial<Pick<DeliveryParts, 'clock' | 'resolver' | 'random' | 'pool'>>;
}

/** Opens delivery where this daemon has the role: in a thread, or in this one where a test holds the clock or the name servers. */
export async function openDelivery({ parts, keepLines, ...here }: OpenDelivery): Promise<Delivery> {
  const { store, clock, log, server } = here;
  if (!server.server.roles.includes('delivery')) {
    return {
      wake() {},
      configure() {},
      setListening() {},
      problem: () => undefined,
      metrics: () => Promise.resolve([]),
      isStuck: () => false,
      stop: () => Promise.resolve(),
    };
  }
  if (parts.clock === undefined && parts.resolver === undefined) {
    return deliverInThread({
      clock,
      log,
      server,
      isNeeded: () => isAnyDeliveryOpen(store),
      start: (began) => startDeliveryThread({ ...began, store, clock, keepLines }),
    });
  }
  const { startDelivery } = await import('./delivery.ts');
  const metrics = createDeliveryMetrics();
  return startDelivery({ ...here, random: parts.random ?? Math.random, pool: parts.pool, metrics });
}

/** The delivery thread, from its start to its end. */
export interface DeliveryThread extends Pick<Delivery, 'wake' | 'configure' | 'problem' | 'isStuck' | 'stop'> {
  /** What it has counted since its start. */
  metrics(): Reading;
}

export interface InThread {
  readonly clock: Clock;
  readonly log: Log;
  readonly server: ServerConfig;
  /** Whether anything is queued or being sent. */
  readonly isNeeded: () => Promise<boolean>;
  readonly start: (parts: { readonly server: ServerConfig; readonly listening: Listening }) => DeliveryThread;
}

/**
 * Delivers in a thread that runs while there is something to deliver, and for a minute after that. It is started when the
 * daemon listens, so that no start waits for it, and an idle daemon does without its memory.
 */
export async function deliverInThread({ clock, log, isNeeded, start, ...first }: InThread): Promise<Delivery> {
  let { server } = first;
  let listening: Listening | undefined;
  let thread: DeliveryThread | undefined;
  let isEnding = false;
  let neededAt = clock.monotonic();
  /** By threads that have ended. */
  let counted = await createDeliveryMetrics().read();
  let watching = Promise.resolve();
  const stopping = new AbortController();

  function wake(): void {
    neededAt = clock.monotonic();
    if (isEnding || stopping.signal.aborted) return;
    if (thread !== undefined) thread.wake();
    else if (listening !== undefined) thread = start({ server, listening });
  }

  async function end(graceMs: number): Promise<void> {
    if (thread === undefined) return;
    isEnding = true;
    const beganAt = clock.monotonic();
    await thread.stop(graceMs);
    counted = await sum([counted, thread.metrics()]);
    thread = undefined;
    isEnding = false;
    if (neededAt >= beganAt) wake();
  }

  /** Looks from time to time, too: an earlier run or another daemon may have left something, and a retry wakes nobody. */
  async function watch(): Promise<void> {
    while (!stopping.signal.aborted) {
      const isNeededNow = await isNeeded().catch((error: unknown) => {
        log.error('queue.fault', errorFields(error));
        return thread !== undefined;
      });
      if (isNeededNow && thread === undefined) wake();
      else if (isNeededNow) neededAt = clock.monotonic();
      else if (clock.monotonic() - neededAt >= DELIVERY_IDLE_MS) await end(GRACE_MS);
      await clock.sleep(LOOK_MS, stopping.signal);
    }
  }

  return {
    wake,
    configure(next) {
      server = next;
      thread?.configure(next);
    },
    setListening(next) {
      listening = next;
      watching = watch();
    },
    problem: () => thread?.problem(),
    metrics: () => (thread === undefined ? Promise.resolve(counted) : sum([counted, thread.metrics()])),
    isStuck: () => thread?.isStuck() ?? false,
    async stop(graceMs) {
      stopping.abort();
      await watching;
      await end(graceMs);
    },
  };
}

function sum(readings: readonly Reading[]): Promise<Reading> {
  return AggregatorRegistry.aggregate([...readings]).getMetricsAsJSON();
}

/** Starts the thread. Where it ends by itself the process does, too: systemd starts it again, the queue goes on. */
function startDeliveryThread({
  store,
  clock,
  keepLines,
  ...data
}: Parameters<InThread['start']>[0] & Pick<OpenDelivery, 'store' | 'clock' | 'keepLines'>): DeliveryThread {
  const { port1: port, port2 } = new MessageChannel();
  const handle = store.share();
  const thread = new Thread(new URL('./delivery-thread.ts', import.meta.url), {
    workerData: { port: port2, handle, ...data },
    transferList: handle.dialect === 'sqlite' ? [port2, handle.port] : [port2],
    name: 'delivery',
  });
  thread.once('error', (error) => {
    throw error;
  });
  let state: FromDelivery = { problem: undefined, isStuck: false, metrics: [], lines: [] };
  let silentAt = clock.monotonic() + MAX_START_MS;
  port.on('message', (message: FromDelivery) => {
    silentAt = clock.monotonic() + MAX_SILENT_MS;
    state = message;
    for (const line of message.lines) keepLines(line);
  });

  function tell(message: ToDelivery): void {
    port.postMessage(message);
  }

  // One wake for all that is accepted in one turn: at each, the thread looks through the whole queue.
  const wakes = new TurnBatch<undefined>(() => tell({ kind: 'wake' }));

  function isSilent(): boolean {
    return clock.monotonic() > silentAt;
  }

  return {
    wake: () => wakes.add(undefined),
    configure: (next) => tell({ kind: 'configure', server: next }),
    problem: () => (isSilent() ? 'the delivery thread does not respond' : state.problem),
    metrics: () => state.metrics,
    isStuck: () => state.isStuck || isSilent(),
    async stop(graceMs) {
      const ended = once(thread, 'exit');
      tell({ kind: 'stop', graceMs });
      await ended;
      port.close();
    },
  };
}
