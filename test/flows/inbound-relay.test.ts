/** Nobody mails a stranger through us: the whole daemon, up to what comes out at the other side. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { startSmtpPeer } from '../harness/smtp-peer.ts';
import { temporaryFolder } from '../harness/store.ts';

/** With a catch-all, which takes what looks odd more easily than one name does. */
const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "*@example.test": ana@inbox.test } } }
`;
const HEAD = 'From: ann@sender.test\r\nSubject: x\r\n\r\n';
const HOST = 'mail.postern.test';

async function start(server: Record<string, Record<string, unknown>> = {}) {
  const peer = await startSmtpPeer();
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: { delivery: { port: peer.port }, limits: { smtp: { errors: 100_000 } }, ...server },
    // So that mail for them would find its way.
    zone: [
      ...['victim.test', 'sender.test'].map((name) => ({ name, type: 'MX' as const, value: '10 mx.inbox.test' })),
      { name: 'sender.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
    ],
  });
  const port = world.daemon.smtp[0]?.port ?? 0;

  async function greeted(): Promise<SmtpClient> {
    const client = await SmtpClient.open(port);
    await client.say('EHLO client.test');
    return client;
  }

  /** Whether all of the transaction was taken. */
  async function offer(sender: string, recipient: string): Promise<boolean> {
    const client = await greeted();
    const isTaken = await transact(client, sender, recipient);
    client.close();
    return isTaken;
  }

  async function transact(client: SmtpClient, sender: string, recipient: string): Promise<boolean> {
    if (!(await client.say(`MAIL FROM:${sender}`)).startsWith('250')) return false;
    if (!(await client.say(`RCPT TO:${recipient}`)).startsWith('250')) return false;
    expect(await client.say('DATA')).toMatch(/^354/);
    client.write(`${HEAD}x\r\n.\r\n`);
    return (await client.reply()).startsWith('250');
  }

  /** Waits until so many have come out, and a while for more. */
  async function out(count: number): Promise<typeof peer.messages> {
    await expect.poll(() => peer.messages.length).toBeGreaterThanOrEqual(count);
    await expect.poll(async () => (await world.queue()).every(({ settled_at }) => settled_at !== null)).toBe(true);
    return peer.messages;
  }

  return { world, peer, client: await greeted(), greeted, offer, out };
}

describe('a stranger', () => {
  const RECIPIENTS = [
    '<victim@victim.test>',
    '<victim%victim.test@example.test>',
    '<victim%victim.test@mail.postern.test>',
    '<victim+x%victim.test@example.test>',
    '<victim.test!victim@example.test>',
    '<example.test!victim.test!victim>',
    '<"victim@victim.test"@example.test>',
    '<"victim%victim.test"@example.test>',
    '<"victim@victim.test">',
    '<"a\\"b"@example.test>',
    '<victim@victim.test@example.test>',
    '<victim@victim.test.>',
    '<info@example.test.>',
    '<@example.test:victim@victim.test>',
    '<@example.test,@mail.postern.test:victim@victim.test>',
    '<@example.test:victim%victim.test@example.test>',
    '<@[127.0.0.1]:victim@victim.test>',
    '<victim@[127.0.0.1]>',
    '<victim@[IPv6:::1]>',
    '<victim@127.0.0.1>',
    '<victim@2130706433>',
    '<victim@localhost>',
    '<victim@victim.test> <info@example.test>',
    '<info@example.test> <victim@victim.test>',
    '<info@example.test>,<victim@victim.test>',
    '<info@example.test,victim@victim.test>',
    '<info@example.test\tvictim@victim.test>',
    '<<victim@victim.test>@example.test>',
    '<SRS0=aaaaaaaa=aa=victim.test=victim@mail.postern.test>',
    '<srs0+aaaaaaaa=aa=victim.test=victim@mail.postern.test>',
    '<SRS1=aaaaaaaa=victim.test==aaaaaaaa=aa=victim.test=victim@mail.postern.test>',
    '<b+aaaaaaaaaaaaaaaaaaaaaaaaaaaa@mail.postern.test>',
    '<"SRS0=aaaaaaaa=aa=victim.test=victim"@mail.postern.test>',
  ];

  test('reaches nobody but whom the map names, whoever he says he is and however he writes it', async () => {
    const { offer, out } = await start();
    const senders = ['<x@sender.test>', '<>', '<info@example.test>', `<postmaster@${HOST}>`];
    const taken: string[] = [];
    for (const sender of senders)
      for (const recipient of RECIPIENTS) if (await offer(sender, recipient)) taken.push(`${sender} ${recipient}`);
    expect(taken).toEqual([]);
    // All else is accepted; a source route says nothing (RFC 5321 appendix C).
    expect(await offer('<x@sender.test>', '<@victim.test:anybody@example.test>')).toBe(true);
    expect((await out(1)).map(({ to }) => to)).toEqual([['ana@inbox.test']]);
  });

  test('puts nothing into the envelope that goes out, whatever sender he names', async () => {
    const { offer, out, peer } = await start();
    const senders = [
      '<"a> RCPT TO:<victim"@victim.test>',
      '<"a\\> SIZE=1"@sender.test>',
      '<@victim.test:x@sender.test>',
      '<x@[127.0.0.1]>',
      '<x%victim.test@sender.test>',
      '<victim.test!x@sender.test>',
      '<SRS0=abcd=AA=victim.test=v@sender.test>',
      '<SRS1=abcd=other.test==abcd=AA=victim.test=v@sender.test>',
      `<SRS0=abcd=AA=victim.test=v@${HOST}>`,
      '<x@sender.test>RCPT TO:<victim@victim.test>',
      '<x@sender.test> AUTH=victim@victim.test',
      `<${'x'.repeat(64)}@${'long.'.repeat(36)}test>`,
      '<x=y=z@sender.test>',
      "<!#$&'*+-/=?^_`{|}~@sender.test>",
    ];
    let taken = 0;
    for (const sender of senders) if (await offer(sender, '<info@example.test>')) taken++;
    expect(taken).toBeGreaterThan(4);
    const mails = await out(taken);
    expect(mails).toHaveLength(taken);
    const paths = peer.lines.filter((line) => /^(?:MAIL|RCPT)/.test(line));
    const ours = /^MAIL FROM:<[^<>" ]{1,191}@mail\.postern\.test>(?: [A-Z0-9]+(?:=[A-Z0-9]+)?)*$/;
    for (const line of paths) if (line !== 'RCPT TO:<ana@inbox.test>') expect(line).toMatch(ours);
    expect(paths).toHaveLength(taken * 2);
  });
});

describe('one message in is one message out', () => {
  const SMUGGLED = 'MAIL FROM:<evil@sender.test>\r\nRCPT TO:<info@example.test>\r\nDATA\r\nsmuggled\r\n';

  test('wherever what looks like an end is cut', async () => {
    const { client, out } = await start();
    const body = `one\r\n..\r\n${SMUGGLED}..\r\n..QUIT\r\n`;
    const bytes = Buffer.from(`${HEAD}${body}.\r\n`);
    const from = HEAD.length;
    const cuts = Array.from({ length: bytes.length - from }, (_, i) => from + i).filter(
      (cut) => cut < from + 14 || cut > bytes.length - 20,
    );
    for (const cut of cuts) {
      await client.say('MAIL FROM:<x@sender.test>');
      await client.say('RCPT TO:<info@example.test>');
      await client.say('DATA');
      client.write(bytes.subarray(0, cut));
      await new Promise((resolve) => setTimeout(resolve, 2));
      client.write(bytes.subarray(cut));
      expect(await client.reply()).toMatch(/^250/);
    }
    const mails = await out(cuts.length);
    expect(mails).toHaveLength(cuts.length);
    const sent = HEAD + body.replaceAll(/^\./gm, '').trimEnd();
    expect(mails.every(({ data, from: sender }) => data.endsWith(sent) && !sender.includes('evil'))).toBe(true);
  });

  test('and none where the end is not one', async () => {
    const { client, out, offer, world } = await start();
    for (const end of ['\n.\n', '\n.\r\n', '\r\n.\n', '\r.\r', '\r\n.\r', '\r.\r\n', '\r\n\0.\r\n', '\r\n.\0\r\n']) {
      await client.say('MAIL FROM:<x@sender.test>');
      await client.say('RCPT TO:<info@example.test>');
      await client.say('DATA');
      client.write(`${HEAD}one${end}${SMUGGLED}.\r\n`);
      expect(await client.reply()).toMatch(/^554 5\.6\.0/);
    }
    expect(await offer('<x@sender.test>', '<info@example.test>')).toBe(true);
    expect(await out(1)).toHaveLength(1);
    expect(await world.daemon.store.read.selectFrom('inbound').select('id').execute()).toHaveLength(1);
  });
});

test('what was said in clear text is forgotten behind STARTTLS, and never heard as if it were not', async () => {
  const folder = await temporaryFolder();
  const { key, cert } = selfSignedCertificate([HOST], Date.now());
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key, { mode: 0o600 });
  const { client, greeted, out } = await start({ tls: { mode: 'files', files } });
  const TRANSACTION = 'MAIL FROM:<evil@sender.test>\r\nRCPT TO:<info@example.test>\r\n';

  const eager = await greeted();
  eager.write(`STARTTLS\r\n${TRANSACTION}DATA\r\n${HEAD}x\r\n.\r\n`);
  expect(await eager.reply()).toMatch(/^421/);
  expect(await eager.reply()).toBe('closed');

  // A transaction that has begun does not come along.
  client.write(TRANSACTION);
  expect([await client.reply(), await client.reply()].join()).toMatch(/^250.*250/);
  expect(await client.say('STARTTLS')).toMatch(/^220/);
  await client.secure();
  expect(await client.say('DATA')).toMatch(/^503/);
  expect(await client.send(`${HEAD}x`)).toMatch(/^250/);
  expect((await out(1)).map(({ from }) => from)).toEqual([expect.stringContaining('=sender.test=x@')]);
});
