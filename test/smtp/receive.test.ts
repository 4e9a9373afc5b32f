/** Messages through the listener into the store, over real sockets. */
import { randomBytes } from 'node:crypto';
import nodemailer from 'nodemailer';
import { describe, expect, test } from 'vitest';
import { insertRawChunk } from '../../src/store/inbound.ts';
import { StoreError, UnknownOutcomeError, type Store } from '../../src/store/store.ts';
import { sweepInbound } from '../../src/smtp/retention.ts';
import { testClock } from '../harness/clock.ts';
import { inboundSnapshot, SmtpClient, startInboundSmtp } from '../harness/inbound-smtp.ts';
import { openTestStore } from '../harness/store.ts';

const HEAD = 'From: x@sender.test\r\nSubject: x\r\n\r\n';
const DAY = 86_400_000;

async function begin(port: number, to = 'info@example.test'): Promise<SmtpClient> {
  const client = await SmtpClient.open(port);
  await client.say('EHLO client.test');
  await client.say('MAIL FROM:<x@sender.test>');
  await client.say(`RCPT TO:<${to}>`);
  await client.say('DATA');
  return client;
}

describe('what is taken', () => {
  test('is what was sent, dots unstuffed, in one unit with all that becomes of it', async () => {
    const listener = await startInboundSmtp({ forwarding: { 'info@example.test': ['a@inbox.test', 'b@else.test'] } });
    const client = await begin(listener.port);
    client.write(`${HEAD}..one\r\n.two\r\n...\r\n\r\n..\r\nlast\r\n.\r\n`);
    expect(await client.reply()).toMatch(/^250 2\.0\.0 accepted as inb_/);
    const [mail] = await listener.taken();
    expect(mail).toMatchObject({
      sender: 'x@sender.test',
      recipients: ['info@example.test'],
      raw: `${HEAD}.one\r\ntwo\r\n..\r\n\r\n.\r\nlast\r\n`,
      trace: expect.stringMatching(
        /^Received: from client\.test \(\[127\.0\.0\.1\]\)\r\n by mail\.postern\.test with /,
      ),
      encoding: '7bit',
    });
    const { read } = listener.store;
    const [message] = await read.selectFrom('messages').selectAll().execute();
    expect(message).toMatchObject({ kind: 'forward', domain: 'example.test', tenant: 'ten_operator' });
    expect(JSON.parse(message?.source ?? '')).toEqual({
      inbound: mail?.id,
      original: 'info@example.test',
      sender: 'x@sender.test',
    });
    const deliveries = await read
      .selectFrom('deliveries')
      .select(['recipient', 'state'])
      .orderBy('recipient')
      .execute();
    expect(deliveries.map(({ recipient }) => recipient)).toEqual(['a@inbox.test', 'b@else.test']);
    const types = await read.selectFrom('events').select('type').orderBy('id').execute();
    expect(types.map(({ type }) => type).sort()).toEqual(['email.queued', 'inbound.accepted']);
    expect(await listener.log()).toMatchObject([
      { recipient: 'info@example.test', outcome: 'accepted', reason: 'forward' },
    ]);
  });

  test('nothing but the dot is an empty message', async () => {
    const listener = await startInboundSmtp();
    const client = await begin(listener.port);
    client.write('.\r\n');
    expect(await client.reply()).toMatch(/^250/);
    expect(await listener.taken()).toMatchObject([{ raw: '' }]);
  });

  test('one message for each address of ours', async () => {
    const listener = await startInboundSmtp({ forwarding: { '*@example.test': 'all@inbox.test' } });
    const client = await SmtpClient.open(listener.port);
    const to = ['a@example.test', 'b@example.test', 'A@example.test'];
    expect(await client.send(HEAD, { to })).toMatch(/^250/);
    const rows = await listener.store.read.selectFrom('messages').select('source').orderBy('id').execute();
    const originals = rows.map(({ source }) => (JSON.parse(source) as { original: string }).original);
    expect(originals.sort()).toEqual(['A@example.test', 'b@example.test']);
  });

  test('for nobody is taken and forgotten, and written down', async () => {
    const listener = await startInboundSmtp({ forwarding: { 'no@example.test': 'discard' } });
    const client = await SmtpClient.open(listener.port);
    const body = 'x'.repeat(70).concat('\r\n').repeat(10_000);
    expect(await client.send(HEAD + body, { to: ['no@example.test'] })).toBe('250 2.0.0 accepted');
    expect(await listener.taken()).toEqual([]);
    expect(await listener.store.read.selectFrom('raw_chunks').select('seq').execute()).toEqual([]);
    expect(await listener.log()).toMatchObject([{ outcome: 'accepted', reason: 'discard' }]);
  });

  test.each([
    ['7bit', 'plain', ''],
    ['8bit', 'gr\u00fcn', ' BODY=8BITMIME'],
    ['8bit', 'gr\u00fcn', ''],
    ['8bit', 'gr\u00fcn', ' SMTPUTF8'],
    ['7bit', 'plain', ' SMTPUTF8'],
  ])('%s for %j%s', async (encoding, text, parameter) => {
    const listener = await startInboundSmtp();
    const client = await SmtpClient.open(listener.port);
    await client.say('EHLO client.test');
    await client.say(`MAIL FROM:<x@sender.test>${parameter}`);
    await client.say('RCPT TO:<info@example.test>');
    await client.say('DATA');
    client.write(Buffer.from(`${HEAD}${text}\r\n.\r\n`, 'utf8'));
    expect(await client.reply()).toMatch(/^250/);
    expect(await listener.taken()).toMatchObject([{ encoding }]);
  });

  test.each([
    ['smtputf8', ' SMTPUTF8'],
    ['8bit', ''],
  ])('%s for a header beyond ASCII%s', async (encoding, parameter) => {
    const listener = await startInboundSmtp();
    const client = await SmtpClient.open(listener.port);
    await client.say('EHLO client.test');
    await client.say(`MAIL FROM:<x@sender.test>${parameter}`);
    await client.say('RCPT TO:<info@example.test>');
    await client.say('DATA');
    client.write(Buffer.from('From: x@sender.test\r\nSubject: gr\u00fcn\r\n\r\nplain\r\n.\r\n', 'utf8'));
    expect(await client.reply()).toMatch(/^250/);
    expect(await listener.taken()).toMatchObject([{ encoding }]);
  });

  test('many in one connection, and from many connections at once', async () => {
    const listener = await startInboundSmtp();
    const texts = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const client = await SmtpClient.open(listener.port);
        for (let n = 0; n < 5; n++) expect(await client.send(`${HEAD}${i} ${n}`)).toMatch(/^250/);
        return i;
      }),
    );
    const taken = await listener.taken();
    expect(taken).toHaveLength(texts.length * 5);
    expect(new Set(taken.map(({ raw }) => raw)).size).toBe(100);
  });

  test('from a common client', async () => {
    const listener = await startInboundSmtp();
    const transport = nodemailer.createTransport({ host: '127.0.0.1', port: listener.port, ignoreTLS: true });
    const attachment = randomBytes(2_000_000);
    const sent = await transport.sendMail({
      from: 'x@sender.test',
      to: 'info@example.test',
      subject: 'Grüße',
      text: '.\n..\nund so weiter',
      attachments: [{ filename: 'a.bin', content: attachment }],
    });
    expect(sent.response).toMatch(/^250/);
    const [mail] = await listener.taken();
    const base64 = /a\.bin\r\n\r\n([A-Za-z0-9+/=\r\n]+)\r\n--/.exec(mail?.raw ?? '')?.[1] ?? '';
    expect(Buffer.from(base64, 'base64').equals(attachment)).toBe(true);
  });
});

describe('the end of a message is CRLF.CRLF and nothing else', () => {
  const SMUGGLED = 'MAIL FROM:<evil@sender.test>\r\nRCPT TO:<info@example.test>\r\nDATA\r\nsmuggled\r\n.\r\n';

  test.each(['\n.\n', '\r.\r', '\n.\r\n', '\r\n.\n', '\r\n.\r', '\r.\r\n', '\r\n\0.\r\n', '\r\n.\0\r\n', '\n..\r\n'])(
    'not %j, cut at every byte',
    async (ending) => {
      const listener = await startInboundSmtp({ limits: { smtp: { errors: 1_000_000 } } });
      const bytes = Buffer.from(`${HEAD}one${ending}${SMUGGLED}`, 'latin1');
      const from = HEAD.length;
      const client = await SmtpClient.open(listener.port);
      for (let cut = from; cut < from + 12; cut++) {
        await client.say('EHLO client.test');
        await client.say('MAIL FROM:<x@sender.test>');
        await client.say('RCPT TO:<info@example.test>');
        await client.say('DATA');
        client.write(bytes.subarray(0, cut));
        await new Promise((resolve) => setTimeout(resolve, 2));
        client.write(bytes.subarray(cut));
        expect(await client.reply()).toMatch(/^554 5\.6\.0/);
      }
      expect(await client.say('NOOP')).toMatch(/^250/);
      expect(await listener.taken()).toEqual([]);
    },
  );

  test('a bare CR before the end spoils the message, and what follows is refused too', async () => {
    const listener = await startInboundSmtp();
    const client = await begin(listener.port);
    client.write(`${HEAD}one\r\r\n.\r\n${SMUGGLED}`);
    expect(await client.reply()).toMatch(/^554 5\.6\.0/);
    const replies = [];
    for (let reply = ''; reply !== 'closed'; replies.push(reply)) reply = await client.reply();
    expect(replies).toContain('421 4.7.0 Command sent before the reply');
    expect(await listener.taken()).toEqual([]);
  });

  test('wherever it is cut, one message comes out of one', async () => {
    const listener = await startInboundSmtp();
    const bytes = Buffer.from(`${HEAD}one\r\n..\r\n.two\r\n.\r\n`, 'latin1');
    const client = await SmtpClient.open(listener.port);
    for (let cut = 1; cut < bytes.length; cut++) {
      await client.say('EHLO client.test');
      await client.say('MAIL FROM:<x@sender.test>');
      await client.say('RCPT TO:<info@example.test>');
      await client.say('DATA');
      client.write(bytes.subarray(0, cut));
      await new Promise((resolve) => setTimeout(resolve, 1));
      client.write(bytes.subarray(cut));
      expect(await client.reply()).toMatch(/^250/);
    }
    const taken = await listener.taken();
    expect(taken).toHaveLength(bytes.length - 1);
    expect(new Set(taken.map(({ raw }) => raw))).toEqual(new Set([`${HEAD}one\r\n.\r\ntwo\r\n`]));
  });

  test('a message that follows at once is another one', async () => {
    const listener = await startInboundSmtp();
    const client = await begin(listener.port);
    client.write(`${HEAD}one\r\n.\r\nMAIL FROM:<y@sender.test>\r\nRCPT TO:<info@example.test>\r\n`);
    expect(await client.reply()).toMatch(/^250 2\.0\.0/);
    expect(await client.reply()).toMatch(/^250 2\.1\.0/);
    expect(await client.reply()).toMatch(/^250 2\.1\.5/);
    expect(await client.say('DATA')).toMatch(/^354/);
    client.write(`${HEAD}two\r\n.\r\n`);
    expect(await client.reply()).toMatch(/^250/);
    // Of one millisecond they are in any order.
    expect((await listener.taken()).map(({ sender }) => sender).sort()).toEqual(['x@sender.test', 'y@sender.test']);
  });
});

describe('limits of a message', () => {
  test('its size, as soon as it is passed', async () => {
    const listener = await startInboundSmtp({ limits: { message: '1MiB' } });
    const client = await begin(listener.port);
    const line = `${'x'.repeat(998)}\r\n`;
    client.write(HEAD);
    for (let i = 0; i < 1100; i++) client.write(line);
    expect(await client.reply()).toMatch(/^552 5\.3\.4/);
    expect(await client.reply()).toBe('closed');
    expect(await listener.taken()).toEqual([]);
    await expect.poll(() => listener.store.read.selectFrom('raw_chunks').select('seq').execute()).toEqual([]);
    expect(await listener.log()).toMatchObject([{ outcome: 'rejected', reason: 'too_large' }]);
  });

  test.each([
    ['several From headers', 'From: a@b.test\r\nFROM: c@d.test\r\n\r\n', '550 5.7.1', 'several_from'],
    ['a bare LF', 'From: a@b.test\nSubject: x\r\n\r\n', '554 5.6.0', 'bare_newline'],
  ])('its size, where it is refused already: %s', async (_, headers, reply, reason) => {
    const listener = await startInboundSmtp({ limits: { message: '1MiB' } });
    const whole = await begin(listener.port);
    whole.write(`${headers}${'x'.repeat(998)}\r\n.\r\n`);
    expect((await whole.reply()).slice(0, 9)).toBe(reply);
    const endless = await begin(listener.port);
    endless.write(headers);
    for (let i = 0; i < 1100; i++) endless.write(`${'x'.repeat(998)}\r\n`);
    expect(await endless.reply()).toMatch(/^552 5\.3\.4/);
    expect(await endless.reply()).toBe('closed');
    expect(await listener.taken()).toEqual([]);
    expect(await listener.log()).toMatchObject([{ reason }, { reason: 'too_large' }]);
  });

  test.each([
    ['too many hops', 'Received: from a by b\r\n'.repeat(51), '554 5.4.6', 'loop'],
    ['our own Delivered-To', 'Delivered-To: Info@Example.test\r\n', '554 5.4.6', 'loop'],
    ['the same, written oddly', 'delivered-to :\t<info@example.test> \r\n', '554 5.4.6', 'loop'],
    ['two authors', 'From: a@b.test\r\nFROM: c@d.test\r\n', '550 5.7.1', 'several_from'],
    ['a long header', `X-Long: ${'x'.repeat(110_000)}\r\n`, '552 5.3.4', 'header_too_large'],
    ['many header lines', 'X: y\r\n'.repeat(1001), '552 5.3.4', 'header_too_large'],
    ['a header without end', 'X: y\r\n'.repeat(60_000), '552 5.3.4', 'header_too_large'],
  ])('%s', async (_, headers, reply, reason) => {
    const listener = await startInboundSmtp();
    const client = await begin(listener.port);
    client.write(`${headers}\r\nbody\r\n.\r\n`);
    expect((await client.reply()).slice(0, 9)).toBe(reply);
    expect(await listener.taken()).toEqual([]);
    expect(await listener.log()).toMatchObject([{ reason }]);
    expect(await client.say('NOOP')).toMatch(/^250/);
  });

  test.each([
    ['50 hops', 'Received: from a by b\r\n'.repeat(50)],
    ['another’s Delivered-To', 'Delivered-To: other@example.test\r\n'],
    ['such words in the body', 'Subject: x\r\n\r\nDelivered-To: info@example.test\r\nFrom: a\r\nFrom: b\r\n'],
  ])('not %s', async (_, headers) => {
    const listener = await startInboundSmtp();
    const client = await begin(listener.port);
    client.write(`${headers}\r\nbody\r\n.\r\n`);
    expect(await client.reply()).toMatch(/^250/);
  });
});

describe('a store that cannot write', () => {
  function failing(store: Store, code: string, when: (writes: number) => boolean): Store {
    let writes = 0;
    return {
      ...store,
      write: (unit) => (when(writes++) ? Promise.reject(new StoreError('it cannot', code)) : store.write(unit)),
    };
  }

  test.each([
    ['SQLITE_FULL', /^452 4\.3\.1/],
    ['SQLITE_IOERR_FSYNC', /^451 4\.3\.0/],
  ])('%s: the client keeps the mail', async (code, expected) => {
    const store = await openTestStore();
    const listener = await startInboundSmtp({ store: failing(store, code, () => true) });
    const client = await begin(listener.port);
    client.write(`${HEAD}x\r\n.\r\n`);
    expect(await client.reply()).toMatch(expected);
    expect(await listener.taken()).toEqual([]);
  });

  test('and does not say whether it has: what came of the mail stays, because it may be taken', async () => {
    const store = await openTestStore();
    const unsure: Store = {
      ...store,
      async write(unit) {
        const results = await store.write(unit);
        const taken = await store.read.selectFrom('inbound').select('id').execute();
        if (taken.length > 0) throw new UnknownOutcomeError('the connection was cut');
        return results;
      },
    };
    const listener = await startInboundSmtp({ store: unsure });
    const client = await begin(listener.port);
    const body = `${'x'.repeat(998)}\r\n`.repeat(400);
    client.write(`${HEAD}${body}.\r\n`);
    expect(await client.reply()).toMatch(/^451 4\.3\.0/);
    const [taken] = await listener.taken();
    expect(taken?.raw).toContain(body);
  });

  test('in the middle of a large one', async () => {
    const store = await openTestStore();
    const listener = await startInboundSmtp({ store: failing(store, 'SQLITE_FULL', (writes) => writes === 1) });
    const client = await begin(listener.port);
    client.write(HEAD + `${'x'.repeat(998)}\r\n`.repeat(2000));
    client.write('.\r\n');
    expect(await client.reply()).toMatch(/^452 4\.3\.1/);
    expect(await listener.taken()).toEqual([]);
    await expect.poll(() => store.read.selectFrom('raw_chunks').select('seq').execute()).toEqual([]);
  });

  test('is asked before MAIL where the disk is nearly full', async () => {
    const listener = await startInboundSmtp({ parts: { freeSpace: { below: () => true } } });
    const client = await SmtpClient.open(listener.port);
    await client.say('EHLO client.test');
    expect(await client.say('MAIL FROM:<x@sender.test>')).toMatch(/^452 4\.3\.1/);
  });
});

test('who goes away in the middle leaves nothing', async () => {
  const listener = await startInboundSmtp();
  const client = await begin(listener.port);
  client.write(HEAD + `${'x'.repeat(998)}\r\n`.repeat(1000));
  await expect.poll(() => listener.store.read.selectFrom('raw_chunks').select('seq').execute()).not.toEqual([]);
  client.close();
  await expect.poll(() => listener.store.read.selectFrom('raw_chunks').select('seq').execute()).toEqual([]);
  expect(await listener.taken()).toEqual([]);
});

test('a slow disk holds the client back', async () => {
  const store = await openTestStore();
  let open = (): void => undefined;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const slow: Store = {
    ...store,
    async write(unit) {
      await gate;
      return store.write(unit);
    },
  };
  const listener = await startInboundSmtp({ store: slow });
  const client = await begin(listener.port);
  const line = `${'x'.repeat(998)}\r\n`;
  client.write(HEAD);
  for (let i = 0; i < 20_000; i++) client.write(line);
  await new Promise((resolve) => setTimeout(resolve, 300));
  // Two pieces and what the sockets hold, of 20 MB.
  expect(client.socket.writableLength).toBeGreaterThan(5_000_000);
  open();
  client.write('.\r\n');
  expect(await client.reply()).toMatch(/^250/);
  const [mail] = await listener.taken();
  expect(mail?.raw.length).toBe(HEAD.length + 20_000 * 1000);
});

describe('a verdict', () => {
  test('that refuses is the reply, and written down', async () => {
    const refusal = { reply: '550 5.7.1 sender.test wants mail like this refused (DMARC)', reason: 'dmarc' };
    const listener = await startInboundSmtp({
      parts: { authenticate: () => Promise.resolve({ headers: '', verdicts: '{}', refusal }) },
    });
    const client = await begin(listener.port);
    client.write(HEAD + `${'x'.repeat(998)}\r\n`.repeat(500));
    client.write('.\r\n');
    expect(await client.reply()).toBe(refusal.reply);
    expect(await listener.taken()).toEqual([]);
    expect(await listener.store.read.selectFrom('raw_chunks').select('seq').execute()).toEqual([]);
    expect(await listener.log()).toMatchObject([{ outcome: 'rejected', reason: 'dmarc' }]);
  });

  test('is made from the very bytes, and its headers are kept', async () => {
    let seen = '';
    const body = `${'0123456789'.repeat(50)}\r\n`.repeat(2000);
    const listener = await startInboundSmtp({
      parts: {
        async authenticate({ pieces }) {
          for await (const piece of pieces()) seen += Buffer.from(piece).toString('latin1');
          return { headers: 'Received-SPF: pass\r\n', verdicts: '{"spf":"pass"}' };
        },
      },
    });
    const client = await begin(listener.port);
    client.write(`${HEAD}${body}.\r\n`);
    expect(await client.reply()).toMatch(/^250/);
    expect(seen).toBe(HEAD + body);
    const [mail] = await listener.taken();
    expect(mail?.trace).toMatch(/^Received: from client\.test [^]*\r\nReceived-SPF: pass\r\n$/);
    expect(mail?.raw).toBe(seen);
  });
});

test('what was never taken is swept soon, and what was said at the listener when it is old', async () => {
  const clock = testClock();
  const listener = await startInboundSmtp({ clock });
  const client = await begin(listener.port);
  client.write(`${HEAD}x\r\n.\r\n`);
  expect(await client.reply()).toMatch(/^250/);
  const { store } = listener;
  const orphan = { inbound: 'inb_orphan', seq: 0, bytes: Buffer.from('x'), created_at: clock.now() };
  await store.write([insertRawChunk(orphan)]);
  const sweep = sweepInbound({
    store,
    clock,
    config: () => ({ retention: { ...inboundSnapshot().server.retention, events: 30 * DAY } }),
  });
  const left = async () => (await store.read.selectFrom('raw_chunks').select('inbound').execute()).length;
  await sweep();
  expect(await left()).toBe(2);
  clock.advance(DAY);
  await sweep();
  expect(await left()).toBe(1);
  expect(await listener.log()).toHaveLength(1);
  clock.advance(30 * DAY);
  await sweep();
  expect(await listener.log()).toEqual([]);
  expect(await left()).toBe(1);
});
