/** Debian's OpenSMTPD as the other side, both ways. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { freePort } from '../harness/child.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { startOpenSmtpd, type OpenSmtpd } from '../harness/opensmtpd.ts';
import { temporaryFolder } from '../harness/store.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test, "gone@example.test": gone@inbox.test } } }
`;
const LINE = 'Grüße aus Köln\r\n.\r\n..zwei\r\n';

/** A daemon whose mail goes to the OpenSMTPD, which in its turn sends what is for the daemon's domain there. */
async function start() {
  const port = await freePort();
  const certificate = selfSignedCertificate(['mail.postern.test', 'mx.inbox.test'], Date.now());
  const peer = await startOpenSmtpd({
    tls: certificate,
    routes: { 'example.test': port },
    answers: { 'gone@inbox.test': '550 5.1.1 no such user', 'later@inbox.test': '451 4.7.1 come back later' },
  });
  onTestFinished(() => peer.close());
  const folder = await temporaryFolder();
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, certificate.cert);
  await writeFile(files.key, certificate.key, { mode: 0o600 });
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: {
      server: { smtp: { listen: [`127.0.0.1:${port}`] } },
      tls: { mode: 'files', files },
      delivery: { port: peer.port },
      limits: { message: '5MiB' },
    },
    zone: [
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
  return { world, peer };
}

/** By way of the OpenSMTPD, as its own mail. */
async function sendBy(peer: OpenSmtpd, to: string, text: string): Promise<void> {
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port: peer.port, ignoreTLS: true });
  const raw = `From: Ann <ann@author.test>\r\nTo: ${to}\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\nMessage-ID: <1@author.test>\r\n${text}`;
  await transport.sendMail({ envelope: { from: 'ann@author.test', to }, raw: Buffer.from(raw) });
}

test('of the recipients of one mail one is refused, one told to wait, and one gets it, although its TLS is broken', async () => {
  const { world, peer } = await start();
  const client = await apiClient(world, { tenant: OPERATOR });
  const to = ['ana@inbox.test', 'gone@inbox.test', 'later@inbox.test'];
  const { body } = await client.ask('POST', '/email/send', {
    from: 'hello@example.test',
    to,
    subject: 'x',
    text: LINE,
  });
  const { id } = body as { id: string };
  const show = async (): Promise<Record<string, unknown>> => {
    const { recipients } = (await client.ask('GET', `/email/${id}`)).body as {
      recipients: { address: string; state: string; attempts: { tls: string }[] }[];
    };
    return Object.fromEntries(recipients.map(({ address, state, attempts }) => [address, [state, attempts[0]?.tls]]));
  };
  // Debian's build offers STARTTLS and fails in every handshake (its key process does not work with OpenSSL 3): that is no
  // reason to keep mail back.
  await expect.poll(show).toEqual({
    'ana@inbox.test': ['delivered', null],
    'gone@inbox.test': ['bounced', null],
    'later@inbox.test': ['deferred', null],
  });
  expect((await peer.untilMessages(1)).map(({ recipient }) => recipient)).toEqual(['ana@inbox.test']);
  const { body: list } = await client.ask('GET', '/suppressions');
  expect(list).toMatchObject({ suppressions: [{ address: 'gone@inbox.test', reason: 'bounce' }] });
});

test('its mail is forwarded once each, over TLS, 8-bit and large', async () => {
  const { world, peer } = await start();
  for (let i = 0; i < 10; i++) await sendBy(peer, 'info@example.test', `Subject: mail ${i}\r\n\r\n${LINE}`);
  const large = LINE.repeat(50_000);
  await sendBy(peer, 'info@example.test', `Subject: large\r\n\r\n${large}`);
  const mails = await peer.untilMessages(11, 60_000);
  const subjects = mails.map(({ raw }) => /^Subject: (.*?)\r?$/m.exec(raw.toString())?.[1]);
  expect(subjects.toSorted()).toEqual([...Array.from({ length: 10 }, (_, i) => `mail ${i}`), 'large'].toSorted());
  expect(mails.find(({ raw }) => raw.includes('Subject: large'))?.raw.toString()).toContain(`\r\n\r\n${large}`);
  const rows = await world.daemon.store.read.selectFrom('inbound').select('tls').distinct().execute();
  expect(rows).toEqual([{ tls: 'TLSv1.3' }]);
});

test('its author is told of what is refused, of what is too large, and of a forward that failed', async () => {
  const { peer } = await start();
  await sendBy(peer, 'nobody@example.test', 'Subject: refused\r\n\r\nhello\r\n');
  await sendBy(peer, 'info@example.test', `Subject: large\r\n\r\n${'hello\r\n'.repeat(900_000)}`);
  await sendBy(peer, 'gone@example.test', 'Subject: forwarded\r\n\r\nhello\r\n');
  const mails = await peer.untilMessages(3, 60_000);
  expect(new Set(mails.map(({ sender, recipient }) => `<${sender}> ${recipient}`))).toEqual(
    new Set(['<> ann@author.test']),
  );
  const texts = mails.map(({ raw }) => raw.toString());
  for (const words of [/nobody@example\.test[^]*550 5\.1\.1/, /^info@example\.test: .+/m, /no such user/]) {
    expect(texts.filter((text) => words.test(text)).length, String(words)).toBeGreaterThan(0);
  }
});
