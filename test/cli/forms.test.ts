/** `instant …`, `forms …` and `submissions …`, against the HTTP server. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { SNIPPET_STYLES } from '../../src/contract/forms.ts';
import { snippetOf } from '../../src/forms/snippet.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startHttp, type TestHttp, type TestHttpOptions } from '../harness/http.ts';
import { testKey } from '../harness/keys.ts';
import { person, type Person } from './cli-world.ts';

/** Somebody with a key of the operator's own account, whose forms the server has. */
async function owner(options: TestHttpOptions = {}): Promise<Person & { http: TestHttp }> {
  const http = await startHttp(options);
  const { value } = await testKey(http.store, { tenant: OPERATOR });
  return { ...(await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value })), http };
}

function post(http: TestHttp, path: string, fields: Record<string, string>) {
  return http.request(path, { headers: { Accept: 'application/json' }, body: new URLSearchParams(fields) });
}

function cells(out: string): string[][] {
  return out
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
}

describe('instant forms', () => {
  test('are made, listed, and what was sent to them is shown', async () => {
    const http = await startHttp();
    const { value } = await testKey(http.store, { account: { trusted: 0 } });
    const ana = await person({ POSTERN_URL: http.base, POSTERN_API_KEY: value });
    expect((await ana.say(['instant', 'list'])).err).toBe('No matching submissions.\n');
    const made = await ana.say(['instant', 'create', '--name', 'Feedback', '--email', 'ana@inbox.test'], { width: 80 });
    const [, id = ''] = /^form +(frm_\w+)\nurl +http:\S+\/f\/\1\nmail to +ana@inbox\.test\n/.exec(made.out) ?? [];
    expect(made).toMatchObject({
      code: 0,
      err: expect.stringContaining('until ana@inbox.test opens the confirmation link'),
    });
    expect(made.out).toContain(`postern forms snippet ${id}`);
    await post(http, `/f/${id}`, { email: 'bo@inbox.test', message: 'first' });
    await post(http, `/f/${id}`, { name: 'Bo', comment: 'second\nline\t\u001b[2J' });

    expect(cells((await ana.say(['instant', 'list'])).out)).toEqual([
      [
        expect.stringMatching(/^sub_/),
        expect.stringMatching(/^2.*Z$/),
        'accepted',
        id,
        'Bo',
        'second line\u{fffd}\u{fffd}[2J',
      ],
      [expect.stringMatching(/^sub_/), expect.stringMatching(/^2.*Z$/), 'accepted', id, 'bo@inbox.test', 'first'],
    ]);
    const first = await ana.say(['instant', 'list', '--limit', '1']);
    const [, cursor = ''] = /^1 of 2; for more, add --cursor (\w+)\n$/.exec(first.err) ?? [];
    expect((await ana.say(['instant', 'list', '--limit', '1', '--cursor', cursor], { width: 200 })).out).toMatch(
      /first\n1 of 2\n$/,
    );
    expect(JSON.parse((await ana.say(['instant', 'list', '--q', 'second', '--json'])).out)).toMatchObject({
      submissions: [{ fields: { name: 'Bo' } }],
    });
    expect((await ana.say(['instant', 'list', '--to', '2020-01-01'])).out).toBe('');
    expect(cells((await ana.say(['instant', 'forms'])).out)).toEqual([
      [id, 'Feedback', 'ana@inbox.test', 'unconfirmed', '2', `${http.base}/f/${id}`],
    ]);
    const { out } = await ana.say(['forms', 'snippet', id]);
    expect(out).toContain(`<form action="${http.base}/f/${id}" method="post">`);
    expect(out).toContain('<input type="email" name="email" autocomplete="email" />');
  });

  test('are refused with what is wrong', async () => {
    const ana = await owner();
    const said = [
      await ana.say(['instant', 'create', '--name', 'x', '--email', 'nobody']),
      await ana.say(['instant', 'list', '--limit', '0']),
      await ana.say(['instant', 'list', '--status', 'ham']),
      await ana.say(['instant', 'list', '--cursor', 'x']),
      await ana.say(['instant', 'lits']),
    ];
    expect(said.map(({ code, err }) => [code, err])).toEqual([
      [2, expect.stringContaining('an email address such as')],
      [2, expect.stringContaining('a whole number from 1 to 200')],
      [2, expect.stringContaining('Allowed choices are accepted, spam')],
      [1, expect.stringContaining('cursor')],
      [2, expect.stringContaining('Did you mean list?')],
    ]);
  });
});

describe('submissions', () => {
  test('of a form are listed, shown and exported', async () => {
    const ana = await owner({ forms: { contact: { to: 'owner@example.com', uploads: { enabled: true } } } });
    const data = new FormData();
    data.append('email', 'bo@inbox.test');
    data.append('message', 'one\ntwo');
    data.append('file', new Blob(['x'.repeat(2000)]), 'list.pdf');
    expect(
      (await ana.http.request('/example.com/contact', { headers: { Accept: 'application/json' }, body: data })).status,
    ).toBe(200);
    await post(ana.http, '/example.com/contact', { email: 'eve@inbox.test', _service_honeypot: 'x' });

    const spam = cells((await ana.say(['submissions', 'list', 'example.com/contact', '--status', 'spam'])).out);
    expect(spam).toEqual([
      [expect.anything(), expect.anything(), 'spam', 'example.com/contact', 'eve@inbox.test', expect.anything()],
    ]);
    const shown = await ana.say(['submissions', 'show', spam[0]?.[0] ?? '']);
    expect(shown.out).toMatch(/^status +spam, spam score \d+\n +\d+ honeypot/m);

    const [[id = ''] = []] = cells(
      (await ana.say(['submissions', 'list', 'example.com/contact', '--status', 'accepted'])).out,
    );
    const { out } = await ana.say(['submissions', 'show', id]);
    expect(out).toMatch(/^form +example\.com\/contact$/m);
    expect(out).toMatch(/^mail +msg_\w+$/m);
    expect(out).toContain('\nmessage\n  one\n  two\n');
    expect(out).toMatch(/\nfiles\n {2}fil_\w+ {2}list\.pdf {2}2 KiB\n$/);

    const csv = await ana.say(['submissions', 'export', 'example.com/contact', '--status', 'accepted']);
    expect(csv).toMatchObject({ code: 0, err: '' });
    expect(csv.out).toMatch(
      new RegExp(`^\ufeffsubmission_id,.*,email,message\r\n${id},.*bo@inbox.test,"one\r\ntwo"\r\n$`),
    );
    expect(
      await ana.say(['submissions', 'export', 'example.com/contact', '--json', '--output', 'all.json']),
    ).toMatchObject({
      code: 0,
      out: '',
      err: expect.stringMatching(/^\S+ (?:bytes|KiB) written to all\.json\n$/),
    });
    expect(JSON.parse(await ana.read('all.json'))).toMatchObject({ submissions: [{ status: 'spam' }, { id }] });
    expect(await ana.say(['submissions', 'export', 'example.com/contact', '--output', 'no/such/folder'])).toMatchObject(
      {
        code: 1,
        err: expect.stringContaining('ENOENT'),
      },
    );
    expect(await ana.say(['submissions', 'export', 'example.com/none'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('orm'),
    });
  });
});

describe('forms', () => {
  const forms = {
    contact: {
      name: 'Contact us',
      to: ['a@example.com', 'b@example.com'],
      required: ['email', 'message', 'topic'],
      fields: {
        topic: { options: ['Sales', 'A "quoted" <b>'] },
        phone: { type: 'tel', max: 20, pattern: '[0-9 +]+' },
        message: { label: 'Your message', max: 5000 },
      },
      spam_protection: { honeypot: 'website' },
      uploads: { enabled: true },
    },
    bare: { to: 'a@example.com' },
  };

  test('are listed', async () => {
    const ana = await owner({ forms });
    expect(cells((await ana.say(['forms', 'list', '--domain', 'example.com'])).out)).toEqual([
      ['example.com/bare', 'bare', 'a@example.com', '0', `${ana.http.base}/example.com/bare`],
      [
        'example.com/contact',
        'Contact us',
        'a@example.com, b@example.com',
        '0',
        `${ana.http.base}/example.com/contact`,
      ],
    ]);
  });

  test('have HTML with their address, fields and honeypot', async () => {
    const ana = await owner({ forms });
    const { out } = await ana.say(['forms', 'snippet', 'example.com/contact']);
    for (const part of [
      `<form action="${ana.http.base}/example.com/contact" method="post" enctype="multipart/form-data">`,
      '<select name="topic" required>\n        <option value=""></option>\n',
      '<option>A &quot;quoted&quot; &lt;b&gt;</option>',
      '<input type="tel" name="phone" maxlength="20" pattern="[0-9 +]+" autocomplete="tel" />',
      'Your message<br />\n      <textarea name="message" required maxlength="5000" rows="6"></textarea>',
      '<input type="email" name="email" required autocomplete="email" />',
      '<input type="file" name="files" multiple />',
      '<label>Leave this empty <input name="website" tabindex="-1" autocomplete="off" /></label>',
    ])
      expect(out).toContain(part);
    expect((await ana.say(['forms', 'snippet', 'example.com/bare'])).out).toContain('name="message"');
    expect(await ana.say(['forms', 'snippet', 'example.com/none'])).toMatchObject({
      code: 1,
      err: 'There is no form example.com/none.\nTo see your forms, run: postern forms list or postern instant forms\n',
    });
    expect(await ana.say(['forms', 'snippet', 'frm_00000000000000000000000000'])).toMatchObject({ code: 1 });
    expect(await ana.say(['forms', 'snippet', 'x', '--style', 'vue'])).toMatchObject({ code: 2 });
  });

  test('have a script that posts what is typed and shows the answer', async () => {
    const ana = await owner({ forms: { contact: { to: 'a@example.com', required: ['message'] } } });
    const { out } = await ana.say(['forms', 'snippet', 'example.com/contact', '--style', 'fetch']);
    const page = pageOf(out, [
      ['message', ''],
      ['_service_honeypot', ''],
    ]);
    await page.submit();
    expect(page.status()).toMatch(/message/i);
    expect(page.resets()).toBe(0);
    page.type('message', 'Hello');
    await page.submit();
    expect(page.status()).toBe('Your message has been sent.');
    expect(page.resets()).toBe(1);
    expect((await ana.http.submissions()).map(({ status }) => status)).toEqual(['accepted']);
  });

  test('have what the clients of Formspree need, where the server lives below a path too', async () => {
    const ana = await owner({ forms: { contact: { to: 'a@example.com' } } });
    const { out } = await ana.say(['forms', 'snippet', 'example.com/contact', '--style', 'formspree', '--json']);
    const { code } = JSON.parse(out) as { code: string };
    expect(code).toContain(
      JSON.stringify({
        formElement: '#form-example-com-contact',
        formId: 'example.com/contact',
        origin: ana.http.base,
      }),
    );
    expect(code).toContain('<span data-fs-error="email"></span>');
    const answer = await post(ana.http, '/f/example.com/contact', { email: 'bo@inbox.test', message: 'x' });
    expect(answer.status).toBe(200);
    const own = { id: 'frm_1', endpoint: 'https://example.net/mail/f/frm_1', fields: [], honeypot: 'h' };
    expect(snippetOf(own, 'formspree')).toContain('"origin":"https://example.net/mail"');
  });

  test.each(SNIPPET_STYLES)('of the style %s let no name out of its place', (style) => {
    const nasty = `"><script>alert(1)</script>`;
    const code = snippetOf(
      {
        id: `example.com/${nasty}`,
        endpoint: 'https://example.net/example.com/x',
        honeypot: nasty,
        fields: [{ name: nasty, label: nasty, type: 'text', isRequired: true, options: [nasty] }],
      },
      style,
    );
    expect(code).not.toContain('<script>alert');
  });
});

/** A page with just what the script of a snippet uses. */
function pageOf(html: string, fields: readonly [string, string][]) {
  const values = new Map(fields);
  const action = /action="([^"]+)"/.exec(html)?.[1] ?? '';
  const script = /<script type="module">([^]*)<\/script>/.exec(html)?.[1] ?? '';
  const status = { textContent: '' };
  let submit: (event: { preventDefault(): void }) => Promise<void> = () => Promise.reject(new Error('nobody listens'));
  let resets = 0;
  const form = {
    action,
    reset: () => void resets++,
    querySelector: (what: string) => (what === 'button' ? { disabled: false } : status),
    addEventListener: (_: string, listener: typeof submit) => (submit = listener),
  };
  class PageFormData extends FormData {
    constructor() {
      super();
      for (const [name, value] of values) this.append(name, value);
    }
  }
  runInNewContext(script, {
    fetch,
    FormData: PageFormData,
    document: { getElementById: (id: string) => (html.includes(`id="${id}"`) ? form : null) },
  });
  return {
    type: (name: string, value: string) => void values.set(name, value),
    submit: () => submit({ preventDefault: () => undefined }),
    status: () => status.textContent,
    resets: () => resets,
  };
}

test('an export shows a terminal nothing that it would act on, and leaves it to programs', async () => {
  const ana = await owner();
  await post(ana.http, '/example.com/contact', { email: 'bo@inbox.test', message: 'a\u001b]0;b\u0007\u009bc' });
  const args = ['submissions', 'export', 'example.com/contact'];
  const { out } = await ana.say(args, { width: 80 });
  expect(out).toMatch(/^submission_id,.*\n.*,a\ufffd\]0;b\ufffd\ufffdc\n$/);
  expect((await ana.say(args)).out).toContain('a\u001b]0;b\u0007\u009bc');
});

test('an export is the file that the daemon makes, byte for byte', async () => {
  const ana = await owner();
  await post(ana.http, '/example.com/contact', { email: 'bo@inbox.test', message: 'Grüße' });
  await ana.say(['submissions', 'export', 'example.com/contact', '--output', 'all.csv']);
  const { text } = await ana.http.request('/forms/example.com/contact/submissions/export', {
    headers: { Authorization: `Bearer ${ana.env['POSTERN_API_KEY']}` },
  });
  expect(await readFile(join(ana.folder, 'all.csv'), 'utf8')).toBe(text);
});
