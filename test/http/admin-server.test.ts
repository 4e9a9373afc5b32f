/** What the operator sees of the server: destinations with what waits for them, the log, the settings. */
import { expect, test } from 'vitest';
import { queue } from '../../src/contract/queue.ts';
import { serverConfig, serverLog } from '../../src/contract/server.ts';
import { createLogLines } from '../../src/lib/log.ts';
import { newId } from '../../src/lib/ids.ts';
import { PERMISSIONS } from '../../src/lib/permission-names.ts';
import { hold } from '../../src/queue/operate.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { pauseDestination } from '../../src/store/destinations.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';

const NOW = Date.UTC(2026, 0, 15);
const MINUTE = 60_000;

async function destinations(http: TestHttp, query = '') {
  const answer = await http.request(`/admin/queue/destinations${query}`, { local: true });
  expect([answer.status, answer.text]).toEqual([200, expect.anything()]);
  return queue.destinations.answer.parse(answer.json());
}

async function send({ store }: TestHttp, now: number, ...domains: string[]): Promise<void> {
  for (const domain of domains) {
    const mail = { tenant: OPERATOR, to: `ada@${domain}`, subject: 'Hello', text: 'Hello' };
    await store.write(systemMail(mail, 'mail.example.net', now));
  }
}

test('destinations are listed by how much waits, with their states', async () => {
  const clock = testClock(NOW);
  const http = await startHttp({ clock });
  await send(http, clock.now(), 'few.test');
  clock.advance(MINUTE);
  await send(http, clock.now(), 'many.test', 'many.test', 'paused.test', 'held.test');
  await hold(http.store, 'held.test');
  await hold(http.store, 'empty.test');
  const pause = { failures: 6, pauses: 2, last_error: 'connection refused', line: '' };
  await http.store.write([pauseDestination({ ...pause, name: 'paused.test', paused_until: NOW + 60 * MINUTE })]);
  const all = await destinations(http);
  expect(all.destinations.map(({ destination, waiting }) => [destination, waiting])).toEqual([
    ['many.test', 2],
    ['few.test', 1],
    ['held.test', 1],
    ['paused.test', 1],
  ]);
  expect(all).toMatchObject({ count: 4, complete: true, relay: null, counted_at: '2026-01-15T00:01:00.000Z' });
  expect(all.destinations[1]).toEqual({
    destination: 'few.test',
    waiting: 1,
    oldest_at: '2026-01-15T00:00:00.000Z',
    next_attempt_at: '2026-01-15T00:00:00.000Z',
    held: false,
    paused_until: null,
    failures: 0,
    last_error: null,
    last_reply: null,
  });
  expect(all.destinations[3]).toMatchObject({
    failures: 6,
    last_error: 'connection refused',
    paused_until: '2026-01-15T01:00:00.000Z',
    next_attempt_at: '2026-01-15T01:00:00.000Z',
  });
  expect((await destinations(http, '?state=failing')).destinations.map((one) => one.destination)).toEqual([
    'paused.test',
  ]);
  const held = (await destinations(http, '?state=held')).destinations;
  expect(held.map((one) => [one.destination, one.waiting, one.held])).toEqual([
    ['empty.test', 0, true],
    ['held.test', 1, true],
  ]);
  expect((await destinations(http, '?limit=1')).destinations.length).toBe(1);
});

test('the log is found by an id', async () => {
  const logLines = createLogLines(testClock(NOW));
  const http = await startHttp({ options: { logLines } });
  const id = newId('sub', NOW);
  const line = { level: 'info', time: '2026-01-15T00:00:00.000Z', event: 'delivery.delivered', msg: 'Delivered.' };
  logLines.add(JSON.stringify({ ...line, submission: id }));
  logLines.add(JSON.stringify({ ...line, event: 'delivery.deferred', submission: newId('sub', NOW) }));
  const all = serverLog.list.answer.parse((await http.request('/admin/logs', { local: true })).json());
  expect(all.lines.map(({ event }) => event)).toEqual(['delivery.deferred', 'delivery.delivered']);
  const found = serverLog.list.answer.parse((await http.request(`/admin/logs?id=${id}`, { local: true })).json());
  expect(found).toEqual({
    lines: [
      {
        level: 'info',
        time: line.time,
        event: 'delivery.delivered',
        message: 'Delivered.',
        fields: { submission: id },
      },
    ],
    since: '2026-01-15T00:00:00.000Z',
  });
  const refused = await http.request('/admin/logs?id=x', { local: true });
  expect([refused.status, refused.json()['code']]).toEqual([400, 'VALIDATION_FAILED']);
});

test('the active settings are shown', async () => {
  const setting = { path: 'log.level', value: 'warn', source: 'file', restart: false } as const;
  const http = await startHttp({ options: { settings: () => [setting] }, problems: ['log.level: wrong'] });
  const shown = serverConfig.show.answer.parse((await http.request('/admin/config', { local: true })).json());
  expect(shown).toEqual({
    file: '/etc/postern/server.yml',
    settings: [setting],
    waiting: [],
    problems: ['log.level: wrong'],
  });
});

test.each(['/admin/queue/destinations', '/admin/logs', '/admin/config'])('%s is for the operator', async (path) => {
  const http = await startHttp();
  const permissions = PERMISSIONS.filter((name) => name !== 'admin');
  const account = await testKey(http.store, { permissions });
  const test = await testKey(http.store, { tenant: OPERATOR, permissions: PERMISSIONS, environment: 'test' });
  const [refused, ofTest, nobody] = await Promise.all([
    http.request(path, { headers: account.headers }),
    http.request(path, { headers: test.headers }),
    http.request(path),
  ]);
  expect([refused.json()['code'], ofTest.json()['code'], nobody.json()['code']]).toEqual([
    'AUTH_FORBIDDEN',
    'AUTH_TEST_KEY',
    'AUTH_MISSING_KEY',
  ]);
});
