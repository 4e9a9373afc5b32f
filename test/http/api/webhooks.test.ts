import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import { projectSchema } from '../../../src/config/schema.ts';
import { serverSchema } from '../../../src/config/schema-server.ts';
import { buildSnapshot } from '../../../src/config/snapshot.ts';
import type { Answer } from '../../../src/dns/resolver.ts';
import { createHttpClient } from '../../../src/dns/guarded-fetch.ts';
import { adoptWebhooks } from '../../../src/events/targets.ts';
import { createWebhooks } from '../../../src/events/webhooks.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { firstId } from '../../../src/lib/ids.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { forgetEvents, recordEvent } from '../../../src/store/events.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { startHttp, type TestRequest } from '../../harness/http.ts';
import { testKey, type TestKeySettings } from '../../harness/keys.ts';
import { openTestStore, temporaryFolder } from '../../harness/store.ts';

const NAMES: Record<string, string[]> = { 'inside.example': ['10.0.0.7'], 'hooks.example': ['93.184.215.14'] };
const resolver = {
  addresses: (name: string): Promise<Answer<string>> =>
    Promise.resolve(NAMES[name] === undefined ? { kind: 'nxdomain' } : { kind: 'found', records: NAMES[name] }),
};
const config = projectSchema.parse({
  project: { name: 'Example', slug: 'example' },
  domains: { 'example.com': { forms: { contact: { webhooks: ['https://form.example/in'] } } } },
  webhooks: [{ url: 'https://given.example/', secret: `whsec_${'A'.repeat(44)}` }],
});
const project = { revision: 'rev_1', slug: 'example', tenant: OPERATOR, source: 'file', config } as const;

/** A server, and a key (default: of a new tenant); asks as that key. */
async function start(given: { allowPrivate?: boolean; key?: TestKeySettings } = {}) {
  const store = await openTestStore();
  const listen = { admin_socket: join(await temporaryFolder(), 'admin.sock'), http: { listen: ['127.0.0.1:0'] } };
  const snapshot = buildSnapshot({
    server: serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net', ...listen } }),
    projects: [project],
  });
  const webhooks = createWebhooks({
    store,
    clock: systemClock,
    log: silentLog,
    snapshot: () => snapshot,
    http: createHttpClient({ resolver, allowPrivate: () => given.allowPrivate === true, userAgent: 'Postern/test' }),
    wake: () => undefined,
  });
  const http = await startHttp({ store, options: { webhooks, snapshot: () => snapshot } });
  const key = await testKey(store, given.key);
  const ask = (path: string, request: TestRequest = {}) =>
    http.request(path, { ...request, headers: { ...key.headers, ...request.headers } });
  const make = async (body: object = {}) =>
    (await ask('/webhooks', { body: { url: 'https://hooks.example/in', ...body } })).json() as {
      id: string;
      secret: string;
    };
  return { http, store, key, ask, make, snapshot };
}

/** A receiver on loopback, and what it heard. */
async function receiver(status = 200) {
  const heard: { request: IncomingMessage; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      heard.push({ request, body });
      response.writeHead(status).end('thanks');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { heard, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

test('a webhook is made with a secret that is shown once, listed, shown, changed and removed', async () => {
  const { ask } = await start();
  const made = await ask('/v1/webhooks', {
    body: { url: 'https://hooks.example/in', events: ['submission.spam', 'submission.accepted'], description: 'CRM' },
  });
  expect([made.status, made.json()]).toEqual([
    200,
    {
      id: expect.stringMatching(/^whk_[0-9a-z]{26}$/),
      url: 'https://hooks.example/in',
      events: ['submission.accepted', 'submission.spam'],
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    },
  ]);
  const id = String(made.json()['id']);
  const shown = {
    id,
    environment: 'live',
    url: 'https://hooks.example/in',
    events: ['submission.accepted', 'submission.spam'],
    description: 'CRM',
    project: null,
    form: null,
    status: 'active',
    reason: null,
    failing_since: null,
    created_at: expect.stringMatching(/Z$/),
  };
  expect((await ask('/api/webhooks')).json()).toEqual({ webhooks: [shown], count: 1, next_cursor: null });
  expect((await ask(`/webhooks/${id}`)).json()).toEqual({ ...shown, deliveries: [] });
  const changed = await ask(`/webhooks/${id}`, {
    method: 'PATCH',
    body: { url: 'https://other.example/', events: [], status: 'disabled' },
  });
  expect(changed.json()).toEqual({
    ...shown,
    url: 'https://other.example/',
    events: [],
    status: 'disabled',
    reason: 'It was disabled through the API.',
  });
  const enabled = await ask(`/webhooks/${id}`, { method: 'PATCH', body: { status: 'active' } });
  expect(enabled.json()).toMatchObject({ status: 'active', reason: null });
  const removed = await ask(`/webhooks/${id}`, { method: 'DELETE' });
  expect([removed.status, removed.json()]).toEqual([200, { id, deleted: true }]);
  expect((await ask(`/webhooks/${id}`)).status).toBe(404);
});

test('lists come in pages', async () => {
  const { ask, make } = await start();
  const ids = [await make(), await make(), await make()].map(({ id }) => id);
  const first = (await ask('/webhooks?limit=2')).json() as { webhooks: { id: string }[]; next_cursor: string };
  const second = (await ask(`/webhooks?limit=2&cursor=${first.next_cursor}`)).json() as typeof first;
  expect([...first.webhooks, ...second.webhooks].map(({ id }) => id)).toEqual(ids.sort().toReversed());
  expect(second).toMatchObject({ count: 3, next_cursor: null });
});

test.each([
  [{ url: 'http://10.1.2.3/' }, 'url', 'leads to a private network'],
  [{ url: 'http://2130706433/' }, 'url', 'leads to a private network'],
  [{ url: 'https://inside.example/' }, 'url', 'leads to a private network'],
  [{ url: 'http://localhost:8080/' }, 'url', 'leads to a private network'],
  [{ url: 'ftp://hooks.example/' }, 'url', 'must be an http or https URL'],
  [{ url: 'https://a:b@hooks.example/' }, 'url', 'must not contain a user name or password'],
  [{}, 'url', 'is missing'],
  [{ url: 'https://hooks.example/', events: ['submission.acepted'] }, 'events.0', 'must be one of submission.accepted'],
  [{ url: 'https://hooks.example/', secret: 'x' }, 'secret', 'is not known'],
])('%j is refused', async (body, path, message) => {
  const { ask } = await start();
  const answer = await ask('/webhooks', { body });
  expect([answer.status, answer.json()]).toMatchObject([
    400,
    { code: 'VALIDATION_FAILED', details: [{ path, message: expect.stringContaining(message) }] },
  ]);
});

test('a private target is refused to a change as well, and taken where the operator allows it', async () => {
  const { ask, make } = await start();
  const { id } = await make();
  const body = { url: 'https://inside.example/' };
  expect((await ask(`/webhooks/${id}`, { method: 'PATCH', body })).status).toBe(400);
  const allowed = await start({ allowPrivate: true });
  expect((await allowed.ask('/webhooks', { body })).status).toBe(200);
});

test('another tenant’s webhook is as one that does not exist', async () => {
  const { http, ask, make, store } = await start();
  const { id } = await make();
  const other = await testKey(store);
  for (const [method, path] of [
    ['GET', ''],
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/test'],
    ['POST', '/rotate'],
    ['POST', '/replay'],
  ]) {
    const request = { method: method ?? '', headers: other.headers, ...(method === 'PATCH' ? { body: {} } : {}) };
    const answers = [
      await http.request(`/webhooks/${id}${path}`, request),
      await http.request(`/webhooks/whk_x${path}`, request),
    ];
    expect(answers.map((answer) => [answer.status, answer.json()['code']])).toEqual([
      [404, 'NOT_FOUND'],
      [404, 'NOT_FOUND'],
    ]);
  }
  expect((await http.request('/webhooks', { headers: other.headers })).json()).toMatchObject({ count: 0 });
  expect((await ask(`/webhooks/${id}`)).status).toBe(200);
});

test('they are for keys of projects.write that are not restricted to domains', async () => {
  const { http, store } = await start();
  const reading = await testKey(store, { permissions: ['projects.read'] });
  const restricted = await testKey(store, { restrictions: { domain_restrictions: ['example.com'] } });
  const codes = await Promise.all(
    [reading, restricted].map(async ({ headers }) => (await http.request('/webhooks', { headers })).json()['code']),
  );
  expect(codes).toEqual(['AUTH_FORBIDDEN', 'AUTH_DOMAIN_NOT_ALLOWED']);
});

describe('a test', () => {
  test('is posted at once, signed as all else, and answers what came of it', async () => {
    const { ask, make } = await start({ allowPrivate: true });
    const { heard, url } = await receiver();
    const { id, secret } = await make({ url });
    const tested = await ask(`/webhooks/${id}/test`, { method: 'POST' });
    expect([tested.status, tested.json()]).toEqual([
      200,
      { id: expect.stringMatching(/^whd_/), delivered: true, status: 200, result: '200 OK: thanks' },
    ]);
    const [{ request, body } = { request: { headers: {} }, body: '' }] = heard;
    expect(new Webhook(secret).verify(body, request.headers as Record<string, string>)).toEqual({
      type: 'webhook.test',
      timestamp: expect.any(String),
      data: { webhook: id },
    });
    expect(request.headers).toMatchObject({ 'webhook-id': tested.json()['id'], 'user-agent': 'Postern/test' });
    expect((await ask(`/webhooks/${id}`)).json()['deliveries']).toMatchObject([
      { type: 'webhook.test', event: null, state: 'delivered', attempts: 1, last_result: '200 OK: thanks' },
    ]);
  });

  test('that fails says why and changes nothing', async () => {
    const { ask, make } = await start({ allowPrivate: true });
    const { url } = await receiver(410);
    const { id } = await make({ url });
    expect((await ask(`/webhooks/${id}/test`, { method: 'POST' })).json()).toMatchObject({
      delivered: false,
      status: 410,
      result: '410 Gone: thanks',
    });
    expect((await ask(`/webhooks/${id}`)).json()).toMatchObject({ status: 'active', failing_since: null });
  });
});

test('after a rotation both secrets verify, the new one shown once', async () => {
  const { ask, make } = await start({ allowPrivate: true });
  const { heard, url } = await receiver();
  const { id, secret: before } = await make({ url });
  const rotated = (await ask(`/webhooks/${id}/rotate`, { method: 'POST' })).json();
  expect(rotated).toEqual({
    secret: expect.stringMatching(/^whsec_/),
    old_secret_until: expect.stringMatching(/Z$/),
  });
  await ask(`/webhooks/${id}/test`, { method: 'POST' });
  const [{ request, body } = { request: { headers: {} }, body: '' }] = heard;
  for (const secret of [before, String(rotated['secret'])])
    expect(new Webhook(secret).verify(body, request.headers as Record<string, string>)).toBeTruthy();
});

test('a replay names an event or a time, and makes what it names due', async () => {
  const { ask, make, store, key } = await start();
  const { id } = await make();
  const at = systemClock.now();
  await store.write([
    recordEvent({ type: 'domain.verified', tenant: key.tenant, at, data: {} }),
    recordEvent({ type: 'key.created', tenant: key.tenant, at, data: {} }),
    recordEvent({ type: 'domain.failed', tenant: OPERATOR, at, data: {} }),
  ]);
  const events = await store.read.selectFrom('events').selectAll().execute();
  const eventOf = (type: string) => events.find((event) => event.type === type)?.id;
  const replay = async (body: object) => {
    const answer = await ask(`/webhooks/${id}/replay`, { body });
    return [answer.status, answer.json()['replayed'] ?? answer.json()['code']];
  };
  expect(await replay({ event: eventOf('domain.verified') })).toEqual([200, 1]);
  expect(await replay({ event: eventOf('key.created') })).toEqual([404, 'NOT_FOUND']);
  expect(await replay({ event: eventOf('domain.failed') })).toEqual([404, 'NOT_FOUND']);
  expect(await replay({ since: new Date(at - 1000).toISOString() })).toEqual([200, 1]);
  expect(await replay({ since: new Date(at + 1000).toISOString() })).toEqual([200, 0]);
  for (const body of [
    {},
    { event: 'x' },
    { since: 'yesterday' },
    { event: eventOf('domain.verified'), since: '2026-01-01T00:00:00Z' },
  ])
    expect(await replay(body)).toEqual([400, 'VALIDATION_FAILED']);
  expect((await ask(`/webhooks/${id}`)).json()['deliveries']).toMatchObject([
    { type: 'domain.verified', state: 'pending', attempts: 0 },
  ]);
  await ask(`/webhooks/${id}`, { method: 'PATCH', body: { status: 'disabled' } });
  expect(await replay({ since: '2026-01-01T00:00:00Z' })).toEqual([409, 'CONFLICT']);
});

test('those of a configuration are shown, disabled and given a secret here, but changed there', async () => {
  const { ask, store, snapshot } = await start({ key: { tenant: OPERATOR } });
  await adoptWebhooks({ store, clock: systemClock }, snapshot);
  const { webhooks } = (await ask('/webhooks')).json() as { webhooks: { id: string; url: string }[] };
  const idOf = (host: string) => webhooks.find(({ url }) => url.includes(host))?.id;
  const [form, given] = [idOf('form.example'), idOf('given.example')];
  expect((await ask(`/webhooks/${form}`)).json()).toMatchObject({ project: 'example', form: 'example.com/contact' });
  expect((await ask(`/webhooks/${given}`)).json()).toMatchObject({ project: 'example', form: null, events: [] });
  const conflicts = [
    await ask(`/webhooks/${form}`, { method: 'DELETE' }),
    await ask(`/webhooks/${form}`, { method: 'PATCH', body: { events: ['email.queued'] } }),
    await ask(`/webhooks/${given}/rotate`, { method: 'POST' }),
  ];
  expect(conflicts.map((answer) => [answer.status, answer.json()['code']])).toEqual(
    conflicts.map(() => [409, 'CONFLICT']),
  );
  const disabled = await ask(`/webhooks/${form}`, { method: 'PATCH', body: { status: 'disabled' } });
  expect([disabled.status, disabled.json()['status']]).toEqual([200, 'disabled']);
  expect((await ask(`/webhooks/${form}/rotate`, { method: 'POST' })).json()['secret']).toMatch(/^whsec_/);
});

describe('deliveries', () => {
  test('show what was sent and answered', async () => {
    const { ask, make, http, store } = await start({ allowPrivate: true });
    const { url } = await receiver(500);
    const { id, secret } = await make({ url });
    const other = await make({ url });
    const tested = (await ask(`/webhooks/${id}/test`, { method: 'POST' })).json();
    const listed = (await ask(`/webhooks/${id}/deliveries`)).json();
    expect(listed).toEqual({
      deliveries: [
        expect.objectContaining({ id: tested['id'], type: 'webhook.test', state: 'failed', last_status: 500 }),
      ],
      count: 1,
      count_is_more: false,
      next_cursor: null,
    });
    const path = `/webhooks/${id}/deliveries/${String(tested['id'])}`;
    const delivery = (await ask(path)).json() as {
      body: string;
      posts: { request: { headers: Record<string, string> } }[];
    };
    expect(delivery).toMatchObject({
      state: 'failed',
      body_is_cut: false,
      posts: [
        {
          number: 1,
          started_at: expect.stringMatching(/Z$/),
          duration_ms: expect.any(Number),
          request: { url, headers: { 'content-type': 'application/json', 'webhook-id': tested['id'] } },
          answer: {
            status: 500,
            headers: expect.objectContaining({ date: expect.any(String) }),
            body: 'thanks',
            body_is_cut: false,
          },
          error: null,
        },
      ],
    });
    // What is shown is what was signed.
    const [post] = delivery.posts;
    expect(new Webhook(secret).verify(delivery.body, post?.request.headers ?? {})).toMatchObject({
      type: 'webhook.test',
    });

    expect((await ask(`${path}/replay`, { method: 'POST' })).json()).toMatchObject({
      code: 'CONFLICT',
      error: expect.stringContaining('This was a test.'),
    });
    const foreign = await testKey(store);
    for (const [method, address, headers] of [
      ['GET', path, foreign.headers],
      ['GET', `/webhooks/${id}/deliveries`, foreign.headers],
      ['POST', `${path}/replay`, foreign.headers],
      ['GET', path.replace(id, other.id), undefined],
      ['POST', `${path.replace(id, other.id)}/replay`, undefined],
    ] as const) {
      const answer = await (headers === undefined
        ? ask(address, { method })
        : http.request(address, { method, headers }));
      expect([answer.status, answer.json()['code']]).toEqual([404, 'NOT_FOUND']);
    }
  });

  test('are listed by state and event, and replayed one by one', async () => {
    const { ask, make, store, key } = await start();
    const { id } = await make();
    const at = systemClock.now();
    const types = ['domain.verified', 'domain.failed', 'domain.degraded'] as const;
    await store.write(types.map((type, i) => recordEvent({ type, tenant: key.tenant, at: at + i, data: {} })));
    await ask(`/webhooks/${id}/replay`, { body: { since: new Date(at).toISOString() } });
    const idsOf = async (query: string) => {
      const answer = (await ask(`/webhooks/${id}/deliveries${query}`)).json() as {
        deliveries: { id: string; event: string; type: string }[];
        count: number;
        next_cursor: string | null;
      };
      return answer;
    };
    const first = await idsOf('?limit=2&state=pending');
    const second = await idsOf(`?limit=2&state=pending&cursor=${first.next_cursor}`);
    expect([...first.deliveries, ...second.deliveries].map(({ type }) => type).toSorted()).toEqual(types.toSorted());
    expect([first.count, second.next_cursor]).toEqual([3, null]);
    const [one] = first.deliveries;
    expect((await idsOf(`?event=${one?.event}`)).deliveries).toEqual([one]);
    expect((await idsOf('?state=failed')).count).toBe(0);
    const path = `/webhooks/${id}/deliveries/${one?.id}`;
    expect((await ask(path)).json()).toMatchObject({ posts: [], body: expect.stringContaining(String(one?.type)) });
    const again = await ask(`${path}/replay`, { method: 'POST' });
    expect([again.status, again.json()]).toMatchObject([200, { id: one?.id, state: 'pending', attempts: 0 }]);
    await store.write([forgetEvents({ before: firstId('evt', at + 10), most: 10 })]);
    expect((await ask(path)).json()).toMatchObject({ body: null, type: null });
    expect((await ask(`${path}/replay`, { method: 'POST' })).status).toBe(409);
    await ask(`/webhooks/${id}`, { method: 'PATCH', body: { status: 'disabled' } });
    expect((await ask(`${path}/replay`, { method: 'POST' })).json()['error']).toContain('disabled');
    expect((await ask(`/webhooks/${id}/deliveries?state=lost`)).status).toBe(400);
  });
});
