import { describe, expect, test } from 'vitest';
import { recordEvent } from '../../../src/store/events.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';

const DAY = 86_400_000;
const NEW_YEAR = Date.UTC(2026, 0, 1);

async function ask(http: TestHttp, key: TestKey, path: string, times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await http.request(path, { headers: key.headers });
}

describe('GET /analytics/api-usage', () => {
  test('counts what each key asked for, by day, up to the request before', async () => {
    const clock = testClock(NEW_YEAR);
    const http = await startHttp({ clock });
    const one = await testKey(http.store, { now: NEW_YEAR, restrictions: { burst_limit: 4 } });
    const two = await testKey(http.store, { now: NEW_YEAR, tenant: one.tenant });
    const stranger = await testKey(http.store, { now: NEW_YEAR });
    await ask(http, one, '/auth/status', 3);
    await ask(http, one, '/analytics?interval=week');
    await ask(http, one, '/auth/status', 2);
    await ask(http, stranger, '/auth/status');
    clock.advance(DAY);
    await ask(http, two, '/auth/status');
    const usage = (query = '') => http.request(`/analytics/api-usage${query}`, { headers: two.headers });
    const first = { day: '2026-01-01', key: one.id, requests: 6, errors: 1, rate_limited: 2 };
    expect((await usage()).json()).toEqual({
      usage: [first, { day: '2026-01-02', key: two.id, requests: 1, errors: 0, rate_limited: 0 }],
    });
    expect((await usage(`?key=${one.id}`)).json()).toEqual({ usage: [first] });
    expect((await usage(`?key=${stranger.id}`)).json()).toMatchObject({ code: 'NOT_FOUND' });
    clock.advance(6 * DAY);
    expect((await usage('?last=7d')).json()).toMatchObject({ usage: [{ day: '2026-01-02', requests: 4 }] });
    clock.advance(22 * DAY);
    expect((await usage('?last=30d')).json()).toMatchObject({ usage: [{ day: '2026-01-01' }, {}, {}] });
    clock.advance(DAY);
    expect(((await usage()).json() as { usage: { day: string }[] }).usage.map(({ day }) => day)).not.toContain(
      '2026-01-01',
    );
  });

  test.each([
    ['', 'text/csv', true],
    ['?format=csv', 'application/json', true],
    ['?format=json', 'text/csv', false],
    ['', 'application/json, text/csv;q=0.5', false],
    ['', 'text/csv, application/json;q=0.5', true],
    ['', '*/*', false],
  ])('%s with Accept: %s is CSV: %s', async (query, accept, table) => {
    const http = await startHttp({ clock: testClock(NEW_YEAR) });
    const key = await testKey(http.store, { now: NEW_YEAR });
    await ask(http, key, '/auth/status');
    const answer = await http.request(`/analytics/api-usage${query}`, { headers: { ...key.headers, Accept: accept } });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe(table ? 'text/csv; charset=utf-8' : 'application/json');
    if (!table) return expect(answer.json()).toMatchObject({ usage: [{ requests: 1 }] });
    expect(answer.text).toBe(`day,key,requests,errors,rate_limited\r\n2026-01-01,${key.id},1,0,0\r\n`);
    expect(answer.headers['content-disposition']).toBe('attachment; filename="api-usage-2025-12-03-2026-01-01.csv"');
  });

  test('is not for keys that are restricted to domains, nor for those that may not', async () => {
    const http = await startHttp();
    const narrow = await testKey(http.store, { restrictions: { domain_restrictions: ['one.example'] } });
    const other = await testKey(http.store, { permissions: ['forms.read'] });
    for (const [key, code] of [
      [narrow, 'AUTH_DOMAIN_NOT_ALLOWED'],
      [other, 'AUTH_FORBIDDEN'],
    ] as const) {
      const answer = await http.request('/analytics/api-usage', { headers: key.headers });
      expect([answer.status, answer.json()['code']]).toEqual([403, code]);
    }
  });
});

describe('GET /admin/usage', () => {
  test('sums up the server and each tenant, over whole days', async () => {
    const clock = testClock(NEW_YEAR);
    const http = await startHttp({ clock });
    const one = await testKey(http.store, { now: NEW_YEAR, account: { name: 'One', plan: 'pro' } });
    const idle = await testKey(http.store, { now: NEW_YEAR });
    const event = { data: {}, type: 'submission.accepted' } as const;
    await http.store.write([
      recordEvent({ ...event, tenant: one.tenant, at: NEW_YEAR - 40 * DAY }),
      recordEvent({ ...event, tenant: one.tenant, at: NEW_YEAR - DAY }),
      recordEvent({ ...event, tenant: one.tenant, at: NEW_YEAR, type: 'email.delivered' }),
      recordEvent({ ...event, tenant: OPERATOR, at: NEW_YEAR }),
    ]);
    await ask(http, one, '/auth/status', 2);
    await ask(http, one, '/admin/usage');
    const usage = async (query = '') => (await http.request(`/admin/usage${query}`, { local: true })).json();
    const all = await usage();
    expect(all).toMatchObject({
      from: '2025-12-03T00:00:00.000Z',
      to: '2026-01-02T00:00:00.000Z',
      totals: { requests: 3, errors: 1, rate_limited: 0, submissions: 2, spam: 0, delivered: 1 },
      tenants: [
        { tenant: one.tenant, name: 'One', plan: 'pro', requests: 3, submissions: 1, delivered: 1, bounced: 0 },
        { tenant: OPERATOR, submissions: 1, requests: 0 },
      ],
    });
    expect(JSON.stringify(all)).not.toContain(idle.tenant);
    expect(await usage('?from=2025-11-01&to=2025-12-31')).toMatchObject({
      to: '2026-01-01T00:00:00.000Z',
      totals: { requests: 0, submissions: 2, delivered: 0 },
    });
    clock.advance(3 * DAY);
    expect(await usage('?from=2025-12-31&to=2026-01-01')).toMatchObject({ totals: { submissions: 2, delivered: 1 } });
    const answer = await http.request('/admin/usage?from=2000-01-01', { local: true });
    expect([answer.status, answer.json()]).toMatchObject([400, { details: [{ path: 'from' }] }]);
  });

  test('wants admin', async () => {
    const http = await startHttp();
    const full = await testKey(http.store);
    expect((await http.request('/admin/usage', { headers: full.headers })).status).toBe(403);
    const admin = await testKey(http.store, { permissions: ['admin'] });
    expect((await http.request('/admin/usage', { headers: admin.headers })).status).toBe(200);
  });
});
