/** Forms that htmx, Turbo and Unpoly send: HTML that they can show, and a place for it. */
import { describe, expect, test } from 'vitest';
import { startHttp, type TestHttp } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const ORIGIN = 'https://www.example.com';
const SCRIPT = { 'Sec-Fetch-Mode': 'cors', Origin: ORIGIN };
const GOOD = { email: 'ann@example.org', message: 'Hello' };

function post(http: TestHttp, headers: Record<string, string>, fields: Record<string, string> = GOOD) {
  return http.request(ADDRESS, { body: new URLSearchParams(fields), headers: { ...SCRIPT, ...headers } });
}

describe('htmx', () => {
  const HTMX = { 'HX-Request': 'true' };

  test('gets what a visitor is told as a fragment that its page may read', async () => {
    const http = await startHttp({ forms: { contact: { thank_you: 'We <3 you' } } });
    const { status, text, headers } = await post(http, HTMX);
    expect([status, text]).toEqual([200, '<div role="status"><p>We &lt;3 you</p></div>']);
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'access-control-allow-origin': ORIGIN,
    });
  });

  test('is sent on by its own header, which its page may read', async () => {
    const http = await startHttp({ forms: { contact: { redirect: 'https://example.com/thanks' } } });
    const { status, headers } = await post(http, HTMX);
    expect([status, headers['hx-redirect']]).toEqual([200, 'https://example.com/thanks']);
    expect(headers['access-control-expose-headers']).toContain('HX-Redirect');
  });

  test.each([
    ['htmx 2, a form without an id', {}, ''],
    ['htmx 2, a form with one', { 'HX-Trigger': 'contact', 'HX-Target': 'contact' }, ' id="contact"'],
    ['htmx 4', { 'HX-Source': 'form#contact', 'HX-Target': 'form#contact' }, ' id="contact"'],
    ['htmx 4, a form without an id', { 'HX-Source': 'form', 'HX-Target': 'form' }, ''],
  ])('gets the form back in its place with what was typed: %s', async (_, headers, id) => {
    const http = await startHttp();
    const { status, text, headers: answered } = await post(http, { ...HTMX, ...headers }, { ...GOOD, email: 'x' });
    expect([status, answered['hx-reswap']]).toEqual([400, 'outerHTML']);
    const address = `http://127.0.0.1:${http.port}${ADDRESS}`;
    expect(text).toContain(
      `<form${id} method="post" action="${address}" accept-charset="utf-8" hx-post="${address}" hx-target="this" hx-swap="outerHTML">`,
    );
    expect(text).toMatch(/role="alert"[^]*<input type="email" value="x"[^]*Hello<\/textarea>/);
    expect(text).not.toContain('<html');
  });

  test('that shows the answer elsewhere gets the message alone, and the form stays as it is', async () => {
    const http = await startHttp();
    const headers = { ...HTMX, 'HX-Trigger': 'contact', 'HX-Target': 'result' };
    const { status, text, headers: answered } = await post(http, headers, { email: 'x' });
    expect([status, answered['hx-reswap']]).toEqual([400, undefined]);
    expect(text).toContain('must be an email address');
    expect(text).not.toMatch(/<form|<input/);
  });

  test('reads refusals as fragments, too', async () => {
    const http = await startHttp();
    const foreign = await post(http, { ...HTMX, Origin: 'https://evil.example' });
    expect([foreign.status, foreign.headers['access-control-allow-origin']]).toEqual([403, 'https://evil.example']);
    expect(foreign.text).toMatch(/^<div>[^]*role="alert"[^]*https:\/\/evil\.example[^]*Hello/);
    const missing = await http.request('/example.com/nothing', {
      body: new URLSearchParams(GOOD),
      headers: { ...SCRIPT, ...HTMX },
    });
    expect([missing.status, missing.text]).toEqual([404, expect.stringContaining('role="alert"')]);
  });

  test('with boosted forms gets pages', async () => {
    const http = await startHttp();
    const sent = await post(http, { ...HTMX, 'HX-Boosted': 'true' });
    expect([sent.status, sent.headers.location]).toEqual([303, '?thanks']);
  });
});

describe.each([
  ['Turbo', { Accept: 'text/vnd.turbo-stream.html, text/html, application/xhtml+xml' }],
  ['Unpoly', { Accept: '*/*', 'X-Up-Version': '3.15.0', 'X-Up-Target': 'main' }],
])('%s', (_, headers) => {
  test('is redirected to a page, and shows errors as one whose form leads here', async () => {
    const http = await startHttp();
    const sent = await post(http, headers);
    expect([sent.status, sent.headers.location]).toEqual([303, '?thanks']);
    const thanks = await http.request(`${ADDRESS}?thanks`, { headers: { ...SCRIPT, ...headers } });
    expect([thanks.status, thanks.text]).toEqual([200, expect.stringMatching(/<main>[^]*Your message has been sent/)]);
    const wrong = await post(http, headers, { ...GOOD, email: 'x' });
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringMatching(/<main>[^]*Hello<\/textarea>/)]);
    expect(wrong.text).toContain(`action="http://127.0.0.1:${http.port}${ADDRESS}"`);
  });
});

test('a Turbo frame gets its answers in such a frame', async () => {
  const http = await startHttp();
  const headers = { Accept: 'text/vnd.turbo-stream.html, text/html', 'Turbo-Frame': 'contact"><script>' };
  const frame = '<turbo-frame id="contact&quot;&gt;&lt;script&gt;">';
  expect((await post(http, headers, { email: 'x' })).text).toContain(frame);
  const thanks = await http.request(`${ADDRESS}?thanks`, { headers: { ...SCRIPT, ...headers } });
  expect(thanks.text).toContain(frame);
});
