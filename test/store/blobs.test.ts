import { randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { createBucketBlobs, hasObjects, MIN_OBJECT_BYTES, naming } from '../../src/store/blobs.ts';
import { deleteRaw, insertRawChunk, rawChunks } from '../../src/store/inbound.ts';
import {
  bodyChunk,
  forgetMessages,
  keepAttachments,
  putContent,
  readAttachment,
  storeBody,
} from '../../src/store/messages.ts';
import { openBucket } from '../../src/store/s3.ts';
import { UnmetError, type Blob, type Store } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { newMessage } from '../harness/queue.ts';
import { startTestBucket } from '../harness/s3.ts';
import { openTestStore } from '../harness/store.ts';

const HOUR = 3_600_000;

async function start() {
  const { options, objects, proxy } = await startTestBucket();
  const clock = testClock();
  const bucket = openBucket(options);
  onTestFinished(() => bucket.close());
  const plain = await openTestStore();
  const store: Store = { ...plain, blobs: createBucketBlobs({ store: plain, clock, bucket }) };

  function row(inbound: string, blob: Blob) {
    return [insertRawChunk({ inbound, seq: 0, ...blob, created_at: 1 }), ...naming(blob)];
  }

  async function read(inbound: string): Promise<Buffer> {
    return Buffer.concat(await Array.fromAsync(rawChunks(store, inbound)));
  }

  return { store, clock, objects, proxy, row, read };
}

test('large chunks are objects, small ones are rows, and both are read alike', async () => {
  const { store, objects, row, read } = await start();
  const [large, small] = [randomBytes(MIN_OBJECT_BYTES), randomBytes(MIN_OBJECT_BYTES - 1)];
  expect(await hasObjects(store)).toBe(false);
  await store.write(row('inb_large', await store.blobs.put(large)));
  await store.write(row('inb_small', await store.blobs.put(small)));
  expect(await objects()).toHaveLength(1);
  expect(await hasObjects(store)).toBe(true);
  expect((await read('inb_large')).equals(large)).toBe(true);
  expect((await read('inb_small')).equals(small)).toBe(true);
});

test('an object that no row names within an hour is removed; one that a row names never is', async () => {
  const { store, clock, objects, row, read } = await start();
  const bytes = randomBytes(MIN_OBJECT_BYTES);
  // The power fails here: of the first, the unit that names it never comes.
  await store.blobs.put(bytes);
  await store.write(row('inb_kept', await store.blobs.put(bytes)));
  await store.blobs.sweep();
  clock.advance(HOUR - 1);
  const late = await store.blobs.put(bytes);
  await store.blobs.sweep();
  expect(await objects()).toHaveLength(3);
  clock.advance(1);
  await store.blobs.sweep();
  expect(await objects()).toHaveLength(2);
  // An upload that is slow, but younger than an hour.
  await store.write(row('inb_late', late));
  clock.advance(1000 * HOUR);
  await store.blobs.sweep();
  expect(await objects()).toHaveLength(2);
  expect((await read('inb_late')).equals(bytes)).toBe(true);
});

test('nothing names an object that is being removed: the unit fails as a whole', async () => {
  const { store, clock, objects, row, read } = await start();
  const blob = await store.blobs.put(randomBytes(MIN_OBJECT_BYTES));
  clock.advance(HOUR);
  await store.blobs.sweep();
  await expect(store.write(row('inb_1', blob))).rejects.toThrow(UnmetError);
  expect(await read('inb_1')).toHaveLength(0);
  expect(await objects()).toEqual([]);
});

test('an object goes with its row, whenever the bucket is back', async () => {
  const { store, objects, proxy, row } = await start();
  await store.write(row('inb_1', await store.blobs.put(randomBytes(MIN_OBJECT_BYTES))));
  await store.write([deleteRaw({ inbound: 'inb_1' })]);
  proxy.refuse(true);
  proxy.hangUp();
  await expect(store.blobs.sweep()).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  expect(await objects()).toHaveLength(1);
  proxy.refuse(false);
  await store.blobs.sweep();
  expect(await objects()).toEqual([]);
  expect(await hasObjects(store)).toBe(false);
});

test('so do those of rows that go with what they belong to', async () => {
  const { store, objects } = await start();
  const bytes = randomBytes(MIN_OBJECT_BYTES);
  const { id, rows } = enqueue(newMessage('a@example.test', { kind: 'transactional' }), 1);
  const unit = [...rows, ...keepAttachments(id, [await putContent(store, [bytes])])];
  await store.write(unit);
  expect((await readAttachment(store, id, 0)).equals(bytes)).toBe(true);
  const finished = { sender: '', encoding: '7bit', size: 2 * bytes.length } as const;
  await store.write(storeBody(id, { ...finished, content: await putContent(store, [bytes, bytes]) }));
  await store.blobs.sweep();
  expect(Buffer.concat([(await bodyChunk(store, id, 0)) ?? bytes]).equals(Buffer.concat([bytes, bytes]))).toBe(true);
  expect(await objects()).toHaveLength(1);
  await store.write([forgetMessages([id])]);
  await store.blobs.sweep();
  expect(await objects()).toEqual([]);
});

test('the probe leaves nothing, whether it succeeds or not', async () => {
  const { store, clock, objects, proxy } = await start();
  await store.blobs.bucket?.probe();
  expect(await objects()).toEqual([]);
  proxy.refuse(true);
  proxy.hangUp();
  await expect(store.blobs.bucket?.probe()).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' });
  proxy.refuse(false);
  clock.advance(HOUR);
  await store.blobs.sweep();
  expect(await hasObjects(store)).toBe(false);
});

test('without a bucket, what is in one cannot be read, and says why', async () => {
  const store = await openTestStore();
  await expect(store.blobs.get({ bytes: new Uint8Array(), object: 'obj_1' })).rejects.toThrow('storage.url names none');
});
