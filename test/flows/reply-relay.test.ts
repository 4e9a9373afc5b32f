/** An owner and a visitor talk through the form's domain: the whole daemon. */
import nodemailer from 'nodemailer';
import { describe, expect, test } from 'vitest';
import { removeSubmission } from '../../src/store/submissions.ts';
import { startTestWorld } from '../harness/daemon.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forwarding: { "info@example.test": owner@inbox.test }
    forms:
      contact: { name: Contact form, to: owner@inbox.test, reply_relay: true }
`;

async function start() {
  const world = await startTestWorld({ projects: { 'site.yml': PROJECT } });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  await world.post('/example.test/contact', { name: 'Vera', email: 'vera@inbox.test', message: 'Hello?' });
  const notified = await mail(world, 1);
  const address = /^Reply-To: (?:"Vera"\s+)?<?([^\s<>]+@example\.test)>?\r$/m.exec(notified.text)?.[1] ?? '';
  const id = /^Message-ID: (\S+)\r$/m.exec(notified.text)?.[1] ?? '';
  return { ...world, world, transport, address, id, notified };
}

/** The last of so many mails. */
async function mail(world: Awaited<ReturnType<typeof startTestWorld>>, count: number) {
  const mails = await world.caught(count);
  const last = [...mails.list()].sort((a, b) => (a.id < b.id ? -1 : 1)).at(-1);
  if (last === undefined) throw new Error('nothing arrived');
  return { ...last, text: (await mails.source(last)).toString('latin1') };
}

describe('an answer', () => {
  test('reaches the visitor in the form’s name, and the visitor’s comes back; neither sees the other’s way', async () => {
    const { world, transport, address, id, notified } = await start();
    expect(address).toMatch(/^reply\+v[0-9a-z]{42}@example\.test$/);
    expect(notified.text).not.toMatch(/^Reply-To:.*vera/m);
    await transport.sendMail({
      from: 'Olga Owner <owner@inbox.test>',
      sender: 'secretary@inbox.test',
      to: address,
      cc: 'boss@inbox.test',
      replyTo: 'private@inbox.test',
      envelope: { from: 'owner@inbox.test', to: address },
      subject: 'Re: Grüße',
      inReplyTo: id,
      references: id,
      text: 'Welcome',
      headers: { 'X-Mailer': 'Owner’s own', 'Disposition-Notification-To': 'owner@inbox.test' },
      attachments: [{ filename: 'large.bin', content: Buffer.alloc(500_000, 7) }],
    });
    const answer = await mail(world, 2);
    expect(answer.envelope.to).toEqual(['vera@inbox.test']);
    expect(answer.envelope.from).toMatch(/^b\+.*@mail\.postern\.test$/);
    expect(answer.verdicts).toMatchObject({ dkim: [{ result: 'pass', domain: 'example.test' }] });
    const [header = '', body = ''] = answer.text.split('\r\n\r\n', 2);
    const back = /^From: "Contact form"\s+<(reply\+o[0-9a-z]{42}@example\.test)>\r$/m.exec(header)?.[1] ?? '';
    expect(back).not.toBe('');
    expect(header).toMatch(/^To: vera@inbox\.test\r$/m);
    expect(header).toContain(`In-Reply-To: ${id}\r\nReferences: ${id}\r\n`);
    expect(header).toMatch(/^Subject: =\?UTF-8\?Q\?Re=3A_/m);
    expect(body + answer.text).toContain('Welcome');
    expect(answer.text).not.toMatch(/owner|boss|private|secretary|X-Mailer/i);
    expect(answer.text.length).toBeGreaterThan(600_000);

    await transport.sendMail({
      from: 'Vera <vera@inbox.test>',
      to: back.toUpperCase().replace('EXAMPLE.TEST', 'example.test'),
      subject: 'Re: Re: Grüße',
      text: 'Thanks',
    });
    const thanks = await mail(world, 3);
    expect(thanks.envelope.to).toEqual(['owner@inbox.test']);
    expect(thanks.text).toContain('\r\nFrom: "Vera via Contact form"');
    expect(thanks.text).toContain(`<${address}>`);
    expect(thanks.text).toContain('Thanks');
    const rows = await world.daemon.store.read.selectFrom('messages').select(['kind', 'tenant']).execute();
    expect(rows.map(({ kind }) => kind)).toEqual(['notification', 'reply', 'reply']);
  });

  test('of a machine ends here; one that nobody gave out is refused, and so is one about what is forgotten', async () => {
    const { world, transport, address } = await start();
    const text = { from: 'owner@inbox.test', subject: 'away', text: 'x' };
    await transport.sendMail({ ...text, to: address, headers: { 'Auto-Submitted': 'auto-replied' } });
    await transport.sendMail({ ...text, to: address, envelope: { from: '', to: address } });
    const forged = address.replace(/.@/, (last) => (last === 'a@' ? 'b@' : 'a@'));
    await expect(transport.sendMail({ ...text, to: forged })).rejects.toThrow('550 5.1.1');
    // What came to the mail server is written down a moment later.
    await expect.poll(() => world.queue()).toMatchObject([{ state: 'delivered' }]);
    const [about] = await world.daemon.store.read.selectFrom('submissions').select('id').execute();
    await world.daemon.store.write(removeSubmission(about?.id ?? ''));
    await expect(transport.sendMail({ ...text, to: address })).rejects.toThrow('550 5.1.1 this conversation has ended');
    const rows = await world.daemon.store.read.selectFrom('messages').select('kind').execute();
    expect(rows).toEqual([{ kind: 'notification' }]);
    // A refusal is written behind the answer.
    const reasons = async () => {
      const log = await world.daemon.store.read.selectFrom('inbound_log').select('reason').orderBy('id').execute();
      return log.map(({ reason }) => reason);
    };
    await expect.poll(reasons).toEqual(['reply', 'reply', 'unknown_recipient', 'conversation_over']);
  });

  test('and answers without end have one', async () => {
    const { transport, address } = await start();
    const pooled = { from: 'owner@inbox.test', to: address, subject: 'x', text: 'x' };
    for (let i = 0; i < 30; i++) await transport.sendMail(pooled);
    await expect(transport.sendMail(pooled)).rejects.toThrow('451 4.7.1 too many replies');
  });
});
