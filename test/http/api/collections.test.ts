import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const COLLECTIONS = {
  site: {
    name: 'Site',
    allowed_origins: ['https://site.example'],
    forms: { contact: { email: 'c@inbox.example' }, none: {} },
  },
};
const NEW = {
  name: 'events',
  title: 'Our events',
  settings: { requireApiKey: false },
  forms: {
    rsvp: { email: 'rsvp@inbox.example' },
    'talk-1': { email: ['a@inbox.example', 'b@inbox.example'], required: ['title'] },
  },
};

async function start(tenant = OPERATOR) {
  const http = await startHttp({
    collections: COLLECTIONS,
    unavailable: new Map([['c/broken', 'projects/broken.yml']]),
    server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://forms.example.net' } },
  });
  const { headers } = await testKey(http.store, { tenant });
  return { http, ask: asking(http, headers) };
}

function asking(http: TestHttp, headers: Readonly<Record<string, string>>) {
  return async (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) => {
    const answer = await http.request(path, { method, headers, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, json: answer.json() };
  };
}

const SHOWN = {
  name: 'events',
  title: 'Our events',
  environment: 'live',
  settings: { requireApiKey: false },
  forms: [
    {
      id: 'rsvp',
      email: 'rsvp@inbox.example',
      recipient_status: 'confirmed',
      recipients: [{ address: 'rsvp@inbox.example', status: 'confirmed' }],
      endpoint: 'https://forms.example.net/c/events/rsvp',
      submissions: 0,
    },
    {
      id: 'talk-1',
      email: ['a@inbox.example', 'b@inbox.example'],
      recipient_status: 'confirmed',
      recipients: [
        { address: 'a@inbox.example', status: 'confirmed' },
        { address: 'b@inbox.example', status: 'confirmed' },
      ],
      endpoint: 'https://forms.example.net/c/events/talk-1',
      submissions: 0,
    },
  ],
  source: 'api',
};

describe('a collection made by API', () => {
  test('is shown, takes submissions and counts them', async () => {
    const { http, ask } = await start();
    expect(await ask('POST', '/v1/collections', NEW)).toEqual({ status: 200, json: SHOWN });
    expect(await ask('GET', '/api/collections/events')).toEqual({ status: 200, json: SHOWN });
    expect((await http.request('/c/events/rsvp', { body: { name: 'Ann' } })).status).toBe(200);
    const untitled = await http.request('/c/events/talk-1', { body: { name: 'Ann' } });
    expect(untitled.json()).toMatchObject({ code: 400, errors: [{ field: 'title' }] });
    expect((await ask('GET', '/collections/events')).json).toMatchObject({
      forms: [{ submissions: 1 }, { submissions: 0 }],
    });
    expect((await ask('GET', '/collections')).json).toMatchObject({
      collections: [
        { name: 'events' },
        {
          name: 'site',
          title: 'Site',
          source: 'file',
          forms: [{ id: 'contact' }, { id: 'none', email: 'ops@example.net' }],
        },
      ],
      count: 2,
      next_cursor: null,
    });
    const first = (await ask('GET', '/collections?limit=1')).json;
    expect(first).toMatchObject({ collections: [{ name: 'events' }], count: 2, next_cursor: 'events' });
    expect((await ask('GET', '/collections?limit=1&cursor=events')).json).toMatchObject({
      collections: [{ name: 'site' }],
      next_cursor: null,
    });
    expect((await ask('GET', '/forms/c/events/rsvp')).json).toMatchObject({ submissions: 1, source: 'api' });
  });

  test('is gone at once when it is deleted, and its name is free', async () => {
    const { http, ask } = await start();
    await ask('POST', '/collections', NEW);
    await http.request('/c/events/rsvp', { body: { name: 'Ann' } });
    expect((await ask('DELETE', '/collections/events')).json).toMatchObject({ forms: [{ submissions: 1 }, {}] });
    expect((await http.request('/c/events/rsvp', { body: { name: 'Ann' } })).status).toBe(404);
    expect((await ask('GET', '/collections/events')).status).toBe(404);
    expect((await ask('DELETE', '/collections/events')).status).toBe(404);
    expect(await ask('POST', '/collections', NEW)).toEqual({ status: 200, json: SHOWN });
  });

  test('may want a key for each submission', async () => {
    const { http, ask } = await start('ten_other');
    await ask('POST', '/collections', { ...NEW, settings: { requireApiKey: true } });
    const body = { name: 'Ann' };
    expect((await http.request('/c/events/rsvp', { body })).status).toBe(401);
    const foreign = await testKey(http.store);
    expect((await http.request('/c/events/rsvp', { body, headers: foreign.headers })).status).toBe(403);
    const own = await testKey(http.store, { tenant: 'ten_other' });
    expect((await http.request('/c/events/rsvp', { body, headers: own.headers })).status).toBe(200);
  });

  test.each(['events', 'site', 'broken'])('cannot take the name %s that somebody has', async (name) => {
    const { http, ask } = await start();
    await ask('POST', '/collections', NEW);
    const other = asking(http, (await testKey(http.store)).headers);
    for (const one of [ask, other]) {
      const { status, json } = await one('POST', '/collections', { ...NEW, name });
      expect([status, json['code']]).toEqual([409, 'CONFLICT']);
    }
    expect((await ask('GET', '/collections/events')).json).toEqual(SHOWN);
  });

  test('is none of another tenant’s business', async () => {
    const { http, ask } = await start();
    await ask('POST', '/collections', NEW);
    const other = asking(http, (await testKey(http.store)).headers);
    for (const name of ['events', 'site', 'none']) {
      expect((await other('GET', `/collections/${name}`)).status).toBe(404);
      expect((await other('DELETE', `/collections/${name}`)).status).toBe(404);
    }
    expect((await other('GET', '/collections')).json).toEqual({ collections: [], count: 0, next_cursor: null });
  });

  test.each([
    [{}, ['name', 'forms']],
    [{ ...NEW, name: 'a b' }, ['name']],
    [{ ...NEW, name: 'c/x' }, ['name']],
    [{ ...NEW, forms: { rsvp: {} } }, ['forms.rsvp.email']],
    [{ ...NEW, forms: { rsvp: { email: 'x' } } }, ['forms.rsvp.email']],
    [{ ...NEW, forms: { rsvp: { email: 'a@inbox.example', to: 'b@inbox.example' } } }, ['forms.rsvp.to']],
    [{ ...NEW, forms: { rsvp: { email: 'a@inbox.example', subject: '{{' } } }, ['forms.rsvp.subject']],
    [{ ...NEW, settings: { requireApikey: true } }, ['settings.requireApikey']],
  ])('is refused for %j at %j', async (body, paths) => {
    const { ask } = await start();
    const { status, json } = await ask('POST', '/collections', body);
    expect([status, json['code']]).toEqual([400, 'VALIDATION_FAILED']);
    expect((json['details'] as { path: string }[]).map(({ path }) => path)).toEqual(paths);
  });
});

test('a collection of a configuration is taken out there', async () => {
  const { ask } = await start();
  const { status, json } = await ask('DELETE', '/collections/site');
  expect([status, json['error']]).toEqual([409, expect.stringContaining('the project example')]);
  expect((await ask('GET', '/collections/site')).status).toBe(200);
});
