import { expect, test } from 'vitest';
import { post } from '../../src/events/post.ts';
import { retryDelay, WEBHOOK_RETRY_MS } from '../../src/queue/retry.ts';

const HOUR = 3_600_000;

test('eight attempts over about 28 hours, each wait within a tenth', () => {
  const waits = (random: number) =>
    WEBHOOK_RETRY_MS.map((_, i) => retryDelay(i + 1, 'reply', { table: WEBHOOK_RETRY_MS, random: () => random }));
  expect(waits(0.5)).toEqual([5000, 300_000, 1_800_000, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR]);
  const sum = (random: number) => waits(random).reduce((all, wait) => all + wait, 0) / HOUR;
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
])('Retry-After: %s', async (retryAfter, wait) => {
  const http = { request: () => Promise.resolve({ kind: 'answered', status: 429, retryAfter, text: '' } as const) };
  const webhook = { url: 'https://hooks.test/', secret: 'whsec_AAAA', old_secret: null, old_secret_until: null };
  expect(await post(http, webhook, { id: 'whd_1', body: '{}', now: Date.UTC(2026, 0, 1) })).toMatchObject({ wait });
});
