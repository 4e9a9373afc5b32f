/** Whoever sent mail that never arrives is told once, unless nobody vouches for him or no person wrote it. */
import { simpleParser } from 'mailparser';
import { describe, expect, test } from 'vitest';
import { MAIL, openForwardWorld, TENANT, VERDICTS, type ForwardWorld } from './forward-world.ts';

const HOUR = 3_600_000;
const GONE = {
  rcpt: ({ line }: { line: string }) => (line.includes('you') ? '550 5.1.1 <you@inbox.test>: no' : '250 ok'),
};

function reportsOf({ store }: ForwardWorld) {
  return store.read.selectFrom('messages').selectAll().where('kind', '=', 'dsn').execute();
}

async function endOf({ store }: ForwardWorld, message: string): Promise<Record<string, unknown>[]> {
  const query = store.read.selectFrom('events').select('data').where('message', '=', message);
  const rows = await query.where('type', 'in', ['email.bounced', 'email.suppressed']).execute();
  return rows.map(({ data }) => JSON.parse(data) as Record<string, unknown>);
}

describe('the sender of a forward that fails', () => {
  test('is told once, with the null sender, in words that do not say where it was forwarded to', async () => {
    const world = await openForwardWorld(GONE);
    const id = await world.take({ original: 'Sales@example.com' });
    await world.reaches(id, 'bounced');
    await expect.poll(() => world.peer.messages.length).toBe(1);
    const [report] = world.peer.messages;
    expect(report).toMatchObject({ from: '', to: ['ana@author.test'] });
    const mail = await simpleParser(report?.data ?? '', { keepDeliveryStatus: true });
    expect(mail).toMatchObject({ from: { text: '"Mail Delivery System" <MAILER-DAEMON@mail.example.net>' } });
    expect(mail.headers.get('auto-submitted')).toBe('auto-replied');
    expect(mail.attachments[0]?.content.toString()).toContain('Final-Recipient: rfc822; Sales@example.com\r\n');
    expect(mail.attachments[0]?.content.toString()).toContain('Remote-MTA: dns; mx.inbox.test\r\n');
    expect(mail.attachments[1]?.content.toString()).toBe(MAIL.slice(0, MAIL.indexOf('\r\n\r\n') + 2));
    expect(report?.data).not.toContain('you@inbox.test');
    expect(report?.data).toMatch(/^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; d=mail\.example\.net;/);
    expect(await endOf(world, id)).toMatchObject([{ state: 'bounced', dsn: 'queued' }]);
    const [row] = await reportsOf(world);
    await world.reaches(row?.id ?? '', 'delivered');
    expect(row).toMatchObject({ tenant: TENANT, domain: 'mail.example.net' });
    expect((row?.expires_at ?? 0) - (row?.created_at ?? 0)).toBe(48 * HOUR);
    expect(await reportsOf(world)).toHaveLength(1);
  });

  test.each([
    '<you@inbox.test>: Recipient address rejected: User unknown',
    'no such user YOU@Inbox.TEST here',
    '"you"@inbox.test is unknown',
    'you @ inbox.test is unknown',
    'rcptinvalid https://support.example/?email=you%40inbox.test',
    'unknown: you+40inbox.test',
    'unknown: you=40inbox.test',
    'unknown: you&#64;inbox.test',
    'unknown: you (at) inbox.test',
    'unknown: you at inbox.test',
    'unknown: you=inbox.test',
    'user you not found',
    'User unknown: <you>',
    'no mailbox "you" on this server',
    'you: no such mailbox',
  ])('does not hear where it was forwarded to from %j', async (words) => {
    const world = await openForwardWorld({
      rcpt: ({ line }) => (line.includes('you') ? `550 5.1.1 ${words}` : '250 ok'),
    });
    const id = await world.take({ original: 'Sales@example.com' });
    await world.reaches(id, 'bounced');
    await expect.poll(() => world.peer.messages.length).toBe(1);
    const mail = await simpleParser(world.peer.messages[0]?.data ?? '', { keepDeliveryStatus: true });
    const told = `${mail.text}${mail.attachments[0]?.content.toString()}`.replaceAll('mx.inbox.test', '');
    expect(told).not.toMatch(/inbox\.test|\byou\b(?!r)/i);
    expect(told).toMatch(/said: 550 5\.1\.1/);
  });

  test('is told of all whom one server refuses in one report, and nothing of those who get it', async () => {
    const world = await openForwardWorld(GONE);
    const id = await world.take({ targets: ['you1@inbox.test', 'you2@inbox.test', 'me@inbox.test'] });
    await expect.poll(() => world.peer.messages.length).toBe(2);
    expect(await endOf(world, id)).toHaveLength(2);
    expect(await reportsOf(world)).toHaveLength(1);
  });

  test('is told where its time is over', async () => {
    const world = await openForwardWorld({ rcpt: ({ line }) => (line.includes('you') ? '451 4.7.1 later' : '250 ok') });
    const id = await world.take();
    await world.reaches(id, 'deferred');
    for (let i = 0; i < 3000 && (await reportsOf(world)).length === 0; i++) {
      world.pass(i % 2 === 0 ? 6 * HOUR : HOUR / 2);
      await expect.poll(() => world.worker.progress().lookedAt).toBe(world.clock.now());
    }
    await world.reaches(id, 'expired');
    await expect.poll(() => world.peer.messages.length).toBe(1);
    expect(world.peer.messages[0]?.data).toContain('Status: 4.4.7\r\n');
    expect(await reportsOf(world)).toHaveLength(1);
  });

  test.each([
    ['whom nobody vouches for', { verdicts: { ...VERDICTS, vouched: false } }, 'not_vouched'],
    ['who is null', { sender: '' }, 'null_sender'],
    ['who is a machine', { raw: `Auto-Submitted: auto-replied (vacation)\r\n${MAIL}` }, 'automatic'],
    ['who sends in bulk', { raw: `Precedence: bulk\r\n${MAIL}` }, 'automatic'],
    ['who is a list', { raw: `List-Id: <l.author.test>\r\n${MAIL}` }, 'automatic'],
    ['who reports', { raw: `Content-Type: multipart/report; boundary=x\r\n${MAIL}` }, 'automatic'],
  ])('%s is not', async (_, taken, reason) => {
    const world = await openForwardWorld(GONE);
    const id = await world.take(taken);
    await world.reaches(id, 'bounced');
    expect(await endOf(world, id)).toMatchObject([{ state: 'bounced', dsn: reason }]);
    expect(await reportsOf(world)).toEqual([]);
    const line = { event: 'delivery.bounced', fields: expect.objectContaining({ dsn: reason }) };
    await expect.poll(() => world.log).toContainEqual(expect.objectContaining(line));
  });

  test('is told though he says that no machine wrote it', async () => {
    const world = await openForwardWorld(GONE);
    const id = await world.take({ raw: `Auto-Submitted: no\r\nPrecedence: first-class\r\n${MAIL}` });
    await world.reaches(id, 'bounced');
    expect(await reportsOf(world)).toHaveLength(1);
  });
});

test('a report that nobody takes ends there', async () => {
  const world = await openForwardWorld({ rcpt: '550 5.1.1 no' });
  await world.reaches(await world.take(), 'bounced');
  const [report] = await reportsOf(world);
  await world.reaches(report?.id ?? '', 'bounced');
  expect(await reportsOf(world)).toHaveLength(1);
});
