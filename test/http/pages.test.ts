import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { StoreError } from '../../src/store/store.ts';
import { startHttp, type TestHttpOptions } from '../harness/http.ts';

const ADDRESS = '/example.com/contact';
const FORM = {
  name: 'Contact us',
  required: ['company'],
  fields: {
    email: { type: 'email', label: 'Your email' },
    topics: { type: 'list', options: ['Sales', 'Press'] },
    size: { options: ['S', 'M'] },
    age: { type: 'number' },
    cv: { type: 'file', label: 'CV' },
  },
  uploads: {},
};

async function refusedPage(fields: readonly (readonly [string, string])[], options: TestHttpOptions = {}) {
  const http = await startHttp({ forms: { contact: FORM }, ...options });
  const data = new FormData();
  for (const [name, value] of fields) {
    if (value.startsWith('file:')) data.append(name, new Blob(['content']), value.slice(5));
    else data.append(name, value);
  }
  return http.request(ADDRESS, { body: data, headers: { Origin: 'https://www.example.com' } });
}

describe('the page of a refused post', () => {
  test('says what to correct at which field and gives back what was typed, ready to be sent', async () => {
    const { status, text } = await refusedPage([
      ['first_name', 'Ann "<b>" & \'Lee\''],
      ['email', 'nobody'],
      ['topics[]', 'Press'],
      ['size', 'L'],
      ['age', '-'],
      ['message', '\nline 1\r\nline 2 </textarea><script>alert(1)</script>'],
      ['cv', 'file:résumé.pdf'],
      ['_next', 'https://example.com/thanks'],
    ]);
    expect(status).toBe(400);
    expect(text).toContain('<form method="post" enctype="multipart/form-data" accept-charset="utf-8" novalidate>');
    expect(text).toMatch(
      /<label for="(field-\d)">First name<\/label>\s*<input type="text" value="Ann &quot;&lt;b&gt;&quot; &amp; &#39;Lee&#39;" id="\1" name="first_name" dir="auto">/,
    );
    expect(text).toMatch(
      /<input type="email" value="nobody" id="field-2" name="email" dir="auto" aria-invalid="true" aria-describedby="field-2-fault">\s*<p class="fault" id="field-2-fault">/,
    );
    expect(text).toMatch(/<legend>Topics<\/legend>[^]*<input type="checkbox" name="topics\[\]" value="Press" checked>/);
    expect(text).toMatch(/<select id="field-4" name="size"[^>]*><option selected>L<\/option><option>S<\/option>/);
    expect(text).toMatch(/<input type="text" inputmode="decimal" value="-"/);
    expect(text).toContain(
      'name="message" dir="auto">\n\r\nline 1\r\nline 2 &lt;/textarea&gt;&lt;script&gt;alert(1)&lt;/script&gt;</textarea>',
    );
    expect(text).toMatch(
      /<input type="file" id="field-\d" name="cv" multiple>\s*<p class="hint">Please choose the file again: résumé.pdf/,
    );
    expect(text).toContain('<input type="hidden" name="_next" value="https://example.com/thanks">');
    // The field that was missing is there to be filled in.
    expect(text).toMatch(
      /<label for="field-8">Company<\/label>\s*<input type="text" value="" id="field-8" name="company" dir="auto" aria-invalid="true"/,
    );
    expect(text).toMatch(
      /<div class="alert" role="alert" tabindex="-1" autofocus>[^]*<a href="#field-2">[^]*<a href="#field-8">/,
    );
    expect(text).not.toContain('<script');
  });

  test('can be read by everybody: language, viewport, both colour schemes, one heading, a title that says error', async () => {
    const { text } = await refusedPage([['email', 'x']]);
    expect(text).toMatch(/^<!doctype html>\n<html lang="en" dir="ltr">/);
    expect(text).toContain('<meta name="viewport" content="width=device-width, initial-scale=1">');
    expect(text).toContain('<meta name="color-scheme" content="light dark">');
    expect(text).toContain('<title>Error: Please check the form – example.com</title>');
    expect(text.match(/<h1>/g)).toHaveLength(1);
  });

  test('has a policy that allows its style, this form’s targets, and nothing else', async () => {
    const { headers, text } = await refusedPage([['email', 'x']], {
      forms: {
        contact: { ...FORM, redirect: 'https://thanks.example/x', allowed_origins: ['https://partner.example'] },
      },
    });
    const policy = new Map(
      String(headers['content-security-policy'])
        .split('; ')
        .map((part) => [part.split(' ')[0], part.split(' ').slice(1)]),
    );
    const style = /<style>([^]*?)<\/style>/.exec(text)?.[1] ?? '';
    expect(policy.get('default-src')).toEqual(["'none'"]);
    expect(policy.get('style-src')).toEqual([`'sha256-${createHash('sha256').update(style).digest('base64')}'`]);
    const pages = [
      "'self'",
      'https://example.com:*',
      'https://*.example.com:*',
      'http://example.com:*',
      'http://*.example.com:*',
      'https://partner.example',
    ];
    expect(policy.get('form-action')).toEqual([...pages, 'https://thanks.example']);
    expect(policy.get('frame-ancestors')).toEqual(pages);
    expect(policy.get('base-uri')).toEqual(["'none'"]);
    expect(headers).toMatchObject({
      'x-robots-tag': 'noindex',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
    });
    expect(text).not.toMatch(/ (?:style|on\w+)=/);
  });

  test('a blocked post comes back without what was in the trap', async () => {
    const { text } = await refusedPage([
      ['company', 'ACME'],
      ['message', 'Hello'],
      ['_gotcha', 'filled by a browser'],
    ]);
    expect(text).toContain('looks like spam');
    expect(text).toContain('value="ACME"');
    expect(text).not.toContain('_gotcha');
    expect(text).not.toContain('filled by a browser');
  });

  test('trouble of ours gives back what was typed, too', async () => {
    const trouble = { accept: () => Promise.reject(new StoreError('disk full', 'SQLITE_FULL')) };
    const { status, text, headers } = await refusedPage([['company', 'ACME']], { options: trouble });
    expect([status, headers['retry-after']]).toEqual([503, '5']);
    expect(text).toContain('value="ACME"');
    expect(text).toContain(String(headers['x-request-id']));
    expect(text).not.toContain('disk full');
  });

  test('a file that is too big does not cost the visitor the fields around it', async () => {
    const { status, text } = await refusedPage(
      [
        ['company', 'ACME'],
        ['cv', 'file:big.pdf'],
        ['message', 'after the file'],
      ],
      { limits: { file: '5B' } },
    );
    expect(status).toBe(413);
    expect(text).toContain('The file “big.pdf” is too large. At most 5 bytes is allowed.');
    expect(text).toContain('after the file</textarea>');
    expect(text).toContain('Please choose the file again: big.pdf');
  });

  test('more than can be given back is left to the browser', async () => {
    const http = await startHttp({ limits: { field: '1MiB' } });
    const body = new URLSearchParams({ email: 'x', message: '<'.repeat(600_000) });
    const { status, text } = await http.request(ADDRESS, { body });
    expect(status).toBe(400);
    expect(text).toContain('Back button');
    expect(text.length).toBeLessThan(20_000);
  });
});

test('a pending domain’s page tells the visitor plainly and keeps the records for the owner', async () => {
  const http = await startHttp();
  const { status, text } = await http.request('/pending.example/contact', { body: new URLSearchParams({ a: 'b' }) });
  expect(status).toBe(403);
  expect(text).toMatch(
    /Nothing was sent\.[^]*<details>\s*<summary>Do you own pending.example\?<\/summary>[^]*postern-verification=0123456789abcdef/,
  );
});

test('a pending domain’s form opened in a browser shows its owner what to publish, and claims no loss', async () => {
  const http = await startHttp();
  const { status, text } = await http.request('/pending.example/contact');
  expect([status, text]).toEqual([403, expect.stringContaining('postern-verification=0123456789abcdef')]);
  expect(text).not.toContain('Nothing was sent');
});

test('a form’s address opened in a browser explains itself; a script is told to POST', async () => {
  const http = await startHttp({
    server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net/' } },
  });
  const page = await http.request(ADDRESS, { headers: { 'Sec-Fetch-Mode': 'navigate' } });
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.text).toContain('action=&quot;https://forms.example.net/example.com/contact&quot;');
  const script = await http.request(ADDRESS, { headers: { Accept: 'application/json' } });
  expect([script.status, script.headers.allow]).toEqual([405, 'GET, HEAD, POST, OPTIONS']);
});

test('where no form is, the page says so and escapes what stood in the address', async () => {
  const http = await startHttp();
  for (const [path, words] of [
    ['/example.com/%3Cscript%3E', 'has no form <code>&lt;script&gt;</code>'],
    ['/%3Cb%3E.example/contact', 'no forms for the domain <code>&lt;b&gt;.example</code>'],
  ] as const) {
    const { status, text } = await http.request(path);
    expect(status).toBe(404);
    expect(text).toContain(words);
  }
});

test('the thank-you page leads back to where the visitor came from, never elsewhere', async () => {
  const http = await startHttp();
  const back = async (referer: string) => {
    const { text } = await http.request(ADDRESS, {
      body: new URLSearchParams({ a: 'b' }),
      headers: { Referer: referer },
    });
    return /<a class="button" href="([^"]*)">/.exec(text)?.[1];
  };
  expect(await back('https://www.example.com/a?b=1&c=2')).toBe('https://www.example.com/a?b=1&amp;c=2');
  const { text } = await http.request(`${ADDRESS}?thanks`, { headers: { Referer: 'https://evil.example/' } });
  expect(await back(`${http.base}${ADDRESS}`)).toBe('https://example.com/');
  expect(text).toContain('<a class="button" href="https://example.com/">');
});

test('an hourly limit tells the visitor when to come back', async () => {
  const http = await startHttp({ forms: { contact: { rateLimit: 1 } } });
  await http.request(ADDRESS, { body: new URLSearchParams({ a: 'b' }) });
  const { status, text } = await http.request(ADDRESS, { body: new URLSearchParams({ a: 'b' }) });
  expect(status).toBe(429);
  expect(text).toMatch(/Please try again in about \d+ minutes/);
});
