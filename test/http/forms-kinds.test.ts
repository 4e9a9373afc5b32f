/** Posts to collections, to forms that the API made, by id and by name: who may, from where, and what is answered. */
import { describe, expect, test } from 'vitest';
import { OPERATOR, changeTenant } from '../../src/store/tenants.ts';
import { StoreError } from '../../src/store/store.ts';
import { startHttp, type TestHttp, type TestHttpOptions, type TestRequest } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';

const BODY = new URLSearchParams({ name: 'Ann', message: 'Hello' });
const JSON_ANSWER = { Accept: 'application/json' };
const ANYWHERE = 'https://anywhere.example';
const COLLECTIONS = {
  open: { forms: { contact: { email: 'a@inbox.example', name: 'Open form' } } },
  listed: {
    allowed_origins: ['https://site.example'],
    forms: {
      contact: { email: 'a@inbox.example' },
      more: { email: 'a@inbox.example', allowed_origins: ['https://more.example'] },
      strict: { email: 'a@inbox.example', spam_protection: { level: 'strict' } },
      named: { email: 'a@inbox.example', required: ['email'] },
    },
  },
  closed: { settings: { requireApiKey: true }, forms: { contact: { email: 'a@inbox.example' } } },
};

function start(more: TestHttpOptions = {}): Promise<TestHttp> {
  return startHttp({
    collections: COLLECTIONS,
    forms: { contact: { name: 'Contact us', to: 'owner@example.com' }, jobs: { to: 'jobs@example.com' } },
    ...more,
  });
}

function post(http: TestHttp, path: string, headers: Record<string, string> = {}, body: TestRequest['body'] = BODY) {
  return http.request(path, { body, headers: { ...JSON_ANSWER, ...headers } });
}

function preflight(http: TestHttp, path: string, origin: string) {
  const asked = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'formspree-client' };
  return http.request(path, { method: 'OPTIONS', headers: { Origin: origin, ...asked } });
}

/** A form that the API made: its path and its tenant's key. */
async function made(http: TestHttp, body: object = {}, tenant = OPERATOR) {
  const key = await testKey(http.store, { tenant });
  const answer = await http.request('/forms', {
    body: { name: 'Made', to: 'made@inbox.example', subject: 'Hi', ...body },
    headers: key.headers,
  });
  const id = String(answer.json()['id']);
  return { id, path: `/f/${id}`, key };
}

describe('addresses', () => {
  test.each([
    ['/c/open/contact', 'c/open/contact'],
    ['/c/open/contact/', 'c/open/contact'],
    ['/f/c/open/contact', 'c/open/contact'],
    ['/f/example.com/jobs', 'example.com/jobs'],
    ['/f/EXAMPLE.com%2Fjobs', 'example.com/jobs'],
    ['/submit/example.com/jobs', 'example.com/jobs'],
  ])('%s is the form %s', async (path, form) => {
    const http = await start();
    expect((await post(http, path)).json()).toMatchObject({ success: true, message: expect.any(String) });
    expect(await http.submissions()).toMatchObject([{ form }]);
  });

  test.each([
    ['https://example.com', 'contact', 'example.com/contact'],
    ['https://www.example.com', 'jobs', 'example.com/jobs'],
    ['https://a.b.example.com:8443', 'Contact us', 'example.com/contact'],
  ])('from %s /submit/%s is the form %s', async (origin, name, form) => {
    const http = await start();
    const path = `/submit/${encodeURIComponent(name)}`;
    const answer = await post(http, path, { Origin: origin }, { name: 'Ann', message: 'Hello' });
    expect(answer.json()).toMatchObject({ success: true, message: 'Your message has been sent.' });
    expect(answer.headers['access-control-allow-origin']).toBe(origin);
    await post(http, path, { Referer: `${origin}/page` });
    expect(await http.submissions()).toMatchObject([{ form }, { form }]);
  });

  test.each([
    ['/c/none/contact', {}],
    ['/c/open/none', {}],
    ['/c/open/constructor', {}],
    ['/f/frm_00000000000000000000000000', {}],
    ['/f/xyzabcde', {}],
    ['/f/none.example/contact', {}],
    ['/submit/contact', {}],
    ['/submit/contact', { Origin: 'https://elsewhere.example' }],
    ['/submit/none', { Origin: 'https://example.com' }],
  ])('%s %j is no form', async (path, headers) => {
    const http = await start();
    const answer = await post(http, path, headers);
    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({
      success: false,
      error: true,
      code: 404,
      errors: [{ code: 'FORM_NOT_FOUND' }],
    });
    const read = await http.request(path, { body: BODY, headers });
    expect(read.text).toContain('Form not found');
  });

  test.each(['/v1/c/open/contact', '/api/c/open/contact', '/api/f/x', '/v1/submit/contact'])(
    '%s is nothing',
    async (path) => {
      const answer = await post(await start(), path);
      expect([answer.status, answer.json()['code']]).toEqual([404, 'NOT_FOUND']);
    },
  );

  test('a browser that opens one learns what it is', async () => {
    const http = await start({ server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net' } } });
    const { path } = await made(http);
    for (const [address, endpoint] of [
      ['/c/open/contact', '/c/open/contact'],
      [path, path],
      ['/f/example.com/contact', '/example.com/contact'],
      ['/v1/example.com/send', '/example.com/contact'],
    ] as const) {
      const answer = await http.request(address);
      expect(answer.status).toBe(200);
      expect(answer.text).toContain(`action=&quot;https://forms.example.net${endpoint}&quot;`);
      const put = await http.request(address, { method: 'PUT', headers: JSON_ANSWER });
      expect([put.status, put.headers.allow]).toEqual([405, 'GET, HEAD, POST, OPTIONS']);
    }
    expect((await http.request(`${path}?thanks`)).text).toContain('Thank you');
  });
});

describe('pages that may use a form without a domain', () => {
  test.each(['/c/open/contact', 'made'])('%s: those of any origin, and none at all', async (where) => {
    const http = await start();
    const path = where === 'made' ? (await made(http)).path : where;
    for (const origin of [ANYWHERE, 'null', 'capacitor://localhost']) {
      const answer = await post(http, path, { Origin: origin });
      expect([origin, answer.status]).toEqual([origin, 200]);
      expect(answer.headers).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin, Accept-Language' });
      const asked = await preflight(http, path, origin);
      expect([asked.status, asked.headers['access-control-allow-origin']]).toEqual([204, origin]);
      expect(asked.headers['access-control-allow-headers']).toContain('formspree-client');
    }
    expect((await post(http, path)).status).toBe(200);
  });

  test.each([
    ['contact', 'https://site.example', 200],
    ['contact', 'https://more.example', 403],
    ['contact', ANYWHERE, 403],
    ['contact', 'https://www.site.example', 403],
    ['more', 'https://site.example', 200],
    ['more', 'https://more.example', 200],
    ['contact', 'null', 200],
    ['strict', 'null', 403],
    ['strict', 'https://site.example', 200],
  ])('of a collection that lists some, %s from %s: %i', async (form, origin, status) => {
    const http = await start();
    const answer = await post(http, `/c/listed/${form}`, { Origin: origin });
    expect(answer.status).toBe(status);
    if (status === 403) expect(answer.json()).toMatchObject({ errors: [{ code: 'ORIGIN_NOT_ALLOWED' }] });
    expect(answer.headers['access-control-allow-origin']).toBe(origin);
    expect((await preflight(http, `/c/listed/${form}`, origin)).status).toBe(204);
  });

  test('a form by API that lists origins takes posts of those alone', async () => {
    const http = await start();
    const { path } = await made(http, { allowed_origins: ['https://site.example'] });
    expect((await post(http, path, { Origin: 'https://site.example' })).status).toBe(200);
    expect((await post(http, path, { Origin: ANYWHERE })).status).toBe(403);
    expect((await post(http, path, { Referer: `${ANYWHERE}/page` })).status).toBe(403);
  });

  test('every answer can be read: of what is not there, too large, not understood, too often or broken', async () => {
    const http = await start({
      collections: { open: { forms: { contact: { email: 'a@inbox.example', rateLimit: 1 } } } },
    });
    const path = '/c/open/contact';
    const answers = [
      await post(http, '/c/open/none', { Origin: ANYWHERE }),
      await post(http, '/f/frm_00000000000000000000000000', { Origin: ANYWHERE }),
      await post(http, '/submit/none', { Origin: ANYWHERE }),
      await post(http, path, { Origin: ANYWHERE, 'X-Api-Key': 'wrong' }),
      await post(http, path, { Origin: ANYWHERE, 'Content-Type': 'text/xml' }, '<a/>'),
      await post(http, path, { Origin: ANYWHERE }, new URLSearchParams({ a: 'x'.repeat(3_000_000) })),
      await post(http, path, { Origin: ANYWHERE }),
      await post(http, path, { Origin: ANYWHERE }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 401, 415, 413, 200, 429]);
    for (const { headers } of answers) {
      expect(headers).toMatchObject({
        'access-control-allow-origin': ANYWHERE,
        'access-control-expose-headers': expect.stringContaining('Retry-After'),
        'x-ratelimit-remaining': expect.stringMatching(/^\d+$/),
      });
    }
  });

  test('and so can that of a database that is away', async () => {
    const http = await start();
    const { path } = await made(http);
    const select = http.store.select.bind(http.store);
    Object.assign(http.store, { select: () => Promise.reject(new StoreError('gone', 'ECONNREFUSED')) });
    const answer = await post(http, path, { Origin: ANYWHERE });
    Object.assign(http.store, { select });
    expect(answer.status).toBe(503);
    expect(answer.json()).toMatchObject({ success: false, code: 503, errors: [{ code: 'UNAVAILABLE' }] });
    expect(answer.headers['access-control-allow-origin']).toBe(ANYWHERE);
    expect((await post(http, path, { Origin: ANYWHERE })).status).toBe(200);
  });
});

describe('keys', () => {
  test('a collection that needs one takes nothing without', async () => {
    const http = await start();
    const path = '/c/closed/contact';
    const bare = await post(http, path);
    expect([bare.status, bare.headers['www-authenticate']]).toEqual([401, 'Bearer']);
    expect(bare.json()).toMatchObject({
      success: false,
      error: true,
      code: 401,
      errors: [{ code: 'AUTH_MISSING_KEY' }],
    });
    const key = await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.write'] });
    for (const headers of [key.headers, { 'X-Api-Key': key.value }, { 'Service-Api-Key': key.value }]) {
      expect((await post(http, path, { ...headers, Origin: ANYWHERE })).status).toBe(200);
    }
    expect((await http.request(path, { body: BODY, headers: JSON_ANSWER, local: true })).status).toBe(200);
  });

  test('one that is shown must be valid and may do it, also where none is needed', async () => {
    const http = await start();
    const owner = { tenant: OPERATOR };
    const cases: [headers: Record<string, string>, path: string, expected: [number, string]][] = [
      [{ 'X-Api-Key': 'nonsense' }, '/c/open/contact', [401, 'AUTH_INVALID_KEY']],
      [(await testKey(http.store, { ...owner, expired: true })).headers, '/c/open/contact', [401, 'AUTH_EXPIRED_KEY']],
      [
        (await testKey(http.store, { ...owner, revoked: true })).headers,
        '/example.com/jobs',
        [401, 'AUTH_REVOKED_KEY'],
      ],
      [{ 'X-Api-Key': 'a', 'Service-Api-Key': 'b' }, '/example.com/jobs', [400, 'AUTH_AMBIGUOUS']],
      [
        (await testKey(http.store, { ...owner, permissions: ['forms.read'] })).headers,
        '/example.com/jobs',
        [403, 'AUTH_FORBIDDEN'],
      ],
      [(await testKey(http.store)).headers, '/example.com/jobs', [403, 'AUTH_FORBIDDEN']],
      [
        (await testKey(http.store, { ...owner, restrictions: { ip_whitelist: ['192.0.2.1'] } })).headers,
        '/c/open/contact',
        [403, 'AUTH_IP_NOT_ALLOWED'],
      ],
      [
        (await testKey(http.store, { ...owner, restrictions: { domain_restrictions: ['other.example'] } })).headers,
        '/example.com/jobs',
        [403, 'AUTH_DOMAIN_NOT_ALLOWED'],
      ],
      [
        (await testKey(http.store, { ...owner, restrictions: { domain_restrictions: ['example.com'] } })).headers,
        '/c/open/contact',
        [403, 'AUTH_DOMAIN_NOT_ALLOWED'],
      ],
    ];
    for (const [headers, path, [status, code]] of cases) {
      const answer = await post(http, path, headers);
      expect([answer.status, answer.json()['errors']]).toEqual([status, [{ code, message: expect.any(String) }]]);
    }
    expect(await http.submissions()).toEqual([]);
  });

  test('one that is valid skips the check of the page, and counts against its account', async () => {
    const http = await start({ forms: { strict: { to: 'a@example.com', spam_protection: { level: 'strict' } } } });
    const { headers } = await testKey(http.store, {
      tenant: OPERATOR,
      restrictions: { rate_limit: 2, domain_restrictions: ['example.com'] },
    });
    expect((await post(http, '/example.com/strict')).status).toBe(403);
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push(await post(http, '/example.com/strict', { ...headers, Origin: ANYWHERE }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual(['1', '0', '0']);
    expect(answers[2]?.headers['retry-after']).toMatch(/^\d+$/);
  });

  test('a submission knows the environment of its key', async () => {
    const http = await start();
    const { headers } = await testKey(http.store, { tenant: OPERATOR, environment: 'test' });
    await post(http, '/c/open/contact', headers);
    await post(http, '/c/open/contact');
    expect((await http.submissions()).map(({ environment }) => environment)).toEqual(['test', 'live']);
    const messages = await http.store.read.selectFrom('messages').select('environment').orderBy('id').execute();
    expect(messages).toEqual([{ environment: 'test' }, { environment: 'live' }]);
  });
});

describe('the order of the checks', () => {
  test('what is wrong first is told first', async () => {
    const http = await start({ limits: { requests_per_minute_per_address: 8 } });
    const everything = { 'X-Api-Key': 'nonsense', Origin: ANYWHERE, 'Content-Type': 'text/xml' };
    const key = (await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.read'] })).headers;
    const { 'X-Api-Key': _, ...keyless } = everything;
    const statuses = [
      await post(http, '/c/listed/none', everything, '<a/>'),
      await post(http, '/c/listed/contact', everything, '<a/>'),
      await post(http, '/c/closed/contact', keyless, '<a/>'),
      await post(http, '/c/listed/contact', { ...keyless, ...key }, '<a/>'),
      await post(http, '/c/listed/contact', keyless, '<a/>'),
      await post(http, '/c/open/contact', keyless, '<a/>'),
      await post(http, '/c/listed/named', { Origin: 'https://site.example' }, new URLSearchParams({ _gotcha: 'x' })),
      await post(http, '/c/open/contact', {}, new URLSearchParams({ a: 'b', _gotcha: 'x' })),
      await post(http, '/c/listed/none', everything, '<a/>'),
    ];
    expect(statuses.map(({ status }) => status)).toEqual([404, 401, 401, 403, 403, 415, 400, 400, 429]);
    const codes = statuses.map((answer) => (answer.json()['errors'] as { code: string }[])[0]?.code);
    expect(codes).toEqual([
      'FORM_NOT_FOUND',
      'AUTH_INVALID_KEY',
      'AUTH_MISSING_KEY',
      'AUTH_FORBIDDEN',
      'ORIGIN_NOT_ALLOWED',
      'UNSUPPORTED_MEDIA_TYPE',
      'REQUIRED_FIELD_MISSING',
      'BLOCKED',
      'RATE_LIMITED',
    ]);
  });
});

describe('where nothing is taken', () => {
  test('the account is suspended', async () => {
    const http = await start();
    const { path, key } = await made(http, {}, 'ten_other');
    expect((await post(http, path)).status).toBe(200);
    await http.store.write(changeTenant(key.tenant, { suspended: true }));
    const answer = await post(http, path, { Origin: ANYWHERE });
    expect([answer.status, answer.json()['errors']]).toEqual([
      403,
      [{ code: 'INACTIVE', message: expect.any(String) }],
    ]);
    expect(answer.headers['access-control-allow-origin']).toBe(ANYWHERE);
    expect((await http.request(path, { body: BODY })).text).toContain('does not accept messages at the moment');
    await http.store.write(changeTenant(key.tenant, { suspended: false }));
    expect((await post(http, path)).status).toBe(200);
  });

  test('the file of the collection is broken', async () => {
    const http = await start({ unavailable: new Map([['c/broken', 'projects/broken.yml']]) });
    const answer = await post(http, '/c/broken/contact', { Origin: ANYWHERE });
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '5']);
    expect(answer.headers['access-control-allow-origin']).toBe(ANYWHERE);
  });

  test('the form was deleted', async () => {
    const http = await start();
    const { id, path, key } = await made(http);
    expect((await post(http, path)).status).toBe(200);
    await http.request(`/forms/${id}`, { method: 'DELETE', headers: key.headers });
    expect((await post(http, path)).status).toBe(404);
  });
});

describe('a browser', () => {
  const navigation = { 'Sec-Fetch-Mode': 'navigate', Origin: ANYWHERE, Referer: `${ANYWHERE}/contact` };

  test('gets a page that thanks and leads back to where it came from', async () => {
    const http = await start();
    const sent = await http.request('/c/open/contact', { body: BODY, headers: navigation });
    expect([sent.status, sent.headers.location]).toEqual([303, '?thanks']);
    const answer = await http.request('/c/open/contact?thanks', { headers: navigation });
    expect(answer.text).toContain(`href="${ANYWHERE}/contact"`);
    expect(answer.text).toContain('Back to anywhere.example');
    const unnamed = await http.request('/c/open/contact', { body: BODY });
    expect(unnamed.text).not.toContain('Back to');
  });

  test.each([
    ['/thanks', `${ANYWHERE}/thanks`],
    [`${ANYWHERE}/thanks`, `${ANYWHERE}/thanks`],
    ['https://elsewhere.example/', undefined],
    ['//elsewhere.example/', undefined],
    ['javascript:alert(1)', undefined],
  ])('goes on to _next=%s only on the site that it came from', async (next, location) => {
    const http = await start();
    const body = new URLSearchParams({ message: 'Hello', _next: next });
    const answer = await http.request('/c/open/contact', { body, headers: navigation });
    expect([answer.status, answer.headers.location]).toEqual([303, location ?? '?thanks']);
  });

  test('gets its form back with what was typed, to be sent again to the same form', async () => {
    const http = await start({ forms: { contact: { required: ['email'] } } });
    const body = new URLSearchParams({ message: 'Hello', _next: '/thanks' });
    const headers = { ...navigation, Origin: 'https://example.com', Referer: 'https://example.com/contact' };
    const named = await http.request('/submit/contact', { body, headers: { ...headers, Host: 'localhost' } });
    expect(named.status).toBe(400);
    expect(named.text).toContain('action="http://localhost/example.com/contact"');
    expect(named.text).toContain('value="https://example.com/thanks"');
    const own = {
      'Sec-Fetch-Mode': 'navigate',
      Host: 'localhost',
      Origin: 'http://localhost',
      Referer: 'http://localhost/submit/contact',
    };
    const again = new URLSearchParams({ message: 'Hello', email: 'a@b.example', _next: 'https://example.com/thanks' });
    const sent = await http.request('/example.com/contact', { body: again, headers: own });
    expect([sent.status, sent.headers.location]).toEqual([303, 'https://example.com/thanks']);
  });

  test('keeps its way on where any page may post', async () => {
    const http = await start({
      collections: { open: { forms: { contact: { email: 'a@b.example', required: ['email'] } } } },
    });
    const path = '/c/open/contact';
    const mistyped = await http.request(path, {
      body: new URLSearchParams({ _next: '/thanks', message: 'Hello' }),
      headers: navigation,
    });
    expect(mistyped.text).toContain(`value="${ANYWHERE}/thanks"`);
    const foreign = await http.request(path, {
      body: new URLSearchParams({ _next: 'https://elsewhere.example/', message: 'Hello' }),
      headers: navigation,
    });
    expect(foreign.text).not.toContain('elsewhere.example');
    const own = {
      'Sec-Fetch-Mode': 'navigate',
      Host: 'localhost',
      Origin: 'http://localhost',
      Referer: `http://localhost${path}`,
    };
    const body = new URLSearchParams({ message: 'Hello', email: 'a@b.example', _next: `${ANYWHERE}/thanks` });
    const sent = await http.request(path, { body, headers: own });
    expect([sent.status, sent.headers.location]).toEqual([303, `${ANYWHERE}/thanks`]);
  });
});

test('an Idempotency-Key belongs to its form', async () => {
  const http = await start();
  const { path } = await made(http);
  const headers = { 'Idempotency-Key': 'once' };
  const first = await post(http, path, headers);
  const again = await post(http, path, headers);
  expect(again.json()['id']).toBe(first.json()['id']);
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect((await post(http, '/c/open/contact', headers)).json()['id']).not.toBe(first.json()['id']);
  expect(await http.submissions()).toHaveLength(2);
});

test('JSON names where a page would lead', async () => {
  const http = await start({ server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net' } } });
  const { id, path } = await made(http);
  expect((await post(http, path)).json()).toMatchObject({ ok: true, next: `https://forms.example.net/f/${id}?thanks` });
  const named = await post(http, '/submit/jobs', { Origin: 'https://example.com' });
  expect(named.json()).toMatchObject({ next: 'https://forms.example.net/example.com/jobs?thanks' });
});
