/** The files of the console, as a browser gets them. What the console does is tried in browsers (test/browser/). */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startHttp } from '../harness/http.ts';
import { readSources } from '../structure/sources.ts';

/** The addresses that the page names. */
function addressesIn(page: string): string[] {
  return Array.from(
    page.matchAll(/(?:href|src)="(\/console\/[^"]+)"|"(\/console\/[^"]+)"/g),
    ([, a, b]) => a ?? b ?? '',
  );
}

test('the frame for previews runs its own script alone, in a sandbox, and asks for nothing', async () => {
  const http = await startHttp();
  const { headers, text } = await http.request('/console/frame');
  const [, script = ''] = /<script>([^]*?)<\/script>/.exec(text) ?? [];
  const hash = createHash('sha256').update(script).digest('base64');
  expect(String(headers['content-security-policy']).split('; ')).toEqual([
    'sandbox allow-scripts',
    "default-src 'none'",
    `script-src 'sha256-${hash}'`,
    "style-src 'unsafe-inline'",
    'img-src data:',
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ]);
});

describe('the page', () => {
  test.each(['/console', '/console/', '/console/submissions/sub_1'])(
    '%s is the same for all, and not kept',
    async (path) => {
      const http = await startHttp();
      const { status, headers, text } = await http.request(path);
      expect([status, headers['cache-control']]).toEqual([200, 'no-store']);
      expect(text).toContain('<div id="app">');
    },
  );

  test('may only load what is ours, and is shown in no frame', async () => {
    const http = await startHttp();
    const { headers, text } = await http.request('/console');
    const [, map = ''] = /<script type="importmap">(.*?)<\/script>/.exec(text) ?? [];
    const hash = createHash('sha256').update(map).digest('base64');
    expect(String(headers['content-security-policy']).split('; ')).toEqual([
      "default-src 'none'",
      `script-src 'self' 'sha256-${hash}'`,
      "style-src 'self'",
      "img-src 'self' data:",
      "connect-src 'self'",
      "font-src 'self'",
      "frame-src 'self'",
      "form-action 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ]);
    expect(text).not.toMatch(/<style|\son\w+=|https?:\/\/(?!www\.w3\.org)/);
  });
});

describe('its files', () => {
  test('are there, kept for good, and not sent again while they are the same', async () => {
    const http = await startHttp();
    const addresses = addressesIn((await http.request('/console')).text);
    expect(addresses.length).toBeGreaterThan(10);
    for (const path of addresses) {
      const { status, headers, text } = await http.request(path);
      expect([path, status, headers['cache-control']]).toEqual([path, 200, 'public, max-age=31536000, immutable']);
      expect(headers['content-type']).toMatch(/^text\/(css|javascript); charset=utf-8$/);
      expect(text).not.toBe('');
      const { etag = '' } = headers;
      expect((await http.request(path, { headers: { 'If-None-Match': etag } })).status).toBe(304);
    }
  });

  test('import nothing that is not served', async () => {
    const http = await startHttp();
    const { text } = await http.request('/console');
    const base = /href="(\/console\/[0-9a-f]{16}\/)style.css"/.exec(text)?.[1] ?? '';
    const modules = readSources('src').filter(({ path }) => path.startsWith('src/console/'));
    for (const { path, imports } of modules) {
      const own = `${base}${path.slice('src/console/'.length).replace(/\.ts$/, '.js')}`;
      const answer = await http.request(own);
      expect([path, answer.status]).toEqual([path, 200]);
      // Of the contract it has the types alone, which are not sent.
      expect([path, answer.text.includes('/contract/'), /\.ts['"]/.test(answer.text)]).toEqual([path, false, false]);
      for (const target of imports.filter((one) => one.startsWith('src/console/'))) {
        const served = `${base}${target.slice('src/console/'.length).replace(/\.ts$/, '.js')}`;
        expect([target, (await http.request(served)).status]).toEqual([target, 200]);
      }
    }
  });

  test('come compressed, all that the first view needs in less than 120 kB', async () => {
    const http = await startHttp();
    let bytes = 0;
    for (const path of new Set(addressesIn((await http.request('/console')).text))) {
      const plain = await http.request(path);
      for (const coding of ['br', 'gzip']) {
        const response = await fetch(http.base + path, { headers: { 'Accept-Encoding': coding } });
        expect(response.headers.get('content-encoding')).toBe(coding);
        expect(await response.text()).toBe(plain.text);
        if (coding === 'br') bytes += Number(response.headers.get('content-length'));
      }
    }
    expect(bytes).toBeLessThan(120_000);
    expect(bytes).toBeGreaterThan(10_000);
  });

  test.each([
    '/0123456789abcdef/main.js',
    '/0123456789abcdef/',
    '/BASE/nothing.js',
    '/BASE/../../package.json',
    '/BASE/tsconfig.json',
  ])('%s is not there', async (path) => {
    const http = await startHttp();
    const { text } = await http.request('/console');
    const folder = /\/console\/([0-9a-f]{16})\//.exec(text)?.[1] ?? '';
    expect((await http.request(`/console${path.replace('BASE', folder)}`)).status).toBe(404);
  });
});
