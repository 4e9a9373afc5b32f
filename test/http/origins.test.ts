import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';

const ADDRESS = '/example.com/contact';
const BODY = new URLSearchParams({ message: 'Hello' });
const FORMS = {
  contact: { allowed_origins: ['https://partner.example:8443/'] },
  strict: { spam_protection: { level: 'strict' } },
};

function post(http: TestHttp, headers: Record<string, string>, path = ADDRESS) {
  return http.request(path, { body: BODY, headers: { Accept: 'application/json', ...headers } });
}

function preflight(http: TestHttp, origin: string, path = ADDRESS) {
  return http.request(path, {
    method: 'OPTIONS',
    headers: {
      Origin: origin,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'content-type,x-of-the-page',
    },
  });
}

const FRIENDS = [
  'https://example.com',
  'http://example.com:3000',
  'https://www.example.com',
  'https://a.b.example.com',
  'https://partner.example:8443',
  'https://mail.example.net',
];
const STRANGERS = [
  'https://evil.example',
  'https://example.com.evil.example',
  'https://notexample.com',
  'https://partner.example',
  'http://partner.example:8443',
  'chrome-extension://abcdef',
  'http://[2001:db8::1]:8080',
];
/** What stands in a header Origin and is none. */
const NONSENSE = [
  'https://evil.example/example.com',
  'https://example.com/contact',
  'https://example.com@evil.example',
  'https://evil.example\\example.com',
  'https://example.com, https://evil.example',
  'https://example.com:99999',
  'https://',
  'file://',
  '*',
  'example.com',
  `https://${'a'.repeat(300)}.example`,
];

describe('pages that may use the form', () => {
  test.each(FRIENDS)('%s posts, reads the answer and gets its preflight answered', async (origin) => {
    const http = await startHttp({ forms: FORMS });
    const answer = await post(http, { Origin: origin });
    expect(answer.status).toBe(200);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': origin,
      vary: 'Origin, Accept-Language',
      'access-control-expose-headers': expect.stringContaining('X-RateLimit-Remaining'),
    });
    const asked = await preflight(http, origin);
    expect(asked.status).toBe(204);
    expect(asked.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'content-type,x-of-the-page',
      'access-control-max-age': '86400',
      'x-ratelimit-limit': expect.stringMatching(/^\d+$/),
    });
  });

  test.each(STRANGERS)('%s does not, and its script reads why', async (origin) => {
    const http = await startHttp({ forms: FORMS });
    const answer = await post(http, { Origin: origin });
    expect(answer.status).toBe(403);
    expect(answer.json()).toMatchObject({
      errors: [{ code: 'ORIGIN_NOT_ALLOWED' }],
      message: expect.stringMatching(/example\.com.*allowed_origins/),
    });
    // Of an extension the name of its scheme is all that is known.
    expect(String(answer.json()['message'])).toContain(origin);
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': origin, vary: 'Origin, Accept-Language' });
    const asked = await preflight(http, origin);
    expect([asked.status, asked.headers['access-control-allow-origin']]).toEqual([204, origin]);
    const referred = await post(http, { Referer: `${origin}/page` });
    expect([referred.status, referred.headers['access-control-allow-origin']]).toEqual([403, undefined]);
    expect(await http.submissions()).toEqual([]);
  });

  test.each(NONSENSE)('%s is no origin, and is never sent back as one', async (origin) => {
    const http = await startHttp({
      forms: FORMS,
      server: { http: { listen: ['127.0.0.1:0'], cors_origins: ['https://example.com'] } },
    });
    for (const answer of [await post(http, { Origin: origin }), await preflight(http, origin)]) {
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      expect(answer.headers.vary).toMatch(/^Origin(, Accept-Language)?$/);
    }
    expect((await preflight(http, origin)).status).toBe(403);
    const api = await http.request('/forms', { headers: { Origin: origin } });
    expect(api.headers['access-control-allow-origin']).toBeUndefined();
  });

  test('without Origin and Referer, or with Origin: null, a post passes at level normal and not at strict', async () => {
    const http = await startHttp({ forms: FORMS });
    for (const headers of [{}, { Origin: 'null' }]) {
      const passed = await post(http, headers);
      const refused = await post(http, headers, '/example.com/strict');
      expect([passed.status, refused.status]).toEqual([200, 403]);
      expect(refused.json()['message']).toContain('allowed_origins');
      for (const { headers: answered } of [passed, refused])
        expect(answered['access-control-allow-origin']).toBe('Origin' in headers ? 'null' : undefined);
    }
    expect((await post(http, { Referer: 'https://example.com/x' }, '/example.com/strict')).status).toBe(200);
    expect((await post(http, { Origin: 'https://example.com' }, '/example.com/strict')).status).toBe(200);
  });

  test('a token that a page got for the form shows a page at strict, until it expires; one for another form does not', async () => {
    const clock = testClock();
    const http = await startHttp({ clock, forms: FORMS });
    const tokenFor = async (path: string) => String((await http.request(`/challenge?form=${path}`)).json()['token']);

    async function withToken(path: string): Promise<number> {
      const body = new URLSearchParams({ message: 'Hello', _challenge: await tokenFor(path) });
      clock.advance(5000);
      const headers = { Accept: 'application/json', Origin: 'null' };
      return (await http.request('/example.com/strict', { body, headers })).status;
    }

    expect(await withToken('/example.com/strict')).toBe(200);
    expect(await withToken(ADDRESS)).toBe(403);
    const body = new URLSearchParams({ message: 'Hello', _challenge: await tokenFor('/example.com/strict') });
    clock.advance(25 * 3_600_000);
    expect((await http.request('/example.com/strict', { body, headers: { Origin: 'null' } })).status).toBe(403);
  });

  test('this server’s own pages may: base_url, and on a bare machine the address that was called', async () => {
    const http = await startHttp({
      server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net/' } },
    });
    expect((await post(http, { Origin: 'https://forms.example.net' })).status).toBe(200);
    expect((await post(http, { Origin: http.base })).status).toBe(200);
    expect((await post(http, { Origin: 'http://127.0.0.1:1' })).status).toBe(403);
    // DNS rebinding: the attacker's own name leads here.
    expect((await post(http, { Origin: 'http://evil.example', Host: 'evil.example' })).status).toBe(403);
  });
});

describe('at level strict a page that hides its address', () => {
  const FORM = { contact: { spam_protection: { level: 'strict' } } };
  const hidden = (headers: Record<string, string>) =>
    startHttp({ forms: FORM }).then((http) => http.request(ADDRESS, { body: BODY, headers }));

  test.each([
    ['a navigation with Referrer-Policy: no-referrer', { Origin: 'null', 'Sec-Fetch-Site': 'cross-site' }, 303],
    ['the same from a page of this site', { Origin: 'null', 'Sec-Fetch-Site': 'same-site' }, 303],
    ['without an Origin', { 'Sec-Fetch-Site': 'same-origin' }, 303],
    ['what no page sent', { Origin: 'null', 'Sec-Fetch-Site': 'none' }, 403],
    ['a foreign page that shows itself', { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }, 403],
  ])('%s', async (_, headers, status) => {
    expect((await hidden({ 'Sec-Fetch-Mode': 'navigate', ...headers })).status).toBe(status);
  });

  test('may be a script of this site, but not one without an origin', async () => {
    const script = { 'Sec-Fetch-Mode': 'cors' };
    expect((await hidden({ ...script, 'Sec-Fetch-Site': 'same-origin' })).status).toBe(200);
    const opaque = await hidden({ ...script, Origin: 'null', 'Sec-Fetch-Site': 'cross-site' });
    expect([opaque.status, opaque.headers['access-control-allow-origin']]).toEqual([403, 'null']);
    expect(opaque.json()['message']).toMatch(/Origin: null.*example\.com\/contact.*allow_localhost.*allowed_origins/);
  });
});

describe('pages of the developer’s own computer', () => {
  const LOCAL = [
    'http://localhost:5173',
    'http://app.localhost:3000',
    'https://localhost',
    'http://127.0.0.1:8080',
    'http://[::1]:4321',
  ];
  const FORM = { contact: { spam_protection: { level: 'strict' } }, open: { allow_localhost: true } };
  const STRICT = { contact: { allow_localhost: true, spam_protection: { level: 'strict' } } };

  test.each(LOCAL)('%s may use a form that allows it, and is told so otherwise', async (origin) => {
    const http = await startHttp({ forms: FORM });
    expect((await post(http, { Origin: origin }, '/example.com/open')).status).toBe(200);
    const refused = await post(http, { Origin: origin });
    expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([403, origin]);
    for (const words of [origin, 'example.com/contact', 'allow_localhost: true', 'allowed_origins', 'test'])
      expect(refused.json()['message']).toContain(words);
  });

  test.each(['http://localhost.evil.example', 'http://notlocalhost', 'http://127.0.0.1.evil.example'])(
    '%s is none',
    async (origin) => {
      const http = await startHttp({ forms: FORM });
      expect((await post(http, { Origin: origin }, '/example.com/open')).status).toBe(403);
    },
  );

  test('a file may use it, too', async () => {
    const file = { Origin: 'null', 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'cors' };
    expect((await post(await startHttp({ forms: STRICT }), file)).status).toBe(200);
    expect((await post(await startHttp({ forms: FORM }), file)).status).toBe(403);
  });

  test('with a test key they may use every form', async () => {
    const http = await startHttp({ forms: FORM });
    const { headers } = await testKey(http.store, { tenant: OPERATOR, environment: 'test' });
    expect((await post(http, { ...headers, Origin: 'http://localhost:5173' })).status).toBe(200);
  });

  test('get back to where they came from', async () => {
    const http = await startHttp({ forms: { contact: { allow_localhost: true } } });
    const headers = { 'Sec-Fetch-Mode': 'navigate', Origin: 'http://localhost:5173' };
    const body = new URLSearchParams({ message: 'x', _next: 'http://localhost:5173/thanks' });
    expect((await http.request(ADDRESS, { body, headers })).headers.location).toBe('http://localhost:5173/thanks');
  });
});

test('every answer of a form’s address is readable for its pages', async () => {
  const origin = 'https://example.com';
  const http = await startHttp({
    forms: { contact: { rateLimit: 1, required: ['name'] } },
    limits: { body: '1KiB' },
    options: { accept: () => Promise.reject(new Error('secret trouble')) },
  });
  const send = (path: string, init: Parameters<TestHttp['request']>[1] = {}) =>
    http.request(path, { ...init, headers: { Accept: 'application/json', Origin: origin, ...init.headers } });
  const answers = [
    await send('/example.com/nope', { body: BODY }),
    await send('/example.com/contact', { method: 'PUT' }),
    await send('/example.com/contact', { body: 'x', headers: { 'Content-Type': 'text/plain' } }),
    await send('/example.com/contact', { body: new URLSearchParams({ name: 'x'.repeat(2000) }) }),
    await send('/example.com/contact', { body: BODY }),
    await send('/example.com/contact', { body: new URLSearchParams({ name: 'x' }) }),
    await send('/example.com/contact', { body: BODY }),
    await send('/example.com/contact', { body: BODY }),
    await send('/example.com/contact', { body: BODY }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([404, 405, 415, 413, 400, 500, 400, 429, 429]);
  for (const answer of answers) {
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': origin,
      vary: 'Origin, Accept-Language',
      'x-request-id': expect.stringMatching(/^req_/),
    });
  }
  expect(answers[1]?.headers.allow).toBe('GET, HEAD, POST, OPTIONS');
  expect(answers[5]?.text).not.toContain('secret');
});

test('what is missing can be read of a pending, a broken and an unknown domain; other paths are nobody’s to read', async () => {
  const http = await startHttp();
  const pending = await post(http, { Origin: 'https://pending.example' }, '/pending.example/contact');
  expect([pending.status, pending.headers['access-control-allow-origin']]).toEqual([403, 'https://pending.example']);
  const broken = await startHttp({ unavailable: new Map([['broken.example', 'broken.yml']]) });
  const down = await post(broken, { Origin: 'https://www.broken.example' }, '/broken.example/contact');
  expect([down.status, down.headers['access-control-allow-origin']]).toEqual([503, 'https://www.broken.example']);
  const unknown = await post(http, { Origin: 'https://any.example' }, '/unknown.example/contact');
  expect([unknown.status, unknown.headers['access-control-allow-origin']]).toEqual([404, 'https://any.example']);
  for (const path of ['/healthz', '/admin/queue', '/nope']) {
    const answer = await http.request(path, { headers: { Origin: 'https://example.com' } });
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  }
});

describe('what a browser gets', () => {
  const cases: [string, Record<string, string>, 'page' | 'json'][] = [
    ['a navigation', { 'Sec-Fetch-Mode': 'navigate', Accept: 'application/json' }, 'page'],
    ['a bare fetch()', { 'Sec-Fetch-Mode': 'cors', Accept: '*/*' }, 'json'],
    ['fetch() without CORS', { 'Sec-Fetch-Mode': 'no-cors', Accept: 'text/html' }, 'json'],
    ['an old browser', { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }, 'page'],
    ['curl', { Accept: '*/*' }, 'page'],
    ['no Accept', {}, 'page'],
    ['a script that asks for JSON', { Accept: 'application/json' }, 'json'],
    ['axios', { Accept: 'application/json, text/plain, */*' }, 'json'],
    ['JSON at less quality', { Accept: 'text/html, application/json;q=0.5' }, 'page'],
    ['jQuery', { Accept: '*/*', 'X-Requested-With': 'XMLHttpRequest' }, 'json'],
  ];
  test.each(cases)('%s', async (_, headers, expected) => {
    const http = await startHttp({ forms: { contact: { required: ['message'] } } });
    for (const body of [BODY, new URLSearchParams({ name: 'x' })]) {
      const answer = await http.request(ADDRESS, { body, headers });
      expect(answer.headers['content-type']).toBe(
        expected === 'page' ? 'text/html; charset=utf-8' : 'application/json',
      );
    }
  });

  test('a JSON body gets JSON, unless it is a navigation', async () => {
    const http = await startHttp();
    const answer = await http.request(ADDRESS, { body: { message: 'x' } });
    expect(answer.json()).toMatchObject({ ok: true });
    expect(answer.json()).not.toHaveProperty('errors');
  });
});

describe('where a browser goes on', () => {
  const next = async (forms: object, fields: Record<string, string>, headers: Record<string, string> = {}) => {
    const http = await startHttp({ forms: { contact: forms } });
    const body = new URLSearchParams({ message: 'x', ...fields });
    const page = await http.request(ADDRESS, { body, headers });
    const json = await http.request(ADDRESS, { body, headers: { ...headers, Accept: 'application/json' } });
    return { status: page.status, location: page.headers.location, next: json.json()['next'], base: http.base };
  };

  test('to the form’s page', async () => {
    const redirect = 'https://shop.example/thanks?a=1#top';
    expect(await next({ redirect }, {})).toMatchObject({ status: 303, location: redirect, next: redirect });
  });

  test('to _next where its host may use the form; it goes before the form’s own', async () => {
    const forms = { redirect: 'https://example.com/default', allowed_origins: ['https://partner.example'] };
    const target = (url: string, headers?: Record<string, string>) =>
      next(forms, { _next: url }, headers).then(({ location }) => location);
    expect(await target('https://www.example.com/thanks?x=1')).toBe('https://www.example.com/thanks?x=1');
    expect(await target('https://partner.example/')).toBe('https://partner.example/');
    expect(await target('/thanks', { Referer: 'https://www.example.com/contact/form' })).toBe(
      'https://www.example.com/thanks',
    );
    expect(await target('thanks.html')).toBe('https://example.com/thanks.html');
    for (const foreign of [
      'https://evil.example/',
      '//evil.example',
      'https:evil.example',
      'javascript:alert(1)',
      'https://example.com@evil.example/',
      'https://example.com.evil.example',
      'data:text/html,x',
      '\\\\evil.example',
      'https://user@example.com/',
    ]) {
      const location = await target(foreign);
      expect(location === 'https://example.com/default' || new URL(location ?? '').host === 'example.com').toBe(true);
    }
  });

  test('else to a page of ours; next is always an address that thanks', async () => {
    const { status, next: address, base } = await next({}, {});
    expect(status).toBe(200);
    expect(address).toBe(`${base}${ADDRESS}?thanks`);
    const http = await startHttp({ forms: { contact: { thank_you: 'We <3 you' } } });
    const page = await http.request(`${ADDRESS}?thanks`);
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('We &lt;3 you')]);
  });

  test('a mistake leads to error_redirect; our own trouble does not', async () => {
    const http = await startHttp({ forms: { contact: { error_redirect: 'https://example.com/oops' } } });
    const answer = await http.request(ADDRESS, { body: new URLSearchParams({ email: 'x' }) });
    expect([answer.status, answer.headers.location]).toEqual([303, 'https://example.com/oops']);
    const foreign = await http.request(ADDRESS, { body: BODY, headers: { Origin: 'https://evil.example' } });
    expect(foreign.status).toBe(403);
  });
});
