/** Mail that would go round for ever ends, and floods nobody: whole daemons that forward to each other or to themselves. */
import { expect, test } from 'vitest';
import { freePort } from '../harness/child.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/smtp-door.ts';

interface Place {
  readonly hostname: string;
  readonly port: number;
  /** Its forwarding. */
  readonly forwarding: Readonly<Record<string, string>>;
  readonly domain: string;
  /** Where mail of other domains goes, beside the mail server that catches all. */
  readonly routes?: Readonly<Record<string, string>>;
}

function start({ hostname, port, forwarding, domain, routes = {} }: Place): Promise<TestWorld> {
  const project = {
    project: { name: 'Site', slug: 'site', owner: 'owner@inbox.test' },
    domains: { [domain]: { forwarding } },
  };
  return startTestWorld({
    projects: { 'site.yml': JSON.stringify(project) },
    server: {
      server: { hostname, smtp: { listen: [`127.0.0.1:${port}`] } },
      delivery: { routes, retry: ['1s'] },
    },
    zone: [
      { name: hostname, type: 'A', value: '127.0.0.1' },
      { name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: 'sender.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'mail.a.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: 'mail.b.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
}

async function quiet(worlds: readonly TestWorld[]): Promise<void> {
  const open = async ({ daemon }: TestWorld) =>
    (
      await daemon.store.read
        .selectFrom('deliveries')
        .select('id')
        .where('state', 'in', ['queued', 'sending', 'deferred'])
        .execute()
    ).length;
  let still = 0;
  await expect
    .poll(
      async () => {
        const counts = await Promise.all(worlds.map(open));
        still = counts.every((count) => count === 0) ? still + 1 : 0;
        return still;
      },
      { timeout: 15_000, interval: 100 },
    )
    .toBeGreaterThan(5);
}

async function taken({ daemon }: TestWorld): Promise<number> {
  return (await daemon.store.read.selectFrom('inbound').select('id').execute()).length;
}

test('two daemons that forward to each other', async () => {
  const [a, b] = [await freePort(), await freePort()];
  const one = await start({
    hostname: 'mail.a.test',
    port: a,
    domain: 'a.test',
    forwarding: { '*@a.test': 'x@b.test' },
    routes: { 'b.test': `127.0.0.1:${b}`, 'mail.b.test': `127.0.0.1:${b}` },
  });
  const other = await start({
    hostname: 'mail.b.test',
    port: b,
    domain: 'b.test',
    forwarding: { '*@b.test': 'x@a.test' },
    routes: { 'a.test': `127.0.0.1:${a}`, 'mail.a.test': `127.0.0.1:${a}` },
  });
  const client = await SmtpClient.open(a);
  const message = 'From: ann@sender.test\r\nSubject: round\r\n\r\nx';
  expect(await client.send(message, { from: 'ann@sender.test', to: ['hello@a.test'] })).toMatch(/^250/);
  await quiet([one, other]);
  expect((await taken(one)) + (await taken(other))).toBeLessThan(8);
  // Its sender is told once, or not at all.
  const caught = [...one.mx.mails.list(), ...other.mx.mails.list()];
  expect(caught.length).toBeLessThanOrEqual(1);
  expect(caught.every(({ envelope }) => envelope.from === '' && envelope.to[0] === 'ann@sender.test')).toBe(true);
  const looped = await other.daemon.store.read.selectFrom('inbound_log').select('reason').execute();
  const here = await one.daemon.store.read.selectFrom('inbound_log').select('reason').execute();
  expect([...looped, ...here].map(({ reason }) => reason)).toContain('loop');
});

test('a bounce that no one takes ends, whoever it is to', async () => {
  const port = await freePort();
  const world = await start({
    hostname: 'mail.a.test',
    port,
    domain: 'a.test',
    forwarding: { '*@a.test': 'gone@refusing.test' },
    routes: { 'refusing.test': `127.0.0.1:${port}` },
  });
  const client = await SmtpClient.open(port);
  const message = 'From: ann@sender.test\r\nSubject: x\r\n\r\nx';
  // refusing.test is this server's own door, which does not relay; and the null sender is never told of anything.
  expect(await client.send(message, { from: '', to: ['hello@a.test'] })).toMatch(/^250/);
  await quiet([world]);
  expect(world.mx.mails.list()).toEqual([]);
  expect(await taken(world)).toBe(1);
});
