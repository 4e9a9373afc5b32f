/** Mail in at the listener, and out again to where it is forwarded: the whole daemon. */
import nodemailer from 'nodemailer';
import { describe, expect, test } from 'vitest';
import { startTestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forwarding:
      "info@example.test": ana@inbox.test
      "team@example.test": [ana@inbox.test, bob@inbox.test]
      "nobody@example.test": discard
    forms:
      contact: { to: owner@inbox.test }
`;

async function start(server: Record<string, Record<string, unknown>> = {}) {
  const world = await startTestWorld({
    projects: { 'site.yml': PROJECT },
    server,
    zone: [
      { name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: '_dmarc.strict.test', type: 'TXT', value: 'v=DMARC1; p=reject' },
      { name: 'strict.test', type: 'TXT', value: 'v=spf1 -all' },
      { name: '_dmarc.example.test', type: 'TXT', value: 'v=DMARC1; p=reject' },
    ],
  });
  const port = world.daemon.smtp[0]?.port ?? 0;
  return { ...world, port, transport: nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true }) };
}

describe('forwarding', () => {
  test('a message arrives where the map says, byte for byte behind our lines', async () => {
    const { transport, caught } = await start();
    const raw = 'From: Ann <ann@sender.test>\r\nTo: info@example.test\r\nSubject: x\r\n\r\n..dots\r\n.\r\nend\r\n';
    const sent = await transport.sendMail({
      envelope: { from: 'ann@sender.test', to: 'info@example.test' },
      raw,
    });
    expect(sent.response).toMatch(/^250 2\.0\.0 accepted as inb_/);
    const mails = await caught(1);
    const [mail] = mails.list();
    expect(mail?.envelope.to).toEqual(['ana@inbox.test']);
    expect(mail?.envelope.from).toMatch(/^SRS0=.*@mail\.postern\.test$/);
    expect(mail?.verdicts).toMatchObject({ spf: { result: 'pass' } });
    if (mail === undefined) throw new Error('nothing arrived');
    const source = (await mails.source(mail)).toString('latin1');
    expect(source.endsWith(raw)).toBe(true);
    const ours = source.slice(0, -raw.length);
    expect(ours).toMatch(/^Delivered-To: info@example\.test\r$/m);
    expect(ours).toMatch(/^Received: from /m);
    expect(ours).toMatch(/^Authentication-Results: mail\.postern\.test/m);
  });

  test('a list gets it each, nobody gets nothing, and strangers are no relay', async () => {
    const { transport, caught } = await start();
    const text = { from: 'ann@sender.test', subject: 'x', text: 'hello' };
    await transport.sendMail({ ...text, to: ['team@example.test', 'nobody@example.test'] });
    // Both are at one destination: one transaction.
    const [mail] = (await caught(1)).list();
    expect(mail?.envelope.to.toSorted()).toEqual(['ana@inbox.test', 'bob@inbox.test']);
    await expect(transport.sendMail({ ...text, to: 'victim@elsewhere.test' })).rejects.toThrow('550 5.7.1');
    await expect(transport.sendMail({ ...text, to: 'unknown@example.test' })).rejects.toThrow('550 5.1.1');
  });

  test('what the author’s domain wants refused is refused', async () => {
    const { transport, daemon } = await start();
    const forged = { from: 'boss@strict.test', to: 'info@example.test', subject: 'x', text: 'pay' };
    await expect(transport.sendMail(forged)).rejects.toThrow('550 5.7.1');
    expect(await daemon.store.read.selectFrom('messages').select('id').execute()).toEqual([]);
  });

  test('or only noted, and its author then named by us', async () => {
    const { transport, caught } = await start({ inbound: { dmarc: 'record' } });
    await transport.sendMail({ from: 'Boss <boss@strict.test>', to: 'info@example.test', subject: 'x', text: 'pay' });
    const mails = await caught(1);
    const [mail] = mails.list();
    if (mail === undefined) throw new Error('nothing arrived');
    const source = (await mails.source(mail)).toString('latin1');
    expect(source).toMatch(/^From: "Boss via example\.test" <forwarded@example\.test>\r$/m);
    expect(source).toMatch(/^Reply-To: Boss <boss@strict\.test>\r$/m);
    expect(source).toMatch(/^ARC-Authentication-Results: i=1; mail\.postern\.test;(?:.|\r\n )*dmarc=fail/m);
    expect(mail.verdicts).toMatchObject({ dmarc: { result: 'pass', domain: 'example.test' } });
  });
});

test('a message that comes round again ends', async () => {
  const { port } = await start();
  const client = await SmtpClient.open(port);
  const reply = await client.send('Delivered-To: info@example.test\r\nFrom: a@sender.test\r\n\r\nx', {
    from: 'a@sender.test',
  });
  expect(reply).toMatch(/^554 5\.4\.6/);
});

test('a stop lets a transaction end, and what was taken is forwarded after the next start', async () => {
  const { daemon, port, caught } = await start();
  const client = await SmtpClient.open(port);
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<ann@sender.test>');
  await client.say('RCPT TO:<info@example.test>');
  await client.say('DATA');
  const closed = daemon.close();
  client.write('From: ann@sender.test\r\n\r\nx\r\n.\r\n');
  expect(await client.reply()).toMatch(/^250/);
  await closed;
  expect((await caught(0)).list().length).toBeLessThanOrEqual(1);
});
