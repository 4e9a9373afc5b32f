import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { recordEvent } from '../../../src/store/events.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const NEW_YEAR = Date.UTC(2026, 0, 1);
const DAY = 86_400_000;
const plans = {
  pro: { price: 19.9 },
  gold: { requests_per_hour: 5000, requests_per_minute: null, price: 99 },
  currency: 'CHF',
};

const start = (clock = testClock(NEW_YEAR + 10 * DAY)) => startHttp({ clock, plans });
const post = (http: TestHttp, body: object) => http.request('/admin/billing', { local: true, body });

describe('GET /admin/billing', () => {
  test('shows each tenant’s use of the month and the price of its plan', async () => {
    const http = await start();
    const free = await testKey(http.store, { now: NEW_YEAR - 40 * DAY });
    const pro = await testKey(http.store, { now: NEW_YEAR, account: { plan: 'pro' } });
    const gone = await testKey(http.store, { now: NEW_YEAR + DAY, account: { plan: 'bronze' } });
    await http.store.write([
      recordEvent({ type: 'submission.accepted', tenant: pro.tenant, at: NEW_YEAR, data: {} }),
      recordEvent({ type: 'submission.accepted', tenant: pro.tenant, at: NEW_YEAR - 1, data: {} }),
    ]);
    await http.request('/auth/status', { headers: pro.headers });
    const answer = await http.request('/admin/billing', { local: true });
    const { month, plans: shown, lines } = answer.json();
    expect(month).toBe('2026-01');
    expect(Object.keys(shown ?? {})).toEqual(['free', 'pro', 'enterprise', 'gold']);
    expect(shown).toMatchObject({
      free: {
        requests_per_hour: 100,
        requests_per_minute: 60,
        messages_per_hour: 200,
        messages_per_day: 1000,
        price: 0,
      },
      pro: {
        requests_per_hour: 1000,
        requests_per_minute: 300,
        messages_per_hour: 2000,
        messages_per_day: 20_000,
        price: 19.9,
      },
      enterprise: { requests_per_hour: null, messages_per_hour: null, messages_per_day: null, price: 0 },
      gold: { requests_per_hour: 5000, messages_per_hour: null, objects: { keys: null }, price: 99 },
    });
    expect(lines).toMatchObject([
      { tenant: free.tenant, plan: 'free', amount: 0, currency: 'CHF', usage: { requests: 0, submissions: 0 } },
      {
        tenant: pro.tenant,
        plan: 'pro',
        amount: 19.9,
        currency: 'CHF',
        usage: { requests: 1, submissions: 1, spam: 0 },
      },
      { tenant: gone.tenant, plan: 'bronze', amount: 0 },
    ]);
    const before = (await http.request('/admin/billing?month=2025-12', { local: true })).json();
    expect(before).toMatchObject({ month: '2025-12', lines: [{ tenant: free.tenant }] });
    expect(before['lines']).toHaveLength(1);
  });

  test.each(['month=January', 'month=2026-13', 'month=2026-1', 'year=2026'])('?%s is refused', async (query) => {
    const http = await start();
    const answer = await http.request(`/admin/billing?${query}`, { local: true });
    expect([answer.status, answer.json()['code']]).toEqual([400, 'VALIDATION_FAILED']);
  });
});

describe('POST /admin/billing', () => {
  test('puts a tenant on a plan, and its limits hold from the next request on', async () => {
    const http = await start();
    const key = await testKey(http.store, { now: NEW_YEAR });
    const limit = async () =>
      Number((await http.request('/rate-limits', { headers: key.headers })).text.match(/\d+/)?.[0]);
    expect(await limit()).toBe(100);
    expect((await post(http, { tenant: key.tenant, plan: 'gold' })).json()).toEqual({
      tenant: key.tenant,
      plan: 'gold',
      requests_per_hour: null,
      messages_per_hour: null,
      messages_per_day: null,
      amount: 99,
      currency: 'CHF',
    });
    expect(await limit()).toBe(5000);
    expect((await post(http, { tenant: key.tenant, requests_per_hour: 7 })).json()).toMatchObject({
      plan: 'gold',
      requests_per_hour: 7,
    });
    expect(await limit()).toBe(7);
    await post(http, { tenant: key.tenant, requests_per_hour: null });
    expect(await limit()).toBe(5000);
  });

  test('refuses what it cannot do', async () => {
    const http = await start();
    const key = await testKey(http.store, { now: NEW_YEAR });
    const answers = [
      await post(http, { tenant: key.tenant, plan: 'silver' }),
      await post(http, { tenant: key.tenant, plan: 'currency' }),
      await post(http, { tenant: key.tenant }),
      await post(http, { plan: 'pro' }),
      await post(http, { tenant: key.tenant, requests_per_hour: 0 }),
      await post(http, { tenant: 'ten_x', plan: 'pro' }),
      await post(http, { tenant: OPERATOR, plan: 'pro' }),
    ];
    expect(answers.map((answer) => [answer.status, answer.json()['code'], answer.json()['error']])).toEqual([
      [400, 'VALIDATION_FAILED', 'plan must be one of free, pro, enterprise, gold.'],
      [400, 'VALIDATION_FAILED', 'plan must be one of free, pro, enterprise, gold.'],
      [400, 'VALIDATION_FAILED', 'plan is missing.'],
      [400, 'VALIDATION_FAILED', 'tenant is missing.'],
      [400, 'VALIDATION_FAILED', 'requests_per_hour must be 1 or more.'],
      [404, 'NOT_FOUND', 'There is no account ten_x.'],
      [409, 'CONFLICT', 'The operator’s account has no plan.'],
    ]);
  });
});
