/** An account that the operator deletes: the whole daemon. */
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { tenants } from '../../src/contract/tenants.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { cliWorld, person, type CliWorld } from '../cli/cli-world.ts';
import { apiClient, type Asked, type Client } from '../harness/api.ts';

type Shown = z.output<typeof tenants.show.answer>;

const YAML = `project: { name: Shop, slug: shop, owner: owner@inbox.test }
domains: { shop.test: { forms: { contact: { to: owner@inbox.test } } } }
`;

interface World extends CliWorld {
  readonly client: Client;
  readonly operator: Client;
  /** `postern ARGS…` as root on the server. */
  run(...args: string[]): Promise<{ code: number; out: string; err: string }>;
  show(): Promise<Asked>;
}

/** An account with a verified domain, a form with a submission, a webhook, and mail in the queue that is held. */
async function start(): Promise<World> {
  const world = await cliWorld();
  await world.write('postern.yml', YAML);
  expect((await world.say(['push', '--yes'])).code).toBe(0);
  await world.publish('shop.test');
  expect((await world.say(['domains', 'verify', 'shop.test'])).code).toBe(0);
  const client = await apiClient(world, { tenant: world.tenant });
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin', 'analytics.read'] });
  await client.ask('POST', '/webhooks', { url: 'https://hooks.example/x', events: [] });
  await operator.ask('POST', '/admin/queue/hold', { domain: 'inbox.test' });
  expect((await world.post('/shop.test/contact', { name: 'Ada', message: 'Hello' })).status).toBe(200);
  const root = await person();
  const run = (...args: string[]) => root.say([...args, '--url', `unix:${world.daemon.addresses?.socket}`]);
  const show = () => operator.ask('GET', `/admin/tenants/${world.tenant}`);
  return { ...world, client, operator, run, show };
}

/** Everything that the database has of the account, by table. */
async function left({ daemon, tenant }: World): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const table of TABLES) {
    const rows = await daemon.store.read.selectFrom(table).selectAll().execute();
    const own = rows.filter(
      (row) => JSON.stringify(row).includes(tenant) && !('type' in row && row.tenant === OPERATOR),
    );
    if (own.length > 0) counts[table] = own.length;
  }
  return counts;
}

const TABLES = [
  'tenants',
  'account_deletions',
  'projects',
  'config_revisions',
  'domains',
  'dkim_keys',
  'submissions',
  'submission_files',
  'messages',
  'deliveries',
  'attempts',
  'events',
  'event_counts',
  'api_keys',
  'usage',
  'message_counts',
  'consents',
  'mailboxes',
  'webhooks',
  'forms',
  'collections',
] as const;

test('is shown with what goes, closed at once, and gone when its mail is delivered', async () => {
  const world = await start();
  const { tenant, client, operator, run } = world;
  const shown = await run('tenants', 'show', tenant);
  expect(shown.out).toMatch(/^contains +1 project, 1 form, 0 collections, \d API keys, 1 webhook$/m);
  expect(shown.out).toMatch(/^domains +shop\.test \(verified, project shop\)$/m);
  expect(shown.out).toMatch(/^queued +1 delivery$/m);

  const unsaid = await run('tenants', 'delete', tenant, '--yes');
  expect([unsaid.code, unsaid.err]).toEqual([2, expect.stringMatching(/1 delivery in the queue: add --queued/)]);
  expect((await run('tenants', 'delete', tenant, '--queued', 'deliver')).err).toMatch(/add --yes to confirm/);
  expect((await client.ask('GET', '/projects')).status).toBe(200);

  const done = await run('tenants', 'delete', tenant, '--queued', 'deliver', '--yes');
  expect([done.code, done.out]).toEqual([0, expect.stringContaining(`${tenant} is closed.`)]);
  expect((await client.ask('GET', '/projects')).body).toMatchObject({ code: 'AUTH_REVOKED_KEY' });
  expect((await world.post('/shop.test/contact', { name: 'Ada' })).status).toBe(404);
  const { body } = await world.show();
  expect(body).toMatchObject({ deleting: 'deliver', queued: 1, objects: { projects: 0, keys: 0, webhooks: 0 } });
  expect((await run('tenants', 'list')).out).toMatch(new RegExp(`^${tenant}\\tdeleting\\t`, 'm'));
  expect((await operator.ask('DELETE', `/admin/tenants/${tenant}?queued=cancel`)).status).toBe(409);

  // The domain is free at once.
  const { body: owned } = await operator.ask('GET', '/admin/domains');
  expect(JSON.stringify(owned)).not.toContain('shop.test');

  await operator.ask('POST', '/admin/queue/release', { domain: 'inbox.test' });
  await world.caught(1);
  await expect.poll(async () => (await world.show()).status, { interval: 500 }).toBe(404);
  expect(await left(world)).toEqual({});
  const { body: events } = await operator.ask('GET', '/events');
  expect(events).toMatchObject({
    events: expect.arrayContaining([
      expect.objectContaining({ type: 'tenant.deleted', data: { tenant } }),
      expect.objectContaining({ type: 'tenant.deleting' }),
      expect.objectContaining({ type: 'queue.changed' }),
    ]) as unknown,
  });
});

test('with its mail cancelled goes at once, and sends nothing', async () => {
  const world = await start();
  const { operator, tenant } = world;
  const asked = await operator.ask('DELETE', `/admin/tenants/${tenant}?queued=cancel`);
  const { queued, submissions } = tenants.show.answer.parse(asked.body) satisfies Shown;
  expect([queued, submissions]).toEqual([1, 1]);
  await expect.poll(async () => (await world.show()).status, { interval: 500 }).toBe(404);
  expect(await left(world)).toEqual({});
  await operator.ask('POST', '/admin/queue/release', { domain: 'inbox.test' });
  expect(world.mx.mails.list()).toEqual([]);
});

test('the operator’s own account stays', async () => {
  const world = await cliWorld();
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  expect((await operator.ask('DELETE', `/admin/tenants/${OPERATOR}?queued=cancel`)).status).toBe(409);
  expect((await operator.ask('DELETE', '/admin/tenants/ten_none?queued=cancel')).status).toBe(404);
});
