/**
 * Reads foreign reports off the main thread, one at a time: one that takes too much time or memory costs its thread, and
 * nothing else.
 */
import { once } from 'node:events';
import { Worker as Thread } from 'node:worker_threads';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { AggregateReport } from '../mail/aggregate-report.ts';
import type { Report } from '../mail/report-parts.ts';

export interface ReportReader<Answer> {
  /** What the message that begins so tells; undefined where reading took too much. Only one at a time. */
  read(head: Uint8Array): Promise<Answer | undefined>;
  /** Ends the thread; the next reading starts another. */
  close(): Promise<void>;
}

export interface ReaderOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The thread's file: it says when it is there, and answers each message with one. */
  readonly file: URL;
  readonly mostMs?: number;
}

/** What is honest takes some milliseconds. */
const MAX_MS = 5000;
const MEMORY = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 };

/** Reads bounces and complaints. */
export function createBounceReader(options: Omit<ReaderOptions, 'file'>): ReportReader<Report> {
  return createReportReader({ ...options, file: new URL('./report-thread.ts', import.meta.url) });
}

/** Reads aggregate reports. */
export function createAggregateReader(options: Omit<ReaderOptions, 'file'>): ReportReader<AggregateReport> {
  return createReportReader({ ...options, file: new URL('./aggregate-thread.ts', import.meta.url) });
}

/** A reader whose thread answers an `Answer`. */
export function createReportReader<Answer>({ clock, log, file, mostMs = MAX_MS }: ReaderOptions): ReportReader<Answer> {
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
      const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
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
