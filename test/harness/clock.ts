/** A clock that a test moves: nothing waits for the wall. */
import type { Clock } from '../../src/lib/clock.ts';

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
