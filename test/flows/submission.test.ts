import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { simpleParser, type ParsedMail } from 'mailparser';
import { expect, test } from 'vitest';
import type { CatchingMx } from '../../src/dev/catching-mx.ts';
import { hold, release } from '../../src/queue/operate.ts';
import { SITE, startTestWorld } from '../harness/daemon.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const JSON_ANSWER = { Accept: 'application/json' };

async function parsed(mails: CatchingMx['mails'], index = 0): Promise<ParsedMail> {
  const mail = mails.list()[index];
  if (mail === undefined) throw new Error('no such mail');
  return simpleParser(await mails.source(mail), { skipTextToHtml: true, skipHtmlToText: true });
}

test('a form post arrives as one signed mail, its text and files as they were sent', async () => {
  const world = await startTestWorld({ asInProduction: true });
  const form = new FormData();
  form.set('name', '山田 太郎');
  form.set('email', 'yamada@inbox.test');
  form.set('message', 'こんにちは。\nHello & <b>goodbye</b>');
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 256));
  form.append('files', new Blob([bytes]), '写真.bin');
  form.append('files', new Blob(['plain text\n'], { type: 'text/plain' }), 'notes.txt');
  const response = await world.post('/example.test/contact', form, JSON_ANSWER);
  expect(await response.json()).toMatchObject({ success: true, ok: true, id: expect.stringMatching(/^sub_/) });
  expect(response.status).toBe(200);

  const mails = await world.caught(1);
  expect(mails.list()).toHaveLength(1);
  expect(mails.list()[0]).toMatchObject({
    envelope: { from: expect.stringMatching(/^b\+\w+@mail\.postern\.test$/), to: ['owner@inbox.test'] },
    verdicts: { dkim: [{ result: 'pass', domain: 'example.test' }], spf: { result: 'pass' } },
  });
  const mail = await parsed(mails);
  expect(mail.from?.text).toBe('"山田 太郎 via Contact form" <forms@example.test>');
  expect(mail.replyTo?.value).toEqual([{ address: 'yamada@inbox.test', name: '山田 太郎' }]);
  expect(mail.subject).toBe('Contact form: 山田 太郎');
  expect(mail.headers.get('auto-submitted')).toBe('auto-generated');
  expect(mail.text).toContain('山田 太郎');
  expect(mail.text).toMatch(/こんにちは。\n *Hello & <b>goodbye<\/b>/);
  expect(mail.html).toContain('山田 太郎');
  expect(mail.html).toContain('Hello &amp; &lt;b&gt;goodbye&lt;/b&gt;');
  expect(mail.attachments.map(({ filename }) => filename)).toEqual(['写真.bin', 'notes.txt']);
  expect(mail.attachments[0]?.content.equals(bytes)).toBe(true);
  expect(mail.attachments[1]?.content.toString()).toBe('plain text\n');
});

test.each([
  [
    'with SMTPUTF8',
    '250-mx\r\n250-8BITMIME\r\n250 SMTPUTF8',
    ' BODY=8BITMIME SMTPUTF8',
    'Reply-To: "J" <jürgen@example.org>',
  ],
  ['without it', '250-mx\r\n250 8BITMIME', '', undefined],
])('a visitor whose address is beyond ASCII can be answered by a server %s', async (_, ehlo, parameters, replyTo) => {
  const peer = await startSmtpPeer({ script: { ehlo } });
  const world = await startTestWorld({ server: { delivery: { port: peer.port } } });
  await world.post('/example.test/contact', { name: 'J', email: 'jürgen@example.org', message: 'x' }, JSON_ANSWER);
  await expect.poll(() => peer.messages.length).toBe(1);
  const data = Buffer.from(peer.messages[0]?.data ?? '', 'latin1').toString();
  const [header = ''] = data.split('\r\n\r\n', 1);
  expect(header.split('\r\n').find((line) => line.startsWith('Reply-To:'))).toBe(replyTo);
  expect(peer.lines.find((line) => line.startsWith('MAIL'))?.replace(/.*>/, '')).toBe(parameters);
  const mail = await simpleParser(Buffer.from(peer.messages[0]?.data ?? '', 'latin1'));
  expect(mail.text).toContain('jürgen@example.org');
});

test('urlencoded, multipart and JSON give the same mail, at both spellings of the address', async () => {
  const world = await startTestWorld();
  const fields = { name: 'Ann', email: 'ann@inbox.test', message: 'One line' };
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  const answers = [
    await world.post('/example.test/contact', fields, JSON_ANSWER),
    await world.post('/v1/example.test/contact', form, JSON_ANSWER),
    await fetch(`${world.url}/example.test/contact`, {
      method: 'POST',
      body: JSON.stringify(fields),
      headers: { 'Content-Type': 'application/json' },
    }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  const mails = await world.caught(3);
  const texts = await Promise.all(
    [0, 1, 2].map(async (i) => (await parsed(mails, i)).text?.replace(/\/s\/\S+|\d\d:\d\d/g, '')),
  );
  expect(texts[0]).toContain('One line');
  expect(new Set(texts).size).toBe(1);
});

test('a pending domain answers 403 with what to publish, and works once that is published', async () => {
  const world = await startTestWorld({ unverified: ['example.test'] });
  const refused = await world.post('/example.test/contact', { name: 'Ann' }, JSON_ANSWER);
  expect(refused.status).toBe(403);
  const body: unknown = await refused.json();
  expect(body).toMatchObject({ error: true, code: 403, errors: [{ code: 'DOMAIN_NOT_VERIFIED' }] });
  expect(JSON.stringify(body)).toContain('_postern.example.test');
  expect(JSON.stringify(body)).toContain('postern._domainkey.example.test');
  const report = await world.daemon.domains.report('example.test');
  world.dns.set((report?.records ?? []).filter((record) => record.required));
  await world.daemon.domains.check('example.test');
  expect((await world.post('/example.test/contact', { name: 'Ann' }, JSON_ANSWER)).status).toBe(200);
});

test('the visitor gets one acknowledgment a day, which holds nothing of what was typed', async () => {
  const project = SITE.replace('uploads: { enabled: true }', 'acknowledgment: { enabled: true }');
  const world = await startTestWorld({ projects: { 'site.yml': project } });
  const fields = { name: 'Buy pills', email: 'ann@inbox.test', message: 'http://spam.example/ buy pills' };
  await world.post('/example.test/contact', fields);
  await world.post('/example.test/contact', fields);
  const mails = await world.caught(3);
  const toVisitor = mails.list().filter(({ envelope }) => envelope.to.includes('ann@inbox.test'));
  expect(toVisitor).toHaveLength(1);
  const [first] = toVisitor;
  const source = first === undefined ? '' : (await mails.source(first)).toString();
  expect(source).toMatch(/^Auto-Submitted: auto-replied/m);
  expect(source).toMatch(/^Reply-To: owner@inbox\.test/m);
  expect(source).not.toContain('pills');
});

test('what was accepted is rendered under the revision that accepted it', async () => {
  const templates = (word: string): string => `${SITE.replace('uploads:', 'template: mine, uploads:')}
templates:
  mine: { subject: "${word}: {{ form.name }}", text: "${word} {{ form.message || 'nothing' }}" }
`;
  const world = await startTestWorld({ asInProduction: true, projects: { 'site.yml': templates('First') } });
  await hold(world.daemon.store, 'inbox.test');
  await world.post('/example.test/contact', { name: 'Ann', message: 'one' });
  await writeFile(join(world.folder, 'projects', 'site.yml'), templates('Second'));
  expect(await world.daemon.reload()).toMatchObject({ kind: 'applied', problems: [] });
  await world.post('/example.test/contact', { name: 'Bob', message: '' });
  await release(world.daemon.store, 'inbox.test');
  const mails = await world.caught(2);
  expect(
    mails
      .list()
      .map(({ subject }) => subject)
      .sort(),
  ).toEqual(['First: Ann', 'Second: Bob']);
  const texts = await Promise.all([parsed(mails, 0), parsed(mails, 1)]);
  expect(texts.map(({ text }) => text?.trim()).sort()).toEqual(['First one', 'Second nothing']);
});

test('an edit that is invalid changes nothing and is reported with its place', async () => {
  const world = await startTestWorld();
  const path = join(world.folder, 'projects', 'site.yml');
  const good = await readFile(path, 'utf8');
  await writeFile(path, good.replace('owner@inbox.test, uploads', 'owner@inbox.test, requird: [name], uploads'));
  const reload = await world.daemon.reload();
  expect(reload.kind).toBe('refused');
  expect(JSON.stringify(reload)).toMatch(/site\.yml:7:\d+.*requird.*required/);
  expect((await world.post('/example.test/contact', { name: 'Ann' })).status).toBe(200);
  await world.caught(1);
  await writeFile(path, good);
  expect(await world.daemon.reload()).toMatchObject({ problems: [] });
});
