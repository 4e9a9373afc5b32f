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

export interface NormalOrder {
  readonly formUrl: string;
  /** The operator's. */
  readonly socketPath: string;
  readonly smtpPort: number;
  /** An address that is forwarded. */
  readonly alias: string;
}

export interface NormalSample extends Sample {
  readonly what: string;
}

export interface Measuring<T> {
  /** Ends and answers what was measured. */
  stop(): Promise<T>;
}

export type Probes = Measuring<readonly (readonly Sample[])[]>;

/** Begins to ask each of the servers, a pause of `everyMs` between two questions; answers the samples of each, in the order given. */
export function startProbes(urls: readonly string[], everyMs = 20): Probes {
  const order: ProbeOrder = { urls, everyMs };
  return startMeasuring('./probe.ts', order);
}

/** Begins what a site does all day. */
export function startNormalTraffic(order: NormalOrder): Measuring<readonly NormalSample[]> {
  return startMeasuring('./normal.ts', order);
}

function startMeasuring<T>(script: string, order: object): Measuring<T> {
  const thread = new Worker(new URL(script, import.meta.url), { workerData: order });
  const samples = new Promise<T>((resolve, reject) => {
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
 * By how much each answer of the attacked daemon was slower than the slowest of the idle one in the same moments, ms: a
 * machine that does something else holds up both.
 */
export function excesses(attacked: readonly Sample[], idle: readonly Sample[]): readonly { readonly ms: number }[] {
  return attacked.map((sample) => {
    const from = sample.at - AROUND_MS;
    const to = sample.at + sample.ms + AROUND_MS;
    const beside = idle.filter(({ at, ms }) => at + ms >= from && at <= to).map(({ ms }) => ms);
    return { ms: sample.ms - Math.max(0, ...beside) };
  });
}

/** The value below which `share` (0.99) of the samples are, ms. */
export function percentile(samples: readonly { readonly ms: number }[], share: number): number {
  const sorted = samples.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
