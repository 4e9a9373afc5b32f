/** A real Postfix that takes our mail, finds that it cannot deliver it, and sends it back. */
import { describe, expect, onTestFinished, test } from 'vitest';
import nodemailer from 'nodemailer';
import { OPERATOR } from '../../src/store/tenants.ts';
import { apiClient } from '../harness/api.ts';
import { freePort } from '../harness/child.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { startPostfix } from '../harness/postfix.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';

const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": gone@inbox.test } } }
`;

/** Postfix has all mail: that for inbox.test is refused behind it, that for us comes back, all else is in its maildir. */
async function start() {
  const port = await freePort();
  const inner = await startSmtpPeer({ script: { rcpt: '550 5.1.1 no such user' } });
  const postfix = await startPostfix({
    settings: {
      transport_maps: `inline:{ {inbox.test = smtp:[127.0.0.1]:${inner.port}}, {mail.postern.test = smtp:[127.0.0.1]:${port}} }`,
      smtp_tls_security_level: 'none',
    },
  });
  onTestFinished(() => postfix.close());
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: { server: { smtp: { listen: [`127.0.0.1:${port}`] } }, delivery: { port: postfix.port } },
    zone: [
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
  return { world, postfix, port };
}

describe('Postfix sends back', () => {
  test('mail of ours: it is bounced, and the address suppressed', async () => {
    const { world } = await start();
    const client = await apiClient(world, { tenant: OPERATOR });
    const mail = { from: 'hello@example.test', to: 'ana@inbox.test', subject: 'x', text: 'x' };
    const { id } = (await client.ask('POST', '/email/send', mail)).body as { id: string };
    const show = async () => (await client.ask('GET', `/email/${id}`)).body as { status: string };
    await expect.poll(async () => (await show()).status, { timeout: 30_000, interval: 100 }).toBe('bounced');
    expect(await show()).toMatchObject({
      recipients: [
        {
          reply: '550 5.1.1 no such user',
          attempts: [{ outcome: 'delivered' }, { outcome: 'bounced', host: '127.0.0.1' }],
        },
      ],
    });
    const { body } = await client.ask('GET', '/suppressions');
    expect(body).toMatchObject({ suppressions: [{ address: 'ana@inbox.test', reason: 'bounce' }] });
  });

  test('what we forwarded: its author gets the report, once', async () => {
    const { world, postfix, port } = await start();
    const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
    const raw = 'From: ann@author.test\r\nSubject: hello\r\nMessage-ID: <1@author.test>\r\n\r\nhello\r\n';
    await transport.sendMail({ envelope: { from: 'ann@author.test', to: 'info@example.test' }, raw });
    const [returned] = await postfix.untilMessages(1, 30_000);
    expect(returned).toMatchObject({ sender: '', recipient: 'ann@author.test' });
    const text = returned?.raw.toString() ?? '';
    expect(text).toMatch(/^Content-Type: multipart\/report/m);
    expect(text).toMatch(/^Final-Recipient: rfc822; gone@inbox\.test\r$/m);
    expect(text).toContain('Message-ID: <1@author.test>');
    const kinds = await world.daemon.store.read.selectFrom('messages').select('kind').execute();
    expect(kinds.map(({ kind }) => kind)).toEqual(['forward', 'forward']);
  });
});
