/** Mail that programs hand in with a key, by nodemailer and byte by byte. */
import { createPrivateKey, createSecretKey } from 'node:crypto';
import { connect as connectTls } from 'node:tls';
import nodemailer from 'nodemailer';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AccountRequests } from '../../src/accounts/plans.ts';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { buildSnapshot } from '../../src/config/snapshot.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { silentLog } from '../../src/lib/log.ts';
import { generateDkimKey } from '../../src/mail/dkim.ts';
import { SmtpListener } from '../../src/smtp/listener.ts';
import { createSubmission } from '../../src/smtp/submission.ts';
import { createSubmittedSource } from '../../src/smtp/forward-source.ts';
import { revokeKey } from '../../src/store/api-keys.ts';
import { insertDomain } from '../../src/store/domains.ts';
import { findMessage } from '../../src/store/messages.ts';
import { createSubmissions } from '../../src/transactional/submitted.ts';
import { keptCertificate } from '../harness/certificate.ts';
import { testKey, type TestKeySettings } from '../harness/keys.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { openTestStore } from '../harness/store.ts';

const { keeper: CERTIFICATE } = keptCertificate('mail.postern.test');
const DESK_SECRET = createSecretKey(Buffer.alloc(32, 5));

interface Settings extends TestKeySettings {
  readonly limits?: object;
  readonly plans?: object;
  readonly secure?: boolean;
  readonly diskIsFull?: boolean;
}

async function start(settings: Settings = {}) {
  const { limits = {}, plans = {}, secure = false } = settings;
  const store = await openTestStore();
  const server = serverSchema.parse({
    server: { hostname: 'mail.postern.test', operator: 'ops@inbox.test' },
    limits,
    plans,
  });
  const snapshot = buildSnapshot({ server, projects: [] });
  const key = await testKey(store, { tenant: 'ten_shop', ...settings });
  const shared = { project: 'shop', token: 't', next_check_at: 0, created_at: 0 };
  await store.write([
    insertDomain({ ...shared, tenant: 'ten_shop', name: 'shop.test', status: 'verified' }),
    insertDomain({ ...shared, tenant: 'ten_shop', name: 'new.test', status: 'pending' }),
    insertDomain({ ...shared, tenant: 'ten_other', name: 'other.test', status: 'verified' }),
  ]);
  const counted = await createLimits({ store, clock: systemClock, log: silentLog });
  onTestFinished(() => counted.close());
  const parts = { store, clock: systemClock, log: silentLog };
  const requests = new AccountRequests({ ...parts, limits: counted, config: () => server });
  const used: number[] = [];
  const submission = createSubmission({
    store,
    clock: systemClock,
    log: silentLog,
    snapshot: () => snapshot,
    freeSpace: { below: () => settings.diskIsFull === true },
    authenticator: new Authenticator({ store, clock: systemClock, log: silentLog }),
    requests: { take: (principal) => requests.take(principal), count: (_, status) => used.push(status) },
    submissions: createSubmissions(store),
    wake() {},
  });
  const listener = new SmtpListener({
    ...submission,
    clock: systemClock,
    log: silentLog,
    certificate: CERTIFICATE,
    secure,
    config: () => server,
  });
  const [bound] = await listener.listen([{ host: '127.0.0.1', port: 0 }]);
  onTestFinished(() => listener.close(0));
  const port = bound?.port ?? 0;
  const options = { host: '127.0.0.1', port, secure, tls: { rejectUnauthorized: false } };
  const transportAs = (user: string, pass: string, method?: string) =>
    nodemailer.createTransport({ ...options, auth: { user, pass }, ...(method && { authMethod: method }) });
  const messages = () => store.read.selectFrom('messages').selectAll().orderBy('id').execute();
  const refusals = () =>
    store.read.selectFrom('inbound_log').select(['reason', 'tenant', 'recipient', 'reply']).execute();
  return { store, key, port, used, messages, refusals, transportAs, transport: transportAs('apikey', key.value) };
}

/** The message as it would be sent. */
async function rendered({ store, messages }: Awaited<ReturnType<typeof start>>): Promise<string> {
  const [row] = await messages();
  const message = await findMessage(store, row?.id ?? '');
  if (message === undefined) throw new Error('nothing was queued');
  const { privateKey } = await generateDkimKey('ed25519');
  const signing = { key: createPrivateKey(privateKey), selector: 's', algorithm: 'ed25519' } as const;
  const source = createSubmittedSource({
    store,
    signing: {
      keysOf: (domain) => Promise.resolve([{ ...signing, domain }]),
      secret: DESK_SECRET,
      hostname: () => 'mail.postern.test',
      now: () => systemClock.now(),
    },
  });
  const prepared = await source.prepare(message);
  if (prepared.kind !== 'streamed') throw new Error(prepared.kind);
  const rest: Uint8Array[] = [];
  for await (const piece of prepared.pieces()) rest.push(piece);
  const whole = Buffer.concat([prepared.prefix, ...rest]);
  expect(whole.length).toBe(prepared.size);
  const { sender, size, encoding } = prepared;
  const again = await source.prepare({ ...message, sender, size, encoding, body: 'prefixed' }, prepared.prefix);
  if (again.kind !== 'streamed') throw new Error(again.kind);
  const second: Uint8Array[] = [];
  for await (const piece of again.pieces()) second.push(piece);
  expect(Buffer.concat([again.prefix, ...second]).equals(whole)).toBe(true);
  return whole.toString('latin1');
}

const MAIL = { from: 'Shop <hello@shop.test>', to: 'ana@inbox.test', subject: 'Grüße', text: 'Hello' };

describe('a program with a key', () => {
  test.each(['PLAIN', 'LOGIN'])('sends by AUTH %s, and its mail is in the queue when it hears 250', async (method) => {
    const world = await start();
    const sent = await world.transportAs('apikey', world.key.value, method).sendMail({ ...MAIL, bcc: 'b@inbox.test' });
    const [message, ...others] = await world.messages();
    expect(others).toEqual([]);
    expect(sent.response).toBe(`250 2.0.0 queued as ${message?.id}`);
    expect(message).toMatchObject({ kind: 'transactional', tenant: 'ten_shop', domain: 'shop.test', body: 'none' });
    expect(JSON.parse(message?.source ?? '')).toMatchObject({
      from: { name: 'Shop', address: 'hello@shop.test' },
      to: [{ address: 'ana@inbox.test' }],
      bcc: [{ address: 'b@inbox.test' }],
      subject: 'Grüße',
      message_id: sent.messageId,
    });
    expect(world.used).toEqual([200]);
  });

  test('its bytes stay as they are, but for blind copies and what was missing; they are signed for the author', async () => {
    const world = await start();
    const header = 'From: hello@shop.test\r\nBcc: secret@inbox.test\r\nX-Odd:  two  blanks\r\nSubject: x\r\n';
    const body = `caf\xe9\r\n..\r\n${'x'.repeat(998)}\r\n\r\n\r\n`;
    await world.transport.sendMail({
      envelope: { from: 'bounces@shop.test', to: ['ana@inbox.test', 'secret@inbox.test'] },
      raw: Buffer.from(`${header}\r\n${body}`, 'latin1'),
    });
    const text = await rendered(world);
    const [ours = '', ...theirs] = text.split('From: hello@shop.test\r\n');
    expect(theirs).toEqual([`X-Odd:  two  blanks\r\nSubject: x\r\n\r\n${body}`]);
    expect(ours).toMatch(/^DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed\/relaxed; d=shop\.test;/);
    expect(ours).toMatch(/^Date: .* \+0000\r$/m);
    expect(ours).toMatch(/^Message-ID: <[0-9a-z]{26}@shop\.test>\r$/m);
    expect(text).not.toContain('secret');
  });

  test('with lines of 998 bytes and a Sender of its own, without results in our name', async () => {
    const world = await start();
    const forged = 'Authentication-Results: mail.postern.test;\r\n dmarc=pass header.from=bank.test\r\n';
    const header = 'From: hello@shop.test\r\nSender: Desk <desk@shop.test>\r\n';
    const others = 'Authentication-Results: mx.other.test; none\r\n';
    const body = `\r\n${'x'.repeat(998)}\r\n`;
    await world.transport.sendMail({
      envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      raw: forged + header + others + body,
    });
    const text = await rendered(world);
    expect(text.endsWith(header + others + body)).toBe(true);
    expect(text).not.toContain('bank.test');
  });

  test('a large message, and one without a body', async () => {
    const world = await start();
    const header = 'From: hello@shop.test\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\nMessage-ID: <1@shop.test>\r\n';
    const body = `${'0123456789'.repeat(7)}\r\n`.repeat(20_000);
    await world.transport.sendMail({
      envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      raw: `${header}\r\n${body}`,
    });
    expect((await rendered(world)).endsWith(`${header}\r\n${body}`)).toBe(true);
    const bare = await start();
    const client = await login(bare);
    await client.say('MAIL FROM:<a@shop.test>');
    await client.say('RCPT TO:<ana@inbox.test>');
    await client.say('DATA');
    expect(await client.say('From: hello@shop.test\r\n.')).toMatch(/^250 /);
    expect(await rendered(bare)).toMatch(/From: hello@shop\.test\r\n\r\n$/);
  });

  test('a test key’s mail is captured', async () => {
    const { transport, messages, store } = await start({ environment: 'test' });
    await transport.sendMail({ ...MAIL, to: 'bounce@sandbox.invalid' });
    expect(await messages()).toMatchObject([{ environment: 'test' }]);
    const deliveries = await store.read.selectFrom('deliveries').select('destination').execute();
    expect(deliveries).toEqual([{ destination: 'sandbox' }]);
  });

  test('over TLS from the first byte', async () => {
    const { transport, messages } = await start({ secure: true });
    await transport.sendMail(MAIL);
    expect(await messages()).toHaveLength(1);
  });
});

describe('whom it refuses, and why', () => {
  const cases: [what: string, settings: Settings, mail: object, refusal: string, reason: string][] = [
    [
      'a domain of nobody',
      {},
      { from: 'a@nowhere.test' },
      '550 5.7.1 nowhere.test is not a domain',
      'sender_not_allowed',
    ],
    ['another account’s', {}, { from: 'a@other.test' }, '550 5.7.1 other.test is not a domain', 'sender_not_allowed'],
    ['one that is not verified', {}, { from: 'a@new.test' }, '550 5.7.1 The DNS records of', 'sender_not_allowed'],
    [
      'one that is not the key’s',
      { restrictions: { domain_restrictions: ['else.test'] } },
      {},
      '550 5.7.1 The API key may not send as shop.test',
      'sender_not_allowed',
    ],
    [
      'an author elsewhere behind an honest envelope',
      {},
      { from: 'a@other.test', envelope: { from: 'a@shop.test', to: 'ana@inbox.test' } },
      '550 5.7.1 other.test is not a domain',
      'sender_not_allowed',
    ],
    [
      'a sender elsewhere behind an honest author',
      {},
      {
        raw: 'From: a@shop.test\r\nSender: b@other.test\r\n\r\nx',
        envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      },
      '550 5.7.1 Sender header: other.test is not a domain',
      'sender_not_allowed',
    ],
    [
      'two senders',
      {},
      {
        raw: 'From: a@shop.test\r\nSender: a@shop.test, b@other.test\r\n\r\nx',
        envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      },
      '550 5.6.0 the Sender header must be one address',
      'invalid_header',
    ],
    [
      'a line that servers on the way would cut',
      {},
      {
        raw: `From: a@shop.test\r\n\r\n${'x'.repeat(998)}\r\n${'x'.repeat(999)}\r\n`,
        envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      },
      '550 5.6.0 a line has 999 bytes, the limit is 998',
      'line_too_long',
    ],
    [
      'two authors',
      {},
      { from: ['a@shop.test', 'b@other.test'], envelope: { from: 'a@shop.test', to: 'ana@inbox.test' } },
      '550 5.6.0 the From header must be one address',
      'invalid_header',
    ],
    [
      'two From fields',
      {},
      {
        raw: 'From: a@shop.test\r\nFrom: b@other.test\r\n\r\nx',
        envelope: { from: 'a@shop.test', to: 'ana@inbox.test' },
      },
      '550 5.7.1 the message must have only one From',
      'several_from',
    ],
    [
      'no From at all',
      {},
      { raw: 'Subject: x\r\n\r\nx', envelope: { from: 'a@shop.test', to: 'ana@inbox.test' } },
      '550 5.6.0 the message must have a From header',
      'invalid_header',
    ],
    ['the null sender', {}, { envelope: { from: '', to: 'ana@inbox.test' } }, '550 5.7.1', 'sender_not_allowed'],
    ['a part in the sandbox', {}, { to: 'bounce@sandbox.invalid' }, '550 5.7.1 Addresses at', 'recipient_not_allowed'],
    ['a full disk', { diskIsFull: true }, {}, '452 4.3.1', 'disk_full'],
  ];
  test.each(cases)('%s', async (_, settings, mail, refusal, reason) => {
    const { transport, messages, refusals } = await start(settings);
    await expect(transport.sendMail({ ...MAIL, ...mail })).rejects.toThrow(refusal);
    expect(await messages()).toEqual([]);
    // Written behind the answer.
    await expect.poll(refusals).toEqual([expect.objectContaining({ reason, tenant: 'ten_shop' })]);
  });

  test.each<[string, Settings, string]>([
    ['lacks the permission', { permissions: ['forms.read'] }, '535 5.7.8 this API key lacks the permission email.send'],
    ['was revoked', { revoked: true }, '535 5.7.8 this API key was revoked'],
    ['has expired', { expired: true }, '535 5.7.8 this API key has expired'],
    ['is for other addresses', { restrictions: { ip_whitelist: ['192.0.2.1'] } }, '535 5.7.8 this API key may not be'],
    ['is of a suspended account', { account: { suspended: 1 } }, '535 5.7.8 the account of this API key is suspended'],
  ])('a key that %s', async (_, settings, words) => {
    const { transport, refusals } = await start(settings);
    await expect(transport.sendMail(MAIL)).rejects.toThrow(words);
    await expect.poll(refusals).toMatchObject([{ recipient: '', reply: expect.stringContaining('535') }]);
  });

  test('a key that is none, and another user name', async () => {
    const { transportAs, key } = await start();
    await expect(transportAs('apikey', 'secret').sendMail(MAIL)).rejects.toThrow('535 5.7.8 invalid API key');
    await expect(transportAs('ann', key.value).sendMail(MAIL)).rejects.toThrow(
      '535 5.7.8 the user name must be apikey',
    );
  });

  test('a key that is revoked while its connection stands', async () => {
    const world = await start();
    const client = await login(world);
    await client.say('MAIL FROM:<a@shop.test>');
    await client.say('RCPT TO:<ana@inbox.test>');
    await client.say('DATA');
    await world.store.write([revokeKey({ id: world.key.id, tenant: 'ten_shop', at: systemClock.now() })]);
    expect(await client.say('From: a@shop.test\r\n\r\nx\r\n.')).toMatch(/^535 5\.7\.8 this API key was revoked/);
    expect(await world.messages()).toEqual([]);
  });

  test('more recipients than one mail may have, more mail than the account may send', async () => {
    const { transport } = await start({ limits: { recipients: 2 }, plans: { free: { requests_per_minute: 1 } } });
    const sent = await transport.sendMail({ ...MAIL, to: ['a@inbox.test', 'b@inbox.test', 'c@inbox.test'] });
    expect(sent.rejected).toEqual(['c@inbox.test']);
    await expect(transport.sendMail(MAIL)).rejects.toThrow('451 4.7.1 this account has reached its rate limit');
  });
});

test('more mail than the plan of the account allows is refused for now, and nothing of it is kept', async () => {
  const world = await start({ plans: { free: { messages_per_hour: 2, messages_per_day: 5 } } });
  const sendTo = async (...names: string[]) => {
    const to = names.map((name) => `${name}@inbox.test`);
    return (await world.transport.sendMail({ ...MAIL, to })).response;
  };
  const stored = async () => {
    const rows = (['messages', 'deliveries', 'inbound', 'raw_chunks'] as const).map((table) =>
      world.store.read
        .selectFrom(table)
        .select((eb) => eb.fn.countAll().as('count'))
        .executeTakeFirstOrThrow(),
    );
    return (await Promise.all(rows)).map(({ count }) => Number(count));
  };
  expect(await sendTo('a')).toMatch(/^250 /);
  const kept = await stored();
  expect(kept.slice(0, 3)).toEqual([1, 1, 1]);
  const words =
    /450 4\.7\.1 The account has reached the limit of the plan free: 2 recipients an hour and 5 recipients a day\. Try again in \d+ minutes\./;
  await expect(sendTo('b', 'c')).rejects.toThrow(words);
  // What no window would ever have room for is refused for good.
  await expect(sendTo('b', 'c', 'd')).rejects.toThrow(/550 5\.7\.1 /);
  expect(await stored()).toEqual(kept);
  expect(await sendTo('b')).toMatch(/^250 /);
  const full = await stored();
  const together = await Promise.allSettled(['c', 'd', 'e'].map((name) => sendTo(name)));
  for (const one of together) expect(one).toMatchObject({ status: 'rejected', reason: { responseCode: 450 } });
  expect(await stored()).toEqual(full);
  const reasons = async () => (await world.refusals()).map(({ reason }) => reason);
  await expect.poll(reasons).toEqual(Array(8).fill('plan_limit'));
});

describe('without a key', () => {
  test('there is neither AUTH in clear text nor any mail', async () => {
    const { port, key, messages } = await start();
    const client = await SmtpClient.open(port);
    const offered = await client.say('EHLO client.test');
    expect(offered).toContain('STARTTLS');
    expect(offered).not.toContain('AUTH');
    const token = Buffer.from(`\0apikey\0${key.value}`).toString('base64');
    expect(await client.say(`AUTH PLAIN ${token}`)).toMatch(/^500 /);
    expect(await client.say('MAIL FROM:<a@shop.test>')).toMatch(/^530 5\.7\.0 /);
    expect(await client.say('STARTTLS')).toMatch(/^220 /);
    await client.secure();
    expect(await client.say('EHLO client.test')).toMatch(/^250-AUTH PLAIN LOGIN$/m);
    expect(await client.say('MAIL FROM:<a@shop.test>')).toMatch(/^530 /);
    expect(await client.say('AUTH CRAM-MD5')).toMatch(/^504 /);
    expect(await messages()).toEqual([]);
  });

  test('guessing ends', async () => {
    const { port } = await start({ limits: { smtp: { errors: 3 } }, secure: true });
    const replies = [];
    for (let i = 0; i < 2; i++) {
      const client = new SmtpClient(connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false }));
      replies.push((await client.reply()).slice(0, 3));
      await client.say('EHLO client.test');
      for (let guess = 0; guess < 2; guess++) {
        const reply = await client.say(`AUTH PLAIN ${Buffer.from(`\0apikey\0guess${i}${guess}`).toString('base64')}`);
        replies.push(reply.slice(0, 3));
      }
      if (i === 1) replies.push((await client.reply()).slice(0, 3));
    }
    expect(replies).toEqual(['220', '535', '535', '220', '535', '421', 'clo']);
  });
});

/** A client behind TLS with its key shown. */
async function login({ port, key }: { readonly port: number; readonly key: { readonly value: string } }) {
  const client = await SmtpClient.open(port);
  await client.say('EHLO client.test');
  await client.say('STARTTLS');
  await client.secure();
  await client.say('EHLO client.test');
  const token = Buffer.from(`\0apikey\0${key.value}`).toString('base64');
  expect(await client.say(`AUTH PLAIN ${token}`)).toMatch(/^235 /);
  return client;
}
