/** Files and messages in a bucket: the whole daemon, and a server that speaks the S3 protocol. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { simpleParser } from 'mailparser';
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { startDaemon } from '../../src/daemon/daemon.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { ask } from '../harness/binary.ts';
import { startTestWorld, type TestWorld, type WorldSettings } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';
import { startTestBucket } from '../harness/s3.ts';
import { migratedDatabase } from '../harness/store.ts';
import { runOperator } from '../harness/terminal.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000, from: shop@example.test }
domains:
  example.test:
    forwarding: { "info@example.test": owner@inbox.test }
    forms:
      contact: { to: owner@inbox.test, uploads: { enabled: true } }
`;
const HEADERS = { Accept: 'application/json', Origin: 'https://example.test' };
const MIB = 1024 * 1024;

async function start(settings: WorldSettings = {}) {
  const bucket = await startTestBucket();
  const world = await startTestWorld({
    ...settings,
    projects: { 'site.yml': SITE },
    server: { storage: bucket.settings },
    zone: [{ name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' }],
  });
  /** The bucket is away, or back. */
  function away(isAway: boolean): void {
    bucket.proxy.refuse(isAway);
    if (isAway) bucket.proxy.hangUp();
  }
  return { ...world, bucket, away };
}

function postFile(world: TestWorld, bytes: Uint8Array<ArrayBuffer>): Promise<Response> {
  const form = new FormData();
  form.set('email', 'ann@inbox.test');
  form.set('message', 'See the file');
  form.set('file', new Blob([bytes]), 'plan.pdf');
  return world.post('/example.test/contact', form, HEADERS);
}

async function firstAttachment(world: TestWorld): Promise<Buffer | undefined> {
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('nothing arrived');
  return (await simpleParser(await mails.source(mail))).attachments[0]?.content;
}

/** A message with a body of about so many bytes in lines of 76. */
function messageOf(bytes: number): string {
  const lines =
    randomBytes(Math.ceil((bytes / 78) * 57))
      .toString('base64')
      .match(/.{1,76}/g) ?? [];
  return `From: Ann <ann@sender.test>\r\nTo: info@example.test\r\nSubject: large\r\n\r\n${lines.join('\r\n')}\r\n`;
}

function sendIn({ daemon }: TestWorld, raw: string) {
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port: daemon.smtp[0]?.port ?? 0, ignoreTLS: true });
  return transport.sendMail({ envelope: { from: 'ann@sender.test', to: 'info@example.test' }, raw });
}

test.each([false, true])(
  'a file goes through the bucket into the mail, and is gone when its submission is (threads: %s)',
  async (asInProduction) => {
    const world = await start({ asInProduction });
    const bytes = randomBytes(700_000);
    const answer = await postFile(world, bytes);
    expect(answer.status).toBe(200);
    expect((await firstAttachment(world))?.equals(bytes)).toBe(true);
    // What is so large is not in the database.
    const rows = await world.daemon.store.read.selectFrom('file_chunks').select('bytes').execute();
    expect(rows.map((row) => row.bytes.length)).toEqual([0, 0, 0]);
    expect((await world.bucket.objects()).length).toBeGreaterThanOrEqual(3);

    const { id } = (await answer.json()) as { id: string };
    const client = await apiClient(world, { tenant: OPERATOR });
    const { body } = await client.ask('GET', `/submissions/${id}`);
    const { files } = body as { files: { id: string }[] };
    const { headers } = await testKey(world.daemon.store, { tenant: OPERATOR });
    const file = await fetch(`${world.url}/submissions/${id}/files/${files[0]?.id}`, { headers });
    expect(Buffer.from(await file.arrayBuffer()).equals(bytes)).toBe(true);
    await expect.poll(async () => (await world.queue()).every(({ state }) => state === 'delivered')).toBe(true);
    expect((await client.ask('DELETE', `/submissions/${id}`)).status).toBeLessThan(300);
    await expect.poll(() => world.bucket.objects()).toEqual([]);
  },
);

test('an inbound message of 5 MB goes through it byte for byte', async () => {
  const world = await start();
  const raw = messageOf(5 * MIB);
  expect((await sendIn(world, raw)).response).toMatch(/^250 /);
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('nothing arrived');
  expect((await mails.source(mail)).toString('latin1').endsWith(raw)).toBe(true);
  expect((await world.bucket.objects()).length).toBeGreaterThan(40);
});

test('a mail with an attachment that a program sends goes through it', async () => {
  const world = await start();
  const content = randomBytes(MIB);
  const client = await apiClient(world, { tenant: OPERATOR });
  const email = {
    from: 'shop@example.test',
    to: 'owner@inbox.test',
    subject: 'Invoice',
    text: 'See the file',
    attachments: [{ filename: 'invoice.pdf', content: content.toString('base64') }],
  };
  expect((await client.ask('POST', '/email/send', email)).status).toBeLessThan(300);
  expect((await firstAttachment(world))?.equals(content)).toBe(true);
  expect((await world.bucket.objects()).length).toBeGreaterThan(3);
});

test('while it is away, a post with a file and a large message are not accepted, and all else is', async () => {
  const world = await start();
  const bytes = randomBytes(700_000);
  world.away(true);
  const refused = await postFile(world, bytes);
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({ errors: [{ code: 'UNAVAILABLE' }] });
  await expect(sendIn(world, messageOf(MIB))).rejects.toThrow('451 4.3.0');
  expect((await world.post('/example.test/contact', { message: 'no file' }, HEADERS)).status).toBe(200);
  expect((await sendIn(world, messageOf(1000))).response).toMatch(/^250 /);
  await world.caught(2);
  world.away(false);
  expect((await postFile(world, bytes)).status).toBe(200);
  await world.caught(3);
});

test('while it is away, mail that needs it waits, and nothing is bounced', async () => {
  const world = await start();
  const client = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  await client.ask('POST', '/admin/queue/hold', { domain: 'inbox.test' });
  const bytes = randomBytes(700_000);
  expect((await postFile(world, bytes)).status).toBe(200);
  expect((await sendIn(world, messageOf(MIB))).response).toMatch(/^250 /);
  world.away(true);
  await client.ask('POST', '/admin/queue/release', { domain: 'inbox.test' });
  const replies = async () => (await world.queue()).map(({ last_reply: reply }) => reply);
  const waits = '451 4.3.0 the message could not be prepared';
  await expect.poll(replies).toEqual([waits, waits]);
  world.away(false);
  await world.caught(2);
  const arrived = async () => (await world.queue()).map(({ state }) => state);
  await expect.poll(arrived).toEqual(['delivered', 'delivered']);
});

test('readyz and the doctor say whether it can be written and read', async () => {
  const { daemon, away } = await start();
  const socketPath = daemon.addresses?.socket;
  const doctor = async () => (await runOperator(socketPath ?? '', ['doctor'])).out;
  expect(await doctor()).toMatch(/storage.*the bucket mail at http:\/\/127\.0\.0\.1:\d+ can be written and read/);
  away(true);
  expect(await doctor()).toMatch(/storage.*the bucket mail at \S+ cannot be reached/);
  const { status, body } = await ask({ socketPath, path: '/readyz' });
  expect(status).toBe(503);
  expect(body).toMatchObject({
    checks: {
      database: { ok: true },
      storage: { ok: false, reason: 'the storage.url bucket cannot be read or written' },
    },
  });
});

test('a daemon whose files are in a bucket does not start without it', async () => {
  const bucket = await startTestBucket();
  const url = await migratedDatabase();
  const world = await startTestWorld({ server: { storage: bucket.settings, database: { url } } });
  expect((await postFile(world, randomBytes(700_000))).status).toBe(200);
  await world.daemon.close();
  const file = join(world.folder, 'server.yml');
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace(/^storage:\n(?: .*\n)+/m, ''));
  const starting = startDaemon(file);
  onTestFinished(async () => (await starting.catch(() => undefined))?.close());
  await expect(starting).rejects.toThrow('files and messages of this database are in a bucket: set storage.url');
});
