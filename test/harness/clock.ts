/** Clocks that a test moves: nothing waits for the wall. */
import { AsyncLocalStorage } from 'node:async_hooks';
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
  /** What wakes each job; nothing while it runs. */
  const wakers = new Map<symbol, AbortController | undefined>();
  const jobs = new AsyncLocalStorage<symbol>();
  return {
    ...systemClock,
    now: () => systemClock.now() + passed + offset,
    monotonic: () => systemClock.monotonic() + passed,
    pass: (ms) => void (passed += ms),
    async sleep(ms, signal) {
      if (ms !== BETWEEN_JOBS_MS) return systemClock.sleep(ms, signal);
      // A job is known by its first sleep from then on.
      const job = jobs.getStore() ?? Symbol('job');
      jobs.enterWith(job);
      const woken = new AbortController();
      wakers.set(job, woken);
      await systemClock.sleep(ms, signal === undefined ? woken.signal : AbortSignal.any([signal, woken.signal]));
      if (signal?.aborted === true) wakers.delete(job);
      else wakers.set(job, undefined);
    },
    async later(ms) {
      offset += ms;
      await sleeping();
      for (const woken of wakers.values()) woken?.abort();
      await sleeping();
    },
  };

  async function sleeping(): Promise<void> {
    await new Promise(setImmediate);
    await expect.poll(() => [...wakers.values()].includes(undefined), { timeout: 30_000 }).toBe(false);
  }
}
