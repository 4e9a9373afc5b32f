import { expect, test } from 'vitest';
import { createLog, createLogLines } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';

const HOUR = 3_600_000;

test('the newest lines come first, those of an id alone', () => {
  const lines = createLogLines(testClock());
  for (const line of ['{"a":"sub_1"}', '{"b":"sub_2"}', '{"c":"sub_1"}']) lines.add(line);
  expect(lines.find(undefined, 2)).toEqual(['{"c":"sub_1"}', '{"b":"sub_2"}']);
  expect(lines.find('sub_1', 10)).toEqual(['{"c":"sub_1"}', '{"a":"sub_1"}']);
  expect(lines.find('sub_3', 10)).toEqual([]);
});

test('what is older than an hour is gone', () => {
  const clock = testClock();
  const lines = createLogLines(clock);
  expect(lines.since()).toBeUndefined();
  lines.add('first');
  clock.advance(HOUR / 2);
  lines.add('second');
  clock.advance(HOUR / 2);
  expect(lines.find(undefined, 10)).toEqual(['second']);
  expect(lines.since()).toBe(clock.now() - HOUR / 2);
});

test('it is bounded, and a line that is too long is left out', () => {
  const lines = createLogLines(testClock());
  for (let i = 0; i < 20_000; i++) lines.add(`${i} ${'x'.repeat(1000)}`);
  lines.add('y'.repeat(100_000));
  const kept = lines.find(undefined, 100_000);
  expect(kept[0]?.startsWith('19999 ')).toBe(true);
  expect(kept.length).toBeGreaterThan(3000);
  expect(kept.join('').length).toBeLessThan(4 * 1024 * 1024);
});

test('lines are kept as the log has them: by its level, without secrets, redacted', async () => {
  const lines = createLogLines(testClock());
  const log = await createLog({ level: 'info', format: 'json', redact_addresses: true, fd: 2, keep: lines.add });
  log.debug('http.refused', { path: '/' });
  log.info('auth.failed', { key: 'svc_sk_live_0123456789', address: 'ada@example.net' });
  const found = lines.find(undefined, 10).map((line) => JSON.parse(line) as object);
  expect(found).toEqual([
    expect.objectContaining({
      level: 'info',
      event: 'auth.failed',
      key: 'svc_sk_live_…',
      address: 'a***@example.net',
      time: expect.any(String),
    }),
  ]);
});
