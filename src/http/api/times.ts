/** Times in queries: a moment, or a day in UTC, and the buckets of a series. */
import { z } from 'zod';

const DAY = 86_400_000;
const WORDS = 'must be a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z';

const moment = z
  .union([z.iso.date(), z.iso.datetime({ offset: true })], { error: WORDS })
  .refine((text) => /^2\d{3}-/.test(text), WORDS);

/** The first moment of a span, ms. */
export const since = moment.transform((text) => Date.parse(text));

/** The moment behind its last; a date alone is the whole day. */
export const until = moment.transform((text) => Date.parse(text) + (text.length === 'YYYY-MM-DD'.length ? DAY : 0));

export const INTERVALS = ['hour', 'day', 'month'] as const;
export type Interval = (typeof INTERVALS)[number];

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
