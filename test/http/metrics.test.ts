import { expect, test } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createMetrics } from '../../src/http/metrics.ts';
import { startHttp } from '../harness/http.ts';

test('the operator reads figures on the Unix socket; the public side has no such address', async () => {
  const http = await startHttp();
  await http.request('/example.com/contact', { body: new URLSearchParams({ message: 'hello' }) });
  const told = await http.request('/metrics', { local: true });
  expect(told.headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(told.text).toContain('postern_submissions_accepted_total 1\n');
  expect(told.text).toContain('postern_deliveries{state="queued"} 1\n');
  expect(told.text).toMatch(/^process_resident_memory_bytes \d{7,}$/m);
  expect((await http.request('/metrics')).status).toBe(404);
});

test('a listener of its own serves Prometheus', async () => {
  const http = await startHttp();
  const metrics = createMetrics({ store: http.store, clock: systemClock, log: silentLog, version: '1.2.3' });
  const [address] = await metrics.listen(['127.0.0.1:0']);
  const response = await fetch(`http://127.0.0.1:${address?.port}/metrics`);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  expect(text).toContain('postern_info{version="1.2.3"} 1\n');
  // The text format: a comment, or a name, labels, and a number.
  for (const line of text.trimEnd().split('\n')) {
    expect(line).toMatch(/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{(?:\w+="[^"]*",?)+\})? -?[\d.e+-]+)$/);
  }
  await metrics.close();
  await expect(fetch(`http://127.0.0.1:${address?.port}/metrics`)).rejects.toThrow('fetch failed');
});

test('security.txt says whom to tell (RFC 9116)', async () => {
  const http = await startHttp();
  const answer = await http.request('/.well-known/security.txt');
  expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(answer.text).toMatch(/^Contact: mailto:ops@example\.net$/m);
  const [, expires = ''] = /^Expires: (.+)$/m.exec(answer.text) ?? [];
  expect(Date.parse(expires)).toBeGreaterThan(Date.now() + 80 * 86_400_000);
});
