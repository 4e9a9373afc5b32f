/** What is forgotten of messages, and when. */
import { expect, test } from 'vitest';
import { serverSchema } from '../../src/config/schema-server.ts';
import { newId } from '../../src/lib/ids.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { forgetOldMessages } from '../../src/queue/retention.ts';
import { findMessage, insertAttempt, keepAttachments, storeBody } from '../../src/store/messages.ts';
import { insertSubmission, removeSubmission } from '../../src/store/submissions.ts';
import type { DeliveryState } from '../../src/store/tables.ts';
import { testClock } from '../harness/clock.ts';
import { settle } from '../harness/settle.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;

async function start(retention: object = {}) {
  const store = await openTestStore();
  const clock = testClock();
  const server = { hostname: 'mail.example.net', operator: 'ops@example.net' };
  const config = serverSchema.parse({ server, retention });
  const forget = forgetOldMessages({ store, clock, config: () => config, withoutContent: () => '{"left":1}' });

  /** A stored message to two recipients, the first of whom got it; answers its id. */
  async function send(state: DeliveryState, submission: string | null = null): Promise<string> {
    const now = clock.now();
    const about = { tenant: 'ten_1', kind: 'notification', submission, domain: 'example.com', ttl: DAY } as const;
    const recipients = ['ana@example.org', 'bea@example.org'];
    const mail = enqueue({ ...about, source: { words: 'secret' }, recipients }, now);
    const body = { sender: '', encoding: '7bit', size: 1, content: [{ bytes: Uint8Array.of(1) }] } as const;
    const attached = keepAttachments(mail.id, [[{ bytes: Uint8Array.of(2) }]]);
    await store.write([...mail.unit, ...storeBody(mail.id, body), ...attached]);
    await settle(store, { message: mail.id, state: 'delivered', at: now });
    const [, last] = await store.read.selectFrom('deliveries').select('id').where('message', '=', mail.id).execute();
    const words = { host: null, address: null, tls: null, outcome: 'deferred', reply: '' } as const;
    if (last !== undefined) await store.write([insertAttempt({ delivery: last.id, number: 1, at: now, ...words })]);
    await settle(store, { message: mail.id, state, at: now });
    return mail.id;
  }

  async function count(table: 'message_chunks' | 'attachment_chunks' | 'deliveries' | 'attempts'): Promise<number> {
    const { count } = await store.read
      .selectFrom(table)
      .select(({ fn }) => fn.countAll().as('count'))
      .executeTakeFirstOrThrow();
    return Number(count);
  }

  return {
    store,
    clock,
    send,
    state: async (id: string) => {
      const { body, source } = (await findMessage(store, id)) ?? {};
      return [body, source];
    },
    counts: async () => [
      await count('message_chunks'),
      await count('attachment_chunks'),
      await count('deliveries'),
      await count('attempts'),
    ],
    /** Goes on so far, and through the round after that. */
    async pass(ms: number) {
      clock.advance(ms);
      await forget();
    },
  };
}

test('what a mail says goes after a week, who got it after a month', async () => {
  const { send, state, counts, pass } = await start();
  const id = await send('delivered');
  await pass(7 * DAY);
  expect(await state(id)).toEqual(['stored', '{"words":"secret"}']);
  await pass(HOUR);
  expect(await state(id)).toEqual(['dropped', '{"left":1}']);
  expect(await counts()).toEqual([0, 0, 2, 1]);
  await pass(23 * DAY - 2 * HOUR);
  expect(await state(id)).toEqual(['dropped', '{"left":1}']);
  await pass(2 * HOUR);
  expect(await state(id)).toEqual([undefined, undefined]);
  expect(await counts()).toEqual([0, 0, 0, 0]);
});

test.each(['queued', 'sending', 'deferred'] as const)('nothing is lost while one recipient is %s', async (open) => {
  const { store, clock, send, state, counts, pass } = await start({ message_bodies: 0 });
  const id = await send('delivered');
  const [first] = await store.read.selectFrom('deliveries').select('id').where('message', '=', id).execute();
  await settle(store, { message: id, delivery: first?.id, state: open, at: clock.now() });
  await pass(400 * DAY);
  expect(await state(id)).toEqual(['stored', '{"words":"secret"}']);
  expect(await counts()).toEqual([1, 1, 2, 1]);
  await settle(store, { message: id, state: 'bounced', at: clock.now() });
  await pass(HOUR);
  expect((await state(id))[0]).toBe('dropped');
});

test('a month begins when the last recipient is settled', async () => {
  const { store, clock, send, state, pass } = await start();
  const id = await send('deferred');
  await pass(29 * DAY);
  await settle(store, { message: id, state: 'expired', at: clock.now() });
  await pass(2 * DAY);
  expect((await state(id))[0]).toBe('stored');
  await pass(6 * DAY);
  expect((await state(id))[0]).toBe('dropped');
  await pass(DAY);
  expect((await state(id))[0]).toBe('dropped');
});

test('forever keeps what mail says, and so who got it', async () => {
  const { send, state, pass } = await start({ message_bodies: 'forever' });
  const id = await send('delivered');
  await pass(4000 * DAY);
  expect(await state(id)).toEqual(['stored', '{"words":"secret"}']);
});

test('who got it is known as long as the submission that it tells of', async () => {
  const { store, clock, send, state, pass } = await start();
  const now = clock.now();
  const submission = newId('sub', now);
  const row = { id: submission, tenant: 'ten_1', form: 'example.com/contact', domain: 'example.com', revision: '' };
  const said = { fields: '[]', control: '{}', ip: '', user_agent: '', referer: '', spam_score: 0, spam_reasons: '[]' };
  await store.write([
    insertSubmission({
      ...row,
      ...said,
      status: 'accepted',
      environment: 'live',
      unread: 1,
      has_files: 0,
      created_at: now,
    }),
  ]);
  const id = await send('delivered', submission);
  await pass(60 * DAY);
  await pass(HOUR);
  expect((await state(id))[0]).toBe('dropped');
  await store.write(removeSubmission(submission));
  await pass(HOUR);
  expect((await state(id))[0]).toBe(undefined);
});

test('of very many, each has its turn', async () => {
  const { store, clock, state, pass } = await start({ message_bodies: '1d' });
  const about = { tenant: 'ten_1', kind: 'system', submission: null, domain: 'example.com', ttl: DAY } as const;
  const mails = Array.from({ length: 1100 }, () =>
    enqueue({ ...about, source: {}, recipients: ['ana@example.org'] }, clock.now()),
  );
  await store.write(mails.flatMap(({ unit }) => unit));
  const ids = mails.map(({ id }) => id).toSorted();
  for (const id of [ids[3] ?? '', ids.at(-1) ?? ''])
    await settle(store, { message: id, state: 'delivered', at: clock.now() });
  await pass(2 * DAY);
  expect((await state(ids[3] ?? ''))[0]).toBe('dropped');
  expect((await state(ids.at(-1) ?? ''))[0]).toBe('dropped');
  expect((await state(ids[4] ?? ''))[0]).toBe('none');
});
