/** Delivery as the daemon sees it: in a thread of its own, or in this one where a test holds the clock or the name servers. */
import { once } from 'node:events';
import { MessageChannel, Worker as Thread } from 'node:worker_threads';
import { TurnBatch } from '../lib/batch.ts';
import { createDeliveryMetrics } from './delivery-metrics.ts';
import { startDelivery, type Delivery, type DeliveryParts, type FromDelivery, type ToDelivery } from './delivery.ts';

/** A thread that has been silent for so long is stuck, ms. */
const SILENT_MS = 15_000;

export interface OpenDelivery extends Omit<DeliveryParts, 'random' | 'metrics'> {
  /** What the test holds. */
  readonly parts: Partial<Pick<DeliveryParts, 'clock' | 'resolver' | 'random' | 'pool'>>;
}

/** Starts it where this daemon has the role: in a thread of its own, or in this one where a test holds the clock or the name servers. */
export async function openDelivery({ parts, ...here }: OpenDelivery): Promise<Delivery> {
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
  if (parts.clock === undefined && parts.resolver === undefined) return startDeliveryThread(here);
  const metrics = createDeliveryMetrics();
  return startDelivery({ ...here, random: parts.random ?? Math.random, pool: parts.pool, metrics });
}

/** Starts the delivery thread. Where it ends by itself the process does, too: systemd starts it again, the queue goes on. */
async function startDeliveryThread({
  store,
  server,
  clock,
}: Pick<OpenDelivery, 'store' | 'server' | 'clock'>): Promise<Delivery> {
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
  let state: FromDelivery = { problem: undefined, isStuck: false, metrics: [] };
  await once(port1, 'message');
  let heardAt = clock.monotonic();
  port1.on('message', (message: FromDelivery) => {
    heardAt = clock.monotonic();
    state = message;
  });

  function tell(message: ToDelivery): void {
    port1.postMessage(message);
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
      port1.close();
    },
  };
}
