/**
 * Reads foreign reports off the main thread, one at a time: one that takes too much time or memory costs its thread, and
 * nothing else.
 */
import { once } from 'node:events';
import { Worker as Thread } from 'node:worker_threads';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Report } from '../mail/report-parts.ts';

export interface ReportReader {
  /** What the message that begins so tells; undefined where reading took too much. Only one at a time. */
  read(head: Uint8Array): Promise<Report | undefined>;
  /** Ends the thread; the next reading starts another. */
  close(): Promise<void>;
}

export interface ReaderOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The thread's file, for tests of what it may not do. */
  readonly file?: URL;
  readonly mostMs?: number;
}

/** What is honest takes some milliseconds. */
const MAX_MS = 5000;
const MEMORY = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 };

export function createReportReader(options: ReaderOptions): ReportReader {
  const { clock, log, file = new URL('./report-thread.ts', import.meta.url), mostMs = MAX_MS } = options;
  let running: Thread | undefined;

  /** It is never ended in its start: that could take the whole process with it. */
  async function start(): Promise<Thread> {
    // It knows nothing of the daemon's environment, where secrets are.
    const thread = new Thread(file, { name: 'reports', env: {}, resourceLimits: MEMORY });
    thread.on('error', (error) => log.warn('reports.thread_failed', errorFields(error)));
    thread.once('exit', () => {
      if (running === thread) running = undefined;
    });
    await once(thread, 'message');
    running = thread;
    return thread;
  }

  async function close(): Promise<void> {
    const thread = running;
    running = undefined;
    await thread?.terminate();
  }

  return {
    close,
    async read(head) {
      const thread = running ?? (await start());
      const over = new AbortController();
      const { promise, resolve } = Promise.withResolvers<Report | undefined>();
      function giveUp(): void {
        resolve(undefined);
      }
      thread.once('message', resolve).once('exit', giveUp);
      thread.postMessage(head);
      void clock.sleep(mostMs, over.signal).then(giveUp);
      const report = await promise;
      thread.off('exit', giveUp);
      over.abort();
      if (report === undefined) await close();
      return report;
    },
  };
}
