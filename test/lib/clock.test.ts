import { expect, test } from 'vitest';
import { isoTime, systemClock } from '../../src/lib/clock.ts';

test('sleep ends when it is aborted, before its time and also when the signal was aborted already', async () => {
  const controller = new AbortController();
  const sleeping = systemClock.sleep(3_600_000, controller.signal);
  controller.abort();
  await expect(sleeping).resolves.toBeUndefined();
  await expect(systemClock.sleep(3_600_000, controller.signal)).resolves.toBeUndefined();
});

test('times are ISO 8601 in UTC with milliseconds', () => {
  expect(isoTime(1_700_000_000_123)).toBe('2023-11-14T22:13:20.123Z');
});
