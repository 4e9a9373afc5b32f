import { describe, expect, test } from 'vitest';
import { PERMISSIONS } from '../../../src/lib/permission-names.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestAnswer, type TestHttp, type TestRequest } from '../../harness/http.ts';
import { testKey, type TestKeySettings } from '../../harness/keys.ts';

const FULL = PERMISSIONS.filter((permission) => permission !== 'admin');

/** What a client reads first of an answer. */
const outcome = (answer: TestAnswer) => [answer.status, answer.json()['code']];

async function status(http: TestHttp, request: TestRequest): Promise<TestAnswer> {
  return http.request('/auth/status', request);
}

/** A server and a key of this kind; asks as that key. */
async function startWith(settings: TestKeySettings = {}) {
  const clock = testClock();
  const http = await startHttp({ clock });
  const key = await testKey(http.store, { now: clock.now(), ...settings });
  const ask = (path: string, request: TestRequest = {}) =>
    http.request(path, { ...request, headers: { ...key.headers, ...request.headers } });
  const create = (body: object) => ask('/api-keys', { body });
  return { http, clock, key, ask, create };
}

describe('a request shows who it is', () => {
  test('in each of three headers, at each of three spellings', async () => {
    const { http, key } = await startWith();
    const shown = [
      { Authorization: `Bearer ${key.value}` },
      { Authorization: `bearer  ${key.value} ` },
      { 'X-Api-Key': key.value },
      { 'Service-Api-Key': key.value },
    ];
    for (const headers of shown) {
      for (const prefix of ['', '/api', '/v1']) {
        const answer = await http.request(`${prefix}/auth/status`, { headers });
        expect([answer.status, answer.json()]).toMatchObject([200, { key: { id: key.id } }]);
      }
    }
  });

  const refused: [name: string, headers: (value: string) => TestRequest['headers'], expected: unknown[]][] = [
    ['nothing', () => ({}), [401, 'AUTH_MISSING_KEY']],
    ['two headers', (value) => ({ Authorization: `Bearer ${value}`, 'X-Api-Key': value }), [400, 'AUTH_AMBIGUOUS']],
    ['the other two', (value) => ({ 'Service-Api-Key': value, 'X-Api-Key': value }), [400, 'AUTH_AMBIGUOUS']],
    ['two and rubbish', (value) => ({ Authorization: 'Basic eDp5', 'X-Api-Key': value }), [400, 'AUTH_AMBIGUOUS']],
    ['another scheme', () => ({ Authorization: 'Basic eDp5' }), [401, 'AUTH_INVALID_KEY']],
    ['no scheme', (value) => ({ Authorization: value }), [401, 'AUTH_INVALID_KEY']],
    ['a scheme too many', (value) => ({ 'X-Api-Key': `Bearer ${value}` }), [401, 'AUTH_INVALID_KEY']],
    ['no key', () => ({ 'X-Api-Key': 'hello' }), [401, 'AUTH_INVALID_KEY']],
    ['an empty header', () => ({ 'X-Api-Key': '' }), [401, 'AUTH_INVALID_KEY']],
    ['a key in lower case', (value) => ({ 'X-Api-Key': value.toLowerCase() }), [401, 'AUTH_INVALID_KEY']],
    [
      'a key of another prefix',
      (value) => ({ 'X-Api-Key': value.replace('_live_', '_test_') }),
      [401, 'AUTH_INVALID_KEY'],
    ],
    ['a key cut short', (value) => ({ 'X-Api-Key': value.slice(0, -1) }), [401, 'AUTH_INVALID_KEY']],
  ];
  test.each(refused)('%s is refused', async (_, headers, expected) => {
    const { http, key } = await startWith();
    const answer = await status(http, { headers: headers(key.value) ?? {} });
    expect(outcome(answer)).toEqual(expected);
    expect(answer.headers['www-authenticate']).toBe(expected[0] === 401 ? 'Bearer' : undefined);
  });

  test('one header twice is refused as two', async () => {
    const { http, key } = await startWith();
    for (const name of ['Authorization', 'X-Api-Key', 'Service-Api-Key']) {
      const line = `${name}: Bearer ${key.value}\r\n`;
      const heard = await http.raw(`GET /auth/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${line}${line}\r\n`);
      expect(heard).toMatch(/^HTTP\/1.1 400 [^]*AUTH_AMBIGUOUS/);
    }
  });

  test('one letter mistyped is refused', async () => {
    const { http, key } = await startWith();
    for (let i = 'svc_sk_live_'.length; i < key.value.length; i++) {
      const wrong = key.value.slice(0, i) + (key.value[i] === 'a' ? 'b' : 'a') + key.value.slice(i + 1);
      expect(outcome(await status(http, { headers: { 'X-Api-Key': wrong } }))).toEqual([401, 'AUTH_INVALID_KEY']);
    }
  });

  const ended: [settings: TestKeySettings, expected: unknown[]][] = [
    [{ expired: true }, [401, 'AUTH_EXPIRED_KEY']],
    [{ revoked: true }, [401, 'AUTH_REVOKED_KEY']],
    [{ revoked: true, expired: true }, [401, 'AUTH_REVOKED_KEY']],
    [{ account: { suspended: 1 } }, [403, 'AUTH_FORBIDDEN']],
    [{ account: { confirmed_at: null } }, [403, 'AUTH_FORBIDDEN']],
    [{ restrictions: { ip_whitelist: ['192.0.2.1'] } }, [403, 'AUTH_IP_NOT_ALLOWED']],
    [{ restrictions: { ip_whitelist: ['::ffff:127.0.0.0/104'] } }, [200, undefined]],
  ];
  test.each(ended)('a key with %j', async (settings, expected) => {
    const { ask } = await startWith(settings);
    expect(outcome(await ask('/auth/status'))).toEqual(expected);
  });

  test('a key that expires works until then', async () => {
    const { ask, clock } = await startWith({ restrictions: { expires_at: '2026-01-01T01:00:00.000Z' } });
    clock.advance(3_599_999);
    expect((await ask('/auth/status')).status).toBe(200);
    clock.advance(1);
    expect(outcome(await ask('/auth/status'))).toEqual([401, 'AUTH_EXPIRED_KEY']);
  });

  test('over the Unix socket a key is looked at, and none is needed', async () => {
    const { http, key } = await startWith({ revoked: true });
    expect((await status(http, { local: true })).json()).toEqual({
      key: null,
      tenant: { id: OPERATOR, name: 'Operator', plan: 'enterprise' },
    });
    const tenant = await status(http, { local: true, headers: { 'X-Postern-Tenant': key.tenant } });
    expect(tenant.json()).toMatchObject({ key: null, tenant: { id: key.tenant } });
    expect(outcome(await status(http, { local: true, headers: { 'X-Postern-Tenant': 'ten_nobody' } }))).toEqual([
      404,
      'NOT_FOUND',
    ]);
    expect(outcome(await status(http, { local: true, headers: key.headers }))).toEqual([401, 'AUTH_REVOKED_KEY']);
  });
});

describe('keys that a key made', () => {
  async function family() {
    const world = await startWith({ permissions: PERMISSIONS.filter((name) => name !== 'admin') });
    const { http, key, create } = world;
    const child = (await create({ name: 'Child' })).json() as { id: string; key: string };
    const headers = { Authorization: `Bearer ${child.key}` };
    const made = await http.request('/api-keys', { headers, body: { name: 'Grandchild' } });
    const { id: grandchild } = made.json() as { id: string };
    const owner = await testKey(http.store, { tenant: key.tenant, now: world.clock.now() });
    const ask = (path: string, request: TestRequest = {}) => http.request(path, { ...request, headers: owner.headers });
    return { ...world, ask, child, grandchild };
  }
  const ids = (value: unknown) => (value as { id: string }[]).map(({ id }) => id);

  test('outlive it, and are named when it is revoked', async () => {
    const { ask, key, child, grandchild, http } = await family();
    const answer = await ask(`/api-keys/${key.id}`, { method: 'DELETE' });
    expect(ids(answer.json()['active_children'])).toEqual([child.id, grandchild]);
    expect(answer.json()['revoked_children']).toEqual([]);
    expect((await status(http, { headers: { 'X-Api-Key': child.key } })).status).toBe(200);
    expect(ids((await ask(`/api-keys/${key.id}`)).json()['active_children'])).toEqual([child.id, grandchild]);
  });

  test('are revoked with it on request, also when it is revoked already', async () => {
    const { ask, key, child, grandchild, http } = await family();
    await ask(`/api-keys/${key.id}`, { method: 'DELETE' });
    const answer = await ask(`/api-keys/${key.id}?with_children=true`, { method: 'DELETE' });
    expect(ids(answer.json()['revoked_children'])).toEqual([child.id, grandchild]);
    expect(answer.json()['active_children']).toEqual([]);
    expect(outcome(await status(http, { headers: { 'X-Api-Key': child.key } }))).toEqual([401, 'AUTH_REVOKED_KEY']);
  });

  test('count in its limits while it is active, whatever theirs are', async () => {
    const { http, key, create, ask } = await startWith({ restrictions: { rate_limit: 4 } });
    const child = (await create({ name: 'Child', restrictions: { rate_limit: 4 } })).json() as { key: string };
    const asChild = async () => (await status(http, { headers: { 'X-Api-Key': child.key } })).status;
    expect([await asChild(), await asChild(), await asChild(), await asChild()]).toEqual([200, 200, 200, 429]);
    expect((await ask('/auth/status')).status).toBe(429);
    const owner = await testKey(http.store, { tenant: key.tenant });
    await http.request(`/api-keys/${key.id}`, { method: 'DELETE', headers: owner.headers });
    expect([await asChild(), await asChild()]).toEqual([200, 429]);
  });
});

test('GET /auth/status shows the key and its tenant, and no secret', async () => {
  const { ask, key } = await startWith({
    name: 'CI',
    permissions: ['forms', 'email.send'],
    restrictions: { rate_limit: 10, expires_at: '2026-02-01T00:00:00.000Z' },
  });
  expect((await ask('/auth/status')).json()).toEqual({
    key: {
      id: key.id,
      name: 'CI',
      prefix: 'svc_rk_',
      last4: key.value.slice(-4),
      permissions: ['forms.read', 'forms.write', 'forms.submit', 'email.send'],
      restrictions: { rate_limit: 10, expires_at: '2026-02-01T00:00:00.000Z' },
      environment: 'live',
      expires_at: '2026-02-01T00:00:00.000Z',
      last_used_at: null,
    },
    tenant: { id: key.tenant, name: 'Tenant', plan: 'free' },
  });
});

describe('POST /api-keys', () => {
  test('makes a key that works, and shows its value once', async () => {
    const { http, ask, create } = await startWith();
    const made = await create({
      name: '  Website ',
      permissions: ['forms', 'analytics'],
      restrictions: {
        ip_whitelist: ['127.0.0.77/8', '::FFFF:192.0.2.1', '2001:DB8::/32'],
        domain_restrictions: ['Example.COM', 'bücher.example'],
        rate_limit: 100,
        burst_limit: 10,
        expires_at: '2026-06-01T12:00:00+02:00',
      },
    });
    const restrictions = {
      ip_whitelist: ['127.0.0.0/8', '192.0.2.1', '2001:db8::/32'],
      domain_restrictions: ['example.com', 'xn--bcher-kva.example'],
      rate_limit: 100,
      burst_limit: 10,
      expires_at: '2026-06-01T10:00:00.000Z',
    };
    const body = made.json();
    const key = String(body['key']);
    expect([made.status, body]).toEqual([
      200,
      {
        id: expect.stringMatching(/^key_[0-9a-z]{26}$/),
        key: expect.stringMatching(/^svc_rk_[0-9A-Za-z]{34}$/),
        name: 'Website',
        environment: 'live',
        permissions: ['forms.read', 'forms.write', 'forms.submit', 'analytics.read'],
        restrictions,
        created_at: '2026-01-01T00:00:00.000Z',
      },
    ]);
    expect((await status(http, { headers: { 'X-Api-Key': key } })).status).toBe(200);
    const id = String(body['id']);
    const shown = await ask(`/api-keys/${id}`);
    expect(shown.json()).toMatchObject({ id, last4: key.slice(-4), prefix: 'svc_rk_', restrictions, revoked_at: null });
    expect(shown.text + (await ask('/api-keys')).text).not.toContain(key.slice(7, -4));
  });

  const prefixes: [maker: TestKeySettings, wanted: object, prefix: string, permissions: readonly string[]][] = [
    [{}, {}, 'svc_sk_live_', FULL],
    [{}, { environment: 'live' }, 'svc_sk_live_', FULL],
    [{}, { environment: 'test' }, 'svc_sk_test_', FULL],
    [{ environment: 'test' }, {}, 'svc_sk_test_', FULL],
    [{}, { permissions: FULL }, 'svc_sk_live_', FULL],
    [{}, { permissions: FULL.slice(1) }, 'svc_rk_', FULL.slice(1)],
    [{}, { environment: 'test', permissions: ['forms.read'] }, 'svc_rk_', ['forms.read']],
    [{}, { permissions: [] }, 'svc_rk_', []],
    [
      {},
      { permissions: ['forms.write', 'forms', 'forms.read'] },
      'svc_rk_',
      ['forms.read', 'forms.write', 'forms.submit'],
    ],
    [{ permissions: ['keys', 'forms.read'] }, {}, 'svc_rk_', ['forms.read', 'keys.read', 'keys.write']],
    // `admin` must be named, whoever asks.
    [{ permissions: PERMISSIONS }, {}, 'svc_sk_live_', FULL],
    [{ permissions: PERMISSIONS }, { permissions: PERMISSIONS }, 'svc_sk_live_', PERMISSIONS],
    [{ permissions: PERMISSIONS }, { permissions: ['admin'] }, 'svc_rk_', ['admin']],
  ];
  test.each(prefixes)('a key with %j that asks for %j makes %s', async (maker, wanted, prefix, permissions) => {
    const { create } = await startWith(maker);
    const made = (await create({ name: 'K', ...wanted })).json();
    expect([made['key'], made['permissions']]).toEqual([expect.stringContaining(prefix), permissions]);
  });

  const OWN = {
    ip_whitelist: ['127.0.0.0/8', '2001:db8::/32'],
    domain_restrictions: ['example.com', 'example.org'],
    rate_limit: 100,
    burst_limit: 10,
    expires_at: '2026-06-01T00:00:00.000Z',
  };
  const narrowed: [wanted: object, result: object | 403][] = [
    [{}, OWN],
    [{ ip_whitelist: ['127.0.0.1'] }, { ...OWN, ip_whitelist: ['127.0.0.1'] }],
    [{ ip_whitelist: ['127.0.0.0/8'] }, { ...OWN, ip_whitelist: ['127.0.0.0/8'] }],
    [{ ip_whitelist: ['::ffff:127.1.0.0/112'] }, { ...OWN, ip_whitelist: ['127.1.0.0/16'] }],
    [{ ip_whitelist: ['2001:db8:7::/48'] }, { ...OWN, ip_whitelist: ['2001:db8:7::/48'] }],
    [{ ip_whitelist: ['126.0.0.0/7'] }, 403],
    [{ ip_whitelist: ['127.0.0.1', '192.0.2.1'] }, 403],
    [{ ip_whitelist: ['::/0'] }, 403],
    [{ domain_restrictions: ['example.org'] }, { ...OWN, domain_restrictions: ['example.org'] }],
    [{ domain_restrictions: ['example.org', 'example.net'] }, 403],
    [{ domain_restrictions: ['sub.example.org'] }, 403],
    [
      { rate_limit: 100, burst_limit: 9 },
      { ...OWN, burst_limit: 9 },
    ],
    [{ rate_limit: 101 }, 403],
    [{ burst_limit: 11 }, 403],
    [{ expires_at: '2026-05-01T00:00:00Z' }, { ...OWN, expires_at: '2026-05-01T00:00:00.000Z' }],
    [{ expires_at: '2026-06-01T00:00:00Z' }, OWN],
    [{ expires_at: '2026-06-01T00:00:00.001Z' }, 403],
  ];
  test.each(narrowed)('a restricted key that asks for %j', async (wanted, result) => {
    const { create } = await startWith({ restrictions: OWN });
    const made = await create({ name: 'K', restrictions: wanted });
    if (result === 403) expect(outcome(made)).toEqual([403, 'AUTH_FORBIDDEN']);
    else expect([made.status, made.json()['restrictions']]).toEqual([200, result]);
  });

  const more: [maker: TestKeySettings, wanted: object, words: string][] = [
    [{ permissions: ['keys.write'] }, { permissions: ['forms.read'] }, 'forms.read'],
    [{ permissions: ['keys.write', 'forms.read'] }, { permissions: ['forms'] }, 'forms.write'],
    [{}, { permissions: ['admin'] }, 'admin'],
    [{ environment: 'test' }, { environment: 'live' }, 'test'],
    [{ permissions: ['keys.read'] }, {}, 'keys.write'],
  ];
  test.each(more)('a key with %j may not make %j', async (maker, wanted, words) => {
    const { http, create, key } = await startWith(maker);
    const answer = await create({ name: 'K', ...wanted });
    expect(outcome(answer)).toEqual([403, 'AUTH_FORBIDDEN']);
    expect(answer.json()['error']).toContain(words);
    const keys = await http.request('/api-keys', { local: true, headers: { 'X-Postern-Tenant': key.tenant } });
    expect(keys.json()).toMatchObject({ count: 1 });
  });

  const invalid: [body: object, path: string][] = [
    [{}, 'name'],
    [{ name: ' ' }, 'name'],
    [{ name: 'a\nb' }, 'name'],
    [{ name: 'x'.repeat(201) }, 'name'],
    [{ name: 'K', environment: 'prod' }, 'environment'],
    [{ name: 'K', permissions: 'forms' }, 'permissions'],
    [{ name: 'K', permissions: ['form'] }, 'permissions.0'],
    [{ name: 'K', premissions: [] }, 'premissions'],
    [{ name: 'K', restrictions: { ip_whitelist: [] } }, 'restrictions.ip_whitelist'],
    [{ name: 'K', restrictions: { ip_whitelist: ['10.0.0.0/33'] } }, 'restrictions.ip_whitelist.0'],
    [{ name: 'K', restrictions: { ip_whitelist: ['10.1'] } }, 'restrictions.ip_whitelist.0'],
    [{ name: 'K', restrictions: { domain_restrictions: [] } }, 'restrictions.domain_restrictions'],
    [{ name: 'K', restrictions: { domain_restrictions: ['no domain'] } }, 'restrictions.domain_restrictions.0'],
    [{ name: 'K', restrictions: { rate_limit: 0 } }, 'restrictions.rate_limit'],
    [{ name: 'K', restrictions: { rate_limit: 1.5 } }, 'restrictions.rate_limit'],
    [{ name: 'K', restrictions: { burst_limit: '5' } }, 'restrictions.burst_limit'],
    [{ name: 'K', restrictions: { expires_at: 'tomorrow' } }, 'restrictions.expires_at'],
    [{ name: 'K', restrictions: { expires_at: '2026-01-01T00:00:00Z' } }, 'restrictions.expires_at'],
    [{ name: 'K', restrictions: { expires: '2027-01-01T00:00:00Z' } }, 'restrictions.expires'],
  ];
  test.each(invalid)('%j is refused at %s', async (body, path) => {
    const { create } = await startWith();
    const answer = await create(body);
    expect(answer.json()).toMatchObject({
      code: 'VALIDATION_FAILED',
      details: [{ path, message: expect.any(String) }],
    });
  });

  test('U+0000, which not every database can keep, is refused wherever it stands', async () => {
    const { ask, create } = await startWith();
    expect(outcome(await create({ name: 'a\0b' }))).toEqual([400, 'BODY_MALFORMED']);
    expect(outcome(await create({ name: 'K', ['a\0b']: 1 }))).toEqual([400, 'BODY_MALFORMED']);
    expect((await create({ name: String.raw`a\u0000b` })).json()).toMatchObject({ name: String.raw`a\u0000b` });
    expect(outcome(await ask('/api-keys/%00'))).toEqual([404, 'NOT_FOUND']);
    expect(outcome(await ask('/api-keys?cursor=%00'))).toEqual([400, 'BODY_MALFORMED']);
  });

  test('the operator makes keys for any tenant, admin among them', async () => {
    const { http, key } = await startWith();
    const body = { name: 'Boss', permissions: ['admin'] };
    const made = await http.request('/api-keys', { body, local: true, headers: { 'X-Postern-Tenant': key.tenant } });
    const value = String(made.json()['key']);
    expect((await status(http, { headers: { 'X-Api-Key': value } })).json()).toMatchObject({
      key: { permissions: ['admin'] },
      tenant: { id: key.tenant },
    });
    expect((await http.request('/admin/tenants', { headers: { 'X-Api-Key': value } })).status).toBe(200);
  });
});

describe('GET /api-keys', () => {
  test('lists the tenant’s own, newest first, in pages', async () => {
    const { http, ask, create, clock, key } = await startWith();
    await testKey(http.store, { now: clock.now() });
    for (const name of ['B', 'C']) {
      clock.advance(1000);
      await create({ name });
    }
    const first = (await ask('/api-keys?limit=2')).json();
    expect(first).toMatchObject({ count: 3, api_keys: [{ name: 'C', created_by: key.id }, { name: 'B' }] });
    const rest = (await ask(`/api-keys?limit=2&cursor=${String(first['next_cursor'])}`)).json();
    expect(rest).toMatchObject({ count: 3, api_keys: [{ id: key.id, created_by: null }], next_cursor: null });
  });

  test('another tenant’s key is not there', async () => {
    const { http, ask } = await startWith();
    const foreign = await testKey(http.store);
    const missing = await ask('/api-keys/key_00000000000000000000000000');
    for (const method of ['GET', 'DELETE']) {
      const answer = await ask(`/api-keys/${foreign.id}`, { method });
      expect(outcome(answer)).toEqual(outcome(missing));
      expect(outcome(answer)).toEqual([404, 'NOT_FOUND']);
    }
    expect((await status(http, { headers: foreign.headers })).status).toBe(200);
  });

  test('a key with domain_restrictions sees and revokes those within its own', async () => {
    const { http, ask, key } = await startWith({
      restrictions: { domain_restrictions: ['example.com', 'example.org'] },
    });
    const { tenant } = key;
    const within = await testKey(http.store, { tenant, restrictions: { domain_restrictions: ['example.org'] } });
    const beyond = await testKey(http.store, {
      tenant,
      restrictions: { domain_restrictions: ['example.org', 'example.net'] },
    });
    const free = await testKey(http.store, { tenant });
    const listed = (await ask('/api-keys')).json();
    expect(listed).toMatchObject({ count: 2, api_keys: [{ id: within.id }, { id: key.id }] });
    for (const { id } of [beyond, free]) {
      expect(outcome(await ask(`/api-keys/${id}`, { method: 'DELETE' }))).toEqual([404, 'NOT_FOUND']);
    }
    expect((await ask(`/api-keys/${within.id}`, { method: 'DELETE' })).status).toBe(200);
  });
});

describe('DELETE /api-keys/{id}', () => {
  test('ends a key at once, and only once', async () => {
    const { http, ask, create, clock } = await startWith();
    const { id, key } = (await create({ name: 'Old' })).json();
    const headers = { 'X-Api-Key': String(key) };
    expect((await status(http, { headers })).status).toBe(200);
    clock.advance(1000);
    const revoked = await ask(`/api-keys/${String(id)}`, { method: 'DELETE' });
    expect([revoked.status, revoked.json()]).toMatchObject([200, { id, revoked_at: '2026-01-01T00:00:01.000Z' }]);
    expect(outcome(await status(http, { headers }))).toEqual([401, 'AUTH_REVOKED_KEY']);
    clock.advance(1000);
    const again = await ask(`/api-keys/${String(id)}`, { method: 'DELETE' });
    expect([again.status, again.text]).toEqual([200, revoked.text]);
  });

  test('ten at once revoke it once', async () => {
    const { http, ask, create, key } = await startWith();
    const { id } = (await create({ name: 'Old' })).json();
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => ask(`/api-keys/${String(id)}`, { method: 'DELETE' })),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
    expect(await http.events(key.tenant, 'key.revoked')).toHaveLength(1);
  });

  test('a key may revoke itself', async () => {
    const { ask, key } = await startWith();
    expect((await ask(`/api-keys/${key.id}`, { method: 'DELETE' })).status).toBe(200);
    expect(outcome(await ask('/auth/status'))).toEqual([401, 'AUTH_REVOKED_KEY']);
  });

  test('a key that may only read may not', async () => {
    const { ask, key } = await startWith({ permissions: ['keys.read'] });
    expect((await ask(`/api-keys/${key.id}`)).status).toBe(200);
    expect(outcome(await ask(`/api-keys/${key.id}`, { method: 'DELETE' }))).toEqual([403, 'AUTH_FORBIDDEN']);
  });
});

test('the life of a key is told, without its value', async () => {
  const { http, clock, ask, create, key } = await startWith();
  const { id, key: value } = (await create({ name: 'Short', permissions: ['forms.read'] })).json();
  clock.advance(1000);
  await ask(`/api-keys/${String(id)}`, { method: 'DELETE' });
  const events = await http.events(key.tenant);
  const told = events.map(({ type, data }) => ({ type, data })).filter(({ data }) => data['key'] === id);
  expect(told).toEqual([
    {
      type: 'key.created',
      data: {
        key: id,
        name: 'Short',
        environment: 'live',
        permissions: ['forms.read'],
        restrictions: {},
        by: key.id,
      },
    },
    { type: 'key.revoked', data: { key: id, name: 'Short', by: key.id } },
  ]);
  expect(JSON.stringify(events)).not.toContain(String(value).slice(7, -4));
});
