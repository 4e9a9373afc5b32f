/** What an owner sees of mail that comes in: what was accepted and refused, where it would go, and the zone file. */
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import { domains } from '../../src/contract/domains.ts';
import { inbound } from '../../src/contract/queue.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld } from '../harness/daemon.ts';

const SITE = `
project: { name: Shop, slug: shop, owner: owner@inbox.test }
domains:
  example.test:
    forwarding: { info@example.test: owner@inbox.test, old@example.test: reject, '*@example.test': discard }
`;

async function list(client: Client, query = ''): Promise<z.output<typeof inbound.list.answer>> {
  const { status, body } = await client.ask('GET', `/inbound${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return inbound.list.answer.parse(body);
}

test('mail that was accepted and refused is listed with its reasons, its authentication and what it became', async () => {
  const world = await startTestWorld({ projects: { 'shop.yml': SITE } });
  const client = await apiClient(world, { tenant: OPERATOR });
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: world.daemon.smtp[0]?.port ?? 0,
    ignoreTLS: true,
  });
  const mail = { from: 'Ann@sender.test', subject: 'Hi', text: 'Hi' };
  await transport.sendMail({ ...mail, to: 'info@example.test' });
  await expect(transport.sendMail({ ...mail, to: 'old@example.test' })).rejects.toThrow('550');
  await expect.poll(async () => (await list(client)).count).toBe(2);
  const all = await list(client);
  expect(all).toMatchObject({
    count: 2,
    count_is_more: false,
    next_cursor: null,
    inbound: [
      { outcome: 'rejected', reason: 'rejected', recipient: 'old@example.test', authentication: null, messages: [] },
      {
        outcome: 'accepted',
        recipient: 'info@example.test',
        sender: 'Ann@sender.test',
        authentication: { spf: { result: 'none' }, dkim: [], dmarc: { result: 'none' } },
        messages: [expect.stringMatching(/^msg_/)],
      },
    ],
  });
  const found = async (query: string) => (await list(client, query)).inbound.map(({ recipient }) => recipient);
  expect(await found('?outcome=rejected')).toEqual(['old@example.test']);
  expect(await found('?outcome=accepted')).toEqual(['info@example.test']);
  expect(await found('?recipient=OLD@example.test')).toEqual(['old@example.test']);
  expect(await found('?recipient=old@example.test&outcome=accepted')).toEqual([]);
  expect(await found('?sender=ann@sender.test')).toHaveLength(2);
  expect(await found('?reason=rejected')).toEqual(['old@example.test']);
  expect(await found('?domain=example.test&from=2020-01-01&to=2999-01-01')).toHaveLength(2);
  expect(await found('?domain=other.test')).toEqual([]);
  const first = await list(client, '?limit=1');
  expect(await found(`?limit=1&cursor=${first.next_cursor ?? ''}`)).toEqual(['info@example.test']);

  expect((await list(await apiClient(world))).inbound).toEqual([]);
  expect((await list(await apiClient(world, { tenant: OPERATOR, environment: 'test' }))).inbound).toEqual([]);
  const restrictions = { domain_restrictions: ['other.test'] };
  const narrow = await apiClient(world, { tenant: OPERATOR, restrictions });
  expect((await list(narrow)).inbound).toEqual([]);
  expect((await narrow.ask('GET', '/inbound?domain=example.test')).status).toBe(403);
  const { body } = await client.ask('GET', `/messages/${all.inbound[1]?.messages[0] ?? ''}`);
  expect(body).toMatchObject({ kind: 'forward', subject: 'Hi' });
});

test('the forwarding of a domain is listed and explained to its owner alone, and its records are a zone file', async () => {
  const world = await startTestWorld({ projects: { 'shop.yml': SITE } });
  const client = await apiClient(world, { tenant: OPERATOR });
  expect((await client.ask('GET', '/domains/example.test/forwarding')).body).toEqual({
    domain: 'example.test',
    forwarding: [
      { address: 'info@example.test', action: 'forward', to: ['owner@inbox.test'] },
      { address: 'old@example.test', action: 'reject', to: [] },
      { address: '*@example.test', action: 'discard', to: [] },
    ],
  });
  const explain = async (address: string) => {
    const { body } = await client.ask('GET', `/domains/example.test/explain?address=${encodeURIComponent(address)}`);
    return domains.explain.answer.parse(body);
  };
  const { address, steps } = await explain('info+shop');
  expect(address).toBe('info+shop@example.test');
  expect(steps.find(({ step }) => step === 'rule')?.because).toBe('the rule for the address without its tag');
  expect(steps.find(({ step }) => step === 'decision')?.found).toBe('forwarded to owner@inbox.test');
  expect((await explain('old@example.test')).steps.at(-1)).toMatchObject({ step: 'decision', verdict: 'stop' });
  expect((await client.ask('GET', '/domains/example.test/explain?address=a@inbox.test')).status).toBe(400);
  const { body } = await client.ask('GET', '/domains/example.test/zone');
  expect(body).toMatchObject({
    filename: 'example.test.zone',
    zone: expect.stringMatching(/^; DNS records of example/),
  });
  const foreign = await apiClient(world);
  for (const path of ['zone', 'forwarding', 'explain?address=a'])
    expect((await foreign.ask('GET', `/domains/example.test/${path}`)).status).toBe(404);
});
