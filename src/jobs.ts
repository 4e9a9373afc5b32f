/** What the daemon does by the clock. */
import cron from 'node-cron';
import { errorFields } from './lib/errors.ts';
import type { Log } from './lib/log.ts';

/** A busy machine comes late to its work: a tick is not left out before the next one is there, ms. */
const LATE = 10_000;

/** Every ten seconds each job asks what is due; one that still runs is not started again. Answers what ends them. */
export function startJobs({
  log,
  jobs,
}: {
  log: Log;
  jobs: Readonly<Record<string, () => Promise<void>>>;
}): () => Promise<void> {
  const logger = {
    info: () => undefined,
    debug: () => undefined,
    warn: (message: string) => log.warn('job.warning', { message }),
    error: (message: string | Error, error?: Error) => log.error('job.failed', errorFields(error ?? message)),
  };
  const tasks = Object.entries(jobs).map(([name, job]) =>
    cron.schedule('*/10 * * * * *', () => job(), { name, noOverlap: true, missedExecutionTolerance: LATE, logger }),
  );
  for (const task of tasks) task.execute().catch((error: unknown) => log.error('job.failed', errorFields(error)));
  return async () => {
    for (const task of tasks) await task.destroy();
  };
}
