/** The delivery thread: the delivering half of the daemon on a store connection of its own. */
import { workerData, type MessagePort } from 'node:worker_threads';
import type { ServerConfig } from './config/schema.ts';
import { startDelivery } from './delivery.ts';
import { createResolver } from './dns/resolver.ts';
import { systemClock } from './lib/clock.ts';
import { createLog } from './lib/log.ts';
import { connectStore } from './store/database.ts';
import type { StoreHandle } from './store/store.ts';
import { BEAT_MS, type FromDelivery, type ToDelivery } from './delivery-messages.ts';

const { port, handle, server } = workerData as { port: MessagePort; handle: StoreHandle; server: ServerConfig };

let config = server;
const log = createLog(server.log);
const store = connectStore(handle);
const resolver = createResolver({ servers: server.dns.servers, log });
const delivery = await startDelivery({
  store,
  clock: systemClock,
  log,
  resolver,
  random: Math.random,
  config: () => config,
  env: process.env,
});

port.on('message', (message: ToDelivery) => {
  switch (message.kind) {
    case 'wake':
      return delivery.wake();
    case 'configure':
      config = message.server;
      return log.adjust(config.log);
    case 'stop':
      void stop(message.graceMs);
  }
});
say({ kind: 'ready' });
const stopping = new AbortController();
void beat();

async function beat(): Promise<void> {
  while (!stopping.signal.aborted) {
    say({ kind: 'problem', problem: delivery.problem() });
    await systemClock.sleep(BEAT_MS, stopping.signal);
  }
}

async function stop(graceMs: number): Promise<void> {
  stopping.abort();
  await delivery.stop(graceMs);
  await store.close();
  port.close();
}

function say(message: FromDelivery): void {
  port.postMessage(message);
}
