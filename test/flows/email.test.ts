/** Mail through the API, from the request to the wire of the recipient's server, or to where test mail ends. */
import { simpleParser } from 'mailparser';
import { Resend } from 'resend';
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { startTestWorld, type TestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const SITE = `
project: { name: Shop, slug: shop, owner: owner@inbox.test }
settings: { from: Shop <hello@example.test> }
domains: { example.test: { forms: { contact: { to: owner@inbox.test } } } }
templates:
  order: { subject: 'Order {{ number }}', html: '<p>Thank you, {{ name }}. Total: {{ total || "0" }}</p>' }
`;
const SETTINGS = { projects: { 'shop.yml': SITE } };

interface Shown {
  readonly id: string;
  readonly status: string;
  readonly html: string;
  readonly recipients: readonly { address: string; state: string; attempts: readonly object[] }[];
}

/** Waits until the mail has come to this; answers it as the API shows it. */
async function reaches(client: Awaited<ReturnType<typeof apiClient>>, id: string, status: string): Promise<Shown> {
  const show = async () => (await client.ask('GET', `/email/${id}`)).body as Shown;
  await expect.poll(async () => (await show()).status).toBe(status);
  return show();
}

async function send(client: Awaited<ReturnType<typeof apiClient>>, body: object): Promise<string> {
  const { status, body: answer } = await client.ask('POST', '/email/send', body);
  expect([status, answer]).toEqual([200, expect.objectContaining({ status: 'queued' })]);
  return (answer as { id: string }).id;
}

async function caughtMail(world: TestWorld, index = 0) {
  const mails = await world.caught(index + 1);
  const found = mails.list().toSorted((a, b) => a.at - b.at)[index];
  if (found === undefined) throw new Error('no such mail');
  const source = (await mails.source(found)).toString();
  return { found, source, mail: await simpleParser(source) };
}

test('a mail from a template arrives signed, with its files, and nobody sees who else got it in secret', async () => {
  const world = await startTestWorld(SETTINGS);
  const client = await apiClient(world, { tenant: OPERATOR });
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 256));
  const id = await send(client, {
    to: 'Ana García <ana@inbox.test>',
    bcc: 'secret@inbox.test',
    template: 'order',
    data: { number: 7, name: '<Ana>' },
    reply_to: 'help@example.test',
    headers: { 'X-Order': '7', References: '<1@example.test>' },
    attachments: [{ filename: 'Rechnung №7.pdf', content: bytes.toString('base64') }],
  });
  const { found, source, mail } = await caughtMail(world);
  expect(found.verdicts).toMatchObject({ dkim: [{ result: 'pass', domain: 'example.test' }], spf: { result: 'pass' } });
  expect(found.envelope.to.toSorted()).toEqual(['ana@inbox.test', 'secret@inbox.test']);
  expect(source.slice(0, source.indexOf('\r\n\r\n'))).not.toMatch(/secret/i);
  expect([mail.from?.text, mail.subject, mail.replyTo?.text]).toEqual([
    '"Shop" <hello@example.test>',
    'Order 7',
    'help@example.test',
  ]);
  expect(mail.html).toBe('<p>Thank you, &lt;Ana&gt;. Total: 0</p>');
  expect(mail.text?.trim()).toBe('Thank you, <Ana>. Total: 0');
  expect(mail.headers.get('x-order')).toBe('7');
  expect(mail.attachments).toMatchObject([{ filename: 'Rechnung №7.pdf', contentType: 'application/pdf' }]);
  expect(mail.attachments[0]?.content.equals(bytes)).toBe(true);
  const shown = await reaches(client, id, 'delivered');
  expect(shown.recipients.find(({ address }) => address === 'ana@inbox.test')).toMatchObject({
    state: 'delivered',
    attempts: [
      {
        at: expect.any(String),
        host: 'mx.inbox.test',
        address: '127.0.0.1',
        tls: 'TLSv1.3',
        outcome: 'delivered',
        reply: expect.stringMatching(/^250 /),
      },
    ],
  });
  // What was attached is in the finished mail, and nowhere twice.
  expect(await world.daemon.store.read.selectFrom('attachment_chunks').select('seq').execute()).toEqual([]);
});

test('the pair of headers to unsubscribe is signed', async () => {
  const world = await startTestWorld({
    ...SETTINGS,
    server: { server: { http: { listen: ['127.0.0.1:0'], base_url: 'https://mail.postern.test' } } },
  });
  const client = await apiClient(world, { tenant: OPERATOR });
  await send(client, { to: 'ana@inbox.test', subject: 'News', text: 'News', unsubscribe: true });
  const { found, source } = await caughtMail(world);
  expect(found.verdicts.dkim).toMatchObject([{ result: 'pass' }]);
  const unfolded = source.replaceAll(/\r\n[ \t]+/g, ' ');
  const [, token = ''] =
    /^List-Unsubscribe: <https:\/\/mail\.postern\.test(\/unsubscribe\/\S+)>\r$/m.exec(unfolded) ?? [];
  expect(unfolded).toMatch(/^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
  const signed = /^DKIM-Signature: .*?\bh=([^;]+);/m.exec(unfolded)?.[1]?.replaceAll(/\s/g, '') ?? '';
  expect(signed.split(':')).toEqual(expect.arrayContaining(['List-Unsubscribe', 'List-Unsubscribe-Post']));

  const done = await fetch(world.url + token, {
    method: 'POST',
    body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }),
  });
  expect(done.status).toBe(200);
  await reaches(client, await send(client, { to: 'ANA@inbox.test', subject: 'More', text: 'More' }), 'suppressed');
  expect(world.mx.mails.list()).toHaveLength(1);
});

test('a test key’s mail is captured, readable, and never dialled; its sandbox plays every end', async () => {
  const world = await startTestWorld(SETTINGS);
  const client = await apiClient(world, { tenant: OPERATOR, environment: 'test' });
  const id = await send(client, { to: 'ana@inbox.test', template: 'order', data: { number: 8 } });
  expect((await reaches(client, id, 'captured')).html).toContain('Thank you');
  const { body } = await client.ask('GET', `/email/${id}/source`);
  const { source } = body as { source: string };
  expect(source).toMatch(/^DKIM-Signature: /);
  expect((await simpleParser(source)).subject).toBe('Order 8');
  for (const [part, state] of [
    ['bounce', 'bounced'],
    ['defer', 'deferred'],
    ['complain', 'complained'],
    ['deliver', 'captured'],
  ] as const) {
    await reaches(client, await send(client, { to: `${part}@sandbox.invalid`, subject: 'Hi', text: 'Hi' }), state);
  }
  expect(world.mx.mails.list()).toEqual([]);
});

test('a form that is posted with a test key mails nobody either', async () => {
  const world = await startTestWorld(SETTINGS);
  const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR, environment: 'test' });
  const posted = await world.post(
    '/example.test/contact',
    { message: 'Hello' },
    { ...headers, Accept: 'application/json' },
  );
  expect(posted.status).toBe(200);
  await expect.poll(() => world.queue()).toMatchObject([{ state: 'captured' }]);
  expect(world.mx.mails.list()).toEqual([]);
  const [delivery] = await world.queue();
  const source = await fetch(`${world.url}/email/${delivery?.message}/source`, { headers });
  expect(((await source.json()) as { source: string }).source).toContain('Hello');
});

test('Resend’s SDK delivers through a whole daemon', async () => {
  const world = await startTestWorld(SETTINGS);
  const { value } = await testKey(world.daemon.store, { tenant: OPERATOR });
  const resend = new Resend(value, { baseUrl: world.url });
  const { data } = await resend.emails.send({
    from: 'Shop <hello@example.test>',
    to: ['ana@inbox.test'],
    subject: 'Hi',
    text: 'Hello',
  });
  const { mail } = await caughtMail(world);
  expect([mail.subject, mail.text?.trim()]).toEqual(['Hi', 'Hello']);
  await expect.poll(async () => (await resend.emails.get(data?.id ?? '')).data?.last_event).toBe('delivered');
});
