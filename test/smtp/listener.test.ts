/** The dialogue at the listener, over real sockets. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import type { MailAuthenticator } from '../../src/smtp/accept.ts';
import { keptCertificate } from '../harness/certificate.ts';
import { freePort } from '../harness/child.ts';
import { HOSTNAME, SmtpClient, startInboundSmtp } from '../harness/inbound-smtp.ts';

const MINUTE = 60_000;

describe('the dialogue', () => {
  test('greets at once by our name, and offers what it can', async () => {
    const listener = await startInboundSmtp();
    const waits: number[] = [];
    for (let i = 0; i < 10; i++) {
      const began = performance.now();
      const greeted = await SmtpClient.raw(listener.port);
      expect(await greeted.reply()).toBe(`220 ${HOSTNAME} ESMTP`);
      waits.push(performance.now() - began);
    }
    // A pause of smtp-server's would be in each of them, a busy machine's is not.
    expect(Math.min(...waits)).toBeLessThan(80);
    const client = await listener.client();
    const offered = (await client.say('EHLO client.test')).split('\n').map((line) => line.slice(4));
    expect(offered).toEqual([HOSTNAME, 'PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES', 'SIZE 26214400']);
    expect(await client.say('HELO client.test')).toBe(`250 ${HOSTNAME}`);
    expect(await client.say('QUIT')).toMatch(/^221 /);
    expect(await client.reply()).toBe('closed');
  });

  test('neither AUTH, CHUNKING, XCLIENT nor old jokes', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    await client.say('EHLO client.test');
    for (const command of ['AUTH PLAIN AAAA', 'BDAT 3 LAST', 'XCLIENT ADDR=1.2.3.4', 'WIZ x', 'SHELL', 'STARTTLS'])
      expect(await client.say(command)).toMatch(/^50[0-9] /);
  });

  test('commands in the wrong order, nested or malformed are refused with their codes', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    expect(await client.say('MAIL FROM:<x@sender.test>')).toMatch(/^503 /);
    await client.say('EHLO client.test');
    const replies = [];
    for (const command of [
      'RCPT TO:<info@example.test>',
      'DATA',
      'MAIL FROM: x@sender.test',
      'MAIL FROM:<x@sender.test> SIZE=99999999',
      'MAIL FROM:<x@sender.test> BODY=BINARYMIME',
      'MAIL FROM:<"a b"@sender.test>',
      'MAIL FROM:<x@sender.test> SIZE=10 BODY=8BITMIME',
      'MAIL FROM:<x@sender.test>',
      'RCPT TO:<>',
      'DATA',
      'RCPT TO:<info@example.test>',
      'RSET',
      'DATA',
    ])
      replies.push((await client.say(command)).slice(0, 9));
    expect(replies).toEqual([
      '503 5.5.1',
      '503 5.5.1',
      '501 5.5.4',
      '552 5.3.4',
      '501 5.5.4',
      '553 5.1.7',
      '250 2.1.0',
      '503 5.5.1',
      '501 5.1.3',
      '503 5.5.1',
      '250 2.1.5',
      '250 2.0.0',
      '503 5.5.1',
    ]);
  });

  test('who talks before the greeting, or on when it has to listen, is sent away', async () => {
    const listener = await startInboundSmtp();
    const early = connect({ port: listener.port, host: '127.0.0.1' });
    const client = new SmtpClient(early);
    client.write('EHLO bot\r\nMAIL FROM:<x@sender.test>\r\nRCPT TO:<info@example.test>\r\nDATA\r\nhello\r\n.\r\n');
    const replies = [];
    for (let reply = ''; reply !== 'closed'; replies.push(reply)) reply = await client.reply();
    expect(replies.join('\n')).toContain('421 4.7.0');
    expect(replies.join('\n')).not.toContain('354');
    const eager = await listener.client();
    await eager.say('EHLO client.test');
    eager.write('MAIL FROM:<x@sender.test>\r\nRCPT TO:<info@example.test>\r\nDATA\r\nhello\r\n.\r\n');
    expect(await eager.reply()).toMatch(/^250/);
    expect(await eager.reply()).toMatch(/^250/);
    expect(await eager.reply()).toBe('421 4.7.0 Command sent before the reply');
    expect(await listener.taken()).toEqual([]);
  });

  test('pipelined commands are answered in their order, however they are cut', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    await client.say('EHLO client.test');
    for (const byte of 'MAIL FROM:<x@sender.test>\r\nRCPT TO:<info@example.test>\r\nRCPT TO:<no@example.test>\r\nDATA\r\n')
      client.write(byte);
    const replies = [];
    for (let i = 0; i < 4; i++) replies.push((await client.reply()).slice(0, 3));
    expect(replies).toEqual(['250', '250', '550', '354']);
  });

  test('commands that come together are answered together; behind QUIT nothing is', async () => {
    const listener = await startInboundSmtp();
    const socket = connect({ port: listener.port, host: '127.0.0.1' });
    const packets: string[] = [];
    socket.on('data', (packet: Buffer) => packets.push(packet.toString()));
    await expect.poll(() => packets).toHaveLength(1);
    socket.write('HELO client.test\r\n');
    await expect.poll(() => packets).toHaveLength(2);
    socket.write('MAIL FROM:<x@sender.test>\r\nRCPT TO:<info@example.test>\r\nDATA\r\n');
    await expect.poll(() => packets.at(-1)).toMatch(/^250 .*\r\n250 .*\r\n354 .*\r\n$/);
    socket.write('Subject: x\r\n\r\nhello\r\n.\r\nQUIT\r\nNOOP\r\n');
    await once(socket, 'close');
    expect(packets.slice(3).join('')).toMatch(/^250 .*\r\n221 .*\r\n$/);
    await expect(listener.taken()).resolves.toHaveLength(1);
  });

  test.each(['.\r\nQUIT\r\n', '.\r\n'])(
    'a client that ends its side with %j gets its replies, as Exim does',
    async (end) => {
      const listener = await startInboundSmtp();
      const client = await listener.client();
      await client.say('EHLO client.test');
      await client.say('MAIL FROM:<x@sender.test>');
      await client.say('RCPT TO:<info@example.test>');
      await client.say('DATA');
      client.socket.end(`Subject: x\r\n\r\nhello\r\n${end}`);
      expect(await client.reply()).toMatch(/^250 2\.0\.0 accepted as/);
      if (end.includes('QUIT')) expect(await client.reply()).toMatch(/^221/);
      expect(await client.reply()).toBe('closed');
      await expect(listener.taken()).resolves.toHaveLength(1);
    },
  );

  test('a client that ends its side in the middle of a message is gone', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    await client.say('RCPT TO:<info@example.test>');
    await client.say('DATA');
    client.socket.end('Subject: x\r\n\r\nhello\r\n');
    expect(await client.reply()).toBe('closed');
    await expect(listener.taken()).resolves.toHaveLength(0);
  });

  test('a command line ends in CRLF, and has its end', async () => {
    const listener = await startInboundSmtp();
    for (const line of ['NOOP\n', 'NO\rOP\r\n', 'NOOP\0\r\n', `NOOP ${'x'.repeat(5000)}\r\n`, 'x'.repeat(5000)]) {
      const client = await listener.client();
      client.write(line);
      expect(await client.reply()).toMatch(/^421 4\.7\.0 (?:Lines must end in CRLF|Command line too long)/);
      expect(await client.reply()).toBe('closed');
    }
  });
});

describe('limits', () => {
  test('connections of one address, and of all', async () => {
    const listener = await startInboundSmtp({ limits: { smtp: { per_address: 2, connections: 3 } } });
    const first = await listener.client();
    await listener.client();
    const third = await SmtpClient.raw(listener.port);
    expect(await third.reply()).toMatch(/^421 4\.7\.0 too many connections from your IP address/);
    const other = await SmtpClient.raw(listener.port, '127.0.0.1', '127.0.0.2');
    expect(await other.reply()).toMatch(/^220/);
    const fourth = await SmtpClient.raw(listener.port, '127.0.0.1', '127.0.0.3');
    expect(await fourth.reply()).toMatch(/^421 4\.3\.2/);
    await first.say('QUIT');
    first.close();
    await expect.poll(async () => (await SmtpClient.raw(listener.port)).reply()).toMatch(/^220/);
  });

  test('none for our own mail, which counts for nobody', async () => {
    const judged: boolean[] = [];
    const authenticate: MailAuthenticator = ({ isOwn }) => {
      judged.push(isOwn);
      return Promise.resolve({ headers: '', verdicts: '{}' });
    };
    const limits = { smtp: { errors: 3, per_address: 1 } };
    const listener = await startInboundSmtp({ limits, mark: 'secret', parts: { authenticate } });
    const ours = await listener.client();
    await ours.say('EHLO mail.example.net');
    expect(await ours.say('XOWN secret')).toMatch(/^250 /);
    await ours.say('MAIL FROM:<x@sender.test>');
    for (let i = 0; i < 5; i++) expect(await ours.say('RCPT TO:<nobody@example.test>')).toMatch(/^550 5\.1\.1/);
    await ours.say('RSET');
    expect(await ours.send('From: x@sender.test\r\n\r\nHello')).toMatch(/^250 /);
    const stranger = await listener.client();
    expect(await stranger.send('From: x@sender.test\r\n\r\nHello')).toMatch(/^250 /);
    expect(judged).toEqual([true, false]);
  });

  test.each([
    ['another mark', 'secret', 'XOWN wrong'],
    ['no mark', 'secret', 'XOWN'],
    ['a mark where there is none', undefined, 'XOWN undefined'],
  ])('%s is an error like any other', async (_what, mark, command) => {
    const listener = await startInboundSmtp({
      limits: { smtp: { errors: 2 } },
      ...(mark === undefined ? {} : { mark }),
    });
    const client = await listener.client();
    await client.say('EHLO client.test');
    expect(await client.say(command)).toBe('500 5.5.1 Command not recognized');
    expect(await client.say(command)).toMatch(/^500 /);
    expect(await client.reply()).toMatch(/^421 4\.7\.0 Too many errors/);
  });

  test('errors in one connection, where the address has brought mail: the next one is welcome', async () => {
    const listener = await startInboundSmtp({ limits: { smtp: { errors: 3 } } });
    const first = await listener.client();
    expect(await first.send('From: x@sender.test\r\n\r\nHello')).toMatch(/^250/);
    for (let i = 0; i < 3; i++) {
      const client = await listener.client();
      await client.say('EHLO client.test');
      await client.say('MAIL FROM:<x@sender.test>');
      for (let i = 0; i < 3; i++) expect(await client.say('RCPT TO:<nobody@example.test>')).toMatch(/^550 5\.1\.1/);
      expect(await client.reply()).toMatch(/^421 4\.7\.0 Too many errors/);
    }
    const last = await listener.client();
    expect(await last.send('From: x@sender.test\r\n\r\nHello')).toMatch(/^250/);
  });

  test('errors, over all connections of an address that has brought no mail', async () => {
    const listener = await startInboundSmtp({ limits: { smtp: { errors: 3 } } });
    const one = await listener.client();
    await one.say('EHLO client.test');
    await one.say('NONSENSE');
    const two = await listener.client();
    await two.say('EHLO client.test');
    await two.say('MAIL FROM:<x@sender.test>');
    expect(await two.say('RCPT TO:<nobody@example.test>')).toMatch(/^550 5\.1\.1/);
    expect(await two.say('RCPT TO:<nobody@example.test>')).toMatch(/^550 5\.1\.1/);
    expect(await two.reply()).toMatch(/^421 4\.7\.0/);
    const three = await SmtpClient.raw(listener.port);
    expect(await three.reply()).toMatch(/^421 4\.7\.0 too many errors/);
  });

  test('none that are our own: while the disk is full the client may come again and again, and is served once there is room', async () => {
    let isFull = true;
    const listener = await startInboundSmtp({
      limits: { smtp: { errors: 3 } },
      parts: { freeSpace: { below: () => isFull } },
    });
    const client = await listener.client();
    await client.say('EHLO client.test');
    for (let i = 0; i < 10; i++) expect(await client.say('MAIL FROM:<x@sender.test>')).toMatch(/^452 4\.3\.1/);
    isFull = false;
    expect(await client.say('MAIL FROM:<x@sender.test>')).toMatch(/^250/);
    expect(await client.say('RCPT TO:<info@example.test>')).toMatch(/^250/);
  });

  test('recipients of one message; the rest may come in another', async () => {
    const listener = await startInboundSmtp({
      forwarding: { '*@example.test': 'ana@inbox.test' },
      limits: { smtp: { recipients: 2 } },
    });
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    for (const local of ['a', 'b', 'A']) expect(await client.say(`RCPT TO:<${local}@example.test>`)).toMatch(/^250/);
    expect(await client.say('RCPT TO:<c@example.test>')).toMatch(/^452 4\.5\.3/);
  });

  test('commands that bring no message', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    let reply = '';
    for (let i = 0; i < 110 && !reply.startsWith('421'); i++) reply = await client.say('NOOP');
    expect(reply).toMatch(/^421 4\.7\.0/);
  });

  test('deadlines that a drip does not stretch', async () => {
    const deadlines = { command: 1000, transaction: 10 * MINUTE, connection: 10 * MINUTE };
    const listener = await startInboundSmtp({ deadlines: { usual: deadlines, crowded: deadlines } });
    const client = await listener.client();
    const drip = setInterval(() => client.write('N'), 50);
    expect(await client.reply()).toMatch(/^421 4\.4\.2/);
    clearInterval(drip);
  }, 10_000);

  test('a message has a deadline too', async () => {
    const deadlines = { command: MINUTE, transaction: 1000, connection: 10 * MINUTE };
    const listener = await startInboundSmtp({ deadlines: { usual: deadlines, crowded: deadlines } });
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    await client.say('RCPT TO:<info@example.test>');
    await client.say('DATA');
    const drip = setInterval(() => client.write('x\r\n'), 50);
    expect(await client.reply()).toMatch(/^421 4\.4\.2/);
    clearInterval(drip);
    expect(await listener.taken()).toEqual([]);
  }, 10_000);

  test('where it is crowded nobody may dawdle', async () => {
    const usual = { command: 10 * MINUTE, transaction: 10 * MINUTE, connection: 10 * MINUTE };
    const listener = await startInboundSmtp({
      limits: { smtp: { connections: 4 } },
      deadlines: { usual, crowded: { ...usual, command: 500 } },
    });
    const idle = await Promise.all([listener.client(), listener.client(), listener.client()]);
    expect(await Promise.all(idle.map((client) => client.reply()))).toContainEqual(
      expect.stringMatching(/^421 4\.4\.2/),
    );
  }, 10_000);
});

describe('STARTTLS', () => {
  const { keeper, renew } = keptCertificate(HOSTNAME);

  test('is offered with a certificate, and begins anew', async () => {
    const listener = await startInboundSmtp({ certificate: keeper });
    const client = await listener.client();
    expect(await client.say('EHLO client.test')).toContain('STARTTLS');
    expect(await client.say('STARTTLS')).toMatch(/^220/);
    await client.secure();
    expect(await client.say('MAIL FROM:<x@sender.test>')).toMatch(/^503/);
    expect(await client.say('EHLO client.test')).not.toContain('STARTTLS');
    expect(await client.send('Subject: x\r\n\r\nhello')).toMatch(/^250/);
    const [row] = await listener.store.read.selectFrom('inbound').select('tls').execute();
    expect(row?.tls).toBe('TLSv1.3');
  });

  test('a client that ends its side within TLS gets its replies', async () => {
    const listener = await startInboundSmtp({ certificate: keeper });
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('STARTTLS');
    await client.secure();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    await client.say('RCPT TO:<info@example.test>');
    await client.say('DATA');
    client.socket.end('Subject: x\r\n\r\nhello\r\n.\r\nQUIT\r\n');
    expect(await client.reply()).toMatch(/^250 2\.0\.0 accepted as/);
    expect(await client.reply()).toMatch(/^221/);
    expect(await client.reply()).toBe('closed');
  });

  test('what was sent in clear text after it is never a command', async () => {
    const listener = await startInboundSmtp({ certificate: keeper });
    const client = await listener.client();
    await client.say('EHLO client.test');
    client.write('STARTTLS\r\nMAIL FROM:<evil@sender.test>\r\n');
    expect(await client.reply()).toBe('421 4.7.0 Command sent before the reply');
    expect(await client.reply()).toBe('closed');
    const partial = await listener.client();
    await partial.say('EHLO client.test');
    partial.write('STARTTLS\r\nMAIL FR');
    expect(await partial.reply()).toBe('421 4.7.0 Command sent before the reply');
  });

  test('a renewed certificate is shown from the next handshake on', async () => {
    const listener = await startInboundSmtp({ certificate: keeper });
    await renew(selfSignedCertificate(['renewed.test'], Date.now()));
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('STARTTLS');
    await client.secure();
    const shown = client.socket instanceof TLSSocket ? client.socket.getPeerX509Certificate() : undefined;
    expect(shown?.subjectAltName).toContain('renewed.test');
  });
});

describe('the PROXY protocol', () => {
  test('a listed peer says who the client is', async () => {
    const listener = await startInboundSmtp({ inbound: { proxy_protocol: ['127.0.0.0/8'] } });
    const client = await SmtpClient.raw(listener.port);
    client.write('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25\r\n');
    expect(await client.reply()).toMatch(/^220/);
    expect(await client.send('Subject: x\r\n\r\nhello')).toMatch(/^250/);
    const [row] = await listener.store.read.selectFrom('inbound').select('ip').execute();
    expect(row?.ip).toBe('192.0.2.7');
  });

  test('who is not listed is not believed, and who is has to say it', async () => {
    const open = await startInboundSmtp();
    const liar = await SmtpClient.raw(open.port);
    liar.write('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25\r\n');
    expect(await liar.reply()).toMatch(/^(?:220|421|500)/);
    const listed = await startInboundSmtp({ inbound: { proxy_protocol: ['127.0.0.1'] } });
    const silent = await SmtpClient.raw(listed.port);
    silent.write('EHLO client.test\r\n');
    expect(await silent.reply()).toBe('closed');
  });
});

test('an address that is taken is an error that names it, and leaves nothing listening', async () => {
  const listener = await startInboundSmtp();
  const free = await freePort();
  const places = [free, listener.port].map((port) => ({ host: '127.0.0.1', port }));
  await expect(listener.listener.listen(places)).rejects.toThrow(`cannot listen on 127.0.0.1:${listener.port}`);
  await expect(SmtpClient.raw(free)).rejects.toThrow('ECONNREFUSED');
});

describe('a stop', () => {
  test('lets a transaction end, and sends the idle away', async () => {
    const listener = await startInboundSmtp();
    const idle = await listener.client();
    const busy = await listener.client();
    await busy.say('EHLO client.test');
    await busy.say('MAIL FROM:<x@sender.test>');
    await busy.say('RCPT TO:<info@example.test>');
    const closing = listener.listener.close(5000);
    expect(await idle.reply()).toMatch(/^421 4\.3\.2/);
    idle.close();
    expect(await busy.say('DATA')).toMatch(/^354/);
    busy.write('Subject: x\r\n\r\nhello\r\n.\r\n');
    expect(await busy.reply()).toMatch(/^250/);
    expect(await busy.reply()).toMatch(/^421 4\.3\.2/);
    busy.close();
    await closing;
    expect(await listener.taken()).toHaveLength(1);
    await expect(SmtpClient.raw(listener.port)).rejects.toThrow('ECONNREFUSED');
  });
});

describe('parameters', () => {
  test('REQUIRETLS (RFC 8689), which no next hop could keep, is not offered', async () => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    expect(await client.say('EHLO client.test')).not.toMatch(/REQUIRETLS/i);
  });

  test.each([
    'REQUIRETLS',
    'RET=HDRS',
    'RET=FULL',
    'ENVID=QQ314159',
    'HOLDFOR=3600',
    'HOLDUNTIL=2030-01-01T00:00:00Z',
    'BY=120;R',
    'MT-PRIORITY=3',
    'AUTH=<>',
    'XFOO',
    'SIZE=10 RET=HDRS',
  ])('MAIL with %s, which is not offered, is refused', async (parameters) => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    await client.say('EHLO client.test');
    expect(await client.say(`MAIL FROM:<x@sender.test> ${parameters}`)).toMatch(
      /^555 5\.5\.4 The parameter [A-Z-]+ is not/,
    );
    expect(await client.say('MAIL FROM:<x@sender.test> SIZE=10 BODY=8BITMIME SMTPUTF8')).toMatch(/^250/);
  });

  test.each([
    'NOTIFY=NEVER',
    'NOTIFY=SUCCESS,FAILURE',
    'ORCPT=rfc822;info@example.test',
    'RRVS=2014-04-03T23:01:00Z',
    'XFOO',
  ])('RCPT with %s, which is not offered, is refused', async (parameters) => {
    const listener = await startInboundSmtp();
    const client = await listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<x@sender.test>');
    expect(await client.say(`RCPT TO:<info@example.test> ${parameters}`)).toMatch(/^555 5\.5\.4/);
    expect(await client.say('RCPT TO:<info@example.test>')).toMatch(/^250/);
  });
});
