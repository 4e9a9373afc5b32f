/** Mail that comes back, from a client at the listener to what the tenant sees of it. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import { silentLog } from '../../src/lib/log.ts';
import { openReturnPath } from '../../src/mail/own-addresses.ts';
import type { Report } from '../../src/mail/report-parts.ts';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import { createBounceReading, createBounces } from '../../src/smtp/bounces.ts';
import type { ForwardSource } from '../../src/smtp/forward-source.ts';
import type { Directory } from '../../src/smtp/recipients.ts';
import { createBounceReader, type ReportReader } from '../../src/smtp/report-reader.ts';
import { attemptsOfMessage, deliveriesOfMessage, settleDelivery } from '../../src/store/messages.ts';
import { claimDeliveries } from '../../src/store/leases.ts';
import { testClock } from '../harness/clock.ts';
import { inboundSnapshot, HOSTNAME, RETURN_SECRET, returnPathOf, startInboundSmtp } from '../harness/inbound-smtp.ts';
import { openTestStore } from '../harness/store.ts';
import {
  complaint,
  DELAYED,
  EXCHANGE,
  EXIM,
  EXIM_IN_WORDS,
  GMAIL,
  PERSON,
  POLICY,
  POSTFIX,
  QMAIL,
  RECEIPT,
  SENDMAIL,
  VACATION,
} from '../mail/report-fixtures.ts';
import { take, VERDICTS } from './forward-world.ts';

const DAY = 86_400_000;
const RETURNED = `SRS0=good=aa=sender.test=author@${HOSTNAME}`;

type LoggedReply = Awaited<ReturnType<ReportReader<Report>['read']>>;

async function openWorld({ read }: { read?: () => Promise<LoggedReply> } = {}) {
  const store = await openTestStore();
  const clock = testClock();
  const snapshot = inboundSnapshot({ forwarding: { 'author@example.test': 'ana@inbox.test' } });
  let author = 'author@sender.test';
  const directory: Directory = {
    snapshot,
    status: () => 'verified',
    openReturnPath: (address) => openReturnPath(address, RETURN_SECRET),
    openSrs: (address) => (address === RETURNED ? author : undefined),
    openReply: () => undefined,
  };
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  const parts = createBounces({ store, limits, directory: () => directory, ttl: () => 5 * DAY });
  const listener = await startInboundSmtp({ store, clock, directory, parts });
  const reader = createBounceReader({ clock, log: silentLog });
  const job = createBounceReading({
    store,
    clock,
    log: silentLog,
    config: () => snapshot.server,
    reader: read === undefined ? reader : { ...reader, read },
    wake() {},
  });

  /** The statement of a message that the other side took from us. */
  async function sent(more: Partial<NewMessage> = {}, state: 'delivered' | 'sending' = 'delivered'): Promise<string> {
    const recipients = more.recipients ?? ['ana@example.org'];
    const about = { tenant: 'ten_a', kind: 'transactional', submission: null, domain: 'example.com' } as const;
    const { id, unit } = enqueue({ ...about, source: {}, ttl: DAY, ...more, recipients }, clock.now());
    await store.write(unit);
    for (const destination of new Set(recipients.map((address) => address.slice(address.indexOf('@') + 1)))) {
      const claim = { destination, owner: 'test', now: clock.now(), until: clock.now() + 1000, limit: 10 };
      await store.write([claimDeliveries({ ...claim, delays: '[1000]', last_delay: 0 })]);
    }
    if (state === 'delivered') await settle(id);
    return id;
  }

  async function settle(message: string): Promise<void> {
    for (const { id } of await deliveriesOfMessage(store, message))
      await store.write([
        settleDelivery(
          { id, owner: 'test', attempts: 1, state: 'delivered', reply: '250 2.0.0 ok', at: clock.now() },
          1,
        ),
      ]);
  }

  return {
    store,
    clock,
    listener,
    sent,
    settle,
    read: job,
    /** The author of what an SRS address stands for. */
    written(by: string) {
      author = by;
    },
    /** Brings a message to an address of ours; answers the last reply. */
    async comes(to: string, text: string, from = ''): Promise<string> {
      const client = await listener.client();
      return client.send(text, { from, to: [to] });
    },
    async states(message: string): Promise<string[]> {
      const rows = await deliveriesOfMessage(store, message);
      return rows.map(({ recipient, state }) => `${recipient} ${state}`).sort();
    },
    async suppressed(): Promise<string[]> {
      const rows = await store.read.selectFrom('suppressions').selectAll().orderBy('address').execute();
      return rows.map(({ tenant, address, reason }) => `${tenant} ${address} ${reason}`);
    },
    async told(message: string): Promise<{ type: string; data: Record<string, unknown> }[]> {
      const rows = await store.read
        .selectFrom('events')
        .selectAll()
        .where('message', '=', message)
        .orderBy('id')
        .execute();
      return rows
        .filter(({ type }) => type !== 'email.queued')
        .map(({ type, data }) => ({ type, data: JSON.parse(data) as Record<string, unknown> }));
    },
    async letters(): Promise<{ to: string; subject: string; text: string }[]> {
      const rows = await store.read.selectFrom('messages').selectAll().where('kind', '=', 'system').execute();
      return rows.map(({ source }) => JSON.parse(source) as { to: string; subject: string; text: string });
    },
    async unread(): Promise<number> {
      return (await store.read.selectFrom('bounces').select('inbound').execute()).length;
    },
  };
}

describe('a bounce of ours', () => {
  test('makes the delivery bounced, its tenant told, and the address suppressed', async () => {
    const world = await openWorld();
    const id = await world.sent();
    expect(await world.comes(returnPathOf(id), POSTFIX)).toMatch(/^250 /);
    await world.read();
    expect(await world.states(id)).toEqual(['ana@example.org bounced']);
    expect(await world.suppressed()).toEqual(['ten_a ana@example.org bounce']);
    expect(await world.told(id)).toMatchObject([
      {
        type: 'email.bounced',
        data: {
          recipient: 'ana@example.org',
          state: 'bounced',
          host: 'store.example.org',
          reply: expect.stringMatching(/^550 5\.1\.1 <ana@example.org>: Recipient/) as string,
          attempt: 2,
          late: true,
        },
      },
    ]);
    const attempts = await attemptsOfMessage(world.store, id);
    expect(attempts.map(({ number, outcome }) => [number, outcome])).toEqual([[2, 'bounced']]);
    expect(await world.unread()).toBe(0);
    expect(await world.letters()).toEqual([]);
  });

  test('counts once, however often it comes', async () => {
    const world = await openWorld();
    const id = await world.sent();
    for (let i = 0; i < 3; i++) await world.comes(returnPathOf(id).toUpperCase(), POSTFIX);
    await world.read();
    expect((await world.told(id)).map(({ type }) => type)).toEqual(['email.bounced']);
    expect(await world.unread()).toBe(0);
  });

  test('of one of several recipients concerns that one alone', async () => {
    const world = await openWorld();
    const id = await world.sent({ recipients: ['ana@example.org', 'ben@example.org', 'cy@example.org'] });
    await world.comes(returnPathOf(id), EXIM);
    await world.read();
    expect(await world.states(id)).toEqual([
      'ana@example.org bounced',
      'ben@example.org bounced',
      'cy@example.org delivered',
    ]);
    expect(await world.suppressed()).toEqual(['ten_a ana@example.org bounce', 'ten_a ben@example.org bounce']);
  });

  test.each([
    ['a form’s notification', { kind: 'notification' }, 'ana@example.org'],
    ['an alias whose target fails', {}, 'list@example.com'],
  ] as const)('suppresses nobody: %s', async (_, more, recipient) => {
    const world = await openWorld();
    const id = await world.sent({ ...more, recipients: [recipient] });
    await world.comes(returnPathOf(id), POSTFIX);
    await world.read();
    expect(await world.states(id)).toEqual([`${recipient} bounced`]);
    expect(await world.suppressed()).toEqual([]);
  });

  test('of a full mailbox suppresses nobody', async () => {
    const world = await openWorld();
    const id = await world.sent();
    await world.comes(returnPathOf(id), GMAIL);
    await world.read();
    expect(await world.states(id)).toEqual(['ana@example.org bounced']);
    expect([await world.suppressed(), await world.letters()]).toEqual([[], []]);
  });

  test('for a policy suppresses nobody and tells the operator, once a day', async () => {
    const world = await openWorld();
    for (let i = 0; i < 3; i++) await world.comes(returnPathOf(await world.sent()), POLICY);
    await world.read();
    expect(await world.suppressed()).toEqual([]);
    const [letter, ...more] = await world.letters();
    expect(more).toEqual([]);
    expect(letter).toMatchObject({ to: 'ops@inbox.test', subject: `Mail from ${HOSTNAME} is refused by example.org` });
    expect(letter?.text).toContain('550 5.7.1 Service unavailable, client host blocked using a block list');
    world.clock.advance(DAY + 1000);
    await world.comes(returnPathOf(await world.sent()), POLICY);
    await world.read();
    expect(await world.letters()).toHaveLength(2);
  });

  test('of the letter about it is no reason for another', async () => {
    const world = await openWorld();
    const id = await world.sent({ kind: 'system' });
    await world.comes(returnPathOf(id), POLICY);
    await world.read();
    expect([await world.states(id), await world.letters()]).toEqual([['ana@example.org bounced'], [{}]]);
  });

  test('that is faster than the word of the one who took the mail waits for it', async () => {
    const world = await openWorld();
    const id = await world.sent({}, 'sending');
    await world.comes(returnPathOf(id), POSTFIX);
    await world.read();
    expect([await world.states(id), await world.unread()]).toEqual([['ana@example.org sending'], 1]);
    await world.settle(id);
    await world.read();
    expect(await world.states(id)).toEqual(['ana@example.org delivered']);
    world.clock.advance(60_000);
    await world.read();
    expect([await world.states(id), await world.unread()]).toEqual([['ana@example.org bounced'], 0]);
  });

  test('of a message that is gone, or in words alone of several recipients, is left at that', async () => {
    const world = await openWorld();
    expect(await world.comes(returnPathOf('msg_00000000000000000000000000'), POSTFIX)).toMatch(/^250/);
    expect(await world.unread()).toBe(0);
    const id = await world.sent({ recipients: ['x@other.test', 'y@other.test'] });
    await world.comes(returnPathOf(id), QMAIL);
    await world.read();
    expect(await world.states(id)).toEqual(['x@other.test delivered', 'y@other.test delivered']);
    expect(await world.unread()).toBe(0);
  });

  test('is refused at RCPT where the token is not ours', async () => {
    const world = await openWorld();
    const path = returnPathOf(await world.sent());
    const client = await world.listener.client();
    await client.say('EHLO client.test');
    await client.say('MAIL FROM:<>');
    const forged = path.replace(/.@/, (end) => (end.startsWith('a') ? 'b@' : 'a@'));
    expect(await client.say(`RCPT TO:<${forged}>`)).toMatch(/^550 5\.1\.1/);
    expect(await client.say(`RCPT TO:<${path}>`)).toMatch(/^250/);
  });
});

describe('what is no bounce counts for nothing', () => {
  test.each([
    ['somebody is out', VACATION],
    ['somebody has read it', RECEIPT],
    ['a delay', DELAYED],
    ['no spam after all', complaint('not-spam', 'ana@example.org')],
    ['somebody’s DMARC report', complaint('auth-failure', 'ana@example.org')],
    ['anything', 'Subject: 550 5.1.1\r\n\r\nana@example.org 550 5.1.1'],
  ])('%s', async (_, text) => {
    const world = await openWorld();
    const id = await world.sent();
    expect(await world.comes(returnPathOf(id), text)).toMatch(/^250/);
    await world.read();
    expect([await world.states(id), await world.told(id), await world.suppressed(), await world.unread()]).toEqual([
      ['ana@example.org delivered'],
      [],
      [],
      0,
    ]);
    // Nothing answers it.
    const messages = await world.store.read.selectFrom('messages').select('id').execute();
    expect(messages).toEqual([{ id }]);
  });
});

test('a complaint ends the tenant’s mail to the address, and is told once', async () => {
  const world = await openWorld();
  const id = await world.sent({ recipients: ['ana@example.org', 'ben@example.org'] });
  for (let i = 0; i < 2; i++) {
    await world.comes(returnPathOf(id), complaint('abuse', 'Ana@Example.org'), 'fbl@provider.example');
    await world.read();
  }
  expect(await world.suppressed()).toEqual(['ten_a ana@example.org complaint']);
  expect(await world.told(id)).toMatchObject([{ type: 'email.complained', data: { recipient: 'ana@example.org' } }]);
  expect(await world.states(id)).toEqual(['ana@example.org delivered', 'ben@example.org delivered']);
});

describe('reading', () => {
  test('that never ends is begun again, three times at most', async () => {
    let begun = 0;
    const world = await openWorld({ read: () => Promise.reject(new Error(`crash ${++begun}`)) });
    await world.comes(returnPathOf(await world.sent()), POSTFIX);
    for (let i = 0; i < 5; i++) {
      await world.read().catch(() => undefined);
      await world.read();
      world.clock.advance(5 * 60_000);
    }
    expect([begun, await world.unread()]).toEqual([3, 0]);
  });

  test('that takes too much is left alone after the third time', async () => {
    let begun = 0;
    const world = await openWorld({
      read() {
        begun += 1;
        return Promise.resolve(undefined);
      },
    });
    await world.comes(returnPathOf(await world.sent()), POSTFIX);
    for (let i = 0; i < 5; i++) {
      await world.read();
      world.clock.advance(5 * 60_000);
    }
    expect([begun, await world.unread()]).toEqual([3, 0]);
  });
});

describe('a bounce of what was forwarded', () => {
  async function forwards(world: Awaited<ReturnType<typeof openWorld>>) {
    const rows = await world.store.read.selectFrom('messages').selectAll().where('kind', '=', 'forward').execute();
    return Promise.all(
      rows.map(async ({ id, source }) => ({
        source: JSON.parse(source) as ForwardSource,
        to: (await deliveriesOfMessage(world.store, id)).map(({ recipient }) => recipient),
      })),
    );
  }

  test('goes on to its author, whole and with the null sender', async () => {
    const world = await openWorld();
    expect(await world.comes(RETURNED, POSTFIX)).toMatch(/^250/);
    const [taken] = await world.listener.taken();
    expect(taken?.raw).toBe(`${POSTFIX}\r\n`);
    expect(await forwards(world)).toEqual([
      { source: { inbound: taken?.id, original: RETURNED, sender: '' }, to: ['author@sender.test'] },
    ]);
    expect(await world.unread()).toBe(0);
  });

  test('follows the forwarding where the author is one of ours, and ends where there is no such address', async () => {
    const world = await openWorld();
    world.written('author@example.test');
    await world.comes(RETURNED, POSTFIX);
    world.written('nobody@example.test');
    await world.comes(RETURNED, POSTFIX);
    expect((await forwards(world)).map(({ to }) => to)).toEqual([['ana@inbox.test']]);
  });

  test('knows its author also where the address had no SRS form', async () => {
    const world = await openWorld();
    const id = await take(world.store, world.clock.now(), { sender: 'author@sender.test' });
    expect(await world.comes(returnPathOf(id), POSTFIX, 'stranger@sender.test')).toMatch(/^550 5\.7\.1/);
    expect(await forwards(world)).toHaveLength(1);
    await world.comes(returnPathOf(id), POSTFIX);
    expect((await forwards(world)).map(({ to }) => to)).toContainEqual(['author@sender.test']);
    expect([await world.states(id), await world.unread()]).toEqual([['you@inbox.test queued'], 0]);
    const before = (await forwards(world)).length;
    world.clock.advance(22 * 86_400_000);
    expect(await world.comes(returnPathOf(id), POSTFIX)).toMatch(/^250/);
    expect(await forwards(world)).toHaveLength(before);
  });

  test('ends here where nothing vouched for the author, and is told to the domain’s owner', async () => {
    const world = await openWorld();
    const verdicts = { ...VERDICTS, vouched: false };
    const id = await take(world.store, world.clock.now(), { sender: 'victim@sender.test', verdicts });
    const claim = { destination: 'inbox.test', owner: 'test', now: world.clock.now(), until: world.clock.now() + 1000 };
    await world.store.write([claimDeliveries({ ...claim, limit: 10, delays: '[1000]', last_delay: 0 })]);
    await world.settle(id);
    expect(await world.comes(returnPathOf(id), POSTFIX)).toMatch(/^250/);
    await world.read();
    expect(await forwards(world)).toHaveLength(1);
    expect(await world.states(id)).toEqual(['you@inbox.test bounced']);
    expect(await world.told(id)).toMatchObject([{ type: 'email.bounced', data: { recipient: 'you@inbox.test' } }]);
    expect(await world.suppressed()).toEqual([]);
  });

  test.each([
    ['Postfix', POSTFIX],
    ['Exim', EXIM],
    ['Exim of old', EXIM_IN_WORDS],
    ['qmail', QMAIL],
    ['Exchange', EXCHANGE],
    ['Sendmail', SENDMAIL],
    ['Gmail', GMAIL],
    ['a delay', DELAYED],
    ['a vacation notice', VACATION],
    ['a receipt', RECEIPT],
    ['nobody', 'From: <>\r\nSubject: failure notice\r\n\r\ngone'],
    ['a mail system without a domain', 'From: Mail Delivery Subsystem <MAILER-DAEMON>\r\nSubject: x\r\n\r\ngone'],
  ])('passes in the shape of %s', async (_, text) => {
    const world = await openWorld();
    expect(await world.comes(RETURNED, text)).toMatch(/^250/);
    expect((await forwards(world)).map(({ to }) => to)).toEqual([['author@sender.test']]);
  });

  test.each([
    ['a person', PERSON],
    ['spam', 'From: Shop <shop@spam.test>\r\nSubject: buy\r\n\r\nbuy'],
    ['spam with a list’s fields', 'From: Shop <shop@spam.test>\r\nPrecedence: bulk\r\nList-Id: <x.y>\r\n\r\nbuy'],
    ['spam that names a mail system', 'From: "MAILER-DAEMON@x" <shop@spam.test>\r\nSubject: buy\r\n\r\nbuy'],
    ['a report that is not the message', 'From: <shop@spam.test>\r\nX-Content-Type: multipart/report\r\n\r\nbuy'],
    ['no automatic mail', 'From: <shop@spam.test>\r\nAuto-Submitted: no\r\n\r\nbuy'],
  ])('does not pass in the shape of %s', async (_, text) => {
    const world = await openWorld();
    expect(await world.comes(RETURNED, text)).toMatch(/^550 5\.7\.1 this address accepts only delivery reports/);
    expect(await forwards(world)).toEqual([]);
    expect(await world.listener.log()).toMatchObject([{ outcome: 'rejected', reason: 'not_a_report' }]);
  });

  test('passes five times a day for one sender, by whatever address of ours', async () => {
    const world = await openWorld();
    const id = await take(world.store, world.clock.now(), { sender: 'Author@sender.test' });
    const before = (await forwards(world)).length;
    const replies: string[] = [];
    for (let i = 0; i < 4; i++)
      replies.push(await world.comes(RETURNED, POSTFIX), await world.comes(returnPathOf(id), EXIM));
    expect(replies.map((reply) => reply.slice(0, 9))).toEqual([
      ...Array.from({ length: 5 }, () => '250 2.0.0'),
      ...Array.from({ length: 3 }, () => '550 5.7.1'),
    ]);
    expect(await forwards(world)).toHaveLength(before + 5);
    world.written('other@sender.test');
    expect(await world.comes(RETURNED, POSTFIX)).toMatch(/^250/);
    world.clock.advance(2 * DAY);
    world.written('author@sender.test');
    expect(await world.comes(RETURNED, POSTFIX)).toMatch(/^250/);
  });

  test('of a bounce ends', async () => {
    const world = await openWorld();
    const id = await world.sent({
      kind: 'forward',
      source: { inbound: 'inb_1', original: 'a@example.test', sender: '' },
    });
    await world.comes(returnPathOf(id), POSTFIX);
    expect(await forwards(world)).toHaveLength(1);
  });
});
