/**
 * Time as a parameter. The wall clock stamps and schedules; the monotonic one measures deadlines, so that a clock that
 * jumps neither resends nor strands anything. This is the only file that reads the system's clocks.
 */

export interface Clock {
  /** Wall time, integer milliseconds since the epoch. */
  now(): number;
  /** Milliseconds since an arbitrary point; never goes back. */
  monotonic(): number;
  /** Resolves after `ms`, or as soon as `signal` aborts; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The machine's clocks. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  // Not timers/promises: it makes an error, with its stack, for each sleep that is cut short.
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted === true) return resolve();
      const timer = setTimeout(end, ms);
      signal?.addEventListener('abort', end, { once: true });
      function end(): void {
        clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        resolve();
      }
    });
  },
};

/** ISO 8601 in UTC with milliseconds, as every body and record of the API has it. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** A time is over that nothing can stretch, such as a peer that drips bytes. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  readonly code = 'ETIMEDOUT';
}

/** What `work` answers, or a DeadlineError that names `what` once `ms` have passed; nobody waits for the work any more. */
export async function withDeadline<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DeadlineError(`${what} took longer than ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
