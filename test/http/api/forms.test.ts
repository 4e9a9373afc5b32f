import { describe, expect, test } from 'vitest';
import { adoptForms } from '../../../src/forms/find.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp, type TestHttpOptions } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const FORMS = {
  contact: { name: 'Contact us', to: ['a@example.com', 'b@example.com'], subject: 'Hi', rateLimit: 5 },
  jobs: {},
};
const COLLECTIONS = { site: { forms: { contact: { email: 'c@inbox.example' } } } };
const BASE = { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net/' } };

async function start(more: TestHttpOptions = {}) {
  const http = await startHttp({ forms: FORMS, collections: COLLECTIONS, server: BASE, ...more });
  const key = await testKey(http.store, { tenant: OPERATOR });
  return { http, key, ask: asking(http, key.headers) };
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

function asking(http: TestHttp, headers: Readonly<Record<string, string>>) {
  return async (method: Method, path: string, body?: object) => {
    const answer = await http.request(path, { method, headers, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, json: answer.json() };
  };
}

const NEW = { name: 'Feedback', to: 'me@inbox.example', subject: 'Feedback from {{ form.name }}' };

describe('GET /forms', () => {
  test('lists the forms of domains and collections, and those made here, with what they counted', async () => {
    const clock = testClock();
    const { http, ask } = await start({ clock });
    await http.request('/example.com/contact', { body: { message: 'Hi' } });
    const made = await ask('POST', '/api/forms', NEW);
    const list = await ask('GET', '/v1/forms');
    expect(list.json).toEqual({
      forms: [
        {
          id: 'c/site/contact',
          name: 'contact',
          submissions: 0,
          created_at: '2026-01-01T00:00:00.000Z',
          to: 'c@inbox.example',
          recipient_status: 'confirmed',
          recipients: [{ address: 'c@inbox.example', status: 'confirmed' }],
          subject: null,
          endpoint: 'https://forms.example.net/c/site/contact',
          environment: 'live',
          source: 'file',
        },
        {
          id: 'example.com/contact',
          name: 'Contact us',
          submissions: 1,
          created_at: '2026-01-01T00:00:00.000Z',
          to: ['a@example.com', 'b@example.com'],
          recipient_status: 'confirmed',
          recipients: [
            { address: 'a@example.com', status: 'confirmed' },
            { address: 'b@example.com', status: 'confirmed' },
          ],
          subject: 'Hi',
          endpoint: 'https://forms.example.net/example.com/contact',
          environment: 'live',
          source: 'file',
        },
        expect.objectContaining({ id: 'example.com/jobs', to: 'ops@example.net' }),
        expect.objectContaining({ id: 'pending.example/contact' }),
        {
          id: made.json['id'],
          name: 'Feedback',
          submissions: 0,
          created_at: '2026-01-01T00:00:00.000Z',
          to: 'me@inbox.example',
          recipient_status: 'confirmed',
          recipients: [{ address: 'me@inbox.example', status: 'confirmed' }],
          subject: 'Feedback from {{ form.name }}',
          endpoint: `https://forms.example.net/f/${String(made.json['id'])}`,
          environment: 'live',
          source: 'api',
        },
      ],
      count: 5,
      next_cursor: null,
    });
    expect((await ask('GET', '/forms?domain=example.com')).json).toMatchObject({
      count: 2,
      forms: [{ id: 'example.com/contact' }, { id: 'example.com/jobs' }],
    });
  });

  test.each([1, 2, 3, 4, 6, 7])('%i at a time come to the end', async (limit) => {
    const { ask } = await start();
    for (const name of ['One', 'Two', 'Three']) await ask('POST', '/forms', { ...NEW, name });
    const names: unknown[] = [];
    let cursor: unknown = null;
    do {
      const more = typeof cursor === 'string' ? `&cursor=${encodeURIComponent(cursor)}` : '';
      const { json } = await ask('GET', `/forms?limit=${limit}${more}`);
      expect(json['count']).toBe(7);
      const forms = json['forms'] as { id: string; name: string }[];
      expect(forms.length).toBeLessThanOrEqual(limit);
      names.push(...forms.map(({ id, name }) => (id.startsWith('frm_') ? name : id)));
      cursor = json['next_cursor'];
    } while (cursor !== null);
    expect(names).toEqual([
      'c/site/contact',
      'example.com/contact',
      'example.com/jobs',
      'pending.example/contact',
      'Three',
      'Two',
      'One',
    ]);
  });

  test('shows a key with domain_restrictions those of its domains', async () => {
    const { http, ask } = await start();
    await ask('POST', '/forms', NEW);
    const restrictions = { domain_restrictions: ['example.com'] };
    const { headers } = await testKey(http.store, { tenant: OPERATOR, restrictions });
    const narrow = asking(http, headers);
    expect((await narrow('GET', '/forms')).json).toMatchObject({
      count: 2,
      forms: [{ id: 'example.com/contact' }, { id: 'example.com/jobs' }],
    });
    expect((await narrow('GET', '/forms/example.com/jobs')).status).toBe(200);
    expect((await narrow('GET', '/forms/pending.example/contact')).status).toBe(403);
    expect((await narrow('GET', '/forms/c/site/contact')).status).toBe(403);
    expect((await narrow('POST', '/forms', NEW)).status).toBe(403);
  });

  test('shows another tenant nothing', async () => {
    const { http, ask } = await start();
    const { json } = await ask('POST', '/forms', NEW);
    const other = asking(http, (await testKey(http.store)).headers);
    expect((await other('GET', '/forms')).json).toEqual({ forms: [], count: 0, next_cursor: null });
    for (const id of ['example.com/contact', 'c/site/contact', String(json['id'])]) {
      const answers = [
        await other('GET', `/forms/${id}`),
        await other('PATCH', `/forms/${id}`, { name: 'Mine' }),
        await other('DELETE', `/forms/${id}`),
      ];
      for (const { status, json } of answers) expect([status, json['code']]).toEqual([404, 'FORM_NOT_FOUND']);
    }
  });
});

test('a form of the configuration is known since it was first seen', async () => {
  const clock = testClock();
  const { http, ask } = await start({ clock });
  await adoptForms({ store: http.store, clock }, http.snapshot());
  clock.advance(60_000);
  await adoptForms({ store: http.store, clock }, http.snapshot());
  const { json } = await ask('GET', '/forms/example.com/jobs');
  expect(json).toMatchObject({ created_at: '2026-01-01T00:00:00.000Z', submissions: 0 });
});

describe('GET /forms/{id}', () => {
  test.each([
    ['example.com/contact', { id: 'example.com/contact', settings: { rateLimit: 5 } }],
    ['example.com%2Fcontact', { id: 'example.com/contact' }],
    ['EXAMPLE.com/contact', { id: 'example.com/contact' }],
    ['c/site/contact', { id: 'c/site/contact', settings: {} }],
    ['c%2Fsite%2Fcontact', { id: 'c/site/contact' }],
  ])('%s', async (path, expected) => {
    const { ask } = await start();
    for (const prefix of ['', '/api', '/v1']) {
      const { status, json } = await ask('GET', `${prefix}/forms/${path}`);
      expect([status, json]).toEqual([200, expect.objectContaining(expected)]);
    }
  });

  test.each(['example.com/none', 'c/site/none', 'c/none/contact', 'frm_00000000000000000000000000', 'x', 'a/b/c/d'])(
    '%s is none',
    async (path) => {
      const { ask } = await start();
      const { status, json } = await ask('GET', `/forms/${path}`);
      expect([status, json['code']]).toEqual([404, 'FORM_NOT_FOUND']);
    },
  );
});

describe('a form on a domain of the account', () => {
  test('is posted to below the domain, mails from it, and is for its pages', async () => {
    const { http, ask } = await start();
    const { status, json } = await ask('POST', '/forms', { ...NEW, domain: 'EXAMPLE.com' });
    expect([status, json]).toMatchObject([
      200,
      { endpoint: `https://forms.example.net/example.com/${String(json['id'])}` },
    ]);
    const headers = { Accept: 'application/json', Origin: 'https://www.example.com' };
    for (const path of [
      `/example.com/${String(json['id'])}`,
      `/v1/example.com/${String(json['id'])}`,
      `/f/${String(json['id'])}`,
    ]) {
      expect((await http.request(path, { body: { message: 'Hi' }, headers })).status).toBe(200);
      const foreign = await http.request(path, {
        body: { message: 'Hi' },
        headers: { ...headers, Origin: 'https://evil.example' },
      });
      expect(foreign.status).toBe(403);
    }
    const rows = await http.store.read.selectFrom('messages').select('domain').execute();
    expect(rows).toEqual([{ domain: 'example.com' }, { domain: 'example.com' }, { domain: 'example.com' }]);
    const unknown = await http.request('/example.com/frm_00000000000000000000000000', { body: { a: 'b' }, headers });
    expect(unknown.json()).toMatchObject({ code: 404, errors: [{ code: 'FORM_NOT_FOUND' }] });
    const pending = await ask('POST', '/forms', { ...NEW, domain: 'pending.example' });
    const early = await http.request(`/pending.example/${String(pending.json['id'])}`, { body: { a: 'b' }, headers });
    expect(early.json()).toMatchObject({ errors: [{ code: 'DOMAIN_NOT_VERIFIED' }] });
  });

  test('is refused on a domain of nobody, and to a key for another one; a key for it sees it', async () => {
    const { http, ask } = await start();
    expect((await ask('POST', '/forms', { ...NEW, domain: 'unknown.example' })).json).toMatchObject({
      code: 'DOMAIN_NOT_FOUND',
    });
    const narrow = await testKey(http.store, {
      tenant: OPERATOR,
      restrictions: { domain_restrictions: ['example.com'] },
    });
    const asNarrow = asking(http, narrow.headers);
    for (const body of [NEW, { ...NEW, domain: 'pending.example' }]) {
      expect((await asNarrow('POST', '/forms', body)).json).toMatchObject({ code: 'AUTH_DOMAIN_NOT_ALLOWED' });
    }
    const { json } = await asNarrow('POST', '/forms', { ...NEW, domain: 'example.com' });
    await http.request(`/example.com/${String(json['id'])}`, { body: { message: 'Hi' } });
    expect((await asNarrow('GET', '/forms')).json['forms']).toEqual(
      expect.arrayContaining([expect.objectContaining({ id: json['id'], submissions: 1 })]),
    );
    expect((await asNarrow('GET', `/forms/${String(json['id'])}/submissions`)).json).toMatchObject({ count: 1 });
    expect((await asNarrow('PATCH', `/forms/${String(json['id'])}`, { name: 'Mine' })).status).toBe(200);
    const { json: other } = await ask('POST', '/forms', NEW);
    expect((await asNarrow('PATCH', `/forms/${String(other['id'])}`, { name: 'Mine' })).status).toBe(404);
    expect((await asNarrow('GET', `/forms/${String(other['id'])}`)).json).toMatchObject({
      code: 'AUTH_DOMAIN_NOT_ALLOWED',
    });
  });
});

describe('POST /forms', () => {
  test('makes a form with what a project file may say of one', async () => {
    const { http, ask } = await start();
    const settings = {
      replies: false,
      replyTo: 'office@inbox.example',
      redirect: 'https://site.example/thanks',
      allowed_origins: ['https://site.example'],
      rateLimit: 2,
      required: ['email'],
      fields: { phone: { type: 'tel', max: 20 } },
      uploads: { enabled: true, max_size: '1MiB', types: ['.pdf'] },
      spam_protection: { level: 'strict' },
      acknowledgment: { enabled: true, subject: 'Thank you, {{ form.name }}' },
    };
    const { status, json } = await ask('POST', '/forms', {
      ...NEW,
      to: ['a@inbox.example', 'b@inbox.example'],
      ...settings,
    });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      to: ['a@inbox.example', 'b@inbox.example'],
      settings: { rateLimit: 2, required: ['email'] },
    });
    expect(json['settings']).toMatchObject({ uploads: { max_size: '1MiB' }, spam_protection: { level: 'strict' } });
    const { id } = json;
    const headers = { Accept: 'application/json', Origin: 'https://site.example' };
    const missing = await http.request(`/f/${String(id)}`, { body: { name: 'Ann' }, headers });
    expect(missing.json()).toMatchObject({ errors: [{ field: 'email', code: 'REQUIRED_FIELD_MISSING' }] });
    const good = await http.request(`/f/${String(id)}`, { body: { email: 'ann@inbox.example' }, headers });
    expect(good.json()).toMatchObject({ success: true, next: 'https://site.example/thanks' });
    const deliveries = await http.queue();
    expect(deliveries.map(({ recipient }) => recipient).sort()).toEqual([
      'a@inbox.example',
      'ann@inbox.example',
      'b@inbox.example',
    ]);
  });

  test.each([
    [{}, ['name', 'to']],
    [{ ...NEW, to: 'nobody' }, ['to']],
    [{ ...NEW, to: [] }, ['to']],
    [{ ...NEW, name: 'two\nlines' }, ['name']],
    [{ ...NEW, from: 'x@example.com' }, ['from']],
    [{ ...NEW, template: 'contact' }, ['template']],
    [{ ...NEW, subject: '{{ form.name' }, ['subject']],
    [{ ...NEW, acknowledgment: { subject: '{% if %}' } }, ['acknowledgment.subject']],
    [{ ...NEW, fields: { a: { pattern: '(.)\\1' } } }, ['fields.a.pattern']],
    [{ ...NEW, required: ['_service_honeypot'] }, ['required']],
    [{ ...NEW, redirect: 'javascript:alert(1)', allowed_origins: ['x'] }, ['redirect', 'allowed_origins.0']],
  ])('refuses %j at %j', async (body, paths) => {
    const { ask } = await start();
    const { status, json } = await ask('POST', '/forms', body);
    expect([status, json['code']]).toEqual([400, 'VALIDATION_FAILED']);
    expect((json['details'] as { path: string }[]).map(({ path }) => path)).toEqual(paths);
  });
});

describe('PATCH /forms/{id}', () => {
  test('changes what is named and nothing else; null puts the default back', async () => {
    const { http, ask } = await start();
    const { json } = await ask('POST', '/forms', { ...NEW, rateLimit: 7, redirect: 'https://site.example/thanks' });
    const path = `/forms/${String(json['id'])}`;
    const changed = await ask('PATCH', path, { name: 'Renamed', to: 'you@inbox.example', redirect: null });
    const recipients = [{ address: 'you@inbox.example', status: 'confirmed' }];
    const renamed = { name: 'Renamed', to: 'you@inbox.example', recipients, settings: { rateLimit: 7 } };
    expect(changed.json).toEqual({ ...json, ...renamed });
    expect((await ask('GET', path)).json).toEqual(changed.json);
    expect((await ask('PATCH', path, {})).json).toEqual(changed.json);
    await http.request(`/f/${String(json['id'])}`, { body: { message: 'Hello' } });
    expect(await http.queue()).toMatchObject([{ recipient: 'you@inbox.example' }]);
    expect((await ask('PATCH', path, { subject: '{{' })).status).toBe(400);
    expect((await ask('PATCH', path, { to: null })).status).toBe(400);
  });
});

test.each(['example.com/contact', 'c/site/contact', 'c/made/one'])(
  '%s is changed and ended where it stands',
  async (id) => {
    const { ask } = await start();
    await ask('POST', '/collections', { name: 'made', forms: { one: { email: 'c@inbox.example' } } });
    for (const { status, json } of [
      await ask('PATCH', `/forms/${id}`, { name: 'Mine' }),
      await ask('DELETE', `/forms/${id}`),
    ]) {
      expect([status, json['code'], json['error']]).toEqual([
        409,
        'CONFLICT',
        expect.stringContaining('Change it there'),
      ]);
    }
  },
);

test('DELETE /forms/{id} ends a form and shows it; its submissions stay', async () => {
  const { http, ask } = await start();
  const { json } = await ask('POST', '/forms', NEW);
  const id = String(json['id']);
  await http.request(`/f/${id}`, { body: { message: 'Hello' } });
  expect(await ask('DELETE', `/forms/${id}`)).toEqual({ status: 200, json: { ...json, submissions: 1 } });
  expect((await ask('GET', `/forms/${id}`)).status).toBe(404);
  expect((await ask('DELETE', `/forms/${id}`)).status).toBe(404);
  expect(await http.submissions()).toMatchObject([{ form: id }]);
});

test('more than 20 recipients are refused wherever a form is made or changed, and 20 are not', async () => {
  const { ask } = await start();
  const people = (count: number) => Array.from({ length: count }, (_, i) => `u${i}@inbox.example`);
  const made = await ask('POST', '/forms', { ...NEW, to: people(20) });
  expect(made.status).toBe(200);
  const collection = { name: 'team', title: 'Team', forms: { contact: { email: people(21) } } };
  for (const [method, path, body, field] of [
    ['POST', '/forms', { ...NEW, to: people(21) }, 'to'],
    ['PATCH', `/forms/${String(made.json['id'])}`, { to: people(21) }, 'to'],
    ['POST', '/collections', collection, 'forms.contact.email'],
  ] as const) {
    const { status, json } = await ask(method, path, body);
    expect([method, path, status]).toEqual([method, path, 400]);
    expect(json).toMatchObject({ code: 'VALIDATION_FAILED', error: `${field} must be at most 20 addresses.` });
  }
  expect((await ask('GET', '/forms')).json).toMatchObject({ count: 5 });
});
