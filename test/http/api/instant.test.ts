import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { insertDomain } from '../../../src/store/domains.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';

const NEW = { name: 'Guests', email: 'host@inbox.example' };

async function start() {
  const clock = testClock();
  const http = await startHttp({ clock });
  const key = await testKey(http.store, { account: { plan: 'enterprise', trusted: 0 } });
  return { http, clock, key, ask: asking(http, key) };
}

function asking(http: TestHttp, { headers }: TestKey) {
  return async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) => {
    const answer = await http.request(path, { method, headers, ...(body === undefined ? {} : { body }) });
    return { status: answer.status, json: answer.json() };
  };
}

/** What was enqueued: to whom, of which kind. */
async function mails({ store }: TestHttp) {
  const rows = await store.read
    .selectFrom('deliveries')
    .innerJoin('messages', 'messages.id', 'deliveries.message')
    .select(['messages.kind', 'deliveries.recipient', 'messages.submission', 'messages.source'])
    .orderBy('messages.id')
    .execute();
  return rows.map(({ kind, recipient }) => `${kind} ${recipient}`);
}

/** The links that were mailed, oldest first. */
async function links({ store }: TestHttp): Promise<string[]> {
  const rows = await store.read
    .selectFrom('messages')
    .select('source')
    .where('kind', '=', 'system')
    .orderBy('id')
    .execute();
  return rows.map(({ source }) => /\/confirm\/[\w-]+/.exec(source)?.[0] ?? '');
}

function post(http: TestHttp, id: unknown, name: string) {
  return http.request(`/f/${String(id)}`, { body: { name } });
}

describe('an instant form', () => {
  test('is made, listed, changed and ended', async () => {
    const { http, ask } = await start();
    const made = await ask('POST', '/v1/instant/forms', NEW);
    expect(made).toEqual({
      status: 200,
      json: {
        id: expect.stringMatching(/^frm_/),
        name: 'Guests',
        environment: 'live',
        email: 'host@inbox.example',
        endpoint: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/f\/frm_\w+$/),
        submissions: 0,
        created_at: '2026-01-01T00:00:00.000Z',
        confirmed: false,
        recipient_status: 'pending',
      },
    });
    const { json: form } = made;
    await post(http, form['id'], 'Ann');
    expect((await ask('GET', '/instant/forms')).json).toEqual({
      forms: [{ ...form, submissions: 1 }],
      count: 1,
      next_cursor: null,
    });
    expect((await ask('GET', '/forms')).json).toMatchObject({ count: 0 });
    expect((await ask('GET', `/forms/${String(form['id'])}`)).status).toBe(404);
    const path = `/api/instant/forms/${String(form['id'])}`;
    expect((await ask('GET', path)).json).toEqual({ ...form, submissions: 1 });
    expect((await ask('PATCH', path, { name: 'All guests' })).json).toMatchObject({
      name: 'All guests',
      submissions: 1,
    });
    expect((await ask('DELETE', path)).json).toMatchObject({ name: 'All guests' });
    expect((await ask('DELETE', path)).status).toBe(404);
    expect((await post(http, form['id'], 'Bea')).status).toBe(404);
  });

  test('of another tenant is not there', async () => {
    const { http, ask } = await start();
    const { json } = await ask('POST', '/instant/forms', NEW);
    const other = asking(http, await testKey(http.store, { account: { trusted: 0 } }));
    expect((await other('PATCH', `/instant/forms/${String(json['id'])}`, { name: 'Mine' })).status).toBe(404);
    expect((await other('DELETE', `/instant/forms/${String(json['id'])}`)).status).toBe(404);
    expect((await other('GET', `/instant/forms/${String(json['id'])}`)).status).toBe(404);
    expect((await other('GET', '/instant/forms')).json).toMatchObject({ count: 0 });
  });

  test('shows whether its recipient agreed, and the visitor gets no acknowledgment before', async () => {
    const { http, ask } = await start();
    const { json } = await ask('POST', '/instant/forms', NEW);
    expect((await post(http, json['id'], 'Ann')).status).toBe(200);
    expect((await mails(http)).sort()).toEqual(['notification host@inbox.example', 'system host@inbox.example']);
    const [link = ''] = await links(http);
    expect((await http.request(link)).status).toBe(200);
    expect((await ask('GET', '/instant/forms')).json).toMatchObject({ forms: [{ recipient_status: 'pending' }] });
    await Promise.all([http.request(link, { method: 'POST' }), http.request(link, { method: 'POST' })]);
    expect((await ask('GET', '/instant/forms')).json).toMatchObject({
      forms: [{ confirmed: true, recipient_status: 'confirmed', submissions: 1 }],
    });
  });

  test('needs no agreement of an address at a verified domain of the account', async () => {
    const { http, clock, key, ask } = await start();
    const row = { tenant: key.tenant, project: 'p', token: 't', next_check_at: 0, created_at: clock.now() };
    await http.store.write([
      insertDomain({ ...row, name: 'ours.example', status: 'verified' }),
      insertDomain({ ...row, name: 'pending.ours.example', status: 'pending' }),
      insertDomain({ ...row, tenant: OPERATOR, name: 'theirs.example', status: 'verified' }),
    ]);
    const confirmed = async (email: string) =>
      (await ask('POST', '/instant/forms', { ...NEW, email })).json['confirmed'];
    expect(await confirmed('me@ours.example')).toBe(true);
    expect(await confirmed('me@pending.ours.example')).toBe(false);
    expect(await confirmed('me@theirs.example')).toBe(false);
    for (const trusted of [{ tenant: OPERATOR }, { account: { trusted: 1 } }]) {
      const other = asking(http, await testKey(http.store, trusted));
      expect((await other('POST', '/instant/forms', NEW)).json).toMatchObject({ confirmed: true });
    }
  });

  test('asks again whoever is named anew, and older links end', async () => {
    const { http, clock, ask } = await start();
    const { json } = await ask('POST', '/instant/forms', NEW);
    const path = `/instant/forms/${String(json['id'])}`;
    const [first = ''] = await links(http);
    await http.request(first, { method: 'POST' });
    clock.advance(1000);
    expect((await ask('PATCH', path, { email: NEW.email })).json).toMatchObject({ confirmed: true });
    expect((await ask('PATCH', path, { email: 'other@inbox.example' })).json).toMatchObject({ confirmed: false });
    await post(http, json['id'], 'Ann');
    expect((await mails(http)).sort()).toEqual([
      'notification other@inbox.example',
      'system host@inbox.example',
      'system other@inbox.example',
    ]);
    await http.request(first, { method: 'POST' });
    clock.advance(1000);
    expect((await ask('PATCH', path, { email: 'other@inbox.example' })).json).toMatchObject({ confirmed: false });
    clock.advance(1000);
    const [, second = '', third = ''] = await links(http);
    expect((await http.request(second, { method: 'POST' })).status).toBe(404);
    expect((await http.request(third, { method: 'POST' })).status).toBe(200);
    expect((await ask('GET', path)).json).toMatchObject({ confirmed: true });
  });

  test('is no way to fill a stranger’s mailbox', async () => {
    const { http, ask } = await start();
    const statuses = [];
    for (const tag of ['', '+1', '+2', '+3']) {
      statuses.push((await ask('POST', '/instant/forms', { ...NEW, email: `host${tag}@inbox.example` })).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
    const other = asking(http, await testKey(http.store, { account: { trusted: 0 } }));
    expect((await other('POST', '/instant/forms', NEW)).status).toBe(429);
    expect((await other('POST', '/instant/forms', { ...NEW, email: 'else@inbox.example' })).status).toBe(200);
    const [letter] = await http.store.read.selectFrom('messages').select('source').execute();
    expect(letter?.source).not.toContain('Guests');
  });
});

test.each([
  [{}, ['name', 'email']],
  [{ ...NEW, email: 'a@b' }, ['email']],
  [{ ...NEW, email: ['a@inbox.example'] }, ['email']],
  [{ ...NEW, to: 'a@inbox.example' }, ['to']],
])('POST /instant/forms refuses %j at %j', async (body, paths) => {
  const { ask } = await start();
  const { status, json } = await ask('POST', '/instant/forms', body);
  expect(status).toBe(400);
  expect((json['details'] as { path: string }[]).map(({ path }) => path)).toEqual(paths);
});
