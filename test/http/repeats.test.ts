/** Posts that a browser sends again: one submission, one mail, the same answer; and what is no repetition. */
import { describe, expect, test } from 'vitest';
import { testClock } from '../harness/clock.ts';
import { startHttp, type TestHttp, type TestRequest } from '../harness/http.ts';
import { openTestStore } from '../harness/store.ts';

const ADDRESS = '/example.com/contact';
const NAVIGATION = {
  'Sec-Fetch-Mode': 'navigate',
  Origin: 'https://www.example.com',
  'User-Agent': 'Mozilla/5.0 Browser',
};
const HELLO = { name: 'Ann', email: 'ann@example.org', message: 'Hello' };

function post(http: TestHttp, fields: Record<string, string> = HELLO, headers: TestRequest['headers'] = {}) {
  return http.request(ADDRESS, { body: new URLSearchParams(fields), headers: { ...NAVIGATION, ...headers } });
}

describe('a browser that navigates', () => {
  test('is sent to a page that can be reloaded', async () => {
    const http = await startHttp();
    const sent = await post(http);
    expect([sent.status, sent.headers.location]).toEqual([303, '?thanks']);
    const thanks = await http.request(`${ADDRESS}?thanks`, { headers: NAVIGATION });
    expect([thanks.status, thanks.text]).toEqual([200, expect.stringContaining('Your message has been sent.')]);
    expect(await http.submissions()).toHaveLength(1);
  });

  test('is sent to the form’s address where its path names the form by the page or by a field', async () => {
    const http = await startHttp({ server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://f.example.net' } } });
    const body = new URLSearchParams(HELLO);
    for (const path of ['/submit/contact', '/v1/example.com/send']) {
      const { headers } = await http.request(path, { body, headers: NAVIGATION });
      expect(headers.location).toBe('https://f.example.net/example.com/contact?thanks');
    }
  });

  test('that sends the same again is answered as before, and nothing more happens', async () => {
    const http = await startHttp({ forms: { contact: { redirect: 'https://example.com/thanks' } } });
    const answers = [await post(http), await post(http), await post(http)];
    expect(answers.map(({ status, headers }) => [status, headers.location, headers['idempotent-replayed']])).toEqual([
      [303, 'https://example.com/thanks', undefined],
      [303, 'https://example.com/thanks', 'true'],
      [303, 'https://example.com/thanks', 'true'],
    ]);
    expect(await http.submissions()).toHaveLength(1);
    expect(http.wakes()).toBe(1);
  });

  test('that sends twice at once is answered twice, and sends once', async () => {
    const http = await startHttp();
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(http)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(303));
    expect(await http.submissions()).toHaveLength(1);
  });

  test('is recognised by another process, for ten minutes', async () => {
    const clock = testClock();
    const store = await openTestStore();
    await post(await startHttp({ clock, store }));
    const http = await startHttp({ clock, store });
    clock.advance(599_000);
    expect((await post(http)).headers['idempotent-replayed']).toBe('true');
    expect(await http.submissions()).toHaveLength(1);
    clock.advance(2000);
    expect((await post(http)).headers['idempotent-replayed']).toBeUndefined();
    expect((await post(http)).headers['idempotent-replayed']).toBe('true');
    expect(await http.submissions()).toHaveLength(2);
  });

  test('sends files once, and other files again', async () => {
    const http = await startHttp({ forms: { contact: { uploads: {} } } });
    const withFile = (content: string) => {
      const data = new FormData();
      data.append('cv', new Blob([content]), 'cv.txt');
      return http.request(ADDRESS, { body: data, headers: NAVIGATION });
    };
    for (const content of ['one', 'one', 'two']) expect((await withFile(content)).status).toBe(303);
    expect(await http.submissions()).toHaveLength(2);
  });

  test('with another text, form, browser or network sends another message', async () => {
    const http = await startHttp({
      forms: { contact: {}, other: {} },
      server: { http: { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.0/8'] } },
    });
    await post(http);
    await post(http, { ...HELLO, message: 'Hello!' });
    await http.request('/example.com/other', { body: new URLSearchParams(HELLO), headers: NAVIGATION });
    await post(http, HELLO, { 'User-Agent': 'Mozilla/5.0 Another' });
    await post(http, HELLO, { 'Accept-Language': 'de' });
    await post(http, HELLO, { 'X-Forwarded-For': '203.0.113.7' });
    expect(await http.submissions()).toHaveLength(6);
  });

  test('has a new proof of its page, which makes no other message', async () => {
    const http = await startHttp();
    await post(http, { ...HELLO, _challenge: 'one', 'cf-turnstile-response': 'a' });
    await post(http, { ...HELLO, _challenge: 'two', 'cf-turnstile-response': 'b' });
    expect(await http.submissions()).toHaveLength(1);
  });

  test('that was told of spam is told again, and the submission is kept once', async () => {
    const http = await startHttp();
    const answers = [await post(http, { ...HELLO, _gotcha: 'x' }), await post(http, { ...HELLO, _gotcha: 'x' })];
    expect(answers.map(({ status }) => status)).toEqual([400, 400]);
    for (const { text } of answers) expect(text).toContain('looks like spam');
    expect(await http.submissions()).toMatchObject([{ status: 'spam' }]);
  });

  test('that was refused may send the same again once it can be taken', async () => {
    const clock = testClock();
    const http = await startHttp({ clock, forms: { contact: { rateLimit: 1 } } });
    await post(http, { message: 'First' });
    expect((await post(http)).status).toBe(429);
    clock.advance(3_600_000);
    expect((await post(http)).headers).toMatchObject({ location: '?thanks' });
    expect(await http.submissions()).toHaveLength(2);
  });

  test('counts each time: rateLimit blocks after exactly so many posts', async () => {
    const http = await startHttp({ forms: { contact: { rateLimit: 3 } } });
    const answers = [];
    for (let i = 0; i < 5; i++) answers.push(await post(http));
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 429, 429]);
    expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual(['2', '1', '0', '0', '0']);
    expect(await http.submissions()).toHaveLength(1);
  });

  test('counts each time toward max_per_hour, too', async () => {
    const http = await startHttp({ forms: { contact: { max_per_hour: 2 } } });
    for (const message of ['One', 'One', 'Two']) await post(http, { message });
    expect((await http.submissions()).map(({ status }) => status)).toEqual(['accepted', 'spam']);
  });
});

describe('what is merged by Idempotency-Key alone', () => {
  test.each([
    ['fetch()', { 'Sec-Fetch-Mode': 'cors' }],
    ['a program', { 'Sec-Fetch-Mode': [], Accept: 'application/json' }],
    ['a browser that does not say what it does', { 'Sec-Fetch-Mode': [], Accept: 'text/html' }],
    ['htmx', { 'Sec-Fetch-Mode': 'cors', 'HX-Request': 'true' }],
  ])('%s', async (_, headers) => {
    const http = await startHttp();
    expect([(await post(http, HELLO, headers)).status, (await post(http, HELLO, headers)).status]).toEqual([200, 200]);
    expect(await http.submissions()).toHaveLength(2);
    const keyed = { ...headers, 'Idempotency-Key': 'one' };
    await post(http, HELLO, keyed);
    expect((await post(http, HELLO, keyed)).headers['idempotent-replayed']).toBe('true');
    expect(await http.submissions()).toHaveLength(3);
  });
});
