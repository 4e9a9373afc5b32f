import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestAnswer, type TestRequest } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const outcome = (answer: TestAnswer) => [answer.status, answer.json()['code']];

async function start() {
  const clock = testClock();
  const http = await startHttp({ clock });
  const admin = await testKey(http.store, { tenant: OPERATOR, permissions: ['admin'], now: clock.now() });
  const ask = (path: string, request: TestRequest = {}) =>
    http.request(path, { ...request, headers: { ...admin.headers, ...request.headers } });
  const change = (id: string, body: object) => ask(`/admin/tenants/${id}`, { method: 'PATCH', body });
  return { clock, http, admin, ask, change };
}

describe('POST /admin/tenants', () => {
  test('makes a tenant whose first key works at once', async () => {
    const { http, ask, admin } = await start();
    const made = await ask('/admin/tenants', { body: { name: 'Acme', email: 'Boss@ACME.example', plan: 'pro' } });
    const tenant = {
      id: expect.stringMatching(/^ten_[0-9a-z]{26}$/),
      name: 'Acme',
      email: 'Boss@acme.example',
      plan: 'pro',
      requests_per_hour: null,
      messages_per_hour: null,
      messages_per_day: null,
      suspended: false,
      trusted: true,
      confirmed_at: '2026-01-01T00:00:00.000Z',
      deleting: null,
      created_at: '2026-01-01T00:00:00.000Z',
    };
    expect([made.status, made.json()]).toEqual([
      200,
      { tenant, key: expect.stringMatching(/^svc_sk_live_[0-9A-Za-z]{34}$/) },
    ]);
    const { key } = made.json();
    const status = await http.request('/auth/status', { headers: { 'X-Api-Key': String(key) } });
    expect(status.json()).toMatchObject({ key: { name: 'First key' }, tenant: { name: 'Acme', plan: 'pro' } });
    const { id } = made.json()['tenant'] as { id: string };
    const events = await http.events(id, 'tenant.created');
    expect(events.map(({ data }) => data)).toEqual([
      { name: 'Acme', email: 'Boss@acme.example', plan: 'pro', by: admin.id },
    ]);
  });

  test('new tenants are on the plan free by default', async () => {
    const { ask } = await start();
    const made = await ask('/admin/tenants', { body: { name: 'Acme', email: 'a@acme.example' } });
    expect(made.json()).toMatchObject({ tenant: { plan: 'free' } });
  });

  const invalid: [body: object, path: string][] = [
    [{ email: 'a@acme.example' }, 'name'],
    [{ name: 'Acme' }, 'email'],
    [{ name: 'Acme', email: 'acme' }, 'email'],
    [{ name: 'Acme', email: 'a@acme.example, b@acme.example' }, 'email'],
    [{ name: 'Acme', email: 'a@acme.example', plan: 'gold' }, 'plan'],
    [{ name: 'Acme', email: 'a@acme.example', plan: 'currency' }, 'plan'],
    [{ name: 'Acme', email: 'a@acme.example', suspended: true }, 'suspended'],
  ];
  test.each(invalid)('%j is refused at %s', async (body, path) => {
    const { ask } = await start();
    const answer = await ask('/admin/tenants', { body });
    expect([answer.status, answer.json()]).toMatchObject([400, { details: [{ path }] }]);
  });
});

test('GET /admin/tenants lists the operator’s and all others, newest first, in pages; each has an address of its own', async () => {
  const { clock, http, ask } = await start();
  const ids = [];
  for (let i = 0; i < 3; i++) {
    clock.advance(1000);
    ids.unshift((await testKey(http.store, { now: clock.now() })).tenant);
  }
  const listed = [];
  let cursor = '';
  for (let i = 0; i < 4; i++) {
    const page = (await ask(`/v1/admin/tenants?limit=1${cursor}`)).json();
    expect(page).toMatchObject({ count: 4, tenants: [expect.anything()] });
    listed.push(page['tenants']);
    cursor = `&cursor=${String(page['next_cursor'])}`;
  }
  expect(cursor).toBe('&cursor=null');
  expect(listed).toMatchObject([OPERATOR, ...ids].map((id) => [{ id }]));
  expect((await ask(`/api/admin/tenants/${ids[1]}`)).json()).toMatchObject({ id: ids[1], plan: 'free' });
  expect(outcome(await ask('/admin/tenants/ten_nobody'))).toEqual([404, 'NOT_FOUND']);
});

describe('PATCH /admin/tenants/{id}', () => {
  test('changes what is named and nothing else', async () => {
    const { http, ask, change } = await start();
    const { tenant } = await testKey(http.store);
    expect((await change(tenant, { plan: 'pro' })).json()).toMatchObject({ plan: 'pro', requests_per_hour: null });
    expect((await change(tenant, { requests_per_hour: 50 })).json()).toMatchObject({
      plan: 'pro',
      requests_per_hour: 50,
    });
    expect((await change(tenant, { requests_per_hour: null })).json()).toMatchObject({ requests_per_hour: null });
    expect((await ask(`/admin/tenants/${tenant}`)).json()).toMatchObject((await change(tenant, {})).json());
    expect(await http.events(tenant, 'tenant.changed')).toHaveLength(3);
  });

  test('a tenant that is suspended is refused at once, and served again afterwards', async () => {
    const { http, change } = await start();
    const { tenant, headers } = await testKey(http.store);
    const ask = () => http.request('/auth/status', { headers });
    expect((await ask()).status).toBe(200);
    expect((await change(tenant, { suspended: true })).json()).toMatchObject({ suspended: true });
    const refused = await ask();
    expect(outcome(refused)).toEqual([403, 'AUTH_FORBIDDEN']);
    expect(refused.json()['error']).toContain('suspended');
    // The operator may still act for it.
    const acting = await http.request('/api-keys', { local: true, headers: { 'X-Postern-Tenant': tenant } });
    expect(acting.json()).toMatchObject({ count: 1 });
    await change(tenant, { suspended: false });
    expect((await ask()).status).toBe(200);
  });

  test('the operator’s tenant cannot be suspended', async () => {
    const { change } = await start();
    expect(outcome(await change(OPERATOR, { suspended: true }))).toEqual([409, 'CONFLICT']);
    expect((await change(OPERATOR, { plan: 'enterprise' })).status).toBe(200);
  });

  const invalid: [body: object, path: string][] = [
    [{ plan: 'gold' }, 'plan'],
    [{ requests_per_hour: 0 }, 'requests_per_hour'],
    [{ suspended: 'yes' }, 'suspended'],
    [{ email: 'b@acme.example' }, 'email'],
  ];
  test.each(invalid)('%j is refused at %s', async (body, path) => {
    const { http, change } = await start();
    const { tenant } = await testKey(http.store);
    expect((await change(tenant, body)).json()).toMatchObject({ code: 'VALIDATION_FAILED', details: [{ path }] });
  });

  test('an unknown tenant is not there', async () => {
    const { change } = await start();
    expect(outcome(await change('ten_nobody', { suspended: true }))).toEqual([404, 'NOT_FOUND']);
    expect(outcome(await change('ten_nobody', {}))).toEqual([404, 'NOT_FOUND']);
  });
});

test('no key but one with admin comes here, and none that is tied to a domain', async () => {
  const { http } = await start();
  const full = await testKey(http.store);
  const tied = await testKey(http.store, {
    permissions: ['admin'],
    restrictions: { domain_restrictions: ['example.com'] },
  });
  const routes: [method: string, path: string][] = [
    ['GET', '/admin/tenants'],
    ['POST', '/admin/tenants'],
    ['GET', `/admin/tenants/${full.tenant}`],
    ['PATCH', `/admin/tenants/${full.tenant}`],
  ];
  for (const [method, path] of routes) {
    const body = method === 'GET' ? {} : { body: { suspended: true } };
    const ask = async (headers: TestRequest['headers'] = {}) =>
      outcome(await http.request(path, { method, ...body, headers }));
    expect(await ask(full.headers)).toEqual([403, 'AUTH_FORBIDDEN']);
    expect(await ask(tied.headers)).toEqual([403, 'AUTH_DOMAIN_NOT_ALLOWED']);
    expect(await ask()).toEqual([401, 'AUTH_MISSING_KEY']);
  }
});
