import { describe, expect, test } from 'vitest';
import { isDue, nextCheck, nextState } from '../../src/domains/states.ts';

const HOUR = 3600_000;
const grace = 72 * HOUR;
const pending = { status: 'pending', verified_at: null, broken_at: null } as const;
const verified = { status: 'verified', verified_at: 1, broken_at: null } as const;
const degraded = { status: 'degraded', verified_at: 1, broken_at: 1000 } as const;
const failed = { status: 'failed', verified_at: 1, broken_at: 1000 } as const;

describe('the state after a check', () => {
  test.each([
    ['pending, right: verified', pending, 'ok', 50, { status: 'verified', verified_at: 50, broken_at: null }],
    ['pending, not there yet: pending', pending, 'broken', 50, pending],
    [
      'verified, broken: degraded from now on',
      verified,
      'broken',
      70,
      { ...verified, status: 'degraded', broken_at: 70 },
    ],
    ['degraded within the grace: degraded', degraded, 'broken', 999 + grace, degraded],
    ['degraded past the grace: failed', degraded, 'broken', 1000 + grace, { ...degraded, status: 'failed' }],
    ['degraded, right again: verified, first time kept', degraded, 'ok', 90, verified],
    [
      'broken by a clock that was ahead: from now on',
      { ...degraded, broken_at: 900 },
      'broken',
      80,
      { ...degraded, broken_at: 80 },
    ],
    ['failed, right again: verified', failed, 'ok', 90, verified],
    ['failed stays failed', failed, 'broken', 1001, failed],
    ['DNS silent: pending stays', pending, 'unknown', 90, pending],
    ['DNS silent: verified stays', verified, 'unknown', 90, verified],
    ['DNS silent past the grace: degraded stays', degraded, 'unknown', 10_000 + grace, degraded],
  ] as const)('%s', (_, state, verdict, now, expected) => {
    expect(nextState(state, verdict, { now, grace })).toEqual(expected);
  });
});

describe('when to ask again', () => {
  const recheck = 6 * HOUR;
  const wait = (status: 'pending' | 'verified' | 'degraded', verdict: 'ok' | 'broken' | 'unknown', age: number) =>
    nextCheck({ status, created_at: 0 }, verdict, { now: age, recheck }) - age;

  test('a new domain soon, an old one that nobody publishes seldom', () => {
    expect(wait('pending', 'broken', 0)).toBe(20_000);
    expect(wait('pending', 'broken', 10 * HOUR)).toBe(HOUR);
    expect(wait('pending', 'broken', 1000 * HOUR)).toBe(recheck);
    expect(wait('pending', 'unknown', 10 * HOUR)).toBe(HOUR);
  });
  test('a verified one after the configured time, a broken one sooner, a silent DNS soonest', () => {
    expect(wait('verified', 'ok', HOUR)).toBe(recheck);
    expect(wait('degraded', 'broken', HOUR)).toBe(HOUR / 2);
    expect(wait('verified', 'unknown', HOUR)).toBe(5 * 60_000);
  });
  test('what was looked at by a clock that was ahead is due, unless by a few seconds only', () => {
    const row = { created_at: 0, checked_at: 1000, next_check_at: 1000 + recheck };
    expect([1000, 999 + recheck, 1000 + recheck].map((now) => isDue(row, now))).toEqual([false, false, true]);
    const ahead = { created_at: 0, checked_at: 10 * HOUR, next_check_at: 16 * HOUR };
    expect([HOUR, 10 * HOUR - 10_000].map((now) => isDue(ahead, now))).toEqual([true, false]);
    const never = { created_at: 10 * HOUR, checked_at: null, next_check_at: 10 * HOUR };
    expect([HOUR, 10 * HOUR].map((now) => isDue(never, now))).toEqual([true, true]);
    expect(isDue({ ...never, checked_at: HOUR, next_check_at: HOUR + 20_000 }, HOUR + 10_000)).toBe(false);
  });
});
