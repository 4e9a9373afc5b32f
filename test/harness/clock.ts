/** Clocks that a test moves: nothing waits for the wall. */
import { expect } from 'vitest';
import { systemClock, type Clock } from '../../src/lib/clock.ts';

export interface TestClock extends Clock {
  /** Moves time on and wakes whoever slept until then. */
  advance(ms: number): void;
  /** Sets the wall clock on (or back, below 0) beside the monotonic one, as an operator or a resumed machine does. */
  step(ms: number): void;
}

interface Sleeper {
  readonly until: number;
  wake(): void;
}

/** Starts at a fixed moment: 2026-01-01T00:00:00Z. */
export function testClock(start = Date.UTC(2026, 0, 1)): TestClock {
  let now = start;
  let stepped = 0;
  let sleepers: Sleeper[] = [];
  return {
    now: () => now + stepped,
    monotonic: () => now - start,
    sleep(ms, signal) {
      if (signal?.aborted === true || ms <= 0) return Promise.resolve();
      return new Promise((resolve) => {
        const sleeper = { until: now + ms, wake: resolve };
        sleepers.push(sleeper);
        signal?.addEventListener('abort', () => resolve(), { once: true });
      });
    },
    step(ms) {
      stepped += ms;
    },
    advance(ms) {
      now += ms;
      const due = sleepers.filter(({ until }) => until <= now);
      sleepers = sleepers.filter(({ until }) => until > now);
      for (const { wake } of due) wake();
    },
  };
}

/** The machine's clocks, which a test moves on. */
export interface MovedClock extends Clock {
  /** Moves the wall clock on and lets the daemon's jobs run; resolves when they have ended. */
  later(ms: number): Promise<void>;
  /** Moves both clocks on, and wakes nobody. */
  pass(ms: number): void;
}

/** What `startJobs` sleeps between two runs of a job, ms. */
const BETWEEN_JOBS_MS = 10_000;

export function movedClock(): MovedClock {
  let offset = 0;
  let passed = 0;
  const asleep = new Set<AbortController>();
  return {
    ...systemClock,
    now: () => systemClock.now() + passed + offset,
    monotonic: () => systemClock.monotonic() + passed,
    pass: (ms) => void (passed += ms),
    async sleep(ms, signal) {
      if (ms !== BETWEEN_JOBS_MS) return systemClock.sleep(ms, signal);
      const woken = new AbortController();
      asleep.add(woken);
      await systemClock.sleep(ms, signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]));
      asleep.delete(woken);
    },
    async later(ms) {
      offset += ms;
      const jobs = [...asleep];
      for (const job of jobs) job.abort();
      await expect.poll(() => asleep.size >= jobs.length && jobs.every((job) => !asleep.has(job))).toBe(true);
    },
  };
}
