import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { bodyChunk, CHUNK_BYTES, findMessage, putContent, storeBody } from '../../src/store/messages.ts';
import { UnmetError, type Store } from '../../src/store/store.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

async function read(store: Store, message: string): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  for (let seq = 0; ; seq++) {
    const piece = await bodyChunk(store, message, seq);
    if (piece === undefined) return pieces;
    pieces.push(Buffer.from(piece));
  }
}

test('a finished message is kept in pieces of bounded size and read back byte for byte', async () => {
  const store = await openTestStore();
  const { id, unit } = enqueue(newMessage('a@example.test'), 1);
  await store.write(unit);
  expect(await findMessage(store, id)).toMatchObject({ body: 'none', size: 0, sender: null, destinations: 1 });
  const whole = randomBytes(2 * CHUNK_BYTES + 11);
  const content = await putContent(store, [whole.subarray(0, 10), whole.subarray(10)]);
  await store.write(storeBody(id, { sender: 'b@example.net', encoding: '8bit', size: whole.length, content }));
  expect(await findMessage(store, id)).toMatchObject({
    body: 'stored',
    size: whole.length,
    sender: 'b@example.net',
    encoding: '8bit',
  });
  const pieces = await read(store, id);
  expect(pieces.map(({ length }) => length)).toEqual([CHUNK_BYTES, CHUNK_BYTES, 11]);
  expect(Buffer.concat(pieces).equals(whole)).toBe(true);
});

test('what was kept first stays', async () => {
  const store = await openTestStore();
  const { id, unit } = enqueue(newMessage('a@example.test'), 1);
  await store.write(unit);
  const body = (text: string) =>
    storeBody(id, { sender: text, encoding: '7bit', size: 1, content: [{ bytes: Buffer.from(text) }] });
  await store.write(body('1'));
  await expect(store.write(body('2'))).rejects.toThrow(UnmetError);
  expect(await findMessage(store, id)).toMatchObject({ sender: '1' });
  expect(await read(store, id)).toEqual([Buffer.from('1')]);
});
