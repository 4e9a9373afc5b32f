import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestAnswer, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKeySettings } from '../../harness/keys.ts';

const NEW_YEAR = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;

interface Window {
  readonly limit: number;
  readonly remaining: number;
  readonly reset_time: string;
}

function windows(answer: TestAnswer): { hour: Window; minute: Window } {
  const { rate_limits } = answer.json() as { rate_limits: Record<string, Window> };
  const {
    requests_per_hour: hour,
    requests_per_minute: minute,
    messages_per_hour: _hour,
    messages_per_day: _day,
    ...others
  } = rate_limits;
  expect(others).toEqual({});
  if (hour === undefined || minute === undefined) throw new Error('a window is missing');
  for (const { limit, remaining, reset_time } of [hour, minute]) {
    expect([Number.isInteger(limit), Number.isInteger(remaining)]).toEqual([true, true]);
    expect(reset_time).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
  }
  return { hour, minute };
}

/** What the headers say of the limit with the least left. */
function headersOf({ headers }: TestAnswer): { limit: number; remaining: number; reset: number } {
  const numbers = ['limit', 'remaining', 'reset'].map((name) => {
    expect(headers[`x-ratelimit-${name}`]).toMatch(/^\d+$/);
    return Number(headers[`x-ratelimit-${name}`]);
  });
  return { limit: numbers[0] ?? 0, remaining: numbers[1] ?? 0, reset: numbers[2] ?? 0 };
}

const ask = (http: TestHttp, key: { headers: Record<string, string> }, path = '/rate-limits') =>
  http.request(path, { headers: key.headers });
const newKey = (http: TestHttp, settings: TestKeySettings = {}) => testKey(http.store, { now: NEW_YEAR, ...settings });

describe('GET /rate-limits', () => {
  test('has the shape of the specification, at three spellings, and the look itself counts', async () => {
    const http = await startHttp({ clock: testClock() });
    const key = await newKey(http, { permissions: [] });
    const { hour, minute } = windows(await ask(http, key));
    expect(hour).toEqual({ limit: 100, remaining: 99, reset_time: '2026-01-01T01:00:00.000Z' });
    expect(minute).toEqual({ limit: 60, remaining: 59, reset_time: '2026-01-01T00:01:00.000Z' });
    expect(windows(await ask(http, key, '/api/rate-limits')).hour.remaining).toBe(98);
    expect(windows(await ask(http, key, '/v1/rate-limits')).minute.remaining).toBe(57);
  });

  const cases: [what: string, settings: TestKeySettings, hour: number, minute: number][] = [
    ['a plan', {}, 100, 60],
    ['another plan', { account: { plan: 'pro' } }, 1000, 300],
    ['a number of one’s own', { account: { plan: 'enterprise', requests_per_hour: 5000 } }, 5000, 600],
    ['nothing but the address', { account: { plan: 'enterprise' } }, 36_000, 600],
    ['a key tighter than its account', { restrictions: { rate_limit: 7, burst_limit: 3 } }, 7, 3],
    ['a key wider than its account', { restrictions: { rate_limit: 7000, burst_limit: 3000 } }, 100, 60],
    ['the operator’s tenant', { tenant: OPERATOR }, 36_000, 600],
  ];
  test.each(cases)('%s', async (_, settings, hourly, minutely) => {
    const http = await startHttp({ clock: testClock() });
    const key = await newKey(http, settings);
    for (let asked = 1; asked <= 2; asked++) {
      const answer = await ask(http, key);
      const { hour, minute } = windows(answer);
      expect([hour.limit, hour.remaining, minute.limit, minute.remaining]).toEqual([
        hourly,
        hourly - asked,
        minutely,
        minutely - asked,
      ]);
      const tightest = minute.remaining < hour.remaining ? minute : hour;
      expect(headersOf(answer)).toEqual({
        limit: tightest.limit,
        remaining: tightest.remaining,
        reset: Date.parse(tightest.reset_time) / 1000,
      });
    }
  });

  test('on the Unix socket, with a tenant’s name and without, it is answered too', async () => {
    const http = await startHttp({ clock: testClock() });
    const { tenant } = await newKey(http);
    expect(windows(await http.request('/rate-limits', { local: true })).minute).toMatchObject({ limit: 600 });
    const headers = { 'X-Postern-Tenant': tenant };
    const asTenant = windows(await http.request('/rate-limits', { local: true, headers }));
    expect(asTenant.hour).toMatchObject({ limit: 100, remaining: 100 });
  });

  test('wants a key', async () => {
    const http = await startHttp();
    expect((await http.request('/rate-limits')).json()).toMatchObject({ code: 'AUTH_MISSING_KEY' });
  });
});

test('a full window is 429 with Retry-After, says so in every header, and opens again', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const key = await newKey(http, { restrictions: { burst_limit: 2 } });
  for (const remaining of [1, 0]) expect(headersOf(await ask(http, key))).toMatchObject({ limit: 2, remaining });
  for (let i = 0; i < 3; i++) {
    const refused = await ask(http, key, '/auth/status');
    expect([refused.status, refused.json()]).toEqual([429, expect.objectContaining({ code: 'RATE_LIMITED' })]);
    expect(refused.headers['retry-after']).toBe('60');
    expect(headersOf(refused)).toEqual({ limit: 2, remaining: 0, reset: (NEW_YEAR + MINUTE) / 1000 });
  }
  clock.advance(MINUTE);
  const { hour } = windows(await ask(http, key));
  // The three that were refused are in no window.
  expect(hour.remaining).toBe(97);
});

test('an account is one, whichever of its keys asks', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const one = await newKey(http, { account: { requests_per_hour: 3 } });
  const two = await newKey(http, { tenant: one.tenant });
  const stranger = await newKey(http);
  const statuses = [];
  for (const key of [one, two, one, two, one, stranger]) statuses.push((await ask(http, key)).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429, 200]);
  expect((await ask(http, one)).headers['retry-after']).toBe('3600');
});

test('a submission counts with a key, and without one it does not', async () => {
  const http = await startHttp({ clock: testClock() });
  const key = await newKey(http, { tenant: OPERATOR, restrictions: { rate_limit: 3 } });
  const post = (headers: Record<string, string>) =>
    http.request('/example.com/contact', {
      body: { message: 'Hello there' },
      headers: { Accept: 'application/json', ...headers },
    });
  const remaining = async () => windows(await ask(http, key)).hour.remaining;
  expect(await remaining()).toBe(2);
  expect((await post({})).status).toBe(200);
  expect((await post(key.headers)).status).toBe(200);
  expect(await remaining()).toBe(0);
  const refused = await post(key.headers);
  expect([refused.status, refused.json()['code'], refused.headers['retry-after']]).toEqual([429, 429, '3600']);
  expect(headersOf(refused)).toMatchObject({ limit: 3, remaining: 0 });
  expect((await post({})).status).toBe(200);
});

test('the operator is never refused, nor counted against the tenant that it acts for', async () => {
  const http = await startHttp({ clock: testClock(), limits: { requests_per_minute_per_address: 2 } });
  const key = await newKey(http, { account: { requests_per_hour: 1 } });
  const headers = { 'X-Postern-Tenant': key.tenant };
  for (let i = 0; i < 5; i++) expect((await http.request('/auth/status', { local: true, headers })).status).toBe(200);
  expect((await ask(http, key)).status).toBe(200);
});

describe('X-RateLimit headers are integers on every response', () => {
  interface Case {
    readonly path: string;
    readonly status: number;
    readonly request?: Parameters<TestHttp['request']>[1];
  }
  const cases: Case[] = [
    { path: '/nowhere', status: 404 },
    { path: '/nowhere', status: 404, request: { local: true } },
    { path: '/example.com/nowhere', status: 404 },
    { path: '/elsewhere.example/contact', status: 404 },
    { path: '/rate-limits', status: 401 },
    { path: '/rate-limits', status: 200, request: { local: true } },
    { path: '/rate-limits', status: 405, request: { method: 'DELETE' } },
    { path: '/admin/queue/hold', status: 400, request: { local: true, body: { domain: 5 } } },
    { path: '/admin/queue/hold', status: 415, request: { local: true, body: new URLSearchParams('a=b') } },
    {
      path: '/example.com/contact',
      status: 200,
      request: { body: { message: 'Hello' }, headers: { Origin: 'http://example.com' } },
    },
    {
      path: '/example.com/contact',
      status: 403,
      request: { body: { message: 'Hello' }, headers: { Origin: 'http://evil.example' } },
    },
    {
      path: '/example.com/contact',
      status: 415,
      request: { method: 'POST', body: 'x', headers: { 'Content-Type': 'text/x' } },
    },
    {
      path: '/example.com/contact',
      status: 204,
      request: {
        method: 'OPTIONS',
        headers: { Origin: 'http://example.com', 'Access-Control-Request-Method': 'POST' },
      },
    },
    { path: '/healthz', status: 200 },
    { path: '/openapi.json', status: 200 },
    { path: '/%', status: 404 },
  ];
  test.each(cases)('$status $path', async ({ path, status, request }) => {
    const http = await startHttp();
    const answer = await http.request(path, request);
    expect([answer.status, answer.text]).toEqual([status, expect.anything()]);
    expect(headersOf(answer)).toMatchObject({ limit: 600 === headersOf(answer).limit ? 600 : 60 });
    expect(answer.headers['x-request-id']).toMatch(/^req_/);
  });

  test('500, 503 and 429 among them', async () => {
    const failing = await startHttp({
      options: {
        queueProblem: () => {
          throw new Error('broken');
        },
      },
    });
    const broken = await failing.request('/readyz');
    expect(broken.status).toBeGreaterThanOrEqual(500);
    headersOf(broken);
    const stuck = await startHttp({ options: { queueProblem: () => 'the queue does not move' } });
    const unready = await stuck.request('/readyz');
    expect(unready.status).toBe(503);
    headersOf(unready);
    const http = await startHttp({ limits: { requests_per_minute_per_address: 1 } });
    await http.request('/healthz');
    const many = await http.request('/nowhere');
    expect(many.status).toBe(429);
    expect(headersOf(many)).toMatchObject({ limit: 1, remaining: 0 });
  });

  test('what is no HTTP at all too', async () => {
    const http = await startHttp();
    for (const bytes of [
      'GARBAGE\r\n\r\n',
      `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
    ]) {
      const heard = await http.raw(bytes);
      expect(heard).toMatch(/^HTTP\/1\.1 4\d\d /);
      for (const name of ['Limit', 'Remaining', 'Reset'])
        expect(heard).toMatch(new RegExp(`\r\nX-RateLimit-${name}: \\d+\r\n`, 'i'));
    }
  });
});
