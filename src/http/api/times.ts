/** The buckets of a series, in UTC. */
import type { Interval } from '../../contract/analytics.ts';

/** The start (UTC) of the interval that `at` is in, or of the one so many `steps` later. */
export function startOf(interval: Interval, at: number, steps = 0): number {
  const time = new Date(at);
  const [year, month, day] = [time.getUTCFullYear(), time.getUTCMonth(), time.getUTCDate()];
  switch (interval) {
    case 'hour':
      return Date.UTC(year, month, day, time.getUTCHours() + steps);
    case 'day':
      return Date.UTC(year, month, day + steps);
    case 'month':
      return Date.UTC(year, month + steps, 1);
  }
}

/** A UTC day as `2026-01-31`. */
export function isoDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
