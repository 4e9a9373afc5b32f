import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { showMessage } from '../../src/queue/operate.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

test('a message is in the queue with its unit, due at once, one delivery per recipient', async () => {
  const store = await openTestStore();
  const recipients = ['A@example.test', 'b@EXAMPLE.test', 'c@bücher.test', 'A@example.test'];
  const { id, unit } = enqueue(newMessage(recipients, { ttl: 1000, source: { form: 'contact' } }), 5000);
  expect(await showMessage(store, id)).toBeUndefined();
  await store.write(unit);
  const shown = await showMessage(store, id);
  expect(shown?.message).toMatchObject({
    source: '{"form":"contact"}',
    body: 'none',
    destinations: 2,
    expires_at: 6000,
  });
  const rows = shown?.deliveries.toSorted((a, b) => a.recipient.localeCompare(b.recipient));
  expect(rows?.map(({ recipient, destination }) => [recipient, destination])).toEqual([
    ['A@example.test', 'example.test'],
    ['b@example.test', 'example.test'],
    ['c@xn--bcher-kva.test', 'xn--bcher-kva.test'],
  ]);
  expect(rows?.[0]).toMatchObject({ state: 'queued', attempts: 0, next_attempt_at: 5000, expires_at: 6000, tries: [] });
  expect((await showMessage(store, rows?.[0]?.id ?? ''))?.message.id).toBe(id);
});

test.each([
  ['nobody', []],
  ['no address', ['nobody']],
  ['two in one', ['a@example.test, b@example.test']],
  ['a line break', ['a@example.test\r\nRCPT TO:<b@example.test>']],
])('%s is no recipient', (_, recipients) => {
  expect(() => enqueue(newMessage(recipients), 1)).toThrow(TypeError);
});
