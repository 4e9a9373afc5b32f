/** `webhooks …`, against the whole daemon and a program that is told. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { cliWorld } from './cli-world.ts';

/** A program that takes everything until it is told to refuse. */
async function listener() {
  const heard: string[] = [];
  let status = 204;
  const server = createServer((request, response) => {
    heard.push(String(request.headers['webhook-id']));
    request.resume().on('end', () => response.writeHead(status).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    heard,
    refuse: () => void (status = 500),
  };
}

test('are made, tested, rotated, replayed, stopped and removed', async () => {
  const hook = await listener();
  const ana = await cliWorld({ tenant: OPERATOR }, { server: { webhooks: { allow_private_networks: true } } });
  expect(await ana.say(['webhooks', 'list'])).toMatchObject({ code: 0, err: 'No webhooks found.\n' });
  const made = await ana.say([
    'webhooks',
    'add',
    hook.url,
    '--events',
    'submission.accepted',
    '--description',
    'the shop',
  ]);
  expect(made).toMatchObject({ code: 0, err: 'Save the secret now. It is not shown again.\n' });
  const [, id = '', secret] = /^webhook +(whk_\w+)\nurl +\S+\nsecret +(whsec_\S+)\n$/.exec(made.out) ?? [];
  expect(await ana.say(['webhooks', 'list'])).toMatchObject({
    out: `${[id, 'active', 'the API', hook.url, 'submission.accepted'].join('\t')}\n`,
  });
  expect(await ana.say(['webhooks', 'test', id])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^delivered: 204/),
  });

  await ana.post('/example.test/contact', { email: 'bo@inbox.test', message: 'Hi' });
  await expect.poll(() => hook.heard.length).toBe(2);
  // The answer is written down a moment after it was given.
  const settled = async () => (await ana.say(['webhooks', 'show', id], { width: 200 })).out;
  await expect.poll(settled).toMatch(/submission\.accepted +delivered/);
  expect(await ana.say(['webhooks', 'replay', id, '--since', '2020-01-01'])).toMatchObject({
    code: 0,
    out: '1 event queued for redelivery\n',
  });
  await expect.poll(() => hook.heard.length).toBe(3);
  expect(hook.heard[2]).toBe(hook.heard[1]);
  await expect.poll(settled).toMatch(/submission\.accepted +delivered/);

  const rotated = await ana.say(['webhooks', 'rotate', id]);
  expect(rotated.out).toMatch(/^secret +whsec_\S+\nold secret +valid until 2\S+Z\n$/);
  expect(rotated.out).not.toContain(secret);
  const shown = await ana.say(['webhooks', 'show', id], { width: 200 });
  expect(shown.out).toMatch(
    /^description +the shop\nstate +active\n\nLAST ATTEMPT +EVENT +STATE +ATTEMPTS +RESPONSE\n/m,
  );
  expect(shown.out).toMatch(/submission\.accepted +delivered/);

  hook.refuse();
  expect(await ana.say(['webhooks', 'test', id])).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^not delivered: 500/),
  });
  expect(await ana.say(['webhooks', 'disable', id])).toMatchObject({ code: 0, out: `${id} is disabled\n` });
  expect(await ana.say(['webhooks', 'replay', id, '--since', '2020-01-01'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('enable it first'),
  });
  expect(await ana.say(['webhooks', 'enable', id])).toMatchObject({ code: 0, out: `${id} is active\n` });
  expect(await ana.say(['webhooks', 'remove', id])).toMatchObject({
    code: 2,
    err: expect.stringContaining('add --yes'),
  });
  expect(await ana.say(['webhooks', 'remove', id], { answers: [''] })).toMatchObject({ code: 1 });
  expect(await ana.say(['webhooks', 'remove', id, '--yes'])).toMatchObject({ code: 0, out: `Removed ${id}\n` });
  expect(await ana.say(['webhooks', 'show', id])).toMatchObject({ code: 1, err: `There is no webhook ${id}.\n` });
});

test('wrong usage says what is expected', async () => {
  const ana = await cliWorld();
  const said = [
    await ana.say(['webhooks', 'add', 'example.com']),
    await ana.say(['webhooks', 'add', 'https://example.com', '--events', 'submission.acepted']),
    await ana.say(['webhooks', 'add', 'http://127.0.0.1/']),
    await ana.say(['webhooks', 'replay', 'whk_x']),
    await ana.say(['webhooks', 'replay', 'whk_x', '--event', 'evt_x', '--since', '2026-01-01']),
    await ana.say(['webhooks', 'replay', 'whk_x', '--since', 'yesterday']),
  ];
  expect(said.map(({ code, err }) => [code, err])).toEqual([
    [2, expect.stringContaining('a URL such as https://')],
    [2, expect.stringContaining('is not one of submission.accepted')],
    [1, expect.stringContaining('url')],
    [2, expect.stringContaining('Specify --event or --since')],
    [2, expect.stringContaining('cannot be used with option')],
    [2, expect.stringContaining('a date such as')],
  ]);
});
