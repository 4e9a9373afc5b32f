import { describe, expect, test } from 'vitest';
import type { HttpReply } from '../../src/dns/guarded-fetch.ts';
import { createChallenges } from '../../src/forms/challenges.ts';
import { silentLog } from '../../src/lib/log.ts';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { proofOf } from '../harness/proof.ts';
import { openTestStore } from '../harness/store.ts';
import { OPERATOR } from '../../src/store/tenants.ts';

const FORMS = {
  contact: { to: 'owner@example.com' },
  proved: { to: 'owner@example.com', required: ['email'], spam_protection: { challenge: 'pow' } },
  captcha: {
    to: 'owner@example.com',
    spam_protection: { challenge: { provider: 'turnstile', secret: 'the-secret' } },
  },
};
const JSON_WANTED = { Accept: 'application/json', 'Sec-Fetch-Mode': 'cors' };
const PAGE_WANTED = { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate' };
const FIELDS = { email: 'ann@example.org', message: 'Hello' };

describe('the files of the kit', () => {
  test.each([
    ['/postern.js', 'text/javascript'],
    ['/postern.mjs', 'text/javascript'],
    ['/postern.d.mts', 'text/plain'],
  ])('%s is for the pages of all, and is not sent again while it is the same', async (path, type) => {
    const http = await startHttp();
    const answer = await http.request(path);
    expect(answer.status).toBe(200);
    expect(answer.headers).toMatchObject({
      'content-type': `${type}; charset=utf-8`,
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      'cache-control': 'public, max-age=3600',
    });
    const { etag = '' } = answer.headers;
    const again = await http.request(path, { headers: { 'If-None-Match': `W/"x", ${etag}` } });
    expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag]);
    expect((await http.request(path, { headers: { 'If-None-Match': '"other"' } })).status).toBe(200);
  });

  test('are kept for good under the address that names their version', async () => {
    const http = await startHttp();
    expect((await http.request('/postern.js?v=0.0.0')).headers['cache-control']).toMatch(/immutable/);
    expect((await http.request('/postern.js?v=9.9.9')).headers['cache-control']).not.toMatch(/immutable/);
  });

  test('come compressed where that is understood, and are less than 4 KiB then', async () => {
    const http = await startHttp();
    for (const path of ['/postern.js', '/postern.mjs']) {
      const plain = await http.request(path);
      const response = await fetch(http.base + path, { headers: { 'Accept-Encoding': 'gzip, br' } });
      expect(response.headers.get('content-encoding')).toBe('gzip');
      expect(response.headers.get('vary')).toContain('Accept-Encoding');
      expect(Number(response.headers.get('content-length'))).toBeLessThan(4096);
      expect(await response.text()).toBe(plain.text);
      expect((await http.request(path, { headers: { 'Accept-Encoding': 'gzip;q=0' } })).text).toBe(plain.text);
    }
  });

  test('HEAD and other methods', async () => {
    const http = await startHttp();
    const head = await http.request('/postern.js', { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([200, '']);
    expect((await http.request('/postern.js', { method: 'POST' })).status).toBe(405);
  });
});

describe('GET /challenge', () => {
  test('gives a page of any origin a token for the form, by its address or its id', async () => {
    const http = await startHttp({ forms: FORMS });
    for (const form of [
      '/example.com/contact',
      '/v1/example.com/contact',
      'example.com/contact',
      '/f/example.com/contact',
    ]) {
      const answer = await http.request(`/challenge?form=${encodeURIComponent(form)}`, {
        headers: { Origin: 'https://anybody.example' },
      });
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({ 'access-control-allow-origin': '*', 'cache-control': 'no-store' });
      expect(answer.json()).toEqual({ token: expect.any(String), minimum_age: 3, unreachable: expect.any(String) });
    }
  });

  test('for /v1/{domain}/send it is the form that the page names', async () => {
    const http = await startHttp({ forms: FORMS });
    const proved = await http.request('/challenge?form=/v1/example.com/send&name=proved');
    expect(proved.json()).toMatchObject({ algorithm: 'SHA-256', maxnumber: expect.any(Number) });
    const usual = await http.request('/challenge?form=/v1/example.com/send&name=');
    expect(usual.json()).not.toHaveProperty('challenge');
  });

  test('a form that is not there is said in words that a script can read', async () => {
    const http = await startHttp({ forms: FORMS });
    for (const query of ['', '?form=', '?form=/example.com/none', '?form=x', '?form=/x', '?form=%00']) {
      const answer = await http.request(`/challenge${query}`);
      expect([answer.status, answer.headers['access-control-allow-origin']], query).toEqual([404, '*']);
      expect(answer.json()).toMatchObject({ success: false, errors: [{ code: 'FORM_NOT_FOUND' }] });
    }
  });
});

function post(
  http: TestHttp,
  form: string,
  fields: Record<string, string>,
  headers: Record<string, string> = JSON_WANTED,
) {
  return http.request(`/example.com/${form}`, { body: new URLSearchParams(fields), headers });
}

async function solve(http: TestHttp): Promise<string> {
  const asked = (await http.request('/challenge?form=/example.com/proved')).json();
  return proofOf(asked as unknown as Parameters<typeof proofOf>[0]);
}

describe('a form with proof of work', () => {
  test('takes each answer once', async () => {
    const http = await startHttp({ forms: FORMS });
    const answer = await solve(http);
    expect((await post(http, 'proved', { ...FIELDS, _challenge: answer })).status).toBe(200);
    const replayed = await post(http, 'proved', { ...FIELDS, _challenge: answer });
    expect(replayed.status).toBe(400);
    expect(replayed.json()).toMatchObject({ success: false, errors: [{ code: 'CHALLENGE_FAILED' }] });
    const submissions = await http.submissions();
    expect(submissions.map(({ fields }) => JSON.parse(fields) as unknown)).toEqual([Object.entries(FIELDS)]);
  });

  test('without an answer says what is missing, in the visitor’s language', async () => {
    const http = await startHttp({ forms: FORMS });
    const refused = await post(http, 'proved', FIELDS);
    expect(refused.status).toBe(400);
    expect(refused.json()).toMatchObject({
      errors: [{ code: 'CHALLENGE_REQUIRED', message: expect.stringMatching(/\w/) }],
    });
    expect(await http.submissions()).toEqual([]);
  });

  test('an answer is not used up by a submission that is refused for its fields', async () => {
    const http = await startHttp({ forms: FORMS });
    const answer = await solve(http);
    const refused = await post(http, 'proved', { message: 'Hi', _challenge: answer });
    expect(refused.json()).toMatchObject({ errors: [{ code: 'REQUIRED_FIELD_MISSING' }] });
    expect((await post(http, 'proved', { ...FIELDS, _challenge: answer })).status).toBe(200);
  });

  test('asks nothing of a server that has a key', async () => {
    const http = await startHttp({ forms: FORMS });
    const { headers } = await testKey(http.store, { tenant: OPERATOR });
    expect((await post(http, 'proved', FIELDS, { ...JSON_WANTED, ...headers })).status).toBe(200);
  });
});

describe('a form with a captcha', () => {
  async function startWith(reply: HttpReply, asked: string[] = []) {
    const store = await openTestStore();
    const clock = testClock();
    const challenges = createChallenges({
      store,
      clock,
      log: silentLog,
      secret: Buffer.alloc(32, 9),
      http: {
        request({ body = '' }) {
          asked.push(body);
          return Promise.resolve(reply);
        },
      },
    });
    return startHttp({ forms: FORMS, store, clock, options: { challenges } });
  }

  function answered(body: object): HttpReply {
    return { kind: 'answered', status: 200, retryAfter: undefined, text: JSON.stringify(body) };
  }

  test('goes on when the provider says so; the answer is no data', async () => {
    const asked: string[] = [];
    const http = await startWith(answered({ success: true }), asked);
    const sent = { ...FIELDS, 'cf-turnstile-response': 'good', 'g-recaptcha-response': 'x', 'h-captcha-response': 'y' };
    expect((await post(http, 'captcha', sent)).status).toBe(200);
    expect(asked).toEqual(['secret=the-secret&response=good&remoteip=127.0.0.1']);
    const submissions = await http.submissions();
    expect(submissions.map(({ fields }) => JSON.parse(fields) as unknown)).toEqual([Object.entries(FIELDS)]);
  });

  test('is refused when the answer is missing or wrong, and not given back on the page', async () => {
    const http = await startWith(answered({ success: false, 'error-codes': ['invalid-input-response'] }));
    const missing = await post(http, 'captcha', FIELDS);
    expect(missing.json()).toMatchObject({ errors: [{ code: 'CHALLENGE_REQUIRED' }] });
    const wrong = await post(http, 'captcha', { ...FIELDS, 'cf-turnstile-response': 'bad-answer' }, PAGE_WANTED);
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('Hello');
    expect(wrong.text).not.toContain('bad-answer');
    expect(wrong.text).not.toContain('turnstile');
    expect(await http.submissions()).toEqual([]);
  });

  test('a provider that does not answer loses no lead', async () => {
    const http = await startWith({ kind: 'failed', reason: 'no answer within 5 s' });
    expect((await post(http, 'captcha', { ...FIELDS, 'cf-turnstile-response': 'x' })).status).toBe(200);
    expect(await http.submissions()).toHaveLength(1);
  });

  test('never shows its secret again', async () => {
    const http = await startHttp({ forms: FORMS });
    const { headers } = await testKey(http.store, { tenant: OPERATOR });
    const shown = await http.request('/forms/example.com%2Fcaptcha', { headers });
    expect(shown.json()).toMatchObject({ settings: { spam_protection: { challenge: { provider: 'turnstile' } } } });
    expect(shown.text).not.toContain('the-secret');
  });
});

test('the page that shows a form again has a token of its own, in place of the one that it was sent', async () => {
  const clock = testClock();
  const http = await startHttp({ forms: { contact: { required: ['email'] } }, clock });
  const { token } = (await http.request('/challenge?form=/example.com/contact')).json();
  const again = await post(http, 'contact', { message: 'Hello', _challenge: String(token) }, PAGE_WANTED);
  expect(again.status).toBe(400);
  const tokens = [...again.text.matchAll(/<input type="hidden" name="_challenge" value="([^"]+)">/g)];
  expect(tokens).toHaveLength(1);
  expect(tokens[0]?.[1]).toMatch(/^[\w.-]+$/);
  expect(tokens[0]?.[1]).not.toBe(token);
});
