/** Several daemons on one PostgreSQL database: what one is told, all know within a moment. */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SUSPENDED } from '../../src/store/messages.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { until } from '../harness/child.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { ask } from '../harness/binary.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

let postgres: Postgres;
let databases = 0;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

const YAML =
  'project: { name: Shop, slug: shop }\ndomains: { shop.test: { forms: { contact: { to: shop@inbox.test } } } }\n';
/** Well below the time after which each daemon looks by itself, ms. */
const SOON = 4000;

async function two(roles: readonly string[] = ['http', 'delivery']): Promise<[TestWorld, TestWorld, string]> {
  const url = await postgres.createDatabase(`several_${++databases}`);
  const first = await startTestWorld({ server: { database: { url } } });
  const second = await startTestWorld({ server: { database: { url }, server: { roles } } });
  return [first, second, url];
}

async function publish(world: TestWorld, records: readonly ZoneRecord[]) {
  world.dns.set([...world.publicZone, ...records]);
}

async function wanted(world: TestWorld): Promise<ZoneRecord[]> {
  const report = await world.daemon.domains.report('shop.test');
  const required = report?.records.filter((record) => record.required) ?? [];
  return required.map(({ name, type, value }) => ({ name, type, value }));
}

test('a push, a verification and an end reach the other daemon, also after its connection was cut', async () => {
  const [first, second, url] = await two();
  const ana = await apiClient(first);
  await ana.ask('PUT', '/projects/shop/config', { config: YAML });
  await until('the other serves it', () => second.daemon.snapshot().domains.has('shop.test'), SOON);
  // How the records stand is being looked at; what they are is the same whoever is asked.
  const [required, alike] = await Promise.all([second, first].map(wanted));
  expect(required).not.toEqual([]);
  expect(required).toEqual(alike);
  for (const world of [first, second]) await publish(world, required ?? []);
  await ana.ask('POST', '/domains/shop.test/verify');
  await until('the other knows', () => second.daemon.domains.status('shop.test') === 'verified', SOON);

  const client = new pg.Client({ connectionString: url });
  await client.connect();
  // What such a connection said last is who leads.
  await client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%AS leads'");
  const listening = async () => {
    const { rows } = await client.query("SELECT pid FROM pg_stat_activity WHERE query LIKE '%AS leads'");
    return rows.length === 2;
  };
  await until('both listen again', listening, SOON);
  await client.end();
  await ana.ask('DELETE', '/projects/shop');
  await until('the other has ended it', () => !second.daemon.snapshot().domains.has('shop.test'), SOON);
});

test('mail that a daemon without delivery accepts leaves at once through another', async () => {
  const [first, second] = await two(['http']);
  const took: number[] = [];
  for (let count = 1; count <= 5; count++) {
    const began = performance.now();
    expect((await second.post('/example.test/contact', { name: 'Ann' })).status).toBe(200);
    await first.caught(count);
    took.push(performance.now() - began);
  }
  expect(took.toSorted((a, b) => a - b)[2]).toBeLessThan(2000);
});

test('pushes to several daemons at once leave one active everywhere', async () => {
  const [first, second] = await two();
  const ana = await apiClient(first);
  const there = await apiClient(second, { tenant: ana.tenant });
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      (i % 2 === 0 ? ana : there).ask('PUT', '/projects/shop/config', {
        config: YAML.replace('to: shop@', `name: No ${i}, to: shop@`),
      }),
    ),
  );
  expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true);
  const inForce = (world: TestWorld) => world.daemon.snapshot().domains.get('shop.test')?.project.revision;
  const { body } = await ana.ask('GET', '/projects/shop');
  const { revision } = body as { revision: string };
  await until('both have it', () => inForce(first) === revision && inForce(second) === revision, SOON);
});

test('a tenant that is suspended on one daemon sends nothing more through another, also what is on its way', async () => {
  const url = await postgres.createDatabase(`several_${++databases}`);
  const slow = await startSmtpPeer({ script: { rcpt: { reply: '250 2.1.5 ok', afterMs: 3000 } } });
  const server = { database: { url } };
  const first = await startTestWorld({ server: { ...server, server: { roles: ['http'] } } });
  const second = await startTestWorld({ server: { ...server, delivery: { port: slow.port } } });
  const ana = await apiClient(first);
  await ana.ask('PUT', '/projects/shop/config', { config: YAML });
  await until('the other serves it', () => second.daemon.snapshot().domains.has('shop.test'), SOON);
  const required = await wanted(first);
  for (const world of [first, second]) await publish(world, required);
  await ana.ask('POST', '/domains/shop.test/verify');
  await until('the other knows', () => second.daemon.domains.status('shop.test') === 'verified', SOON);

  for (let count = 1; count <= 5; count++)
    expect((await first.post('/shop.test/contact', { name: 'Ann' })).status).toBe(200);
  await until('one is on its way', () => slow.lines.some((line) => line.startsWith('RCPT')));
  const operator = await apiClient(first, { tenant: OPERATOR, permissions: ['admin'] });
  const suspend = (suspended: boolean) => operator.ask('PATCH', `/admin/tenants/${ana.tenant}`, { suspended });
  expect((await suspend(true)).status).toBe(200);
  const waiting = async () => {
    const deliveries = first.daemon.store.read.selectFrom('deliveries').where('tenant', '=', ana.tenant);
    const rows = await deliveries.select(['state', 'last_reply']).execute();
    return rows.filter(({ state, last_reply: reply }) => state === 'deferred' && reply === SUSPENDED).length;
  };
  await until('all waits', async () => (await waiting()) === 5);
  expect(slow.messages).toEqual([]);
  await suspend(false);
  await until('all has left', () => slow.messages.length === 5);
});

/** The value of a metric, as the admin socket shows it. */
async function metric({ daemon }: TestWorld, name: string): Promise<number | undefined> {
  const { body } = await ask({ socketPath: daemon.addresses?.socket, path: '/metrics' });
  const line = String(body)
    .split('\n')
    .find((each) => each.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(name.length));
}

test('daemons know of each other: limits are divided, one runs the scheduled jobs, and another when it stops', async () => {
  const url = await postgres.createDatabase(`several_${++databases}`);
  const server = { database: { url }, limits: { requests_per_minute_per_address: 40 } };
  const first = await startTestWorld({ server });
  const second = await startTestWorld({ server });
  const worlds = [first, second];
  const values = (name: string) => Promise.all(worlds.map((world) => metric(world, name)));
  for (const role of ['http', 'smtp', 'delivery']) {
    const name = `postern_cluster_daemons{role="${role}"}`;
    await until('each knows two', async () => (await values(name)).every((value) => value === 2), 15_000);
  }
  await until('one leads', async () => (await values('postern_cluster_leads')).includes(1), 15_000);
  expect((await values('postern_cluster_leads')).toSorted()).toEqual([0, 1]);

  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) => fetch(`${(i % 2 === 0 ? first : second).url}/nowhere`)),
  );
  expect(answers.filter(({ status }) => status !== 429).length).toBe(40);

  const [one = 0] = await values('postern_cluster_leads');
  const [leader, other] = one === 1 ? [first, second] : [second, first];
  await leader.daemon.close();
  await until('the other leads', async () => (await metric(other, 'postern_cluster_leads')) === 1, 15_000);
  await until('it is alone', async () => (await metric(other, 'postern_cluster_daemons{role="http"}')) === 1, 15_000);
});
