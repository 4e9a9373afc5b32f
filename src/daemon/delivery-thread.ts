/** The delivery thread: the delivering half of the daemon on a store connection of its own. */
import { workerData, type MessagePort } from 'node:worker_threads';
import type { ServerConfig } from '../config/schema.ts';
import { startDelivery, BEAT_MS, type FromDelivery, type Listening, type ToDelivery } from './delivery.ts';
import { createResolver } from '../dns/resolver.ts';
import { systemClock } from '../lib/clock.ts';
import { compactHeap } from '../lib/gc.ts';
import { createLog } from '../lib/log.ts';
import { putBehind } from '../lib/nice.ts';
import { connectStore } from '../store/database.ts';
import type { StoreHandle } from '../store/store.ts';

const { port, handle, server } = workerData as { port: MessagePort; handle: StoreHandle; server: ServerConfig };

let config = server;
let listening: Listening | undefined;
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
  listening: () => listening,
  env: process.env,
});

port.on('message', (message: ToDelivery) => {
  switch (message.kind) {
    case 'wake':
      return delivery.wake();
    case 'configure':
      config = message.server;
      return log.adjust(config.log);
    case 'listening':
      listening = message.listening;
      return delivery.wake();
    case 'stop':
      void stop(message.graceMs);
  }
});
// Whoever fills in a form waits, and mail does not: this thread and the pool, which signs, take what accepting leaves.
putBehind(['delivery', 'libuv-worker'], log);
say({ kind: 'ready' });
compactHeap();
const stopping = new AbortController();
void beat();

async function beat(): Promise<void> {
  while (!stopping.signal.aborted) {
    say({ kind: 'state', problem: delivery.problem(), isStuck: delivery.isStuck() });
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
