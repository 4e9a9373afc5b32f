import { expect, test } from 'vitest';
import { TRIES, retryAfter, waitAfter } from '../../src/events/schedule.ts';

const HOUR = 3_600_000;

test('eight tries over about 28 hours, each wait within a tenth', () => {
  const waits = (random: number) => Array.from({ length: TRIES }, (_, i) => waitAfter(i + 1, () => random));
  expect(waits(0.5)).toEqual([5000, 300_000, 1_800_000, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR, undefined]);
  const sum = (random: number) => waits(random).reduce<number>((all, wait) => all + (wait ?? 0), 0) / HOUR;
  expect(sum(0.5)).toBeCloseTo(27.6, 1);
  expect(sum(0)).toBeCloseTo(27.6 * 0.9, 0);
  expect(sum(1)).toBeCloseTo(27.6 * 1.1, 0);
});

test.each([
  [undefined, 0],
  ['', 0],
  ['soon', 0],
  ['120', 120_000],
  ['Thu, 01 Jan 2026 00:10:00 GMT', 600_000],
  ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
  ['99999999', 10 * HOUR],
])('Retry-After: %s', (value, wait) => {
  expect(retryAfter(value, Date.UTC(2026, 0, 1))).toBe(wait);
});
