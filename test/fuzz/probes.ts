/** What `/healthz` of a daemon under attack and of an idle one beside it took, and what of that is the machine's own noise. */
import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';

export interface ProbeOrder {
  readonly urls: readonly string[];
  readonly everyMs: number;
}

export interface Sample {
  /** When it was sent, ms of the thread's clock. */
  readonly at: number;
  readonly ms: number;
  /** 0 where the connection was refused or cut. */
  readonly status: number;
}

export interface Probes {
  /** Ends and answers the samples of each URL, in the order given. */
  stop(): Promise<readonly (readonly Sample[])[]>;
}

/** Begins to ask each of the servers, a pause of `everyMs` between two questions. */
export function startProbes(urls: readonly string[], everyMs = 20): Probes {
  const thread = new Worker(new URL('./probe.ts', import.meta.url), { workerData: { urls, everyMs } });
  const samples = new Promise<Sample[][]>((resolve, reject) => {
    thread.once('message', resolve);
    thread.once('error', reject);
  });
  samples.catch(() => undefined); // is awaited in stop()
  onTestFinished(async () => void (await thread.terminate()));
  return {
    stop() {
      thread.postMessage('stop');
      return samples;
    },
  };
}

const AROUND_MS = 300;

/**
 * By how much the slowest answer of the attacked daemon was slower than the slowest of the idle one in the same moments: a
 * machine that does something else holds up both. Answers ms, and the sample.
 */
export function worstExcess(
  attacked: readonly Sample[],
  idle: readonly Sample[],
): { readonly ms: number; readonly at: Sample } {
  const excesses = attacked.map((sample) => {
    const from = sample.at - AROUND_MS;
    const to = sample.at + sample.ms + AROUND_MS;
    const beside = idle.filter(({ at, ms }) => at + ms >= from && at <= to).map(({ ms }) => ms);
    return { ms: sample.ms - Math.max(0, ...beside), at: sample };
  });
  const worst = excesses.toSorted((a, b) => b.ms - a.ms)[0];
  if (worst === undefined) throw new Error('nothing was asked');
  return worst;
}

/** The value below which `share` (0.99) of the samples are, ms. */
export function percentile(samples: readonly { readonly ms: number }[], share: number): number {
  const sorted = samples.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
