/** Webhooks from a visitor's post to a receiver that verifies them with the library that the specification publishes. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { SITE, startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

interface Heard {
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly json: { type: string; data: Record<string, unknown> };
}

/** A receiver on loopback that can go away and come back. */
async function startReceiver(status = 200) {
  const heard: Heard[] = [];
  let connections = 0;
  let server: Server | undefined;
  let port = 0;

  function listener(request: IncomingMessage, response: { writeHead(status: number): { end(): void } }): void {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      heard.push({ headers: request.headers as Record<string, string>, body, json: JSON.parse(body) as Heard['json'] });
      response.writeHead(status).end();
    });
  }

  async function start(): Promise<void> {
    server = createServer(listener).on('connection', () => connections++);
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  }

  async function stop(): Promise<void> {
    if (server?.listening !== true) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }

  await start();
  onTestFinished(stop);
  return { heard, start, stop, port, connections: () => connections };
}

const PRIVATE = { webhooks: { allow_private_networks: true } };

async function operator(world: TestWorld) {
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR, now: systemClock.now() });
  return async (path: string, body?: object, method = 'POST') => {
    const response = await fetch(world.url + path, {
      headers: { ...headers, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { method, body: JSON.stringify(body) }),
    });
    return (await response.json()) as Record<string, unknown>;
  };
}

test('a submission and its mail are posted within seconds, signed so that the published verifier takes them', async () => {
  const { heard, port } = await startReceiver();
  const world = await startTestWorld({ asInProduction: true, server: PRIVATE });
  const ask = await operator(world);
  const made = await ask('/webhooks', { url: `http://127.0.0.1:${port}/hook` });
  const began = performance.now();
  await world.post('/example.test/contact', { name: 'Anna', email: 'anna@visitor.test', message: 'Hello' });
  await expect.poll(() => heard.length).toBeGreaterThan(0);
  expect(performance.now() - began).toBeLessThan(8000);
  await expect
    .poll(() => heard.map(({ json }) => json.type).sort())
    .toEqual(['email.delivered', 'email.queued', 'submission.accepted']);
  const verifier = new Webhook(String(made['secret']));
  for (const { headers, body, json } of heard) expect(verifier.verify(body, headers)).toEqual(json);
  expect(heard.find(({ json }) => json.type === 'submission.accepted')?.json.data).toMatchObject({
    id: expect.stringMatching(/^sub_/),
    form: 'example.test/contact',
    domain: 'example.test',
    fields: { name: 'Anna', email: 'anna@visitor.test', message: 'Hello' },
  });
});

test('a target that is down for a while gets the same webhook-id later, verified', async () => {
  const receiver = await startReceiver();
  const clock = testClock(systemClock.now());
  const passing: { timer?: NodeJS.Timeout } = {};
  onTestFinished(() => clearInterval(passing.timer));
  const world = await startTestWorld({ server: PRIVATE, parts: { clock } });
  // Before the daemon ends: its stop takes time.
  onTestFinished(() => void (passing.timer = setInterval(() => clock.advance(100), 1)));
  const ask = await operator(world);
  const { id, secret } = await ask('/webhooks', {
    url: `http://127.0.0.1:${receiver.port}/`,
    events: ['submission.accepted'],
  });
  await receiver.stop();
  await world.post('/example.test/contact', { name: 'Anna', email: 'anna@visitor.test', message: 'Hello' });
  const state = async () =>
    (
      (await ask(`/webhooks/${String(id)}`))['deliveries'] as { id: string; attempts: number; last_result: string }[]
    )[0];
  async function until(done: () => Promise<boolean> | boolean): Promise<void> {
    await expect
      .poll(async () => {
        clock.advance(100);
        return done();
      })
      .toBe(true);
  }
  await until(async () => (await state())?.last_result?.includes('ECONNREFUSED') === true);
  const first = await state();
  await receiver.start();
  await until(() => receiver.heard.length > 0);
  const [{ headers, body } = { headers: {}, body: '' }] = receiver.heard;
  expect(headers).toMatchObject({ 'webhook-id': first?.id });
  expect(new Webhook(String(secret)).verify(body, headers)).toMatchObject({ type: 'submission.accepted' });
  await until(async () => (await state())?.attempts === 2);
});

test('the webhooks of a form and a project: 410 ends one, its owner is written to once, the other goes on', async () => {
  const gone = await startReceiver(410);
  const good = await startReceiver();
  const site =
    `${SITE}      quiet: { to: owner@inbox.test }\nwebhooks: [{ url: 'http://127.0.0.1:${gone.port}/' }]\n`.replace(
      'to: owner@inbox.test, uploads',
      `to: owner@inbox.test, webhooks: ['http://127.0.0.1:${good.port}/'], uploads`,
    );
  const world = await startTestWorld({ server: PRIVATE, projects: { 'site.yml': site } });
  const fields = { name: 'Anna', email: 'anna@visitor.test', message: 'Hello' };
  await world.post('/example.test/contact', fields);
  await world.post('/example.test/quiet', fields);
  const mails = await world.caught(3);
  const subjects = mails.list().map(({ subject }) => subject);
  expect(subjects.filter((subject) => subject.includes('webhook'))).toEqual([
    `A webhook was disabled: 127.0.0.1:${gone.port}`,
  ]);
  await expect.poll(() => good.heard.map(({ json }) => json.data['form'])).toEqual(['example.test/contact']);
  const ask = await operator(world);
  const { webhooks } = (await ask('/webhooks')) as { webhooks: { url: string; status: string; reason: string }[] };
  expect(webhooks.find(({ url }) => url.includes(String(gone.port)))).toMatchObject({
    status: 'disabled',
    reason: 'The target answered 410 Gone.',
  });
});

test('a target in a private network gets no packet', async () => {
  const { connections, port } = await startReceiver();
  const urls = [`http://inside.test:${port}/`, `http://both.test:${port}/`, `http://2130706433:${port}/`];
  const world = await startTestWorld({
    projects: { 'site.yml': `${SITE}webhooks: ${JSON.stringify(urls.map((url) => ({ url })))}\n` },
    zone: [
      { name: 'inside.test', type: 'A', value: '127.0.0.1' },
      { name: 'both.test', type: 'A', value: '93.184.215.14' },
      { name: 'both.test', type: 'A', value: '127.0.0.1' },
    ],
  });
  await world.post('/example.test/contact', { name: 'Anna', email: 'anna@visitor.test', message: 'Hello' });
  const posts = async () => (await world.queue()).filter(({ destination }) => destination.startsWith('whk_'));
  await expect
    .poll(async () => new Set((await posts()).map(({ last_reply }) => last_reply)))
    .toEqual(new Set(['not sent: the target leads to a private network']));
  expect(new Set((await posts()).map(({ destination }) => destination)).size).toBe(3);
  expect(connections()).toBe(0);
  const ask = await operator(world);
  expect(await ask('/webhooks', { url: urls[0] })).toMatchObject({ code: 'VALIDATION_FAILED' });
});

test('its own address is no target, even where private ones are', async () => {
  const world = await startTestWorld({ server: PRIVATE });
  const ask = await operator(world);
  expect(await ask('/webhooks', { url: `${world.url}/example.test/contact` })).toMatchObject({
    code: 'VALIDATION_FAILED',
    details: [{ path: 'url', message: 'leads back to this server' }],
  });
});

test('webhooks come and go with the configuration, on disk or pushed', async () => {
  const world = await startTestWorld({
    projects: { 'site.yml': `${SITE}webhooks: [{ url: https://one.test/ }]\n` },
  });
  const ask = await operator(world);
  const urls = async () =>
    ((await ask('/webhooks')) as { webhooks: { url: string }[] }).webhooks.map(({ url }) => url).sort();
  expect(await urls()).toEqual(['https://one.test/']);
  await writeFile(join(world.folder, 'projects', 'site.yml'), `${SITE}webhooks: [{ url: https://two.test/ }]\n`);
  await world.daemon.reload();
  await expect.poll(urls).toEqual(['https://two.test/']);
  await ask('/projects', { name: 'Shop', slug: 'shop' });
  const config = 'project: { name: Shop, slug: shop }\nwebhooks: [{ url: https://shop.test/ }]\n';
  expect(await ask('/projects/shop/config', { config }, 'PUT')).toMatchObject({ revision: expect.any(String) });
  await expect.poll(urls).toEqual(['https://shop.test/', 'https://two.test/']);
});
