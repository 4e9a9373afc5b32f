/** Test keys are a partition of their account: what they make is theirs alone, and what is live they cannot touch. */
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

async function open(): Promise<{ world: TestWorld; live: Client; tester: Client; key: Record<string, string> }> {
  const world = await startTestWorld({ server: { webhooks: { allow_private_networks: true } } });
  const live = await apiClient(world, { tenant: OPERATOR });
  const { value } = await testKey(world.daemon.store, { tenant: OPERATOR, environment: 'test' });
  const key = { Authorization: `Bearer ${value}`, Accept: 'application/json' };
  const tester: Client = {
    tenant: OPERATOR,
    async ask(method, path, body) {
      const type = body === undefined ? undefined : { 'Content-Type': 'application/json' };
      const response = await fetch(world.url + path, {
        method,
        headers: { ...key, ...type },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, headers: response.headers, body: await response.json() };
    },
  };
  return { world, live, tester, key };
}

const STOLEN = `
project: { name: Site, slug: site }
domains: { example.test: { forms: { contact: { to: thief@evil.test } } } }
`;

test('a test key redirects no live lead, deletes no live submission and revokes no live key', async () => {
  const { world, live, tester } = await open();
  const { id: victim } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const form = (await live.ask('POST', '/forms', { name: 'Leads', to: 'owner@inbox.test' })).body as { id: string };
  const instant = (await live.ask('POST', '/instant/forms', { name: 'I', email: 'owner@inbox.test' })).body as {
    id: string;
  };
  const posted = await world.post(`/f/${form.id}`, { message: 'Secret words' }, { Accept: 'application/json' });
  const { id: submission } = (await posted.json()) as { id: string };
  const { body: hook } = await live.ask('POST', '/webhooks', { url: 'http://127.0.0.1:9/live' });
  const attacks: [method: string, path: string, body?: object][] = [
    ['PUT', '/projects/site/config', { config: STOLEN }],
    ['POST', '/projects/site/rollback', { revision: 'rev_00000000000000000000000000' }],
    ['DELETE', '/projects/site'],
    ['POST', '/domains', { domain: 'more.test', project: 'site' }],
    ['DELETE', '/domains/example.test'],
    ['PATCH', `/forms/${form.id}`, { to: 'thief@evil.test' }],
    ['DELETE', `/forms/${form.id}`],
    ['PATCH', `/instant/forms/${instant.id}`, { email: 'thief@evil.test' }],
    ['GET', `/submissions/${submission}`],
    ['DELETE', `/submissions/${submission}`],
    ['POST', `/submissions/${submission}/spam`, {}],
    ['POST', `/submissions/${submission}/resend`, {}],
    ['DELETE', `/webhooks/${(hook as { id: string }).id}`],
    ['POST', `/webhooks/${(hook as { id: string }).id}/rotate`, {}],
    ['GET', `/api-keys/${victim}`],
    ['DELETE', `/api-keys/${victim}?with_children=true`],
    ['GET', '/admin/tenants'],
  ];
  for (const [method, path, body] of attacks) {
    const { status, body: said } = await tester.ask(method, path, body);
    const expected = path.startsWith('/admin') ? 'AUTH_FORBIDDEN' : 'AUTH_TEST_KEY';
    expect([path, status, (said as { code: string }).code]).toEqual([path, 403, expected]);
  }
  expect((await live.ask('GET', `/forms/${form.id}`)).body).toMatchObject({ to: 'owner@inbox.test' });
  expect((await live.ask('GET', `/submissions/${submission}`)).body).toMatchObject({ status: 'accepted' });
  expect((await live.ask('GET', `/api-keys/${victim}`)).body).toMatchObject({ revoked_at: null });
  expect(JSON.stringify((await tester.ask('GET', `/forms/${form.id}/submissions`)).body)).not.toContain('Secret');
  expect(JSON.stringify((await tester.ask('GET', '/events')).body)).not.toContain(submission);
});

test('what a test key makes is seen with test keys alone, and its mail is captured', async () => {
  const { world, live, tester, key } = await open();
  const pushed = await tester.ask('PUT', '/projects/trial/config', {
    config: `
project: { name: Trial, slug: trial }
domains: { example.test: { forms: { contact: { to: someone@inbox.test }, extra: { to: someone@inbox.test } } } }
`,
  });
  expect([pushed.status, pushed.body]).toEqual([200, expect.objectContaining({ revision: expect.any(String) })]);
  const { body: form } = await tester.ask('POST', '/forms', { name: 'Test leads', to: 'someone@inbox.test' });
  expect(form).toMatchObject({ environment: 'test' });
  const { id } = form as { id: string };
  await tester.ask('POST', '/collections', { name: 'trials', settings: {}, forms: { one: { email: 'a@inbox.test' } } });
  await tester.ask('POST', '/instant/forms', { name: 'Instant', email: 'stranger@inbox.test' });
  await tester.ask('POST', '/suppressions', { address: 'gone@inbox.test' });
  await tester.ask('POST', '/webhooks', { url: 'http://127.0.0.1:9/test' });
  const before = await live.ask('GET', '/events?limit=200');

  // The live form keeps its recipient and its domain; the test key's own is reached with the key alone.
  const own = await world.post('/example.test/extra', { message: 'Mine' }, key);
  expect(own.status).toBe(200);
  expect((await world.post('/example.test/extra', { message: 'x' }, { Accept: 'application/json' })).status).toBe(404);
  expect((await world.post(`/f/${id}`, { message: 'From a page' }, { Accept: 'application/json' })).status).toBe(200);
  const mail = await tester.ask('POST', '/email/send', { to: 'b@inbox.test', subject: 'Hi', text: 'Hello' });
  expect(mail.status).toBe(200);

  for (const path of ['/projects', '/forms', '/collections', '/instant/forms', '/webhooks', '/suppressions']) {
    const [theirs, ours] = [await live.ask('GET', path), await tester.ask('GET', path)];
    expect(JSON.stringify(theirs.body), path).not.toMatch(/trial|"test"|Test leads|gone@/);
    expect((ours.body as { count: number }).count, path).toBeGreaterThan(0);
  }
  expect((await live.ask('GET', `/forms/${id}`)).status).toBe(404);
  expect(JSON.stringify((await live.ask('GET', '/events?limit=200')).body)).toBe(JSON.stringify(before.body));
  const { body: listed } = await tester.ask('GET', `/forms/${id}/submissions`);
  const { submissions } = listed as { submissions: { id: string; environment: string; messages: string[] }[] };
  expect(submissions).toEqual([expect.objectContaining({ environment: 'test', messages: [expect.any(String)] })]);
  const notification = submissions[0]?.messages[0] ?? '';
  await expect.poll(async () => (await tester.ask('GET', `/email/${notification}/source`)).status).toBe(200);
  // A live lead goes out beside all this, and is the only mail that does.
  await world.post('/example.test/contact', { message: 'Live' });
  const caught = await world.caught(1);
  expect(caught.list()).toHaveLength(1);
  // The name is free for a live project.
  const later = await live.ask('PUT', '/projects/trial/config', { config: 'project: { name: Live, slug: trial }\n' });
  expect(later.status).toBe(200);
  expect((await tester.ask('GET', '/projects/trial')).body).toMatchObject({ name: 'Trial', environment: 'test' });
});

test('a test key checks what a push would change of a live project', async () => {
  const { live, tester } = await open();
  const config = 'project: { name: Shop, slug: shop }\n';
  expect((await live.ask('PUT', '/projects/shop/config', { config })).status).toBe(200);
  const changed = config.replace('Shop', 'Store');
  const dry = await tester.ask('PUT', '/projects/shop/config?dry_run=true', { config: changed });
  expect(dry.body).toMatchObject({ changes: [{ path: 'project.name', from: 'Shop', to: 'Store' }] });
  const wet = await tester.ask('PUT', '/projects/shop/config', { config: changed });
  expect(wet.body).toMatchObject({ code: 'AUTH_TEST_KEY' });
});
