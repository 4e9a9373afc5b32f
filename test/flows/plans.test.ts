/** What the plan of an account bounds, through the whole daemon. */
import { expect, test } from 'vitest';
import { insertDomain } from '../../src/store/domains.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const FREE = { messages_per_hour: 3, messages_per_day: 5 };

async function start() {
  const world = await startTestWorld({ server: { plans: { free: FREE } } });
  const { store } = world.daemon;
  const tenant = await testKey(store, { account: { email: 'tenant@inbox.test' } });
  const operator = await testKey(store, {
    tenant: OPERATOR,
    permissions: ['admin', 'email.send', 'forms', 'analytics'],
  });
  const shared = { project: 'shop', token: 't', next_check_at: Number.MAX_SAFE_INTEGER, created_at: 0 };
  await store.write([insertDomain({ ...shared, tenant: tenant.tenant, name: 'shop.test', status: 'verified' })]);
  return { world, tenant, ...asking(world, tenant.headers), operator: asking(world, operator.headers).ask };
}

function asking({ url }: TestWorld, headers: Readonly<Record<string, string>>) {
  async function ask(method: string, path: string, body?: object) {
    const response = await fetch(url + path, {
      method,
      headers: { ...headers, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const json = (await response.json()) as Record<string, unknown>;
    return { status: response.status, retryAfter: Number(response.headers.get('retry-after')), json };
  }
  return { ask };
}

const MAIL = { from: 'shop@shop.test', subject: 'Hello', text: 'Hello' };

test('a program that sends more than its plan allows is told when it may go on; the operator has no limit', async () => {
  const { ask, operator } = await start();
  const to = ['a@inbox.test', 'b@inbox.test'];
  expect((await ask('POST', '/email/send', { ...MAIL, to })).status).toBe(200);
  for (const [path, body] of [
    ['/email/send', { ...MAIL, to }],
    ['/emails', { ...MAIL, to }],
    ['/email/batch', { emails: to.map((one) => ({ ...MAIL, to: one })) }],
    ['/emails/batch', to.map((one) => ({ ...MAIL, to: one }))],
  ] as const) {
    const answer = await ask('POST', path, body);
    expect(answer).toMatchObject({ status: 429, json: { code: 'RATE_LIMITED' } });
    expect(answer.json['error']).toMatch(
      /^The account has reached the limit of the plan free: 3 recipients an hour and 5 recipients a day\. Try again in \d+ minutes\.$/,
    );
    expect(answer.retryAfter).toBeGreaterThan(3000);
    expect(answer.retryAfter).toBeLessThanOrEqual(3600);
  }
  const many = ['a', 'b', 'c', 'd'].map((name) => `${name}@inbox.test`);
  expect(await ask('POST', '/email/send', { ...MAIL, to: many })).toMatchObject({
    status: 403,
    json: { code: 'PLAN_LIMIT' },
  });
  expect((await ask('GET', '/rate-limits')).json).toMatchObject({
    rate_limits: { messages_per_hour: { limit: 3, remaining: 1 }, messages_per_day: { limit: 5, remaining: 3 } },
  });
  expect((await operator('GET', '/rate-limits')).json).toMatchObject({
    rate_limits: { messages_per_hour: null, messages_per_day: null },
  });
  for (let i = 0; i < 5; i++) {
    const sent = await operator('POST', '/email/send', { ...MAIL, from: 'shop@example.test', to: many });
    expect(sent.status).toBe(200);
  }
});

test('leads wait for their turn, shown with the reason, and leave when the plan has room', async () => {
  const { world, tenant, ask, operator } = await start();
  const form = await ask('POST', '/forms', { name: 'Contact', to: 'tenant@inbox.test' });
  expect(form.status).toBe(200);
  const path = `/f/${String(form.json['id'])}`;
  for (let i = 0; i < 5; i++) {
    expect(
      (await world.post(path, { name: `Ann ${i}`, message: 'Hello there' }, { Accept: 'application/json' })).status,
    ).toBe(200);
  }
  await world.caught(3);
  await expect
    .poll(async () => (await operator('GET', '/admin/queue?state=deferred')).json)
    .toMatchObject({ count: 2 });
  const { deliveries } = (await operator('GET', '/admin/queue?state=deferred')).json as { deliveries: Waiting[] };
  const waits = deliveries.map(({ attempts, last_reply, next_attempt_at, expires_at, created_at }) => ({
    attempts,
    last_reply,
    wait: Math.round((Date.parse(next_attempt_at) - Date.parse(created_at)) / 3_600_000),
    days: Math.round((Date.parse(expires_at) - Date.parse(next_attempt_at)) / 86_400_000),
  }));
  const last_reply = expect.stringMatching(
    /^451 4\.7\.1 The account has reached the limit of the plan free: 3 recipients an hour .* This mail is waiting\.$/,
  );
  const one = { attempts: 0, last_reply, wait: 1, days: 5 };
  expect(waits).toEqual([one, one]);
  expect((await ask('POST', '/email/send', { ...MAIL, to: 'a@inbox.test' })).status).toBe(429);
  const { tenants } = (await operator('GET', '/admin/usage')).json as {
    tenants: { tenant: string; messages: number }[];
  };
  // What waits for tomorrow is not in it.
  expect(tenants.find((one) => one.tenant === tenant.tenant)?.messages).toBeGreaterThanOrEqual(3);
  const raised = await operator('PATCH', `/admin/tenants/${tenant.tenant}`, {
    messages_per_hour: 100,
    messages_per_day: 100,
  });
  expect(raised.json).toMatchObject({ messages_per_hour: 100, messages_per_day: 100 });
  const mails = await world.caught(5);
  expect(mails.list()).toHaveLength(5);
});

interface Waiting {
  readonly attempts: number;
  readonly last_reply: string;
  readonly next_attempt_at: string;
  readonly created_at: string;
  readonly expires_at: string;
}

const OBJECTS = { projects: 2, domains: 2, forms: 2, collections: 1, keys: 2, webhooks: 1 };

/** One way to make something, and how many of them there may be before it; each begins with an account of its own. */
interface Way {
  readonly object: keyof typeof OBJECTS;
  readonly before?: number;
  readonly make: (n: number) => readonly [method: string, path: string, body: object];
}

const push = (slug: string, yaml: string, query = '') =>
  ['PUT', `/projects/${slug}/config${query}`, { config: `project: { name: X, slug: ${slug} }\n${yaml}` }] as const;
const form = (n: number) => `contact${n}: { to: x@inbox.test }`;

const WAYS: Readonly<Record<string, Way>> = {
  'POST /projects': { object: 'projects', make: (n) => ['POST', '/projects', { name: 'X', slug: `p${n}` }] },
  'a pushed project': { object: 'projects', make: (n) => push(`p${n}`, '') },
  'POST /api-keys': { object: 'keys', before: 1, make: (n) => ['POST', '/api-keys', { name: `${n}` }] },
  'POST /webhooks': { object: 'webhooks', make: (n) => ['POST', '/webhooks', { url: `https://93.184.215.14/${n}` }] },
  'POST /forms': { object: 'forms', make: (n) => ['POST', '/forms', { name: `${n}`, to: 'x@inbox.test' }] },
  'POST /instant/forms': {
    object: 'forms',
    make: (n) => ['POST', '/instant/forms', { name: `${n}`, email: 'x@inbox.test' }],
  },
  'POST /collections': {
    object: 'collections',
    make: (n) => ['POST', '/collections', { name: `plans${n}`, title: 'X', settings: {}, forms: {} }],
  },
  'domains of a push': {
    object: 'domains',
    make: (n) => push('shop', `domains: {${Array.from({ length: n }, (_, i) => `d${i}.test: {}`).join(', ')}}`),
  },
  'forms of a push': {
    object: 'forms',
    make: (n) =>
      push('shop', `domains: { d.test: { forms: {${Array.from({ length: n }, (_, i) => form(i)).join(', ')}} } }`),
  },
  'webhooks of a push': {
    object: 'webhooks',
    make: (n) =>
      push('shop', `webhooks: [${Array.from({ length: n }, (_, i) => `{ url: "https://x.test/${i}" }`).join(', ')}]`),
  },
  'collections of a push': {
    object: 'collections',
    make: (n) => push('shop', `collections: {${Array.from({ length: n }, (_, i) => `pushed${i}: {}`).join(', ')}}`),
  },
};

test('an object too many is refused on every way to make one, with the limit, its use and who can raise it', async () => {
  const world = await startTestWorld({
    server: { plans: { free: { objects: OBJECTS, requests_per_hour: null, requests_per_minute: null } } },
  });
  const { store } = world.daemon;
  for (const [name, { object, before = 0, make }] of Object.entries(WAYS)) {
    const { headers } = await testKey(store, { account: { plan: 'free' } });
    const { ask } = asking(world, headers);
    for (let n = before + 1; n <= OBJECTS[object]; n++) {
      expect([name, n, (await ask(...make(n))).status]).toEqual([name, n, 200]);
    }
    const refused = await ask(...make(OBJECTS[object] + 1));
    expect([name, refused]).toEqual([
      name,
      expect.objectContaining({
        status: 403,
        json: expect.objectContaining({
          code: 'PLAN_LIMIT',
          error: expect.stringMatching(
            /^The plan free allows \d .*; the account has \d, and this would add 1\. .*ops@inbox\.test\) can raise the limit\.$/,
          ),
          plan_limit: { plan: 'free', object, limit: OBJECTS[object], used: OBJECTS[object] },
        }),
      }),
    ]);
    // What is there stays as it is.
    expect((await ask('GET', '/projects')).status).toBe(200);
  }
});

test('a dry run tells of an object too many, and the operator has no limit', async () => {
  const world = await startTestWorld({ server: { plans: { free: { objects: OBJECTS } } } });
  const { store } = world.daemon;
  const tenant = asking(world, (await testKey(store)).headers);
  const three = 'domains: { a.test: {}, b.test: {}, c.test: {} }';
  expect(await tenant.ask(...push('shop', three, '?dry_run=true'))).toMatchObject({
    status: 403,
    json: { code: 'PLAN_LIMIT' },
  });
  const operator = asking(world, (await testKey(store, { tenant: OPERATOR })).headers);
  expect((await operator.ask(...push('shop', three, '?dry_run=true'))).status).toBe(200);
  for (let i = 0; i < 4; i++) expect((await operator.ask('POST', '/api-keys', { name: `${i}` })).status).toBe(200);
});

test('domains made one by one, and requests beside each other, do not exceed the limit together', async () => {
  const world = await startTestWorld({ server: { plans: { free: { objects: { ...OBJECTS, forms: 5 } } } } });
  const { ask } = asking(world, (await testKey(world.daemon.store)).headers);
  await ask('POST', '/projects', { name: 'X', slug: 'x' });
  const domains = await Promise.all(
    Array.from({ length: 6 }, (_, i) => ask('POST', '/domains', { project: 'x', domain: `d${i}.test` })),
  );
  expect(domains.map(({ status }) => status).sort()).toEqual([200, 200, 403, 403, 403, 403]);
  const forms = await Promise.all(
    Array.from({ length: 8 }, (_, i) => ask('POST', '/forms', { name: `${i}`, to: 'x@inbox.test' })),
  );
  expect(forms.filter(({ status }) => status === 200)).toHaveLength(5);
});

test('an account that has more than its plan allows by now may change what it has', async () => {
  const world = await startTestWorld({ server: { plans: { free: { objects: { ...OBJECTS, domains: 1 } } } } });
  const { store } = world.daemon;
  const { tenant, headers } = await testKey(store, { account: { plan: 'pro' } });
  const operator = asking(world, (await testKey(store, { tenant: OPERATOR, permissions: ['admin'] })).headers);
  const { ask } = asking(world, headers);
  expect((await ask(...push('shop', 'domains: { a.test: {}, b.test: {}, c.test: {} }'))).status).toBe(200);
  await operator.ask('PATCH', `/admin/tenants/${tenant}`, { plan: 'free' });
  expect((await ask(...push('shop', 'domains: { a.test: {}, b.test: {} }'))).status).toBe(200);
  expect((await ask(...push('shop', 'domains: { a.test: {}, b.test: {}, d.test: {} }'))).status).toBe(403);
});
