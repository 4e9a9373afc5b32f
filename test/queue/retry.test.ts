import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { claimDelays, retryDelay } from '../../src/queue/retry.ts';

const MINUTE = 60_000;
const table = [5, 10, 20].map((minutes) => minutes * MINUTE);
const random = () => 0.5;

describe('the delay after a failure', () => {
  test('follows the table, and the last entry repeats', () => {
    const delays = [1, 2, 3, 4, 9].map((failures) => retryDelay(failures, 'reply', { table, random }) / MINUTE);
    expect(delays).toEqual([5, 10, 20, 20, 20]);
  });

  test('begins with a minute after a fault of the connection or of DNS', () => {
    const delays = [1, 2, 3, 4, 5].map((failures) => retryDelay(failures, 'fault', { table, random }) / MINUTE);
    expect(delays).toEqual([1, 5, 10, 20, 20]);
  });

  test('is not made longer by that minute where the table begins earlier', () => {
    const short = { table: [10_000, 60_000], random };
    expect([1, 2, 3].map((failures) => retryDelay(failures, 'fault', short))).toEqual([10_000, 10_000, 60_000]);
  });

  test('has a jitter of at most a tenth', () => {
    const delays = fc.record({
      failures: fc.integer({ min: 1, max: 50 }),
      cause: fc.constantFrom('reply', 'fault'),
      entry: fc.integer({ min: 60_000, max: 86_400_000 }),
      chance: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    });
    fc.assert(
      fc.property(delays, ({ failures, cause, entry, chance }) => {
        const options = { table: [entry] };
        const exact = retryDelay(failures, cause, { ...options, random });
        const delay = retryDelay(failures, cause, { ...options, random: () => chance });
        expect(Math.abs(delay - exact)).toBeLessThanOrEqual(exact / 10 + 1);
      }),
    );
  });
});

test('what a claim writes ahead is the table for replies, each entry with its own jitter', () => {
  const chances = [0, 0.5, 0.75];
  const { delays: json, last_delay: last } = claimDelays({ table, random: () => chances.shift() ?? 0 });
  expect(JSON.parse(json)).toEqual([4.5 * MINUTE, 10 * MINUTE, 21 * MINUTE]);
  expect(last).toBe(2);
});
