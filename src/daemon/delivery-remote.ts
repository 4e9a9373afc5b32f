/** Delivery as the daemon sees it: in a thread of its own, or in this one where a test holds the clock or the name servers. */
import { once } from 'node:events';
import { MessageChannel, Worker as Thread, type MessagePort } from 'node:worker_threads';
import { TurnBatch } from '../lib/batch.ts';
import type { Clock } from '../lib/clock.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import { startDelivery, type Delivery, type DeliveryParts, type FromDelivery, type ToDelivery } from './delivery.ts';

/** A thread that has been silent for so long is stuck, ms. */
const SILENT_MS = 15_000;

export interface OpenDelivery extends Omit<DeliveryParts, 'random' | 'metrics'> {
  /** Takes the lines of the thread's log. */
  readonly keepLines: (line: string) => void;
  /** What the test holds. */
  readonly parts: Partial<Pick<DeliveryParts, 'clock' | 'resolver' | 'random' | 'pool'>>;
}

/** The delivery thread, which loads its code and then waits to be started. */
export interface LoadingThread {
  readonly thread: Thread;
  readonly port: MessagePort;
}

/** Begins to load it, where this daemon delivers in a thread of its own: that takes as long as the rest of a start. */
export function loadDeliveryThread({
  store,
  server,
  parts,
}: Pick<OpenDelivery, 'store' | 'server' | 'parts'>): LoadingThread | undefined {
  const isHere = parts.clock !== undefined || parts.resolver !== undefined;
  if (isHere || !server.server.roles.includes('delivery')) return undefined;
  const { port1, port2 } = new MessageChannel();
  const handle = store.share();
  const thread = new Thread(new URL('./delivery-thread.ts', import.meta.url), {
    workerData: { port: port2, handle, server },
    transferList: handle.dialect === 'sqlite' ? [port2, handle.port] : [port2],
    name: 'delivery',
  });
  thread.once('error', (error) => {
    throw error;
  });
  return { thread, port: port1 };
}

/** Starts it where this daemon has the role: in the thread, or in this one where a test holds the clock or the name servers. */
export async function openDelivery(
  { parts, keepLines, ...here }: OpenDelivery,
  loading: LoadingThread | undefined,
): Promise<Delivery> {
  if (!here.server.server.roles.includes('delivery')) {
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
  if (loading !== undefined) return startDeliveryThread(loading, { clock: here.clock, keepLines });
  const metrics = createDeliveryMetrics();
  return startDelivery({ ...here, random: parts.random ?? Math.random, pool: parts.pool, metrics });
}

/** Starts delivery in the thread. Where it ends by itself the process does, too: systemd starts it again, the queue goes on. */
async function startDeliveryThread(
  { thread, port }: LoadingThread,
  { clock, keepLines }: { readonly clock: Clock; readonly keepLines: (line: string) => void },
): Promise<Delivery> {
  let state: FromDelivery = { problem: undefined, isStuck: false, metrics: [], lines: [] };
  tell({ kind: 'start' });
  await once(port, 'message');
  let heardAt = clock.monotonic();
  port.on('message', (message: FromDelivery) => {
    heardAt = clock.monotonic();
    state = message;
    for (const line of message.lines) keepLines(line);
  });

  function tell(message: ToDelivery): void {
    port.postMessage(message);
  }

  // One wake for all that is accepted in one turn: at each, the thread looks through the whole queue.
  const wakes = new TurnBatch<undefined>(() => tell({ kind: 'wake' }));

  function isSilent(): boolean {
    return clock.monotonic() - heardAt > SILENT_MS;
  }

  return {
    wake: () => wakes.add(undefined),
    configure: (next) => tell({ kind: 'configure', server: next }),
    setListening: (listening) => tell({ kind: 'listening', listening }),
    problem: () => (isSilent() ? 'the delivery thread is silent' : state.problem),
    metrics: () => Promise.resolve(state.metrics),
    isStuck: () => state.isStuck || isSilent(),
    async stop(graceMs) {
      const ended = once(thread, 'exit');
      tell({ kind: 'stop', graceMs });
      await ended;
      port.close();
    },
  };
}
