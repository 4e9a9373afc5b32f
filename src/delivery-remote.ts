/** The delivery thread as the main thread sees it. */
import { once } from 'node:events';
import { MessageChannel, Worker as Thread } from 'node:worker_threads';
import type { ServerConfig } from './config/schema.ts';
import type { Delivery } from './delivery.ts';
import type { FromDelivery, ToDelivery } from './delivery-messages.ts';
import type { Clock } from './lib/clock.ts';
import { TurnBatch } from './lib/batch.ts';
import type { DoorPlace } from './queue/route.ts';
import type { Store } from './store/store.ts';

export interface RemoteDelivery extends Delivery {
  /** Tells it what is in force from now on. */
  configure(server: ServerConfig): void;
  /** Tells it where this daemon takes mail. */
  openDoor(place: DoorPlace | undefined): void;
}

/** A thread that has been silent for so long is stuck, ms. */
const SILENT_MS = 15_000;

/** Starts the delivery thread. Where it ends by itself the process does, too: systemd starts it again, the queue goes on. */
export async function startDeliveryThread(store: Store, server: ServerConfig, clock: Clock): Promise<RemoteDelivery> {
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
  let isStuck = false;
  let heardAt = clock.monotonic();
  port1.on('message', (message: FromDelivery) => {
    if (message.kind === 'ready') return;
    heardAt = clock.monotonic();
    ({ problem, isStuck } = message);
  });

  function isSilent(): boolean {
    return clock.monotonic() - heardAt > SILENT_MS;
  }

  return {
    wake: () => wakes.add(undefined),
    configure: (next) => tell({ kind: 'configure', server: next }),
    openDoor: (place) => tell({ kind: 'door', place }),
    problem: () => (isSilent() ? 'the delivery thread is silent' : problem),
    isStuck: () => isStuck || isSilent(),
    async stop(graceMs) {
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
