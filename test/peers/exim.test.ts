/** Debian's Exim as the other side, both ways: what is accepted arrives once, and what is refused is told to its author. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient, type Client } from '../harness/api.ts';
import { openAppliance } from '../harness/binary.ts';
import { freePort, until } from '../harness/child.ts';
import { startTestWorld, type WorldSettings } from '../harness/daemon.ts';
import { verifyWithDkimpy } from '../harness/dkimpy.ts';
import { startExim, type Exim, type EximOptions } from '../harness/exim.ts';
import { referenceIn, sendMany } from '../harness/load.ts';
import { temporaryFolder } from '../harness/store.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test } } }
`;
const LINE = 'Grüße aus Köln, und ein Punkt am Anfang der nächsten Zeile\r\n.\r\n..zwei\r\n';

async function exim(options?: EximOptions): Promise<Exim> {
  const started = await startExim(options);
  onTestFinished(() => started.close());
  return started;
}

async function certificate(name: string): Promise<{ cert: string; key: string }> {
  const folder = await temporaryFolder();
  const { key, cert } = selfSignedCertificate([name], Date.now());
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key, { mode: 0o600 });
  return files;
}

/** A daemon that forwards info@example.test to the Exim, which in its turn sends what is for the daemon's domains there. */
async function start(server: WorldSettings['server'] = {}) {
  const port = await freePort();
  const peer = await exim({
    tls: selfSignedCertificate(['mx.inbox.test'], Date.now()),
    routes: { 'example.test': port, 'mail.postern.test': port },
  });
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: {
      ...server,
      server: { smtp: { listen: [`127.0.0.1:${port}`] } },
      tls: { mode: 'files', files: await certificate('mail.postern.test') },
      delivery: { port: peer.port, retry: ['1s', '1s'] },
    },
    zone: [
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
  return { world, peer, port };
}

/** By way of the Exim, as its own mail. */
async function sendBy(peer: Exim, to: string, text: string, from = 'ann@author.test'): Promise<void> {
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port: peer.port, ignoreTLS: true });
  const raw = `From: Ann <ann@author.test>\r\nTo: ${to}\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\nMessage-ID: <1@author.test>\r\n${text}`;
  await transport.sendMail({ envelope: { from, to }, raw: Buffer.from(raw) });
}

async function recipientsOf(client: Client, id: string): Promise<Record<string, string>> {
  const { body } = await client.ask('GET', `/email/${id}`);
  const { recipients } = body as { recipients: { address: string; state: string }[] };
  return Object.fromEntries(recipients.map(({ address, state }) => [address, state]));
}

test('two hundred submissions over TLS arrive once each, with signatures that dkimpy verifies', async () => {
  const mx = await exim({ tls: selfSignedCertificate(['mx.inbox.test'], Date.now()) });
  const appliance = await openAppliance({ deliverTo: mx.port });
  await appliance.startVerified();
  const { accepted } = await sendMany({ url: appliance.formUrl, connections: 8, count: 200 });
  expect(accepted.size).toBe(200);
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 120_000);
  const mails = await mx.untilMessages(200, 60_000);
  expect(mails.map(({ raw }) => referenceIn(raw.toString('latin1')) ?? 'none').sort()).toEqual([...accepted].sort());
  const tries = await appliance.look((db) => db.selectFrom('attempts').select(['outcome', 'tls']).distinct().execute());
  expect(tries).toEqual([{ outcome: 'delivered', tls: 'TLSv1.3' }]);
  const sample = mails.slice(0, 50).map(({ raw }) => raw);
  expect(await verifyWithDkimpy(sample, appliance.published())).toEqual(sample.map(() => ['pass']));
});

test('of the recipients of one mail one is refused, one told to wait, and one gets it at once', async () => {
  const { world, peer } = await start();
  await peer.answer('gone@inbox.test', '550 5.1.1 no such user');
  await peer.answer('later@inbox.test', '451 4.7.1 come back in a second');
  const client = await apiClient(world, { tenant: OPERATOR });
  const to = ['ana@inbox.test', 'gone@inbox.test', 'later@inbox.test'];
  const { body } = await client.ask('POST', '/email/send', { from: 'hello@example.test', to, subject: 'x', text: 'x' });
  const { id } = body as { id: string };
  await expect
    .poll(() => recipientsOf(client, id))
    .toEqual({ 'ana@inbox.test': 'delivered', 'gone@inbox.test': 'bounced', 'later@inbox.test': 'deferred' });
  await peer.answer('later@inbox.test', undefined);
  await expect.poll(async () => (await recipientsOf(client, id))['later@inbox.test']).toBe('delivered');
  expect((await peer.untilMessages(2)).map(({ recipient }) => recipient).sort()).toEqual([
    'ana@inbox.test',
    'later@inbox.test',
  ]);
  const { body: list } = await client.ask('GET', '/suppressions');
  expect(list).toMatchObject({ suppressions: [{ address: 'gone@inbox.test', reason: 'bounce' }] });
});

test('its mail is forwarded, over TLS and several in a connection, 8-bit, large and from a name beyond ASCII', async () => {
  const { peer } = await start();
  const large = `Subject: large\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${LINE.repeat(100_000)}`;
  for (let i = 0; i < 20; i++) await sendBy(peer, 'info@example.test', `Subject: mail ${i}\r\n\r\n${LINE}`);
  await sendBy(peer, 'info@example.test', large);
  await sendBy(peer, 'info@example.test', `Subject: Grüße\r\n\r\n${LINE}`, 'jörg@author.test');
  const mails = await peer.untilMessages(22, 90_000);
  const subjects = mails.map(({ raw }) => /^Subject: (.*?)\r?$/m.exec(raw.toString())?.[1]);
  expect(subjects.toSorted()).toEqual(
    [...Array.from({ length: 20 }, (_, i) => `mail ${i}`), 'large', 'Grüße'].toSorted(),
  );
  expect(new Set(mails.map(({ recipient }) => recipient))).toEqual(new Set(['ana@inbox.test']));
  const whole = mails.find(({ raw }) => raw.includes('Subject: large'));
  expect(whole?.raw.toString().includes(`\r\n\r\n${LINE.repeat(100_000)}`)).toBe(true);
  await expect.poll(() => peer.queued()).toBe(0);
  // Exim's own log: `=>` with the cipher, and `->`-less `*` where a connection carried another message.
  const log = await peer.log();
  expect(log).toMatch(/=> info@example\.test .* X=TLS1\.3/);
  expect(log).toMatch(/=> info@example\.test .*\]\* /);
});

test('what is refused for good, and what is too large, Exim tells its author', async () => {
  const { peer } = await start({ limits: { message: '1MiB' } });
  await sendBy(peer, 'nobody@example.test', 'Subject: refused\r\n\r\nhello\r\n');
  await sendBy(peer, 'info@example.test', `Subject: large\r\n\r\n${'hello\r\n'.repeat(300_000)}`);
  const mails = await peer.untilMessages(2, 60_000);
  expect(mails.map(({ sender, recipient }) => [sender, recipient])).toEqual([
    ['', 'ann@author.test'],
    ['', 'ann@author.test'],
  ]);
  const texts = mails.map(({ raw }) => raw.toString());
  expect(texts.some((text) => text.includes('nobody@example.test') && text.includes('550 5.1.1'))).toBe(true);
  expect(texts.some((text) => text.includes('info@example.test') && /552|size/i.test(text))).toBe(true);
});

test('the report of a forward that failed comes back by way of it, once', async () => {
  const { world, peer } = await start();
  await peer.answer('ana@inbox.test', '550 5.1.1 no such user');
  await sendBy(peer, 'info@example.test', 'Subject: hello\r\n\r\nhello\r\n');
  const [returned] = await peer.untilMessages(1, 60_000);
  expect(returned).toMatchObject({ sender: '', recipient: 'ann@author.test' });
  expect(returned?.raw.toString()).toMatch(/^Content-Type: multipart\/report/m);
  const kinds = await world.daemon.store.read.selectFrom('messages').select('kind').execute();
  expect(kinds.map(({ kind }) => kind).sort()).toEqual(['dsn', 'forward']);
});
