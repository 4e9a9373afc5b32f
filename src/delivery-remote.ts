/** The delivery thread as the main thread sees it. */
import { once } from 'node:events';
import { MessageChannel, Worker as Thread } from 'node:worker_threads';
import type { ServerConfig } from './config/schema.ts';
import type { Delivery } from './delivery.ts';
import { TurnBatch } from './lib/batch.ts';
import type { Store } from './store/store.ts';

export type ToDelivery =
  | { readonly kind: 'wake' }
  | { readonly kind: 'configure'; readonly server: ServerConfig }
  | { readonly kind: 'ask' }
  | { readonly kind: 'stop'; readonly graceMs: number };

export type FromDelivery =
  { readonly kind: 'ready' } | { readonly kind: 'problem'; readonly problem: string | undefined };

export interface RemoteDelivery extends Delivery {
  /** Tells it what is in force from now on. */
  configure(server: ServerConfig): void;
}

/** How often the thread is asked how it is, ms; one that has not answered three times in a row is stuck. */
const ASK_MS = 2000;

/** Starts the delivery thread. Where it ends by itself the process does, too: systemd starts it again, the queue goes on. */
export async function startDeliveryThread(store: Store, server: ServerConfig): Promise<RemoteDelivery> {
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
  await once(port1, 'message');
  // One word for all that was accepted in a turn.
  const wakes = new TurnBatch<undefined>(() => tell({ kind: 'wake' }));

  let problem: string | undefined;
  let unanswered = 0;
  port1.on('message', (message: FromDelivery) => {
    if (message.kind === 'ready') return;
    unanswered = 0;
    problem = message.problem;
  });
  const asking = setInterval(() => {
    unanswered++;
    tell({ kind: 'ask' });
  }, ASK_MS).unref();

  return {
    wake: () => wakes.add(undefined),
    configure: (next) => tell({ kind: 'configure', server: next }),
    problem: () => (unanswered > 3 ? 'the delivery thread does not answer' : problem),
    async stop(graceMs) {
      clearInterval(asking);
      const ended = once(thread, 'exit');
      tell({ kind: 'stop', graceMs });
      await ended;
      port1.close();
    },
  };

  function tell(message: ToDelivery): void {
    port1.postMessage(message);
  }
}
