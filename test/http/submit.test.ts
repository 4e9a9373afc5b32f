import { describe, expect, test } from 'vitest';
import type { Limits } from '../../src/accounts/rate-limits.ts';
import { startHttp, type TestHttp, type TestRequest } from '../harness/http.ts';
import { StoreError } from '../../src/store/store.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { loseConfirmations } from '../harness/lost-commit.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';

const ADDRESS = '/example.com/contact';
const GOOD = { name: 'Ann Lee', email: 'ann@example.org', message: 'Hello' };
const form = (fields: Record<string, string>) => new URLSearchParams(fields);
const JSON_WANTED = { Accept: 'application/json' };

async function fieldsOf(http: TestHttp): Promise<unknown[]> {
  return (await http.submissions()).map(({ fields }) => JSON.parse(fields) as unknown);
}

function post(http: TestHttp, body: TestRequest['body'], headers: TestRequest['headers'] = JSON_WANTED) {
  return http.request(ADDRESS, { method: 'POST', ...(body === undefined ? {} : { body }), headers });
}

describe('accepting', () => {
  test('urlencoded, multipart and JSON give the same submission, durable before the answer', async () => {
    const http = await startHttp();
    const data = new FormData();
    for (const [name, value] of Object.entries(GOOD)) data.append(name, value);
    for (const body of [form(GOOD), data, GOOD]) {
      const answer = await post(http, body);
      expect(answer.status).toBe(200);
      expect(answer.json()).toEqual({
        success: true,
        ok: true,
        message: 'Your message has been sent.',
        id: expect.stringMatching(/^sub_[0-9a-z]{26}$/),
        next: `${http.base}${ADDRESS}?thanks`,
      });
    }
    expect(await fieldsOf(http)).toEqual([Object.entries(GOOD), Object.entries(GOOD), Object.entries(GOOD)]);
    expect(http.wakes()).toBe(3);
  });

  test('/v1/{domain}/{form}, a slash at the end, upper case and a domain in its own script name the same form', async () => {
    const http = await startHttp();
    for (const path of [
      '/v1/example.com/contact',
      '/example.com/contact/',
      '/EXAMPLE.com/contact',
      '/%65xample.com/contact',
    ]) {
      expect((await http.request(path, { body: form(GOOD) })).status).toBe(200);
    }
    expect(await http.submissions()).toHaveLength(4);
  });

  test('what was sent by whom is kept', async () => {
    const http = await startHttp({ server: { http: { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.0/8'] } } });
    await post(http, form(GOOD), {
      ...JSON_WANTED,
      'X-Forwarded-For': '6.6.6.6, 203.0.113.7, 127.0.0.9',
      'User-Agent': 'Browser/1',
      Referer: 'https://www.example.com/kontakt',
    });
    expect(await http.submissions()).toMatchObject([
      {
        ip: '203.0.113.7',
        user_agent: 'Browser/1',
        referer: 'https://www.example.com/kontakt',
        tenant: 'ten_operator',
      },
    ]);
  });

  test('X-Forwarded-For of a stranger is not believed', async () => {
    const http = await startHttp();
    await post(http, form(GOOD), { ...JSON_WANTED, 'X-Forwarded-For': '203.0.113.7' });
    expect(await http.submissions()).toMatchObject([{ ip: '127.0.0.1' }]);
  });

  test('/v1/{domain}/send finds the form by the field, the default, the usual names, or because it is the only one', async () => {
    const forms = { sales: { to: 'a@example.com' }, press: { to: 'b@example.com' } };
    const sent = async (http: TestHttp, fields: Record<string, string>) => {
      const answer = await http.request('/v1/example.com/send', { body: form(fields), headers: JSON_WANTED });
      const [last] = (await http.submissions()).reverse();
      return answer.status === 200
        ? { form: last?.form, fields: JSON.parse(last?.fields ?? '') as unknown }
        : answer.json();
    };
    const several = await startHttp({ forms });
    expect(await sent(several, { ...GOOD, form: 'press' })).toEqual({
      form: 'example.com/press',
      fields: Object.entries(GOOD),
    });
    expect(await sent(several, GOOD)).toMatchObject({ code: 404, errors: [{ code: 'FORM_NOT_FOUND' }] });
    const preferred = await startHttp({ forms, domain: { default_form: 'sales' } });
    expect(await sent(preferred, GOOD)).toMatchObject({ form: 'example.com/sales' });
    const only = await startHttp({ forms: { sales: {} } });
    expect(await sent(only, { ...GOOD, form: 'yes' })).toMatchObject({
      form: 'example.com/sales',
      fields: expect.arrayContaining([['form', 'yes']]),
    });
  });

  test('the field that named the form is given back unseen, so that sending again finds the form', async () => {
    const http = await startHttp({ forms: { sales: {}, press: { required: ['message'] } } });
    const wanted = { 'Sec-Fetch-Mode': 'navigate', Origin: 'https://example.com' };
    const fields = { name: 'Ann', form: 'press' };
    const answer = await http.request('/v1/example.com/send', { body: form(fields), headers: wanted });
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(/<input type="hidden" name="form" value="press">/);
    expect(answer.text.match(/name="form"/g)).toHaveLength(1);
  });

  test('control fields steer and are no data', async () => {
    const http = await startHttp();
    await post(
      http,
      form({ ...GOOD, _subject: 'Hi', _replyto: 'b@example.org', _next: 'https://example.com/', _gotcha: '' }),
    );
    expect(await fieldsOf(http)).toEqual([Object.entries(GOOD)]);
  });
});

describe('the order of checks', () => {
  const cases: [string, TestRequest & { path?: string }, number, string][] = [
    [
      'an unknown domain before a bad body',
      { path: '/unknown.example/contact', body: 'x', headers: { 'Content-Type': 'text/plain' } },
      404,
      'FORM_NOT_FOUND',
    ],
    [
      'a pending domain before its form',
      { path: '/pending.example/nope', body: form(GOOD) },
      403,
      'DOMAIN_NOT_VERIFIED',
    ],
    [
      'an unknown form before a bad key',
      { path: '/example.com/nope', body: form(GOOD), headers: { 'X-Api-Key': 'x' } },
      404,
      'FORM_NOT_FOUND',
    ],
    [
      'a bad key before a foreign origin',
      { body: form(GOOD), headers: { 'X-Api-Key': 'x', Origin: 'https://evil.example' } },
      401,
      'AUTH_INVALID_KEY',
    ],
    ['two keys', { body: form(GOOD), headers: { 'X-Api-Key': 'x', Authorization: 'Bearer y' } }, 400, 'AUTH_AMBIGUOUS'],
    [
      'a foreign origin before a bad body',
      { body: 'x', headers: { 'Content-Type': 'text/plain', Origin: 'https://evil.example' } },
      403,
      'ORIGIN_NOT_ALLOWED',
    ],
    ['a bad type', { body: 'x', headers: { 'Content-Type': 'text/plain' } }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
    ['a compressed body', { body: form(GOOD), headers: { 'Content-Encoding': 'gzip' } }, 415, 'UNSUPPORTED_MEDIA_TYPE'],
    [
      'a bad body before missing fields',
      { body: '{', headers: { 'Content-Type': 'application/json' } },
      400,
      'BODY_MALFORMED',
    ],
    ['missing fields before the honeypot', { body: form({ _gotcha: 'x' }) }, 400, 'REQUIRED_FIELD_MISSING'],
    ['a bad email', { body: form({ ...GOOD, email: 'nobody' }) }, 400, 'TYPE_EMAIL'],
    ['the honeypot', { body: form({ ...GOOD, _service_honeypot: 'x' }) }, 400, 'BLOCKED'],
  ];
  test.each(cases)('%s', async (_, { path = ADDRESS, ...request }, status, code) => {
    const http = await startHttp({ forms: { contact: { to: 'owner@example.com', required: ['message'] } } });
    const answer = await http.request(path, { ...request, headers: { ...JSON_WANTED, ...request.headers } });
    expect(answer.status).toBe(status);
    expect(answer.json()).toMatchObject({
      success: false,
      error: true,
      code: status,
      message: expect.stringMatching(/\w/),
      request_id: answer.headers['x-request-id'],
      errors: expect.arrayContaining([expect.objectContaining({ code, message: expect.stringMatching(/\w/) })]),
    });
    const rows = await http.submissions();
    expect(rows.filter((row) => row.status === 'accepted')).toEqual([]);
    expect(http.wakes()).toBe(0);
  });

  test('a pending domain says what to publish', async () => {
    const http = await startHttp();
    const answer = await http.request('/pending.example/contact', { body: form(GOOD), headers: JSON_WANTED });
    expect(answer.json()).toMatchObject({
      domain: 'pending.example',
      records: [
        {
          type: 'TXT',
          name: '_postern.pending.example',
          value: 'postern-verification=0123456789abcdef',
          status: 'missing',
        },
      ],
    });
  });

  test('degraded and failed domains accept as before; one without a good configuration is 503', async () => {
    const http = await startHttp({
      status: { 'example.com': 'failed', 'pending.example': 'degraded' },
      unavailable: new Map([['broken.example', 'projects/broken.yml']]),
    });
    expect((await post(http, form(GOOD))).status).toBe(200);
    expect((await http.request('/pending.example/contact', { body: form(GOOD) })).status).toBe(200);
    const answer = await http.request('/broken.example/contact', { body: form(GOOD), headers: JSON_WANTED });
    expect(answer.status).toBe(503);
    expect(answer.text).not.toContain('broken.yml');
  });
});

describe('a key of a site’s server', () => {
  const FORMS = { contact: { rateLimit: 1 } };

  test('with forms.submit posts and can do nothing else; without it is told what it lacks', async () => {
    const http = await startHttp();
    const site = await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.submit'] });
    const reader = await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.read', 'collections.write'] });
    expect((await post(http, form(GOOD), { ...JSON_WANTED, ...site.headers })).status).toBe(200);
    expect((await http.request('/forms', { headers: site.headers })).status).toBe(403);
    const refused = await post(http, form(GOOD), { ...JSON_WANTED, ...reader.headers });
    expect([refused.status, refused.json()['message']]).toEqual([403, expect.stringContaining('forms.submit')]);
  });

  test('names the visitor, whose limits then count; without a key the header says nothing', async () => {
    const http = await startHttp({ forms: FORMS });
    const { headers: key } = await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.submit'] });
    const as = async (visitor: string, headers: object = key) =>
      (await post(http, form(GOOD), { ...JSON_WANTED, ...headers, 'Postern-Client-IP': visitor })).status;
    expect([await as('203.0.113.1'), await as('203.0.113.1'), await as('203.0.113.2')]).toEqual([200, 429, 200]);
    expect([await as('::ffff:203.0.113.2'), await as('2001:db8::1')]).toEqual([429, 200]);
    for (const nonsense of ['', 'localhost', '203.0.113.1, 203.0.113.2', '999.1.1.1'])
      expect(await as(nonsense)).toBe(400);
    expect([await as('203.0.113.9', {}), await as('203.0.113.10', {})]).toEqual([200, 429]);
    const kept = await http.submissions();
    expect(kept.map(({ ip }) => ip).sort()).toEqual(['127.0.0.1', '2001:db8::1', '203.0.113.1', '203.0.113.2']);
  });
});

describe('spam', () => {
  test('a blocked submission is kept with its reasons and wakes nobody', async () => {
    const http = await startHttp();
    await post(http, form({ ...GOOD, _gotcha: 'bot' }));
    const [row] = await http.submissions();
    expect(row).toMatchObject({ status: 'spam' });
    expect(JSON.parse(row?.spam_reasons ?? '')).toMatchObject([{ name: 'honeypot' }]);
    expect(http.wakes()).toBe(0);
  });

  test('on_spam: silent looks like success', async () => {
    const http = await startHttp({ forms: { contact: { spam_protection: { on_spam: 'silent' } } } });
    const answer = await post(http, form({ ...GOOD, _gotcha: 'bot' }));
    expect(answer.status).toBe(200);
    expect(answer.json()).toMatchObject({ success: true, ok: true, id: expect.stringContaining('sub_') });
    expect(await http.submissions()).toMatchObject([{ status: 'spam' }]);
  });
});

describe('limits', () => {
  test('the form takes so many an hour from an address, and says so in headers', async () => {
    const clock = testClock();
    const http = await startHttp({ clock, forms: { contact: { rateLimit: 2 } } });
    const first = await post(http, form(GOOD));
    expect(first.headers).toMatchObject({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '1',
      'x-ratelimit-reset': String(clock.now() / 1000 + 3600),
    });
    await post(http, form(GOOD));
    const third = await post(http, form(GOOD));
    expect(third.status).toBe(429);
    expect(third.json()).toMatchObject({ errors: [{ code: 'RATE_LIMITED' }] });
    expect(third.headers).toMatchObject({ 'x-ratelimit-remaining': '0', 'retry-after': '3600' });
    clock.advance(3_600_000);
    expect((await post(http, form(GOOD))).status).toBe(200);
  });

  test('refused attempts do not use it up, but have a cap of their own', async () => {
    const http = await startHttp({ forms: { contact: { rateLimit: 1 } } });
    const bad = form({ email: 'nobody' });
    for (let i = 0; i < 5; i++) expect((await post(http, bad)).status).toBe(400);
    expect((await post(http, bad)).status).toBe(429);
    expect((await post(http, form(GOOD))).status).toBe(429);
  });

  test('each address has so many requests a minute, whatever it asks for', async () => {
    const http = await startHttp({ limits: { requests_per_minute_per_address: 2 } });
    expect((await http.request('/nope')).headers['x-ratelimit-remaining']).toBe('1');
    expect((await http.request('/healthz')).status).toBe(200);
    const answers = await Promise.all([http.request('/healthz'), post(http, form(GOOD)), http.request(ADDRESS)]);
    for (const answer of answers)
      expect([answer.status, answer.headers['retry-after']]).toEqual([429, expect.stringMatching(/^\d+$/)]);
    expect(await http.submissions()).toEqual([]);
    expect((await http.request('/healthz', { local: true })).status).toBe(200);
  });

  test('below the low-water mark nothing is accepted, and the visitor is told', async () => {
    const http = await startHttp({ options: { freeSpace: { below: () => true } } });
    const answer = await post(http, form(GOOD));
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('5');
    expect(answer.json()).toMatchObject({ code: 503, errors: [{ code: 'UNAVAILABLE' }] });
    expect(await http.submissions()).toEqual([]);
  });
});

test('where nobody knows whether the database has it, the answer says so, with the id to look up', async () => {
  const http = await startHttp();
  loseConfirmations(http.store);
  const answer = await post(http, form(GOOD));
  const [{ id } = { id: '' }] = await http.submissions();
  expect(answer.status).toBe(503);
  expect(answer.headers['retry-after']).toBe('5');
  expect(answer.json()).toMatchObject({ success: false, code: 503, id, errors: [{ code: 'OUTCOME_UNKNOWN' }] });
  expect(answer.text).not.toMatch(/nothing was sent/i);
  const page = await post(http, form(GOOD), { Accept: 'text/html' });
  expect(page.status).toBe(503);
  expect(page.text).toContain('may have been received');
  expect(page.text).not.toMatch(/nothing was sent/i);
});

test('that nobody knows is said also where the limits fail as well', async () => {
  const verdict = { allowed: true, limit: 2, remaining: 1, reset: 0 };
  const away = (): Promise<void> => Promise.reject(new StoreError('the server is away', 'ECONNREFUSED'));
  const limits: Limits = {
    take: () => verdict,
    takeAll: (buckets) => buckets.map(() => verdict),
    peek: () => verdict,
    takeSubmission: () => Promise.resolve({ verdict, refused: away }),
    takePost: () => verdict,
    close: () => Promise.resolve(),
  };
  const http = await startHttp({ options: { limits } });
  loseConfirmations(http.store);
  const answer = await post(http, form(GOOD));
  expect(answer.json()).toMatchObject({ code: 503, errors: [{ code: 'OUTCOME_UNKNOWN' }] });
});

describe('Idempotency-Key', () => {
  const withKey = (key: string) => ({ ...JSON_WANTED, 'Idempotency-Key': key });

  test('the same body is one submission and one answer, however it is encoded', async () => {
    const http = await startHttp();
    const first = await post(http, form(GOOD), withKey('k1'));
    const again = await post(http, form(GOOD), withKey('k1'));
    const data = new FormData();
    for (const [name, value] of Object.entries(GOOD)) data.append(name, value);
    const multipart = await post(http, data, withKey('k1'));
    for (const answer of [again, multipart]) {
      expect(answer.text).toBe(first.text);
      expect(answer.headers['idempotent-replayed']).toBe('true');
    }
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(await http.submissions()).toHaveLength(1);
  });

  test('another body is a conflict, and so is a key that is too long', async () => {
    const http = await startHttp();
    await post(http, form(GOOD), withKey('k1'));
    const other = await post(http, form({ ...GOOD, message: 'Bye' }), withKey('k1'));
    expect([other.status, other.json()['errors']]).toEqual([
      409,
      [expect.objectContaining({ code: 'IDEMPOTENCY_CONFLICT' })],
    ]);
    expect((await post(http, form(GOOD), withKey('x'.repeat(257)))).status).toBe(400);
    expect(await http.submissions()).toHaveLength(1);
  });

  test('files are part of the body', async () => {
    const http = await startHttp({ forms: { contact: { uploads: {} } } });
    const withFile = (content: string) => {
      const data = new FormData();
      data.append('cv', new Blob([content]), 'cv.txt');
      return post(http, data, withKey('k'));
    };
    expect((await withFile('one')).status).toBe(200);
    expect((await withFile('one')).headers['idempotent-replayed']).toBe('true');
    expect((await withFile('two')).status).toBe(409);
  });

  test('of many at once one is accepted; the others are told to wait or hear its answer', async () => {
    const http = await startHttp();
    const answers = await Promise.all(Array.from({ length: 12 }, () => post(http, form(GOOD), withKey('k'))));
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true);
    expect(await http.submissions()).toHaveLength(1);
  });

  test('a refusal is stored too; the key belongs to its form', async () => {
    const http = await startHttp({ forms: { contact: {}, other: {} } });
    const refused = await post(http, form({ email: 'x' }), withKey('k'));
    expect(refused.status).toBe(400);
    expect((await post(http, form({ email: 'x' }), withKey('k'))).text).toBe(refused.text);
    const elsewhere = await http.request('/example.com/other', { body: form(GOOD), headers: withKey('k') });
    expect(elsewhere.status).toBe(200);
  });
});
