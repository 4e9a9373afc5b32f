import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createMetrics } from '../../src/http/metrics.ts';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import { noteDue, pauseDestination, setHeld } from '../../src/store/destinations.ts';
import { readFigures } from '../../src/store/figures.ts';
import { receiverOf } from '../../src/queue/destinations.ts';
import { readPages } from '../docs/markdown.ts';
import { testClock } from '../harness/clock.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { startHttp } from '../harness/http.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { readMetrics } from '../harness/monitoring.ts';

test('the operator reads figures on the Unix socket; the public side has no such address', async () => {
  const http = await startHttp();
  await http.request('/example.com/contact', { body: new URLSearchParams({ message: 'hello' }) });
  const told = await http.request('/metrics', { local: true });
  expect(told.headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(told.text).toContain('postern_submissions_total{outcome="accepted"} 1\n');
  expect(told.text).toContain('postern_queue_deliveries{state="queued",transport="smtp"} 1\n');
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
  expect(text).toContain(`postern_build_info{version="1.2.3",node="${process.versions.node}"} 1\n`);
  const [, started = ''] = /^process_start_time_seconds (\d+)$/m.exec(text) ?? [];
  expect(Number(started)).toBeLessThanOrEqual(Date.now() / 1000);
  expectTextFormat(text);
  await metrics.close();
  await expect(fetch(`http://127.0.0.1:${address?.port}/metrics`)).rejects.toThrow('fetch failed');
});

test('answers are counted by the class of their status, mail by what was said of its recipients', async () => {
  const world = await startTestWorld();
  await world.post('/example.test/contact', { message: 'hello' });
  await world.post('/example.test/nowhere', { message: 'hello' });
  // One hangs up in the middle of its body, and gets no answer.
  const gone = connect(Number(new URL(world.url).port), '127.0.0.1');
  gone.write('POST /example.test/contact HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n');
  gone.write('Content-Length: 9\r\nExpect: 100-continue\r\n\r\n');
  await once(gone, 'data');
  gone.destroy();
  const client = await SmtpClient.open(world.daemon.smtp[0]?.port ?? 0);
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  expect(await client.say('RCPT TO:<nobody@example.test>')).toMatch(/^550/);
  const told = await readMetrics(world.daemon);
  expect(told).toContain('postern_http_requests_total{class="2xx"} 1\n');
  expect(told).toContain('postern_http_requests_total{class="4xx"} 1\n');
  expect(told).toContain('postern_http_request_duration_seconds_count{handler="form"} 2\n');
  expect(told).toContain('postern_submissions_total{outcome="accepted"} 1\n');
  expect(told).toContain('postern_submissions_total{outcome="rejected"} 1\n');
  expect(told).toContain('postern_smtp_connections_total{outcome="accepted"} 1\n');
  expect(told).toContain('postern_smtp_recipients_total{outcome="rejected"} 1\n');
  expect(told).not.toContain('postern_certificate');
  expectTextFormat(told);
});

test('how deliveries end is counted by the receiver, with how long they took', async () => {
  const world = await startTestWorld();
  await world.post('/example.test/contact', { message: 'hello' });
  await world.caught(1);
  const metrics = () => readMetrics(world.daemon);
  await expect.poll(metrics).toContain('postern_deliveries_total{outcome="delivered",receiver="other"} 1\n');
  const told = await metrics();
  expect(told).toContain('postern_delivery_duration_seconds_count{receiver="other"} 1\n');
  expect(told).toContain('postern_smtp_transaction_duration_seconds_count 1\n');
  expectTextFormat(told);
});

test('docs/monitoring.md has all of them', async () => {
  const { daemon } = await startTestWorld();
  const names = [...(await readMetrics(daemon)).matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  const page = readPages().find(({ path }) => path === 'docs/monitoring.md');
  const documented = page?.codes.map((code) => code.replace(/\{.*/, ''));
  expect(names.filter((name = '') => documented?.includes(name) !== true)).toEqual([]);
});

test.each([
  ['gmail.com', 'gmail-smtp-in.l.google.com', 'google'],
  ['firm.example', 'ASPMX.L.GOOGLE.com', 'google'],
  ['firm.example', 'firm-example.mail.protection.outlook.com', 'microsoft'],
  ['yahoo.com', null, 'yahoo'],
  ['firm.example', 'mx.notgoogle.com', 'other'],
  ['google.com.evil.example', null, 'other'],
  ['whk_1', null, 'webhook'],
])('mail for %s at %s is of the receiver %s', (destination, host, receiver) => {
  expect(receiverOf(destination, host)).toBe(receiver);
});

/** The text format 0.0.4: each metric once, its HELP and TYPE before its samples, names and numbers as they may be. */
function expectTextFormat(text: string): void {
  const described: string[] = [];
  for (const block of text.trimEnd().split('\n\n')) {
    const [help = '', type = '', ...samples] = block.split('\n');
    const [, name = '', kind] = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/.exec(type) ?? [];
    expect(help).toMatch(new RegExp(`^# HELP ${name} \\S.*$`));
    expect(name.endsWith('_total')).toBe(kind === 'counter');
    described.push(name);
    for (const sample of samples) {
      const labels = '[a-z_]+="[^"\\n]*"';
      expect(sample).toMatch(
        new RegExp(
          `^${name}${kind === 'histogram' ? '_(?:bucket|sum|count)' : ''}(?:\\{${labels}(?:,${labels})*\\})? -?\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?$`,
        ),
      );
    }
  }
  expect(text.endsWith('\n')).toBe(true);
  expect(new Set(described).size).toBe(described.length);
  expect(described.length).toBeGreaterThan(10);
}

test('security.txt says whom to tell (RFC 9116)', async () => {
  const http = await startHttp();
  const answer = await http.request('/.well-known/security.txt');
  expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(answer.text).toMatch(/^Contact: mailto:ops@example\.net$/m);
  const [, expires = ''] = /^Expires: (.+)$/m.exec(answer.text) ?? [];
  expect(Date.parse(expires)).toBeGreaterThan(Date.now() + 80 * 86_400_000);
});

test('the age of the oldest due mail leaves out what is held and what is paused', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const due = async () => (await readFigures(http.store, clock.now())).dueSince;
  const at = clock.now();
  const message = { tenant: 'ten_a', kind: 'system', submission: null, domain: 'example.com', source: {} } as const;
  const sent = (name: string): NewMessage => ({ ...message, ttl: 1e9, recipients: [`a@${name}`] });
  for (const name of ['held.test', 'paused.test', 'open.test']) await http.store.write(enqueue(sent(name), at).unit);
  clock.advance(60_000);
  expect(await due()).toBe(at);
  await http.store.write([setHeld({ name: 'open.test', held: 1 }), setHeld({ name: 'held.test', held: 1 })]);
  const failed = { name: 'paused.test', failures: 1, pauses: 1, last_error: 'refused', line: 'again:ten_a' };
  await http.store.write([
    pauseDestination({ ...failed, paused_until: clock.now() + 1000 }),
    // New mail may probe before the pause is over.
    noteDue({ name: 'paused.test', due: at }),
  ]);
  expect(await due()).toBe(null);
  await http.store.write([setHeld({ name: 'open.test', held: 0 })]);
  expect(await due()).toBe(at);
});
