/** Mail of an account of every kind: listed, found, followed through each attempt, read, queued again, cancelled. */
import nodemailer from 'nodemailer';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { messages } from '../../src/contract/messages.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';

const SITE = `
project: { name: Shop, slug: shop, owner: owner@inbox.test }
settings: { from: Shop <hello@example.test> }
domains:
  example.test:
    forms: { contact: { to: owner@inbox.test } }
    forwarding: { info@example.test: owner@inbox.test }
`;

type List = z.output<typeof messages.list.answer>;
type Message = z.output<typeof messages.show.answer>;

async function start() {
  const world = await startTestWorld({ projects: { 'shop.yml': SITE } });
  const client = await apiClient(world, { tenant: OPERATOR });
  return { world, client };
}

async function list(client: Client, query = ''): Promise<List> {
  const { status, body } = await client.ask('GET', `/messages${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return messages.list.answer.parse(body);
}

async function show(client: Client, id: string): Promise<Message> {
  return messages.show.answer.parse((await client.ask('GET', `/messages/${id}`)).body);
}

async function send(client: Client, mail: object): Promise<string> {
  const { body } = await client.ask('POST', '/email/send', { subject: 'Hi', text: 'Hello', ...mail });
  return z.object({ id: z.string() }).parse(body).id;
}

async function settled(client: Client, count: number): Promise<List> {
  const states = async () => (await list(client)).messages.map(({ status }) => status);
  await expect
    .poll(async () => (await states()).filter((one) => !['queued', 'sending'].includes(one)).length)
    .toBe(count);
  return list(client);
}

async function forward(world: TestWorld): Promise<void> {
  const { port = 0 } = world.daemon.smtp[0] ?? {};
  const mail = { from: 'ann@sender.test', to: 'info@example.test', subject: 'Frage zur Bestellung №7', html: HOSTILE };
  await nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true }).sendMail(mail);
}

const HOSTILE =
  '<p>Text</p><script>alert(1)</script><meta http-equiv="refresh" content="0;url=https://evil.test"><link rel="dns-prefetch" href="//evil.test"><img src="//evil.test/x.png"><b style="background:url(//evil.test/y)">b</b>';

test('every kind is listed with its state and found by recipient, subject, form, kind and state', async () => {
  const { world, client } = await start();
  world.mx.behave(({ stage, to }) =>
    stage === 'rcpt' && to.at(-1)?.toLowerCase().startsWith('gone')
      ? { code: 550, text: '5.1.1 no such user' }
      : undefined,
  );
  await world.post('/example.test/contact', { message: 'Are you open?', email: 'ana@inbox.test' });
  const bounced = await send(client, { to: ['Gone@inbox.test', 'bob@inbox.test'], subject: 'Order 7% off' });
  await forward(world);
  const all = await settled(client, 3);
  expect(all).toMatchObject({ count: 3, count_is_more: false, next_cursor: null });
  expect(all.messages.map(({ kind, subject, status }) => [kind, subject, status])).toEqual([
    ['forward', 'Frage zur Bestellung №7', 'delivered'],
    ['transactional', 'Order 7% off', 'bounced'],
    ['notification', null, 'delivered'],
  ]);
  const kindsFor = async (query: string) => (await list(client, query)).messages.map(({ kind }) => kind);
  expect(await kindsFor('?recipient=gone@inbox.test')).toEqual(['transactional']);
  expect(await kindsFor('?recipient=OWNER@inbox.test')).toEqual(['forward', 'notification']);
  expect(await kindsFor('?recipient=owner@inbox.test&state=bounced')).toEqual([]);
  expect(await kindsFor('?state=bounced')).toEqual(['transactional']);
  expect(await kindsFor('?state=bounced&kind=forward')).toEqual([]);
  expect(await kindsFor('?state=delivered')).toEqual(['forward', 'transactional', 'notification']);
  expect(await kindsFor('?q=7%25')).toEqual(['transactional']);
  expect(await kindsFor('?q=bestellung')).toEqual(['forward']);
  expect(await kindsFor('?q=bob@')).toEqual(['transactional']);
  expect(await kindsFor('?kind=notification')).toEqual(['notification']);
  expect(await kindsFor('?form=example.test/contact')).toEqual(['notification']);
  expect(await kindsFor('?form=example.test/other')).toEqual([]);
  expect(await kindsFor(`?submission=${all.messages[2]?.submission ?? ''}`)).toEqual(['notification']);
  expect(await kindsFor('?domain=example.test')).toHaveLength(3);
  expect(await kindsFor('?domain=other.test')).toEqual([]);
  expect(await kindsFor('?from=2999-01-01')).toEqual([]);
  expect(await kindsFor('?to=2999-01-01')).toHaveLength(3);
  const first = await list(client, '?limit=2');
  expect(first.messages).toHaveLength(2);
  expect(await kindsFor(`?limit=2&cursor=${first.next_cursor ?? ''}`)).toEqual(['notification']);

  const message = await show(client, bounced);
  const gone = message.recipients.find(({ address }) => address === 'Gone@inbox.test');
  expect(gone).toMatchObject({ state: 'bounced', reply: expect.stringContaining('5.1.1 no such user') });
  const [attempt] = gone?.attempts ?? [];
  expect(attempt).toMatchObject({ number: 1, outcome: 'bounced', host: 'mx.inbox.test', tls: 'TLSv1.3' });
  const lines = attempt?.dialogue.map(({ side, text }) => `${side} ${text}`) ?? [];
  expect(lines[0]).toBe(`note connecting to 127.0.0.1, port ${world.mx.port}`);
  expect(lines).toContain('client EHLO mail.postern.test');
  expect(lines).toContain('client RCPT TO:<Gone@inbox.test>');
  expect(lines).toContain('server 550 5.1.1 no such user');
  expect(lines).toContainEqual(expect.stringMatching(/^note the message, \d+ bytes$/));
  expect(JSON.stringify(lines)).not.toContain('Hello');
  expect(message.timeline.map(({ step }) => step)).toEqual(expect.arrayContaining(['message', 'attempt', 'end']));
});

test('mail of one form is listed by the age of its submissions, page by page', async () => {
  const { world, client } = await start();
  for (const message of ['first', 'second', 'third']) await world.post('/example.test/contact', { message });
  const { messages: all } = await settled(client, 3);
  const found: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page = await list(client, `?form=example.test/contact&limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`);
    expect(page).toMatchObject({ count: 3, count_is_more: false });
    found.push(...page.messages.map(({ id }) => id));
    cursor = page.next_cursor;
  }
  expect(found).toEqual(all.map(({ id }) => id));
});

test('a bounced recipient is queued again, and what waits is cancelled', async () => {
  const { world, client } = await start();
  let code = 550;
  world.mx.behave(({ stage }) => (stage === 'rcpt' && code !== 250 ? { code, text: '5.7.1 not now' } : undefined));
  const id = await send(client, { to: 'bob@inbox.test' });
  await settled(client, 1);
  expect(await show(client, id)).toMatchObject({ status: 'bounced', recipients: [{ attempts: [{ number: 1 }] }] });
  code = 250;
  expect(await client.ask('POST', `/messages/${id}/resend`)).toMatchObject({ status: 200, body: { status: 'queued' } });
  await expect.poll(async () => (await show(client, id)).status).toBe('delivered');
  expect((await show(client, id)).recipients[0]?.attempts.map(({ outcome }) => outcome)).toEqual([
    'bounced',
    'delivered',
  ]);
  expect((await client.ask('POST', `/messages/${id}/resend`)).status).toBe(409);
  expect((await client.ask('POST', `/messages/${id}/cancel`)).status).toBe(409);
  const scheduled = await send(client, {
    to: 'bob@inbox.test',
    send_at: new Date(Date.now() + 3_600_000).toISOString(),
  });
  expect(await client.ask('POST', `/messages/${scheduled}/cancel`)).toMatchObject({ body: { status: 'cancelled' } });
});

describe('what a message says', () => {
  test('is shown as it came or was asked for, and its HTML in a sandbox that asks for nothing', async () => {
    const { world, client } = await start();
    const sent = await send(client, { to: 'bob@inbox.test', html: '<b>Hello</b>', headers: { 'X-Order': '7' } });
    await forward(world);
    const [came] = (await settled(client, 2)).messages;
    expect(await client.ask('GET', `/messages/${sent}/content`)).toMatchObject({
      body: {
        content: 'requested',
        html_url: expect.stringContaining('/html?token='),
        headers: [{ name: 'Subject', value: 'Hi' }, { name: 'X-Order' }],
      },
    });
    const { body } = await client.ask('GET', `/messages/${came?.id ?? ''}/content`);
    expect(body).toMatchObject({ attachments: [], truncated: false });
    expect(body).toMatchObject({
      headers: expect.arrayContaining([{ name: 'Subject', value: 'Frage zur Bestellung №7' }]),
    });
    const { html_url: address } = messages.content.answer.parse(body);
    const page = await fetch(world.url + (address ?? ''));
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toMatch(/^sandbox; default-src 'none'; img-src data:;/);
    const html = await page.text();
    expect(html).toContain('<p>Text</p>');
    expect(html).not.toMatch(/<(?:script|meta|link)| src=|[^-]url\(/);
    expect((await fetch(world.url + (address ?? '').replace(came?.id ?? '', sent))).status).toBe(404);
    expect((await fetch(`${world.url}/messages/${sent}/html`)).status).toBe(404);
  });

  test('is kept from others: foreign accounts, keys without the permission, of other domains', async () => {
    const { world, client } = await start();
    await world.post('/example.test/contact', { message: 'Are you open?' });
    const id = await send(client, { to: 'bob@inbox.test' });
    await settled(client, 2);
    const foreign = await apiClient(world);
    expect((await list(foreign)).messages).toEqual([]);
    const tester = await apiClient(world, { tenant: OPERATOR, environment: 'test' });
    expect((await list(tester)).messages).toEqual([]);
    for (const path of ['', '/content']) {
      expect((await foreign.ask('GET', `/messages/${id}${path}`)).status).toBe(404);
      expect(await tester.ask('GET', `/messages/${id}${path}`)).toMatchObject({ body: { code: 'AUTH_TEST_KEY' } });
    }
    for (const action of ['resend', 'cancel'])
      expect((await foreign.ask('POST', `/messages/${id}/${action}`)).status).toBe(404);
    const reader = await apiClient(world, { tenant: OPERATOR, permissions: ['forms.read'] });
    expect((await list(reader)).messages.map(({ kind }) => kind)).toEqual(['notification']);
    expect(await reader.ask('GET', `/messages/${id}`)).toMatchObject({ status: 403, body: { code: 'AUTH_FORBIDDEN' } });
    const restrictions = { domain_restrictions: ['other.test'] };
    const narrow = await apiClient(world, { tenant: OPERATOR, restrictions });
    expect((await list(narrow)).messages).toEqual([]);
    expect(await narrow.ask('GET', `/messages/${id}`)).toMatchObject({ body: { code: 'AUTH_DOMAIN_NOT_ALLOWED' } });
  });
});
