/**
 * Asks daemons for `/healthz` all the time, from a thread of its own, so that neither the load that a test makes nor a
 * daemon that does not answer keeps the other from being asked. Messages: in `{ urls, everyMs }` at the start and `'stop'`;
 * out the samples of each, in order.
 */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import type { ProbeOrder, Sample } from './probes.ts';

const { urls, everyMs }: ProbeOrder = workerData;
let stopped = false;

parentPort?.once('message', () => (stopped = true));
const samples = await Promise.all(urls.map(probe));
parentPort?.postMessage(samples);

async function probe(url: string): Promise<Sample[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const found: Sample[] = [];
  while (!stopped) {
    const at = performance.now();
    const status = await ask(`${url}/healthz`, agent);
    found.push({ at, ms: performance.now() - at, status });
    await sleep(everyMs);
  }
  agent.destroy();
  return found;
}

function ask(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(url, { agent }, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode ?? 0));
      response.once('error', () => resolve(0));
    });
    sent.once('error', () => resolve(0));
    sent.end();
  });
}
