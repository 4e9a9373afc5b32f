/**
 * What its author's server has signed is still signed when a second Postfix gets it from us: three signers, four clients
 * and two verifiers that share no code with us. What comes back to our envelope sender reaches the author.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { spf } from 'mailauth/lib/spf/index.js';
import nodemailer from 'nodemailer';
import { expect, onTestFinished, test } from 'vitest';
import { mailauthResolver } from '../../src/dns/resolver.ts';
import { generateDkimKey } from '../../src/mail/dkim.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { needPackage, succeeds } from '../harness/debian.ts';
import { verifyWithDkimpy } from '../harness/dkimpy.ts';
import { startTestDns } from '../harness/dns.ts';
import { startOpendkim, verifyWithOpendkim } from '../harness/opendkim.ts';
import { startPostfix } from '../harness/postfix.ts';
import { swaks } from '../harness/swaks.ts';

const PYTHON = '/usr/bin/python3';
const run = promisify(execFile);
const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
domains: { example.test: { forwarding: { "info@example.test": ana@inbox.test } } }
`;
/** Else Postfix adds them, at the end. */
const DATED = 'Date: Sat, 21 Nov 2026 12:00:00 +0000\\nMessage-ID: <3@inbox.test>\\n';
const BODY = 'caf\\xe9\\r\\n.\\r\\n..  two  blanks \\t\\r\\n\\r\\n\\r\\n';

/** dkimpy signs for author.test, smtplib sends. */
const SMTPLIB = `
import dkim, smtplib, sys
port, key = int(sys.argv[1]), sys.argv[2].encode()
message = b'From: Ann <ann@author.test>\\r\\nTo: info@example.test\\r\\nSubject:  by smtplib \\r\\n folded\\r\\nDate: Sat, 21 Nov 2026 12:00:00 +0000\\r\\nMessage-ID: <2@author.test>\\r\\n\\r\\n${BODY}'
signature = dkim.sign(message, b'sel', b'author.test', key, canonicalize=(b'relaxed', b'simple'))
with smtplib.SMTP('127.0.0.1', port) as client:
    client.sendmail('ann@author.test', ['info@example.test'], signature + message, mail_options=['BODY=8BITMIME'])
`;

async function start() {
  const mx = await startPostfix();
  onTestFinished(() => mx.close());
  const { privateKey, publicKey } = await generateDkimKey('rsa');
  const record = { name: 'sel._domainkey.author.test', value: `v=DKIM1; k=rsa; p=${publicKey}` };
  const world = await startTestWorld({
    projects: { 'site.yml': SITE },
    server: { delivery: { port: mx.port } },
    zone: [
      { type: 'TXT', ...record },
      { name: 'author.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
      { name: 'author.test', type: 'MX', value: '10 mx.inbox.test' },
      { name: '_dmarc.author.test', type: 'TXT', value: 'v=DMARC1; p=reject; adkim=s' },
    ],
  });
  return { world, mx, privateKey, record, port: world.daemon.smtp[0]?.port ?? 0 };
}

test('signed mail of Postfix, smtplib, nodemailer and swaks arrives signed, from an envelope sender that SPF passes', async () => {
  const { world, mx, privateKey, record, port } = await start();
  needPackage(() => succeeds(PYTHON, ['-c', 'import dkim']), 'python3-dkim');
  const signer = await startOpendkim({ domain: 'author.test', selector: 'sel', privateKey });
  onTestFinished(() => signer.close());
  const sender = await startPostfix({ relayTo: `127.0.0.1:${port}`, milter: signer.milter });
  onTestFinished(() => sender.close());

  const envelope = ['--from', 'ann@author.test', '--to', 'info@example.test'];
  const header = ['--h-From', 'Ann <ann@author.test>', '--header'];
  expect(await swaks(sender.port, [...envelope, ...header, 'Subject: by Postfix'])).toMatchObject({ code: 0 });
  await run(PYTHON, ['-c', SMTPLIB, `${port}`, privateKey]);
  await nodemailer.createTransport({ host: '127.0.0.1', port, ignoreTLS: true }).sendMail({
    from: 'Änn <ann@author.test>',
    to: 'info@example.test',
    subject: `by nodemailer, ${'größer '.repeat(20)}`,
    text: 'Grüße\n\n',
    html: `<p>${'ü'.repeat(500)}</p>`,
    attachments: [{ filename: 'a.bin', content: Buffer.alloc(300_000, 0xfe) }],
    dkim: { domainName: 'author.test', keySelector: 'sel', privateKey },
  });
  const byPostfix = (await mx.untilMessages(3, 30_000)).find(({ raw }) => raw.includes('by Postfix'))?.raw.toString();
  // swaks signs nothing: it hands in what is signed already.
  const signed = byPostfix?.slice(byPostfix.search(/^DKIM-Signature: /m)).replaceAll('\r\n', '\\n') ?? '';
  expect(await swaks(port, [...envelope, '--data', signed])).toMatchObject({ code: 0 });

  const mails = await mx.untilMessages(4, 30_000);
  const raws = mails.map(({ raw }) => raw);
  expect(await verifyWithDkimpy(raws, [record])).toEqual(raws.map(() => ['pass']));
  expect(await verifyWithOpendkim(raws, [record])).toEqual([true, true, true, true]);
  const { resolver } = await startTestDns(world.publicZone);
  for (const { sender: from, recipient } of mails) {
    expect(recipient).toBe('ana@inbox.test');
    expect(from).toMatch(/^SRS0=.*=author\.test=ann@mail\.postern\.test$/);
    const { status } = await spf({
      sender: from,
      ip: '127.0.0.1',
      helo: 'mail.postern.test',
      mta: 'mx.postfix.test',
      resolver: mailauthResolver(resolver),
    });
    expect(status.result).toBe('pass');
  }
});

test('a bounce to where a forward came from reaches its author, a forged one nobody', async () => {
  const { mx, port } = await start();
  await swaks(port, ['--from', 'ann@author.test', '--to', 'info@example.test', '--h-From', 'ann@author.test']);
  const [forwarded] = await mx.untilMessages(1, 30_000);
  const srs = forwarded?.sender ?? '';
  const data = `From: MAILER-DAEMON@mx.inbox.test\\n${DATED}Subject: not there\\n\\nSorry\\n`;
  const forged = [
    srs.replace('=ann@', '=eve@'),
    srs.replace('author.test', 'victim.test'),
    srs.replace('@mail.postern.test', '@example.test'),
    'SRS0=aaaaaaaa=aa=victim.test=eve@mail.postern.test',
    'SRS1=aaaaaaaa=other.test==aaaa=aa=victim.test=eve@mail.postern.test',
  ];
  for (const to of forged) {
    const refused = await swaks(port, ['--from', '<>', '--to', to, '--data', data]);
    expect(refused.transcript).toMatch(/<\*\* 550 5\.1\.1/);
  }
  const stranger = await swaks(port, ['--from', 'eve@author.test', '--to', srs, '--data', data]);
  expect(stranger.transcript).toMatch(/<\*\* 550 5\.1\.1/);
  expect(await swaks(port, ['--from', '<>', '--to', srs, '--data', data])).toMatchObject({ code: 0 });
  const mails = await mx.untilMessages(2, 30_000);
  const returned = mails.find(({ recipient }) => recipient === 'ann@author.test');
  expect(returned).toMatchObject({ sender: '' });
  expect(returned?.raw.toString()).toMatch(/Subject: not there\r\n\r\nSorry\r\n(?:\r\n)?$/);
  expect(mails).toHaveLength(2);
});
