import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { openCaughtMails } from '../../src/dev/caught-mail.ts';
import { dkimResult } from '../../src/dev/verdicts.ts';
import { silentLog } from '../../src/lib/log.ts';
import { dkimRecordValue } from '../../src/dns/records.ts';
import { generateDkimKey, signDkim } from '../../src/mail/dkim.ts';
import type { ZoneRecord } from '../../src/dev/dns-server.ts';
import { connected, lines, send, startMx, temporaryFolder } from './mail-client.ts';

const MAIL = lines(
  'From: "Forms" <forms@example.test>',
  'To: you@there.test',
  'Subject: =?utf-8?B?5bGx55Sw?=',
  'Message-ID: <1@example.test>',
  'Date: Mon, 15 Jun 2026 12:00:00 +0000',
  '',
  'Hello',
);

describe('taking mail', () => {
  test('a mail is kept byte for byte, with its envelope, before the sender is told', async () => {
    const mx = await startMx();
    const { accepted, response } = await send(await connected(mx), ['you@there.test', 'me@xn--bcher-kva.test'], MAIL);
    expect(accepted).toHaveLength(2);
    expect(response).toMatch(/^250 /);
    const [mail] = mx.mails.list();
    expect(mail).toMatchObject({
      envelope: {
        from: 'bounce@example.test',
        to: ['you@there.test', 'me@xn--bcher-kva.test'],
        client: '127.0.0.1',
        helo: 'mail.example.test',
        tls: 'TLSv1.3',
      },
      from: 'Forms <forms@example.test>',
      subject: '山田',
      attachments: 0,
      size: MAIL.length,
    });
    expect(mail && (await mx.mails.source(mail)).equals(MAIL)).toBe(true);
  });

  test('several mails on one connection, newest first; lines that begin with a dot arrive whole', async () => {
    const mx = await startMx();
    const client = await connected(mx);
    const dots = Buffer.concat([MAIL, Buffer.from('.\r\n..\r\n...\r\n')]);
    await send(client, ['one@there.test'], MAIL);
    await send(client, ['two@there.test'], dots);
    const [newest, oldest] = mx.mails.list();
    expect([newest?.envelope.to, oldest?.envelope.to]).toEqual([['two@there.test'], ['one@there.test']]);
    expect(newest && (await mx.mails.source(newest)).equals(dots)).toBe(true);
  });

  test('STARTTLS shows a certificate for its host name and no other; without tls it is not offered', async () => {
    const mx = await startMx();
    const tls = { ca: mx.certificate, rejectUnauthorized: true };
    await connected(mx, { requireTLS: true, servername: 'mx.there.test', tls });
    const other = connected(mx, { requireTLS: true, servername: 'other.test', tls });
    await expect(other).rejects.toThrow('does not match certificate');
    const clear = await startMx([], { tls: false });
    await send(await connected(clear), ['you@there.test'], MAIL);
    expect(clear.mails.list()[0]?.envelope.tls).toBeNull();
    await expect(connected(clear, { requireTLS: true })).rejects.toMatchObject({ code: 'ETLS' });
  });

  test('the null sender, and a mail that is none', async () => {
    const mx = await startMx();
    const client = await connected(mx);
    await new Promise((resolve, reject) =>
      client.send({ from: false, to: ['you@there.test'] }, Buffer.from('\0\xff\r\n', 'latin1'), (error, info) =>
        error ? reject(error) : resolve(info),
      ),
    );
    expect(mx.mails.list()).toMatchObject([{ envelope: { from: '' }, subject: '', from: '' }]);
  });

  test('a mail of more than 32 MiB is refused and leaves nothing behind', async () => {
    const folder = await temporaryFolder();
    const mx = await startMx([], { folder, tls: false });
    const client = await connected(mx);
    const big = Buffer.concat([MAIL, Buffer.alloc(33 * 1024 * 1024, 'x\r\n')]);
    // The client knows SIZE, so it is told as if the message were small, as a careless one would.
    Object.assign(client, { _maxAllowedSize: 0 });
    await expect(send(client, ['you@there.test'], big)).rejects.toMatchObject({ responseCode: 552 });
    expect(mx.mails.list()).toEqual([]);
    expect(await readdir(folder)).toEqual([]);
  });

  test('a client that leaves in the middle of a mail leaves nothing behind', async () => {
    const folder = await temporaryFolder();
    const mx = await startMx([], { folder });
    const client = await connected(mx, { ignoreTLS: true });
    const half = new PassThrough();
    half.write(MAIL);
    client.once('error', () => undefined);
    client.send({ from: 'a@example.test', to: ['you@there.test'] }, half, () => undefined);
    await expect.poll(() => readdir(folder)).toHaveLength(1);
    client.close();
    await expect.poll(() => readdir(folder)).toEqual([]);
    expect(mx.mails.list()).toEqual([]);
  });
});

describe('verdicts are computed', () => {
  async function signed(): Promise<{ mail: Buffer; record: ZoneRecord }> {
    const { privateKey, publicKey } = await generateDkimKey('ed25519');
    const key = {
      domain: 'example.test',
      selector: 'sel',
      algorithm: 'ed25519',
      key: createPrivateKey(privateKey),
    } as const;
    const mail = Buffer.concat([await signDkim([MAIL], [key], Date.UTC(2026, 5, 15)), MAIL]);
    return {
      mail,
      record: { name: 'sel._domainkey.example.test', type: 'TXT', value: dkimRecordValue('ed25519', publicKey) },
    };
  }
  const SPF: ZoneRecord = { name: 'example.test', type: 'TXT', value: 'v=spf1 a:mail.example.test -all' };
  const HOST: ZoneRecord = { name: 'mail.example.test', type: 'A', value: '127.0.0.1' };
  const DMARC: ZoneRecord = { name: '_dmarc.example.test', type: 'TXT', value: 'v=DMARC1; p=reject' };

  test('everything right: pass, pass, pass', async () => {
    const { mail, record } = await signed();
    const mx = await startMx([record, SPF, HOST, DMARC]);
    await send(await connected(mx), ['you@there.test'], mail);
    const verdicts = mx.mails.list()[0]?.verdicts;
    expect(verdicts).toMatchObject({
      dkim: [{ result: 'pass', domain: 'example.test', selector: 'sel', algorithm: 'ed25519-sha256' }],
      spf: { result: 'pass', domain: 'example.test' },
      dmarc: { result: 'pass', domain: 'example.test' },
    });
    expect(verdicts && dkimResult(verdicts)).toBe('pass');
  });

  test('a changed body, a foreign sender: fail', async () => {
    const { mail, record } = await signed();
    const mx = await startMx([record, { ...SPF, value: 'v=spf1 ip4:192.0.2.1 -all' }, HOST, DMARC]);
    const forged = Buffer.from(mail.toString('latin1').replace('Hello', 'Hullo'), 'latin1');
    await send(await connected(mx), ['you@there.test'], forged);
    const verdicts = mx.mails.list()[0]?.verdicts;
    expect(verdicts && dkimResult(verdicts)).not.toBe('pass');
    expect(verdicts).toMatchObject({ spf: { result: 'fail' }, dmarc: { result: 'fail' } });
  });

  test('no signature, no records: none', async () => {
    const mx = await startMx();
    await send(await connected(mx), ['you@there.test'], MAIL);
    const verdicts = mx.mails.list()[0]?.verdicts;
    expect(verdicts).toMatchObject({ dkim: [], spf: { result: 'none' }, dmarc: { result: 'none' } });
    expect(verdicts && dkimResult(verdicts)).toBe('none');
  });

  test('DNS that does not answer: a temporary error, and the mail is kept', async () => {
    const { mail } = await signed();
    const mx = await startMx([{ name: '*', fault: 'SERVFAIL' }]);
    await send(await connected(mx), ['you@there.test'], mail);
    expect(mx.mails.list()).toMatchObject([
      { verdicts: { dkim: [{ result: 'temperror' }], spf: { result: 'temperror' }, dmarc: { result: 'temperror' } } },
    ]);
  });
});

describe('behaving otherwise', () => {
  test('451 for the first two, then as ever', async () => {
    const mx = await startMx();
    let times = 0;
    mx.behave(({ stage }) => (stage === 'rcpt' && ++times <= 2 ? { code: 451, text: '4.7.1 later' } : undefined));
    const results: (string | number)[] = [];
    for (let i = 0; i < 3; i++) {
      const client = await connected(mx);
      results.push(
        await send(client, ['you@there.test'], MAIL).then(
          ({ response }) => response.slice(0, 3),
          (error) => error.response,
        ),
      );
    }
    expect(results).toEqual(['451 4.7.1 later', '451 4.7.1 later', '250']);
    expect(mx.mails.list()).toHaveLength(1);
  });

  test('one recipient of several is refused', async () => {
    const mx = await startMx();
    mx.behave(({ stage, to }) =>
      stage === 'rcpt' && to.at(-1) === 'no@there.test' ? { code: 550, text: '5.1.1 no such user' } : undefined,
    );
    const sent = await send(await connected(mx), ['yes@there.test', 'no@there.test', 'too@there.test'], MAIL);
    expect(sent).toMatchObject({ accepted: ['yes@there.test', 'too@there.test'], rejected: ['no@there.test'] });
    expect(mx.mails.list()[0]?.envelope.to).toEqual(['yes@there.test', 'too@there.test']);
  });

  test.each([
    ['rcpt', 550],
    ['data', 552],
    ['data', 451],
  ] as const)('a reply at %s: %i, and nothing is kept', async (stage, code) => {
    const folder = await temporaryFolder();
    const seen: unknown[] = [];
    const mx = await startMx([], { folder });
    mx.behave((step) => {
      seen.push(step);
      return step.stage === stage ? { code, text: '1.2.3 words' } : undefined;
    });
    const attempt = connected(mx).then((client) => send(client, ['you@there.test'], MAIL));
    await expect(attempt).rejects.toMatchObject({ responseCode: code });
    expect(await readdir(folder)).toEqual([]);
    expect(seen.at(-1)).toEqual({ stage, from: 'bounce@example.test', to: ['you@there.test'] });
  });

  test('a connection that is open does not hold up its end', async () => {
    const mx = await startMx();
    const client = await connected(mx);
    const lost = once(client, 'end');
    await mx.close();
    expect(await lost).toEqual([]);
  });
});

describe('what is kept', () => {
  test('is there after a restart, newest first; halves and foreign files are not mails', async () => {
    const folder = await temporaryFolder();
    const first = await startMx([], { folder });
    const client = await connected(first);
    await send(client, ['one@there.test'], MAIL);
    await send(client, ['two@there.test'], MAIL);
    const before = first.mails.list();
    await first.close();
    await writeFile(join(folder, '1750000000000-00000000.part'), 'half');
    await writeFile(join(folder, '1750000000000-11111111.eml'), 'without its json');
    await writeFile(join(folder, '1750000000000-22222222.json'), '{}');
    await writeFile(join(folder, 'README.md'), 'mine');
    const second = await startMx([], { folder });
    expect(second.mails.list()).toEqual(before);
    expect((await readdir(folder)).filter((file) => /part|0000000|1111111|2222222/.test(file))).toEqual([]);
    expect(await readdir(folder)).toContain('README.md');
  });

  test('an entry that cannot be read is left out, the others are there', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, '1750000000000-33333333.json'), '{"half');
    await writeFile(join(folder, '1750000000000-33333333.eml'), 'Subject: x\r\n\r\n');
    const mx = await startMx([], { folder });
    await send(await connected(mx), ['you@there.test'], MAIL);
    expect(mx.mails.list()).toHaveLength(1);
  });

  test('the newest 1,000 and no more, in memory and on disk', async () => {
    const folder = await temporaryFolder();
    const mails = await openCaughtMails(folder, silentLog);
    const none = { result: 'none', domain: '', comment: '' };
    for (let i = 0; i < 1003; i++) {
      const { id, path } = mails.begin(1750000000000 + i);
      await writeFile(path, 'Subject: x\r\n\r\n');
      await mails.keep({
        id,
        at: i,
        envelope: { from: '', to: [], client: '', helo: '', tls: null },
        size: 1,
        from: '',
        to: '',
        subject: '',
        attachments: 0,
        verdicts: { dkim: [], spf: none, dmarc: none },
      });
    }
    expect(mails.list().map(({ at }) => at)).toEqual(Array.from({ length: 1000 }, (_, i) => 1002 - i));
    expect(await readdir(folder)).toHaveLength(2000);
  });
});
