/** Code for a form's page, previews of its mail and pages, and test posts. */
import { describe, expect, test } from 'vitest';
import { SNIPPET_STYLES } from '../../../src/contract/forms.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { startHttp, type TestHttp, type TestHttpOptions } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const FORMS = {
  contact: {
    name: 'Contact us',
    to: 'owner@example.com',
    required: ['email', 'message'],
    acknowledgment: { enabled: true, subject: 'Thank you' },
    thank_you: 'We answer within a day.',
    theme: { language: 'de' },
  },
};

async function start(more: TestHttpOptions = {}) {
  const http = await startHttp({ forms: FORMS, server: BASE, ...more });
  const key = await testKey(http.store, { tenant: OPERATOR });
  return { http, key, ask: asking(http, key.headers) };
}

const BASE = { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net/' } };

function asking(http: TestHttp, headers: Readonly<Record<string, string>>) {
  return async (method: 'GET' | 'POST', path: string, body?: object) => {
    const answer = await http.request(path, { method, headers, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, json: answer.json() };
  };
}

const YAML = (html: string) => `project: { name: Shop, slug: example }
domains:
  example.com:
    forms:
      contact: { name: New name, to: owner@example.com, template: mine }
templates:
  mine:
    subject: "Shop: {{ form.name }}"
    html: ${JSON.stringify(html)}
`;

describe('snippets', () => {
  test('are in all styles, also for instant forms', async () => {
    const { ask } = await start();
    const { status, json } = await ask('GET', '/forms/example.com/contact/snippets');
    expect([status, json]).toMatchObject([
      200,
      { id: 'example.com/contact', endpoint: 'https://forms.example.net/example.com/contact' },
    ]);
    const snippets = json['snippets'] as { style: string; language: string; code: string }[];
    expect(snippets.map(({ style }) => style)).toEqual([...SNIPPET_STYLES]);
    for (const { code } of snippets) {
      expect(code).toContain('https://forms.example.net/example.com/contact');
      expect(code).toContain('name="message"');
    }
    const { code = '' } = snippets.find(({ style }) => style === 'react') ?? {};
    expect(code).toContain('autoComplete="email"');
    expect(code).toContain('export function ContactForm()');
    expect(code).not.toMatch(/ (?:autocomplete|tabindex|maxlength|style)="/);
    const { json: made } = await ask('POST', '/instant/forms', { name: 'News', email: 'me@example.com' });
    expect((await ask('GET', `/forms/${String(made['id'])}/snippets`)).status).toBe(200);
  });

  test('of JSX keep braces as text', async () => {
    const fields = { answer: { label: '{alert(1)} <b>', options: ['{x}'] } };
    const { ask } = await start({ forms: { contact: { to: 'owner@example.com', fields } } });
    const { json } = await ask('GET', '/forms/example.com/contact/snippets');
    const snippets = json['snippets'] as { style: string; code: string }[];
    const { code = '' } = snippets.find(({ style }) => style === 'react') ?? {};
    expect(code).toContain('&#123;alert(1)&#125; &lt;b&gt;');
    expect(code).not.toContain('{x}');
  });
});

describe('a preview', () => {
  test('is the mail that would be sent, with a sample or given fields', async () => {
    const { ask } = await start();
    const path = '/forms/example.com/contact/preview';
    expect((await ask('POST', path, {})).json).toMatchObject({
      errors: [],
      language: 'de',
      from: expect.stringContaining('forms@example.com'),
      to: ['owner@example.com'],
      reply_to: expect.stringContaining('ada@example.com'),
      subject: expect.stringContaining('Contact us'),
      html: expect.stringContaining('ada@example.com'),
    });
    const given = await ask('POST', path, {
      show: 'acknowledgment',
      fields: { email: 'bo@example.org', message: 'Hi' },
    });
    expect(given.json).toMatchObject({ subject: 'Thank you', to: ['bo@example.org'] });
    const confirmation = await ask('POST', path, { show: 'confirmation' });
    expect(confirmation.json['text']).toContain('https://forms.example.net/confirm/preview');
    for (const [show, text] of [
      ['thank_you', 'We answer within a day.'],
      ['error', '<html lang="de"'],
    ] as const)
      expect((await ask('POST', path, { show })).json).toMatchObject({
        subject: null,
        html: expect.stringContaining(text),
      });
    expect((await ask('POST', path, { show: 'error' })).json['html']).toContain('role="alert"');
  });

  test('shows a submission of the form, and of no other', async () => {
    const { http, ask } = await start({ forms: { ...FORMS, other: { to: 'owner@example.com' } } });
    const sent = await http.request('/example.com/contact', {
      body: { email: 'eve@example.org', message: 'From Eve' },
    });
    const submission = sent.json()['id'];
    expect((await ask('POST', '/forms/example.com/contact/preview', { submission })).json['text']).toContain(
      'From Eve',
    );
    expect((await ask('POST', '/forms/example.com/other/preview', { submission })).status).toBe(404);
    const key = await testKey(http.store, { tenant: OPERATOR, environment: 'test' });
    const inTest = asking(http, key.headers);
    expect((await inTest('POST', '/forms/example.com/contact/preview', {})).status).toBe(200);
    expect((await inTest('POST', '/forms/example.com/contact/preview', { submission })).json).not.toHaveProperty(
      'text',
    );
  });

  test('renders what is not pushed yet, and says where it fails', async () => {
    const { ask } = await start();
    const path = '/forms/example.com/contact/preview';
    const good = await ask('POST', path, { config: YAML('<p>{{ form.name }}</p>'), fields: { name: '<i>Ada</i>' } });
    expect(good.json).toMatchObject({
      errors: [],
      subject: 'Shop: <i>Ada</i>',
      html: '<p>&lt;i&gt;Ada&lt;/i&gt;</p>',
    });
    const broken = await ask('POST', path, { config: YAML('<p>{{ form.name | }}</p>') });
    expect(broken.json).toMatchObject({
      html: null,
      errors: [{ path: 'templates.mine.html', line: 9, column: expect.any(Number), file: 'postern.yml' }],
    });
    expect((await ask('POST', path, { config: 'project: [' })).json['errors']).not.toEqual([]);
    expect((await ask('POST', path, { config: `#${'x'.repeat(300_000)}` })).json).toMatchObject({
      errors: [{ message: 'the file is larger than 256 KiB' }],
    });
    const gone = YAML('').replace('contact:', 'sales:');
    expect((await ask('POST', path, { config: gone })).status).toBe(404);
  });
});

describe('a test post', () => {
  test('takes the ordinary path, and is marked', async () => {
    const { http, ask } = await start();
    const { status, json } = await ask('POST', '/forms/example.com/contact/test', {});
    expect([status, json]).toEqual([200, { id: expect.stringMatching(/^sub_/), status: 'accepted' }]);
    const shown = (await ask('GET', `/submissions/${String(json['id'])}`)).json;
    expect(shown).toMatchObject({
      form: 'example.com/contact',
      fields: { email: 'ada@example.com' },
      spam: { reasons: expect.arrayContaining([expect.objectContaining({ name: 'test', score: 0 })]) },
      messages: [expect.any(String), expect.any(String)],
    });
    expect((await http.queue()).map(({ recipient }) => recipient)).toContain('owner@example.com');
  });

  test('is refused where the form would refuse it', async () => {
    const { ask } = await start();
    expect(
      await ask('POST', '/forms/example.com/contact/test', { fields: { email: 'x', message: 'Hi' } }),
    ).toMatchObject({
      status: 400,
      json: { code: 'VALIDATION_FAILED', details: [{ path: 'fields.email' }] },
    });
  });
});

test('a form of another account, or of another domain than the key’s, has none of them', async () => {
  const { http } = await start();
  const foreign = await testKey(http.store);
  const narrow = await testKey(http.store, {
    tenant: OPERATOR,
    restrictions: { domain_restrictions: ['other.example'] },
  });
  const reading = await testKey(http.store, { tenant: OPERATOR, permissions: ['forms.read'] });
  for (const [method, tool, body] of [
    ['GET', 'snippets', undefined],
    ['POST', 'preview', {}],
    ['POST', 'test', {}],
  ] as const) {
    const path = `/forms/example.com/contact/${tool}`;
    expect(await asking(http, foreign.headers)(method, path, body)).toMatchObject({
      status: 404,
      json: { code: 'FORM_NOT_FOUND' },
    });
    expect(await asking(http, narrow.headers)(method, path, body)).toMatchObject({
      status: tool === 'preview' ? 404 : 403,
    });
    const read = await asking(http, reading.headers)(method, path, body);
    expect(read.status).toBe(tool === 'test' ? 403 : 200);
  }
});
