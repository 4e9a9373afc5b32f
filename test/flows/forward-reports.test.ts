/** Mail that cannot be forwarded: the whole daemon, from the sender's RCPT to the report that he gets. */
import { simpleParser } from 'mailparser';
import nodemailer from 'nodemailer';
import { expect, test } from 'vitest';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey } from '../harness/keys.ts';

const PROJECT = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains:
  example.test:
    forwarding:
      "info@example.test": ana@gone.test
      "both@example.test": [ana@gone.test, ana@inbox.test]
`;

async function start() {
  const world = await startTestWorld({
    projects: { 'site.yml': PROJECT },
    zone: [
      // RFC 7505: it takes no mail.
      { name: 'gone.test', type: 'MX', value: '0 .' },
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: 'stranger.test', type: 'MX', value: '10 mx.inbox.test' },
    ],
  });
  const port = world.daemon.smtp[0]?.port ?? 0;
  const transport = nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true });

  async function ends(count: number): Promise<Record<string, unknown>[]> {
    const read = () =>
      world.daemon.store.read.selectFrom('events').select('data').where('type', '=', 'email.bounced').execute();
    await expect.poll(async () => (await read()).length).toBe(count);
    return (await read()).map(({ data }) => JSON.parse(data) as Record<string, unknown>);
  }

  return { ...world, transport, ends };
}

test('an author for whom SPF vouches gets one report, which verifies', async () => {
  const { transport, caught, ends } = await start();
  await transport.sendMail({
    from: 'Ann <ann@author.test>',
    to: 'info@example.test',
    subject: 'Offer',
    text: 'secret',
  });
  const mails = await caught(1);
  const [report] = mails.list();
  if (report === undefined) throw new Error('nothing arrived');
  expect(report.envelope).toMatchObject({ from: '', to: ['ann@author.test'] });
  expect(report.verdicts).toMatchObject({ dkim: [{ result: 'pass' }] });
  const mail = await simpleParser(await mails.source(report), { keepDeliveryStatus: true });
  const [status, headers] = mail.attachments.map(({ content }) => content.toString());
  expect(status).toContain('Final-Recipient: rfc822; info@example.test\r\nAction: failed\r\nStatus: 5.1.10\r\n');
  expect(headers).toContain('Subject: Offer');
  expect((await mails.source(report)).toString()).not.toMatch(/secret|ana@/);
  expect(await ends(1)).toMatchObject([{ recipient: 'ana@gone.test', dsn: 'queued' }]);
});

test('nobody hears anything where a stranger may have used his name, or there is none', async () => {
  const { transport, caught, ends, daemon, url } = await start();
  const raw = 'From: bob@stranger.test\r\nSubject: x\r\n\r\nx\r\n';
  await transport.sendMail({ envelope: { from: 'bob@stranger.test', to: 'both@example.test' }, raw });
  await transport.sendMail({ envelope: { from: '', to: 'info@example.test' }, raw });
  expect((await ends(2)).map(({ dsn }) => dsn).toSorted()).toEqual(['not_vouched', 'null_sender']);
  // The owner of the domain sees what its sender will never hear of.
  const key = await testKey(daemon.store, { tenant: OPERATOR });
  const listed = await fetch(`${url}/events?type=email.bounced`, { headers: key.headers });
  const { events } = (await listed.json()) as { events: { domain: string; data: Record<string, unknown> }[] };
  expect(events.map(({ domain, data: { recipient, dsn } }) => ({ domain, recipient, dsn }))).toEqual(
    expect.arrayContaining([
      { domain: 'example.test', recipient: 'ana@gone.test', dsn: 'not_vouched' },
      { domain: 'example.test', recipient: 'ana@gone.test', dsn: 'null_sender' },
    ]),
  );
  // Who can be reached gets it all the same.
  expect((await caught(1)).list().map(({ envelope }) => envelope.to)).toEqual([['ana@inbox.test']]);
});
