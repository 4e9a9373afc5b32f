/** A program hands in mail with its key, and it arrives, signed: the whole daemon. */
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

test('what a program submits leaves signed for its domain, and the API shows it', async () => {
  const files = selfSignedCertificate(['mail.postern.test'], systemClock.now());
  const world = await startTestWorld({
    server: {
      server: { smtp: { listen: [], submission: { listen: ['127.0.0.1:0'], enabled: true } } },
      tls: { mode: 'files', files },
    },
  });
  const key = await testKey(world.daemon.store, { tenant: OPERATOR });
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: world.daemon.smtp[0]?.port ?? 0,
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: 'apikey', pass: key.value },
  });
  const sent = await transport.sendMail({
    from: 'Shop <shop@example.test>',
    to: 'ana@inbox.test',
    bcc: 'bob@inbox.test',
    subject: 'Grüße',
    text: 'Hello',
    attachments: [{ filename: 'large.bin', content: Buffer.alloc(600_000, 'x') }],
  });
  const mails = await world.caught(1);
  const [mail] = mails.list();
  if (mail === undefined) throw new Error('nothing arrived');
  expect(mail.verdicts).toMatchObject({ dkim: [{ result: 'pass', domain: 'example.test' }] });
  expect(mail.envelope.from).toMatch(/^b\+.*@mail\.postern\.test$/);
  expect([...mail.envelope.to].sort()).toEqual(['ana@inbox.test', 'bob@inbox.test']);
  const source = (await mails.source(mail)).toString('latin1');
  expect(source).not.toContain('bob@inbox.test');
  expect(source).toContain(`Message-ID: ${sent.messageId}\r\n`);
  const id = sent.response.split(' ').at(-1);
  const shown = async () => (await fetch(`${world.url}/email/${id}`, { headers: key.headers })).json();
  await expect.poll(shown).toMatchObject({ status: 'delivered' });
  expect(await shown()).toMatchObject({
    id,
    message_id: sent.messageId,
    status: 'delivered',
    subject: 'Grüße',
    to: ['ana@inbox.test'],
    bcc: ['bob@inbox.test'],
  });
  const operator = await testKey(world.daemon.store, { tenant: OPERATOR, permissions: ['admin'] });
  const traced = await fetch(`${world.url}/admin/trace/${id}`, { headers: operator.headers });
  expect(await traced.json()).toMatchObject({
    timeline: expect.arrayContaining([
      expect.objectContaining({
        step: 'inbound',
        text: expect.stringMatching(/^received from <shop@.*: with an API key$/),
      }),
    ]),
  });
});

test('what a test key submits is captured, and its bytes are shown', async () => {
  const files = selfSignedCertificate(['mail.postern.test'], systemClock.now());
  const world = await startTestWorld({
    server: {
      server: { smtp: { listen: [], submission: { listen: ['127.0.0.1:0'], enabled: true } } },
      tls: { mode: 'files', files },
    },
  });
  const key = await testKey(world.daemon.store, { tenant: OPERATOR, environment: 'test' });
  const transport = nodemailer.createTransport({
    host: '127.0.0.1',
    port: world.daemon.smtp[0]?.port ?? 0,
    tls: { rejectUnauthorized: false },
    auth: { user: 'apikey', pass: key.value },
  });
  const mail = { from: 'shop@example.test', to: 'ana@inbox.test', subject: 'x', text: 'Hello' };
  const { response } = await transport.sendMail(mail);
  const path = `${world.url}/email/${response.split(' ').at(-1)}`;
  const status = async () => {
    const shown = (await (await fetch(path, { headers: key.headers })).json()) as { status: string };
    return shown.status;
  };
  await expect.poll(status).toBe('captured');
  const { source, size } = (await (await fetch(`${path}/source`, { headers: key.headers })).json()) as {
    source: string;
    size: number;
  };
  expect(source).toHaveLength(size);
  expect(source).toMatch(/^DKIM-Signature: [^]*\r\nFrom: shop@example\.test\r\n[^]*\r\n\r\nHello\r\n$/);
  expect(world.mx.mails.list()).toEqual([]);
});

test('submission is off by default', async () => {
  const world = await startTestWorld();
  expect(world.daemon.smtp).toHaveLength(1);
});
