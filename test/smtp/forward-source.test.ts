/** What is forwarded is what came in, after lines of ours, at every try and for every destination. */
import { describe, expect, test } from 'vitest';
import { openSrs } from '../../src/mail/own-addresses.ts';
import { Bodies } from '../../src/queue/bodies.ts';
import { silentLog } from '../../src/lib/log.ts';
import type { Opened } from '../../src/queue/transport.ts';
import { openSrsKeys } from '../../src/smtp/srs-keys.ts';
import { deleteRaw } from '../../src/store/inbound.ts';
import { findMessage } from '../../src/store/messages.ts';
import { testClock } from '../harness/clock.ts';
import { mailDomain } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';
import { HOSTNAME, MAIL, openForwardWorld, sourcesOf, take, TRACE, VERDICTS, type Taken } from './forward-world.ts';

const HOUR = 3_600_000;
const LARGE = Buffer.concat([Buffer.from(MAIL), Buffer.alloc(3 << 20, 'größer und größer\r\n')]);

/** What the source makes of it, as one text of bytes. */
async function prepare(taken: Partial<Taken> = {}) {
  const store = await openTestStore();
  const clock = testClock();
  const { source, srs } = await sourcesOf(store, clock);
  const id = await take(store, clock.now(), taken);
  const message = await findMessage(store, id);
  if (message === undefined) throw new Error('no message');
  const prepared = await source.prepare(message);
  if (prepared.kind !== 'streamed') throw new Error(prepared.kind);
  const rest: Uint8Array[] = [];
  for await (const piece of prepared.pieces()) rest.push(piece);
  const text = Buffer.concat([prepared.prefix, ...rest]).toString('latin1');
  expect(text).toHaveLength(prepared.size);
  const keys = { secrets: srs.secrets(), hostname: HOSTNAME, now: clock.now() };
  return { ...prepared, text, lines: Buffer.from(prepared.prefix).toString('latin1'), keys };
}

async function textOf(opened: Opened): Promise<string> {
  if (opened.kind !== 'ready') throw new Error(opened.kind);
  const pieces: Uint8Array[] = [];
  for await (const piece of opened.pieces()) pieces.push(piece);
  return Buffer.concat(pieces).toString('latin1');
}

describe('a forward', () => {
  test.each([
    ['small', Buffer.from(MAIL)],
    ['large', LARGE],
    ['without a body', Buffer.from('From: ana@author.test\r\nSubject: x\r\n')],
    ['that begins with its body', Buffer.from('\r\nHello\r\n')],
    ['of bytes that are no text', Buffer.from('Subject: \xff\xfe\r\n\r\n\x80\x81\r\n', 'latin1')],
  ])('%s is what came in, after lines of ours', async (_, raw) => {
    const { text, lines } = await prepare({ raw });
    expect(text.slice(lines.length)).toBe(raw.toString('latin1'));
    expect(lines.endsWith(TRACE)).toBe(true);
    expect(lines).toContain('Delivered-To: sales@example.com\r\n');
  });

  test('has an envelope sender of ours that leads back to the author', async () => {
    const { sender, keys } = await prepare();
    expect(sender).toMatch(/^SRS0=[a-z2-7]{8}=[a-z2-7]{2}=author\.test=ana@mail\.example\.net$/);
    expect(openSrs(sender, keys)).toBe('ana@author.test');
  });

  test('has a return path that ends here where nothing vouched for its sender', async () => {
    const { sender } = await prepare({ verdicts: { ...VERDICTS, vouched: false } });
    expect(sender).toMatch(/^b\+[0-9a-z]{42}@mail\.example\.net$/);
    expect((await prepare({ sender: '', verdicts: { ...VERDICTS, vouched: false } })).sender).toBe('');
  });

  test('of a bounce stays one', async () => {
    expect(await prepare({ sender: '' })).toMatchObject({ sender: '' });
  });

  test('needs of the way what it needed when it came', async () => {
    expect(await prepare({ raw: LARGE, inbound: { encoding: '8bit' } })).toMatchObject({ encoding: '8bit' });
    expect(await prepare({ inbound: { encoding: 'smtputf8' } })).toMatchObject({ encoding: 'smtputf8' });
    const beyond = await prepare({ original: 'größe@example.com', sender: 'größe@author.test' });
    expect(beyond.encoding).toBe('7bit');
    expect(beyond.sender).toMatch(/^b\+/);
    expect(beyond.lines).toContain('Delivered-To: gr\\x{F6}\\x{DF}e@example.com\r\n');
  });

  test.each(['a..b@docomo.ne.jp', 'abc.@ezweb.ne.jp'])(
    'of %s comes from an address that needs no quotes',
    async (sender) => {
      expect((await prepare({ sender })).sender).toMatch(/^b\+[0-9a-z]{42}@mail\.example\.net$/);
    },
  );

  test('whose pieces are not all there is not sent to its end', async () => {
    const store = await openTestStore();
    const clock = testClock();
    const { source } = await sourcesOf(store, clock);
    const id = await take(store, clock.now(), { raw: LARGE });
    const bodies = new Bodies({ store, source, log: silentLog });
    const opened = await bodies.hold(id).open();
    const [row] = await store.read.selectFrom('inbound').select('id').execute();
    await store.write([deleteRaw({ inbound: row?.id ?? '' })]);
    await expect(textOf(opened)).rejects.toThrow(/only 0 of the \d+ bytes of \w+ were found/);
    expect(await new Bodies({ store, source, log: silentLog }).hold(id).open()).toMatchObject({
      kind: 'unavailable',
    });
  });
});

test.each([
  ['small', Buffer.from(MAIL)],
  ['large', LARGE],
])('every try of a %s forward sends the same bytes, also while another one reads them', async (_, raw) => {
  const store = await openTestStore();
  const clock = testClock();
  const id = await take(store, clock.now(), { raw });
  const texts: string[] = [];
  for (let i = 0; i < 3; i++) {
    // Each time as after a restart, and later.
    clock.advance(HOUR);
    const { source } = await sourcesOf(store, clock);
    const held = new Bodies({ store, source, log: silentLog }).hold(id);
    texts.push(...(await Promise.all([textOf(await held.open()), textOf(await held.open())])));
    await held.keep();
    held.release();
  }
  expect(new Set(texts).size).toBe(1);
  expect(texts[0]?.endsWith(raw.toString('latin1'))).toBe(true);
  expect(await findMessage(store, id)).toMatchObject({ body: 'prefixed' });
});

describe('on the wire', () => {
  test('every destination gets the same bytes, and is asked under one sender', async () => {
    const world = await openForwardWorld();
    world.dns.set([...mailDomain('one.test'), ...mailDomain('two.test')]);
    const id = await world.take({ raw: LARGE, targets: ['a@one.test', 'b@two.test', 'c@two.test'] });
    await world.reaches(id, 'delivered');
    const { messages } = world.peer;
    expect(messages).toHaveLength(2);
    expect(new Set(messages.map(({ data }) => data)).size).toBe(1);
    expect(new Set(messages.map(({ from }) => from)).size).toBe(1);
  });
});

test('secrets of SRS change, and what the last ones have signed leads back for as long as it may', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keys = await openSrsKeys({ store, clock });
  const first = keys.secrets();
  clock.advance(30 * 86_400_000);
  expect(keys.secrets()).toBe(first);
  await keys.renew();
  const second = keys.secrets();
  expect(second[1]?.equals(first[0])).toBe(true);
  expect(second[0].equals(first[0])).toBe(false);
  expect(first[2]?.equals(second[0])).toBe(true);
});
