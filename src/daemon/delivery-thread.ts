/** The delivery thread: the delivering half of the daemon on a store connection of its own. */
import { workerData, type MessagePort } from 'node:worker_threads';
import type { ServerConfig } from '../config/schema.ts';
import { createDatabaseMetrics, createDeliveryMetrics } from '../http/metrics.ts';
import {
  startDelivery,
  BEAT_MS,
  type Delivery,
  type FromDelivery,
  type Listening,
  type ToDelivery,
} from './delivery.ts';
import { openStorage } from './storage.ts';
import { createDnssec } from '../dns/dnssec.ts';
import { createResolver } from '../dns/resolver.ts';
import { systemClock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { compactHeap } from '../lib/gc.ts';
import { createLog } from '../lib/log.ts';
import { connectStore } from '../store/database.ts';
import { StoreError, type StoreHandle } from '../store/store.ts';

const { port, handle, server, listening } = workerData as {
  port: MessagePort;
  handle: StoreHandle;
  server: ServerConfig;
  listening: Listening;
};

/** Between two tries to start, ms. */
const START_AGAIN_MS = 1000;
/** What the main thread is to show; more than these between two beats are in the log alone. */
const MAX_LINES = 5000;
let lines: string[] = [];

const log = await createLog({
  ...server.log,
  keep: (line) => void (lines.length < MAX_LINES && lines.push(line)),
});
const metrics = createDeliveryMetrics();
const database = createDatabaseMetrics(await connectStore(handle), systemClock);
const { store, close: closeStorage } = await openStorage({
  store: database.store,
  clock: systemClock,
  settings: server.storage,
});
const resolver = createResolver({ servers: server.dns.servers, log });
const dnssec = createDnssec({ ...server.dns, clock: systemClock });
const parts = {
  store,
  clock: systemClock,
  log,
  resolver,
  dnssec,
  random: Math.random,
  server,
  env: process.env,
  metrics,
};
const delivery = await startWhenPossible();
delivery.setListening(listening);
// Nobody waits for the start any more.
compactHeap();

port.on('message', (message: ToDelivery) => {
  switch (message.kind) {
    case 'wake':
      return delivery.wake();
    case 'configure':
      return delivery.configure(message.server);
    case 'stop':
      void stop(message.graceMs);
  }
});
const stopping = new AbortController();
void beat();

/** The thread is started while the daemon runs: a database that is away for a while must not end it. */
async function startWhenPossible(): Promise<Delivery> {
  for (;;) {
    try {
      return await startDelivery(parts);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      log.error('queue.fault', errorFields(error));
      await systemClock.sleep(START_AGAIN_MS);
    }
  }
}

async function beat(): Promise<void> {
  while (!stopping.signal.aborted) {
    await tell();
    await systemClock.sleep(BEAT_MS, stopping.signal);
  }
}

async function tell(): Promise<void> {
  const reading = [...(await metrics.read()), ...(await database.read())];
  const told = lines;
  lines = [];
  const state: FromDelivery = {
    problem: delivery.problem(),
    isStuck: delivery.isStuck(),
    metrics: reading,
    lines: told,
  };
  port.postMessage(state);
}

async function stop(graceMs: number): Promise<void> {
  stopping.abort();
  await delivery.stop(graceMs);
  await closeStorage();
  await store.close();
  await tell();
  port.close();
}
