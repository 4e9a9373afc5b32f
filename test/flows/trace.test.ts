/** From the request to the last reply, found from any id on the way. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { forgetMessages } from '../../src/store/messages.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { until } from '../harness/child.ts';
import { startTestWorld, type WorldSettings } from '../harness/daemon.ts';

const shape = z.object({
  id: z.string(),
  request: z.string().nullable(),
  submission: z.string().nullable(),
  messages: z.array(z.string()),
  timeline: z.array(z.object({ at: z.string(), step: z.string(), id: z.string(), text: z.string() })),
});

async function start(settings: WorldSettings = {}) {
  const world = await startTestWorld(settings);
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  const ask = (id: string) => operator.ask('GET', `/admin/trace/${encodeURIComponent(id)}`);
  return {
    world,
    ask,
    async trace(id: string) {
      const { status, body } = await ask(id);
      expect(status).toBe(200);
      const traced = shape.parse(body);
      return {
        ...traced,
        steps: traced.timeline.map(({ step }) => step),
        lines: traced.timeline.map(({ text }) => text),
      };
    },
    settled: () =>
      until('all is settled', async () => {
        const queue = await world.queue();
        return queue.length > 0 && queue.every(({ settled_at }) => settled_at !== null);
      }),
  };
}

test('a form post, from its X-Request-Id to the reply of the server and the webhook that was told', async () => {
  const hook = createServer((request, response) => {
    request.resume().on('end', () => response.end('thanks'));
  }).listen(0, '127.0.0.1');
  await once(hook, 'listening');
  onTestFinished(() => void hook.close());
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`;
  const site = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forms: { contact: { to: owner@inbox.test } } } }
webhooks: [{ url: '${url}', events: [submission.accepted] }]
`;
  const { world, trace, settled } = await start({
    projects: { 'site.yml': site },
    server: { webhooks: { allow_private_networks: true } },
  });
  const answer = await world.post(
    '/example.test/contact',
    { message: 'Are you open on Friday?' },
    { 'User-Agent': 'Firefox' },
  );
  const request = answer.headers.get('x-request-id') ?? '';
  await settled();
  await until('the webhook was told', async () => {
    const post = (await world.queue()).find(({ destination }) => destination.startsWith('whk_'));
    return post?.state === 'delivered';
  });
  const traced = await trace(request);
  expect(traced).toMatchObject({ id: request, request, messages: [expect.stringMatching(/^msg_/)] });
  expect(new Set(traced.steps)).toEqual(
    new Set(['request', 'judged', 'message', 'event', 'attempt', 'end', 'webhook']),
  );
  expect(traced.lines[0]).toBe(`posted to example.test/contact from 127.0.0.1 with Firefox as ${request}`);
  expect(traced.lines[1]).toMatch(/^accepted, \d+ points/);
  expect(traced.lines[2]).toBe('notification from example.test to owner@inbox.test');
  expect(traced.lines).toContainEqual(
    expect.stringMatching(
      /^attempt 1 for owner@inbox\.test: delivered at mx\.inbox\.test \[127\.0\.0\.1\] over TLSv1\.3: 250 /,
    ),
  );
  expect(traced.lines).toContainEqual(
    expect.stringMatching(/ to http:\/\/127.*: delivered, 1 attempt, last response 200$/),
  );
  const [message] = traced.messages;
  expect(traced.lines.filter((line) => line.startsWith('email.')).sort()).toEqual([
    `email.delivered of ${message}`,
    `email.queued of ${message}`,
  ]);

  const ids = ['attempt', 'message', 'event'].map(
    (step) => traced.timeline.find((entry) => entry.step === step)?.id ?? '',
  );
  const messageId = `<${traced.messages[0]?.slice(4)}@example.test>`;
  for (const id of [traced.submission ?? '', messageId, ...ids]) {
    expect(await trace(id)).toEqual({ ...traced, id });
  }
});

test('an acknowledgment that was withheld, and why', async () => {
  const site = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forms: { contact: { to: owner@inbox.test, acknowledgment: { enabled: true } } } } }
`;
  const { world, trace } = await start({ projects: { 'site.yml': site } });
  const post = async (email: string) => {
    const answer = await world.post('/example.test/contact', { email, message: 'Hi' }, { Accept: 'application/json' });
    const { id } = (await answer.json()) as { id: string };
    return (await trace(id)).lines.filter((line) => line.startsWith('no acknowledgment'));
  };
  expect(await post('ann@inbox.test')).toEqual([]);
  expect(await post('ann@inbox.test')).toEqual(['no acknowledgment: the address got one within the last 24 hours']);
  expect(await post('postmaster@inbox.test')).toEqual(['no acknowledgment: the address is a role address']);
  const operator = await apiClient(world, { tenant: OPERATOR });
  await operator.ask('POST', '/suppressions', { address: 'bob@inbox.test' });
  expect(await post('bob@inbox.test')).toEqual(['no acknowledgment: the address is on the suppression list']);
});

test('mail of the API that waits: the request, what the server said, and when it is tried again', async () => {
  const { world, trace } = await start();
  world.mx.behave(({ stage }) => (stage === 'rcpt' ? { code: 451, text: '4.7.1 not now' } : undefined));
  const sender = await apiClient(world, { tenant: OPERATOR });
  const sent = await sender.ask('POST', '/email/send', {
    from: 'shop@example.test',
    to: ['a@inbox.test', 'b@inbox.test'],
    subject: 'Hi',
    text: 'Hi',
  });
  const { id } = z.object({ id: z.string() }).parse(sent.body);
  await until('both were tried', async () => (await trace(id)).steps.filter((step) => step === 'attempt').length === 2);
  const traced = await trace(sent.headers.get('x-request-id') ?? '');
  expect(traced).toMatchObject({ submission: null, messages: [id], request: sent.headers.get('x-request-id') });
  expect(traced.lines.slice(0, 2)).toEqual([
    'mail requested through the API',
    'transactional from example.test to a@inbox.test, b@inbox.test',
  ]);
  expect(traced.lines.filter((line) => line.includes('deferred at mx.inbox.test'))).toEqual([
    expect.stringContaining('451 4.7.1 not now'),
    expect.stringContaining('451 4.7.1 not now'),
  ]);
  expect(traced.steps.slice(-2)).toEqual(['waits', 'waits']);
  const one = traced.timeline.at(-1)?.id ?? '';
  const delivery = await trace(one);
  expect(
    delivery.timeline.filter(({ step }) => step === 'attempt' || step === 'waits').map((entry) => entry.id),
  ).toEqual([one, one]);
});

test('a message that came in: from whom, what was found of it, and where it went', async () => {
  const site = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { hello@example.test: ana@inbox.test } } }
`;
  const { world, trace, settled } = await start({ projects: { 'site.yml': site } });
  const { port } = world.daemon.smtp[0] ?? {};
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port: port ?? 0, ignoreTLS: true });
  const mail = { from: 'visitor@elsewhere.test', to: 'hello@example.test', subject: 'Hi', text: 'Hi' };
  const { response } = await transport.sendMail(mail);
  const [inbound = ''] = /inb_[0-9a-z]{26}/.exec(response) ?? [];
  await settled();
  const traced = await trace(inbound);
  expect(traced.lines[0]).toMatch(
    /^received from <visitor@elsewhere\.test> for hello@example\.test, via \S+ \[127\.0\.0\.1\] over .*: SPF none, DKIM none, DMARC none, ARC none$/,
  );
  expect(traced.lines[1]).toBe('forward from example.test to ana@inbox.test');
  expect(traced.lines).toContainEqual(expect.stringMatching(/^attempt 1 for ana@inbox\.test: delivered at /));
  expect(await trace(traced.messages[0] ?? '')).toEqual({ ...traced, id: traced.messages[0] });
});

test('of a message that is forgotten, what is still known of it', async () => {
  const { world, trace, settled } = await start();
  const sender = await apiClient(world, { tenant: OPERATOR });
  const mail = { from: 'shop@example.test', to: ['a@inbox.test'], subject: 'Hi', text: 'Hi' };
  const sent = await sender.ask('POST', '/email/send', mail);
  const { id } = z.object({ id: z.string() }).parse(sent.body);
  await settled();
  await world.daemon.store.write([forgetMessages([id])]);
  const traced = await trace(sent.headers.get('x-request-id') ?? '');
  expect(traced.lines).toEqual(['mail requested through the API', `email.queued of ${id}`]);
});

test('what nothing is kept of is 404, and says where to look', async () => {
  const { world, ask } = await start();
  const refused = await world.post('/example.test/none', { message: 'x' });
  for (const id of [
    refused.headers.get('x-request-id') ?? '',
    'sub_01jz0000000000000000000000',
    'msg_1',
    'dlv_1',
    'evt_1',
    'inb_1',
    'what',
    'req_!',
  ]) {
    expect(await ask(id)).toMatchObject({
      status: 404,
      body: { code: 'NOT_FOUND', error: expect.stringContaining('only in the log') },
    });
  }
});
