import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';

const YAML = `project: { name: Shop, slug: shop, owner: shop@inbox.test }
domains:
  shop.test:
    forms:
      contact: { name: Contact, to: shop@inbox.test, template: mine }
templates:
  mine: { subject: "First: {{ form.name }}", html_file: templates/mine.html }
`;
const FILES = { 'templates/mine.html': '<h1>From the first shop, {{ form.name }}</h1>' };
const JSON_ANSWER = { Accept: 'application/json' };

/** Publishes what the client's domain has to, and has the daemon look. */
async function verify(world: TestWorld, client: Client, domain: string): Promise<unknown> {
  const { body } = await client.ask('GET', `/domains/${domain}`);
  const { records } = body as { records: { name: string; type: 'TXT'; value: string; required: boolean }[] };
  world.dns.set([...world.publicZone, ...records.filter(({ required }) => required)]);
  return (await client.ask('POST', `/domains/${domain}/verify`)).body;
}

async function mail(world: TestWorld, subject: string) {
  for (let count = 1; ; count++) {
    const mails = await world.caught(count);
    const found = mails.list().find((one) => one.subject === subject);
    if (found !== undefined) {
      const parsed = await simpleParser(await mails.source(found));
      return { html: parsed.html, to: found.envelope.to, dkim: found.verdicts?.dkim };
    }
  }
}

test('a project that is pushed is verified, posted to and mailed as it says, until it is rolled back', async () => {
  const world = await startTestWorld();
  const ana = await apiClient(world);
  const first = await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
  const { revision } = first.body as { revision: string };
  expect((await world.post('/shop.test/contact', { name: 'Early' }, JSON_ANSWER)).status).toBe(403);
  expect(await verify(world, ana, 'shop.test')).toMatchObject({ verified: true });

  expect((await world.post('/shop.test/contact', { name: 'Ann' }, JSON_ANSWER)).status).toBe(200);
  expect(await mail(world, 'First: Ann')).toMatchObject({
    html: expect.stringContaining('From the first shop, Ann'),
    to: ['shop@inbox.test'],
    dkim: [{ result: 'pass', domain: 'shop.test' }],
  });

  const config = YAML.replace('First:', 'Second:');
  const files = { 'templates/mine.html': '<h1>From the second shop, {{ form.name }}</h1>' };
  await ana.ask('PUT', '/projects/shop/config', { config, files });
  await world.post('/shop.test/contact', { name: 'Bob' }, JSON_ANSWER);
  expect(await mail(world, 'Second: Bob')).toMatchObject({ html: expect.stringContaining('the second shop, Bob') });

  expect((await ana.ask('POST', '/projects/shop/rollback', { revision })).status).toBe(200);
  await world.post('/shop.test/contact', { name: 'Cat' }, JSON_ANSWER);
  expect(await mail(world, 'First: Cat')).toMatchObject({ html: expect.stringContaining('the first shop, Cat') });

  const ben = await apiClient(world);
  for (const path of ['/projects/shop', '/projects/shop/config', '/domains/shop.test'])
    expect((await ben.ask('GET', path)).status).toBe(404);

  await ana.ask('DELETE', '/projects/shop');
  expect((await world.post('/shop.test/contact', { name: 'Dan' }, JSON_ANSWER)).status).toBe(404);
});

test('what waits when its project ends is still sent', async () => {
  const world = await startTestWorld();
  const ana = await apiClient(world);
  await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
  await verify(world, ana, 'shop.test');
  const operator = await apiClient(world, { tenant: 'ten_operator', permissions: ['admin'] });
  await operator.ask('POST', '/admin/queue/hold', { domain: 'inbox.test' });
  await world.post('/shop.test/contact', { name: 'Ann' }, JSON_ANSWER);
  expect((await ana.ask('DELETE', '/projects/shop')).status).toBe(200);
  await operator.ask('POST', '/admin/queue/release', { domain: 'inbox.test' });
  expect(await mail(world, 'First: Ann')).toMatchObject({ dkim: [{ result: 'pass', domain: 'shop.test' }] });
});

test('the owner of a domain whose records break is told by mail', async () => {
  const world = await startTestWorld();
  const ana = await apiClient(world);
  await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
  await verify(world, ana, 'shop.test');
  world.dns.set([...world.publicZone]);
  expect((await ana.ask('POST', '/domains/shop.test/verify')).body).toMatchObject({
    status: 'degraded',
    verified: true,
  });
  expect(await mail(world, 'The DNS records of shop.test are no longer correct')).toMatchObject({
    to: [expect.stringMatching(/^(shop|ops)@inbox\.test$/)],
  });
});
