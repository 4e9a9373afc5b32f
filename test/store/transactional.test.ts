import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import {
  countTransactional,
  deliveriesOfMessages,
  keepAttachments,
  readAttachment,
  reschedule,
  selectTransactional,
  putContent,
  storeBody,
} from '../../src/store/messages.ts';
import { complaintsOf, recordEvent } from '../../src/store/events.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const SENT = { kind: 'transactional' } as const;

test('attachments are kept in pieces until the finished message holds them', async () => {
  const store = await openTestStore();
  const big = Buffer.from(Array.from({ length: 600_000 }, (_, i) => (i * 7919) % 256));
  const { id, rows } = enqueue(newMessage('a@x.example', SENT), 1);
  const attached = [big, Buffer.alloc(0), Buffer.from('small')].map((content) => putContent(store, [content]));
  await store.write([...rows, ...keepAttachments(id, await Promise.all(attached))]);
  expect((await readAttachment(store, id, 0)).equals(big)).toBe(true);
  expect((await readAttachment(store, id, 1)).length).toBe(0);
  expect((await readAttachment(store, id, 2)).toString()).toBe('small');
  const content = [{ bytes: Buffer.from('x') }];
  await store.write(storeBody(id, { sender: 's@x.example', encoding: '7bit', size: 1, content }));
  expect((await readAttachment(store, id, 0)).length).toBe(0);
});

test('what was sent through the API is listed newest first, of some domains, before or after one', async () => {
  const store = await openTestStore();
  const ids: string[] = [];
  for (const [i, domain] of ['one.example', 'two.example', 'one.example', 'two.example'].entries()) {
    const { id, unit } = enqueue(newMessage('a@x.example', { ...SENT, domain }), i + 1);
    await store.write(unit);
    ids.push(id);
  }
  await store.write(enqueue(newMessage('a@x.example', { kind: 'notification' }), 9).unit);
  await store.write(enqueue(newMessage('a@x.example', { ...SENT, tenant: 'ten_b' }), 9).unit);
  const [a, b, c, d] = ids;
  const list = async (more: object) =>
    (await selectTransactional(store, { tenant: 'ten_a', limit: 2, ...more })).map(({ id }) => id);
  expect(await list({})).toEqual([d, c]);
  expect(await list({ before: c })).toEqual([b, a]);
  expect(await list({ after: a })).toEqual([c, b]);
  expect(await list({ domains: ['one.example'] })).toEqual([c, a]);
  expect(await list({ domains: [] })).toEqual([]);
  expect(await countTransactional(store, { tenant: 'ten_a' })).toBe(4);
  expect(await countTransactional(store, { tenant: 'ten_a', domains: ['two.example'] })).toBe(2);
});

test('deliveries and complaints of several messages at once; what was not tried can be moved', async () => {
  const store = await openTestStore();
  const first = enqueue(newMessage(['a@x.example', 'b@y.example'], SENT), 1);
  const second = enqueue(newMessage('c@x.example', SENT), 2);
  await store.write([...first.unit, ...second.unit]);
  const complained = { type: 'email.complained', tenant: 'ten_a', at: 3, data: {}, message: second.id } as const;
  await store.write([recordEvent(complained)]);
  expect(await complaintsOf(store, [first.id, second.id])).toEqual(new Set([second.id]));
  const rows = await deliveriesOfMessages(store, [first.id, second.id]);
  expect(rows.map(({ recipient }) => recipient).toSorted()).toEqual(['a@x.example', 'b@y.example', 'c@x.example']);
  await store.write([reschedule({ message: first.id, due: 50, expires_at: 90 }, 2)]);
  const moved = await deliveriesOfMessages(store, [first.id]);
  expect(moved.map((row) => [row.next_attempt_at, row.expires_at])).toEqual([
    [50, 90],
    [50, 90],
  ]);
});
