import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { openCaughtMails } from '../../src/dev/caught-mail.ts';
import { outboxPages } from '../../src/dev/outbox.ts';
import { silentLog } from '../../src/lib/log.ts';
import { connected, lines, send, startMx, temporaryFolder } from './mail-client.ts';
import { expectStrictPage, policyOf, serve } from './pages.ts';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const BINARY = Buffer.from(Array.from({ length: 3000 }, (_, i) => (i * 7919) % 256));

const HTML = '<!doctype html><p>Hello <img src="cid:pic%40x"> <img src="cid:none"></p>';

function part(headers: string[], content: Buffer | string, boundary = 'b'): string[] {
  const base64 = Buffer.from(content).toString('base64');
  return [`--${boundary}`, ...headers, 'Content-Transfer-Encoding: base64', '', ...(base64.match(/.{1,76}/g) ?? [])];
}

const FULL = lines(
  'From: =?utf-8?B?5bGx55Sw?= <forms@example.test>',
  'To: owner@there.test',
  'Reply-To: visitor@else.test',
  'Subject: New submission',
  'Date: Mon, 15 Jun 2026 12:00:00 +0000',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary=b',
  '',
  '--b',
  'Content-Type: multipart/alternative; boundary=a',
  '',
  ...part(['Content-Type: text/plain; charset=utf-8'], 'こんにちは\nsee https://example.test/a?b=1&c=2.', 'a'),
  ...part(['Content-Type: text/html; charset=utf-8'], HTML, 'a'),
  '--a--',
  ...part(
    [
      "Content-Type: application/pdf; name*=utf-8''%E8%A6%8B.pdf",
      "Content-Disposition: attachment; filename*=utf-8''%E8%A6%8B.pdf",
    ],
    BINARY,
  ),
  ...part(['Content-Type: image/png', 'Content-ID: <pic@x>', 'Content-Disposition: inline; filename=p.png'], PNG),
  '--b--',
);

const EVIL_HTML = [
  '<script>fetch("/outbox.json")</script><p onclick="alert(1)">Hi</p>',
  '<iframe src="/outbox"></iframe><form action="/x"><button>go</button></form>',
  '<img src="https://tracker.test/x.png"><base href="https://evil.test/"><meta http-equiv="refresh" content="0;url=https://evil.test">',
].join('');
const EVIL = lines(
  'From: "</span><script>alert(1)</script>" <x@evil.test>',
  'To: "\'><img src=x onerror=alert(1)>" <owner@there.test>',
  'Subject: </title><script>alert("subject")</script><img src=x onerror=alert(1)>',
  'X-Evil: "><script>alert(2)</script>',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary=b',
  '',
  ...part(
    ['Content-Type: text/plain'],
    '</pre><script>alert(3)</script> javascript:alert(4) https://evil.test/"onmouseover="alert(5)',
  ),
  ...part(['Content-Type: text/html'], EVIL_HTML),
  ...part(
    ['Content-Type: text/html', 'Content-Disposition: attachment; filename="../../<script>alert(6)</script>.html"'],
    EVIL_HTML,
  ),
  ...part(
    ['Content-Type: image/svg+xml', 'Content-Disposition: attachment; filename="a\\"; x=\\".svg"'],
    '<svg onload="alert(7)"/>',
  ),
  '--b--',
);

async function outbox(...mails: Buffer[]) {
  const mx = await startMx();
  const url = await serve(outboxPages(mx.mails));
  const client = await connected(mx);
  for (const mail of mails) await send(client, ['owner@there.test'], mail);
  const [newest] = mx.mails.list();
  async function get(path: string, init?: RequestInit) {
    const response = await fetch(url + path, init);
    return { response, bytes: Buffer.from(await response.clone().arrayBuffer()), text: await response.text() };
  }
  return { mx, get, newest: `/outbox/${newest?.id ?? ''}`, client };
}

describe('the list', () => {
  test('newest first: from, to, subject, files and verdicts', async () => {
    const { get, newest } = await outbox(lines('Subject: first', '', 'x'), FULL);
    const { response, text } = await get('/outbox');
    expect(response.status).toBe(200);
    expectStrictPage(response, text);
    expect(text).toContain('2 messages');
    expect(text.indexOf('New submission')).toBeLessThan(text.indexOf('first'));
    for (const words of ['>山田<', 'to owner@there.test', '2 files', 'DKIM none', 'SPF none', `href="${newest}"`]) {
      expect(text.replaceAll(/\s+/g, ' ')).toContain(words);
    }
  });

  test('an empty one says what to do, and how it keeps up to date without scripts', async () => {
    const { get } = await outbox();
    const { response, text } = await get('/outbox');
    expectStrictPage(response, text);
    expect(text).toContain('No mail yet');
    expect(text).toMatch(/<noscript>\s*<meta http-equiv="refresh" content="5"/);
  });

  test('as JSON, as many as asked for', async () => {
    const { get } = await outbox(lines('Subject: first', '', 'x'), FULL);
    const all = JSON.parse((await get('/outbox.json')).text);
    expect(all).toMatchObject({
      total: 2,
      mails: [
        {
          subject: 'New submission',
          from: '山田 <forms@example.test>',
          attachments: 2,
          envelope: { from: 'bounce@example.test', to: ['owner@there.test'] },
          dkim: 'none',
          spf: 'none',
          dmarc: 'none',
          at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        },
        { subject: 'first' },
      ],
    });
    const one = JSON.parse((await get('/outbox.json?limit=1')).text);
    expect(one.total).toBe(2);
    expect(one.mails).toEqual([all.mails[0]]);
  });

  test('a hundred to a page', async () => {
    const mails = await openCaughtMails(await temporaryFolder(), silentLog);
    const none = { result: 'none', domain: '', comment: '' };
    const envelope = { from: '', to: ['a@there.test'], client: '127.0.0.1', helo: 'x', tls: null };
    for (let i = 1; i <= 150; i++) {
      const { id, path } = mails.begin(1750000000000 + i);
      await writeFile(path, 'x');
      const verdicts = { dkim: [], spf: none, dmarc: none };
      await mails.keep({
        id,
        at: i,
        envelope,
        size: 1,
        from: '',
        to: '',
        subject: `mail ${i}.`,
        attachments: 0,
        verdicts,
      });
    }
    const url = await serve(outboxPages(mails));
    const first = await (await fetch(`${url}/outbox`)).text();
    const second = await (await fetch(`${url}/outbox?page=2`)).text();
    expect(first.match(/mail \d+\./g)?.filter((_, i, all) => i === 0 || i === all.length - 1)).toEqual([
      'mail 150.',
      'mail 51.',
    ]);
    expect(second.match(/mail \d+\./g)?.length).toBe(50);
    expect(first).toContain('href="/outbox?page=2"');
    expect(second).toContain('href="/outbox?page=1"');
    expect((await fetch(`${url}/outbox?page=99&page=x`)).status).toBe(200);
  });
});

describe('the search', () => {
  test('finds words of the subject and the addresses, in any order, and keeps what was searched for', async () => {
    const { get } = await outbox(lines('Subject: Order <7> arrived', 'From: shop@example.test', '', 'x'), FULL);
    const found = await get('/outbox?q=SHOP%20order');
    expectStrictPage(found.response, found.text);
    expect(found.text).toContain('1 message<');
    expect(found.text).toContain('Order &lt;7&gt; arrived');
    expect(found.text).not.toContain('New submission');
    expect(found.text).toContain('value="SHOP order"');
    const none = await get('/outbox?q=%22%3E%3Cscript%3E');
    expectStrictPage(none.response, none.text);
    expect(none.text).toContain('No mail contains these words.');
  });
});

describe('deleting', () => {
  test('takes one mail, or all, off the list and the disk', async () => {
    const { get, mx, newest } = await outbox(lines('Subject: first', '', 'x'), lines('Subject: second', '', 'x'), FULL);
    const post = { method: 'POST', redirect: 'manual', headers: { 'Sec-Fetch-Site': 'same-origin' } } as const;
    const { response } = await get(`${newest}/delete`, post);
    expect([response.status, response.headers.get('location')]).toEqual([303, '/outbox']);
    expect((await get(newest)).response.status).toBe(404);
    expect(mx.mails.list().map(({ subject }) => subject)).toEqual(['second', 'first']);
    expect((await get('/outbox/delete', post)).response.status).toBe(303);
    expect((await get('/outbox')).text).toContain('No mail yet');
  });

  test.each(['cross-site', 'same-site', 'none'])('is refused to a page whose request is %s', async (site) => {
    const { get, mx } = await outbox(FULL);
    const { response } = await get('/outbox/delete', { method: 'POST', headers: { 'Sec-Fetch-Site': site } });
    expect([response.status, mx.mails.list().length]).toEqual([403, 1]);
  });
});

describe('one mail', () => {
  test('shows who, what and the envelope, and links each view', async () => {
    const { get, newest } = await outbox(FULL);
    const { response, text } = await get(newest);
    expectStrictPage(response, text);
    for (const words of [
      '山田 &lt;forms@example.test&gt;',
      'visitor@else.test',
      'bounce@example.test → owner@there.test',
      'The mail is not signed',
      'TLSv1.3',
      '見.pdf',
      'p.png',
    ]) {
      expect(text).toContain(words);
    }
    for (const view of ['html', 'text', 'headers', 'source']) expect(text).toContain(`${newest}?view=${view}`);
    expect(policyOf(response)['frame-src']).toBe("'self'");
  });

  test('its text, with addresses as links', async () => {
    const { get, newest } = await outbox(FULL);
    const { text } = await get(`${newest}?view=text`);
    expect(text).toContain('こんにちは');
    expect(text).toContain('href="https://example.test/a?b=1&amp;c=2" target="_blank" rel="noopener noreferrer"');
  });

  test('its headers and its source', async () => {
    const { get, newest } = await outbox(FULL);
    expect((await get(`${newest}?view=headers`)).text).toMatch(
      /<th scope="row">Reply-To<\/th>\s*<td>visitor@else.test<\/td>/,
    );
    expect((await get(`${newest}?view=source`)).text).toContain('Content-Type: multipart/mixed; boundary=b');
  });

  test('its bytes as they came', async () => {
    const { get, newest } = await outbox(FULL);
    const { response, bytes } = await get(`${newest}/raw`);
    expect(bytes.equals(FULL)).toBe(true);
    expect(response.headers.get('content-type')).toBe('message/rfc822');
    expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename="\d{13}-[0-9a-f]{8}\.eml"$/);
  });

  test('its attachments, byte for byte, under their names', async () => {
    const { get, newest } = await outbox(FULL);
    const pdf = await get(`${newest}/attachments/0`);
    expect(pdf.bytes.equals(BINARY)).toBe(true);
    expect(pdf.response.headers.get('content-disposition')).toBe(
      `attachment; filename="?.pdf"; filename*=UTF-8''%E8%A6%8B.pdf`,
    );
    expect(pdf.response.headers.get('content-type')).toBe('application/octet-stream');
    const png = await get(`${newest}/attachments/1`);
    expect(png.bytes.equals(PNG)).toBe(true);
    expect(png.response.headers.get('content-type')).toBe('image/png');
    expect((await get(`${newest}/attachments/2`)).response.status).toBe(404);
  });

  test('its HTML with the pictures that came with it, and no others', async () => {
    const { get, newest } = await outbox(FULL);
    const { response, text } = await get(`${newest}/html`);
    expect(text).toContain(`<img src="${newest}/attachments/1">`);
    expect(text).toContain('<img src="cid:none">');
    expect(text).toMatch(/^<!doctype html><base target="_blank">/);
    expect(policyOf(response)['img-src']).toBe("data: 'self'");
  });

  test('one that cannot be parsed is shown as its source, with the reason', async () => {
    const mail = lines(`X-Long: ${`${'x'.repeat(900)}\r\n `.repeat(1300)}`, '', 'body');
    const { get, newest } = await outbox(mail);
    const { response, text } = await get(newest);
    expect(response.status).toBe(200);
    expect(text).toContain('cannot be parsed');
    expect(text).toContain('X-Long: xxx');
    expect((await get(`${newest}/raw`)).bytes.equals(mail)).toBe(true);
    expect((await get('/outbox')).text).toContain('(no subject)');
  });

  test('one that is not there is a 404 with a page', async () => {
    const { get, newest } = await outbox(FULL);
    for (const path of ['/outbox/1750000000000-00000000', '/outbox/1750000000000-00000000/html', '/outbox/0']) {
      const { response, text } = await get(path);
      expect(response.status).toBe(404);
      expectStrictPage(response, text);
    }
    expect(newest).toMatch(/^\/outbox\/\d/);
  });

  test.each(['/outbox/..%2f..%2fetc%2fpasswd', '/outbox/x/y', '/outboxes', '/', '/outbox/1/attachments/x'])(
    '%s is somebody else’s',
    async (path) => {
      const { get } = await outbox();
      expect((await get(path)).response.status).toBe(418);
    },
  );

  test('only GET and HEAD are ours', async () => {
    const { get } = await outbox();
    expect((await get('/outbox', { method: 'POST' })).response.status).toBe(418);
    expect((await get('/outbox', { method: 'HEAD' })).response.status).toBe(200);
  });
});

describe('a hostile mail', () => {
  test('none of its words become markup on a page of ours', async () => {
    const { get, newest } = await outbox(EVIL);
    for (const path of ['/outbox', newest, ...['text', 'headers', 'source'].map((view) => `${newest}?view=${view}`)]) {
      const { response, text } = await get(path);
      expectStrictPage(response, text);
      const tags = text.replace(/<script>[^]*?<\/script>/, '').match(/<[a-z][^>]*>/gi) ?? [];
      expect(
        tags.filter((tag) =>
          /^<(script|img|form(?! [^>]*action="\/outbox[/"])|meta http-equiv="refresh" content="0)|evil\.test"|<svg onload/i.test(
            tag,
          ),
        ),
      ).toEqual([]);
      expect(tags.filter((tag) => tag === '<title>')).toHaveLength(1);
    }
    expect((await get(`${newest}?view=text`)).text).not.toContain('href="javascript:');
  });

  test('its HTML runs in a sandbox: no scripts, no origin, no forms, nothing fetched', async () => {
    const { get, newest } = await outbox(EVIL);
    const { text: page } = await get(newest);
    const frame = /<iframe[^>]*>/.exec(page)?.[0] ?? '';
    expect(frame).toContain('sandbox="allow-popups allow-popups-to-escape-sandbox"');
    const { response } = await get(`${newest}/html`);
    const policy = policyOf(response);
    expect(policy['sandbox']).toBe('allow-popups allow-popups-to-escape-sandbox');
    expect(policy).toMatchObject({
      'default-src': "'none'",
      'img-src': 'data:',
      'style-src': "'unsafe-inline'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'self'",
    });
    expect(policy).not.toHaveProperty('script-src');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('referrer-policy')).toBe('no-referrer');
  });

  test('its files are downloads, never documents, under a name without a path', async () => {
    const { get, newest } = await outbox(EVIL);
    const html = await get(`${newest}/attachments/0`);
    expect(html.bytes.toString()).toBe(EVIL_HTML);
    const svg = await get(`${newest}/attachments/1`);
    for (const { response } of [html, svg]) {
      expect(response.headers.get('content-type')).toBe('application/octet-stream');
      expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename="[^/]*"/);
      expect(response.headers.get('content-disposition')).not.toContain('..');
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(policyOf(response)).toMatchObject({ sandbox: '', 'default-src': "'none'" });
    }
  });
});
