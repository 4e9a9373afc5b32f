/** The life of a domain, from its claim to its failure and back, with the whole daemon on a clock of the test. */
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { until } from '../harness/child.ts';
import { testClock } from '../harness/clock.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';

const HOUR = 3_600_000;
const OTHER_ACCOUNT: unknown = expect.stringContaining('owned by another account');

const shown = z.object({
  status: z.string(),
  reason: z.string().nullable(),
  records: z.array(
    z.object({
      purpose: z.string(),
      type: z.enum(['TXT', 'MX', 'CNAME']),
      name: z.string(),
      value: z.string(),
      required: z.boolean(),
    }),
  ),
});
const events = z.object({ events: z.array(z.object({ type: z.string() })) });

async function domain(client: Client, name: string, verb?: 'verify') {
  const asked =
    verb === undefined ? client.ask('GET', `/domains/${name}`) : client.ask('POST', `/domains/${name}/verify`);
  return shown.parse((await asked).body);
}

async function required(client: Client, name: string): Promise<ZoneRecord[]> {
  const { records } = await domain(client, name);
  return records.filter((record) => record.required).map(({ type, name, value }) => ({ type, name, value }));
}

async function domainEvents(client: Client): Promise<string[]> {
  const { body } = await client.ask('GET', '/events');
  return events
    .parse(body)
    .events.flatMap(({ type }) => (type.startsWith('domain.') ? [type] : []))
    .reverse();
}

function subjects(world: TestWorld): string[] {
  return world.mx.mails.list().map(({ subject }) => subject ?? '');
}

test('pending, verified, degraded, failed, verified again, as the scheduled checks see it', async () => {
  const clock = testClock();
  let passing: NodeJS.Timeout | undefined;
  onTestFinished(() => clearInterval(passing));
  const world = await startTestWorld({ unverified: ['example.test'], parts: { clock } });
  // Before the daemon ends: its stop takes time.
  onTestFinished(() => void (passing = setInterval(() => clock.advance(100), 1)));
  const client = await apiClient(world, { tenant: OPERATOR, now: clock.now() });
  const state = async () => (await domain(client, 'example.test')).status;
  async function later(ms: number): Promise<string> {
    clock.advance(ms);
    await world.daemon.domains.checkDue();
    return state();
  }
  const post = async () => (await world.post('/example.test/contact', { name: 'Ann', message: 'hello' })).status;
  const records = await required(client, 'example.test');

  // Nobody has published anything: looked for soon, and nothing is taken.
  expect(await later(30_000)).toBe('pending');
  expect(await post()).toBe(403);
  world.dns.set([...world.publicZone, ...records]);
  expect(await later(60_000)).toBe('verified');

  // While DNS is silent, however long, nothing changes.
  world.dns.set([...world.publicZone, ...records.map(({ name }): ZoneRecord => ({ name, fault: 'SERVFAIL' }))]);
  for (let day = 0; day < 5; day++) expect(await later(24 * HOUR)).toBe('verified');

  world.dns.set(world.publicZone);
  expect(await later(6 * HOUR)).toBe('degraded');
  await until('both are told', () => subjects(world).length === 2);
  expect(await post()).toBe(200);
  await world.caught(3);

  expect(await later(71 * HOUR)).toBe('degraded');
  expect(await later(HOUR)).toBe('failed');
  await until('both are told', () => subjects(world).length === 5);
  // A lead is taken, and its mail waits.
  expect(await post()).toBe(200);
  const waits = async () => (await world.queue()).filter(({ state }) => state === 'deferred');
  await until('its mail waits', async () => (await waits()).length === 1);

  world.dns.set([...world.publicZone, ...records]);
  expect(await later(HOUR)).toBe('verified');
  await until('what waited is delivered', () => {
    clock.advance(5000);
    return subjects(world).length === 6;
  });
  expect(await domainEvents(client)).toEqual([
    'domain.verified',
    'domain.degraded',
    'domain.failed',
    'domain.verified',
  ]);
});

test('the first account whose records are found owns a name, until it removes the domain', async () => {
  const world = await startTestWorld();
  const [ana, ben] = [await apiClient(world), await apiClient(world)];
  for (const client of [ana, ben]) {
    expect((await client.ask('POST', '/projects', { name: 'Shop', slug: 'shop' })).status).toBe(200);
    expect((await client.ask('POST', '/domains', { domain: 'shop.test', project: 'shop' })).status).toBe(200);
  }
  const [hers, his] = [await required(ana, 'shop.test'), await required(ben, 'shop.test')];
  expect(hers.map((record) => 'value' in record && record.value)).not.toEqual(
    his.map((record) => 'value' in record && record.value),
  );

  world.dns.set([...world.publicZone, ...his]);
  expect((await domain(ana, 'shop.test', 'verify')).status).toBe('pending');
  expect((await domain(ben, 'shop.test', 'verify')).status).toBe('verified');
  // Her records change nothing while he owns it, whether his are still there or not.
  for (const published of [[...his, ...hers], hers]) {
    world.dns.set([...world.publicZone, ...published]);
    expect(await domain(ana, 'shop.test', 'verify')).toMatchObject({ status: 'pending', reason: OTHER_ACCOUNT });
  }
  expect((await ben.ask('DELETE', '/domains/shop.test')).status).toBe(200);
  expect((await domain(ana, 'shop.test', 'verify')).status).toBe('verified');
  expect(await domainEvents(ben)).toEqual(['domain.verified']);
  expect(await domainEvents(ana)).toEqual(['domain.verified']);
});

test.each(['by the API', 'by a push'])(
  'what a domain sent before it is taken out of service %s arrives signed',
  async (how) => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const config = 'project: { name: Shop, slug: shop }\n';
    if (how === 'by a push') {
      await ana.ask('PUT', '/projects/shop/config', { config: `${config}domains: { shop.test: {} }\n` });
    } else {
      await ana.ask('POST', '/projects', { name: 'Shop', slug: 'shop' });
      await ana.ask('POST', '/domains', { domain: 'shop.test', project: 'shop' });
    }
    const records = await required(ana, 'shop.test');
    world.dns.set([...world.publicZone, ...records]);
    expect((await domain(ana, 'shop.test', 'verify')).status).toBe('verified');
    const mail = { from: 'hello@shop.test', to: 'ann@inbox.test', subject: 'Hi', text: 'Hello' };
    const later = { ...mail, send_at: new Date(Date.now() + 2000).toISOString() };
    expect((await ana.ask('POST', '/email/send', later)).status).toBe(200);
    const { status } =
      how === 'by a push'
        ? await ana.ask('PUT', '/projects/shop/config', { config })
        : await ana.ask('DELETE', '/domains/shop.test');
    expect(status).toBe(200);
    await expect.poll(async () => (await ana.ask('POST', '/email/send', mail)).status).toBe(403);
    const mails = await world.caught(1);
    const [caught] = mails.list();
    expect(caught && (await mails.source(caught)).toString()).toContain('d=shop.test;');

    if (how === 'by a push')
      await ana.ask('PUT', '/projects/shop/config', { config: `${config}domains: { shop.test: {} }\n` });
    else await ana.ask('POST', '/domains', { domain: 'shop.test', project: 'shop' });
    expect(await domain(ana, 'shop.test')).toMatchObject({ status: 'pending' });
    expect(await required(ana, 'shop.test')).toEqual(records);
  },
);
