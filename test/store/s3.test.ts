import { expect, onTestFinished, test } from 'vitest';
import { openBucket, type BucketOptions } from '../../src/store/s3.ts';
import { startTestBucket } from '../harness/s3.ts';

function open(options: BucketOptions) {
  const bucket = openBucket(options);
  onTestFinished(() => bucket.close());
  return bucket;
}

test('an object is put, got and removed, by signed requests to a server that checks them', async () => {
  const { options, objects } = await startTestBucket();
  const bucket = open(options);
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 256));
  await bucket.put('obj_1', bytes);
  await bucket.put('obj_2', Buffer.from('other'));
  expect(await objects()).toEqual(['obj_1', 'obj_2']);
  expect(bytes.equals(await bucket.get('obj_1'))).toBe(true);
  await bucket.remove('obj_1');
  expect(await objects()).toEqual(['obj_2']);
  // Once more, as after a crash in the middle.
  await bucket.remove('obj_1');
  await expect(bucket.get('obj_1')).rejects.toMatchObject({
    code: 'STORAGE_OBJECT_GONE',
    message: expect.stringContaining('404 NoSuchKey'),
  });
});

test('memory that threads share is sent as any other', async () => {
  const { options } = await startTestBucket();
  const bucket = open(options);
  const shared = Buffer.from(new SharedArrayBuffer(1000)).fill(7);
  await bucket.put('obj_1', shared);
  expect(shared.equals(await bucket.get('obj_1'))).toBe(true);
});

test('what is wrong with the settings is said, and what to do', async () => {
  const { options } = await startTestBucket();
  const code = 'STORAGE_UNAVAILABLE';
  for (const [change, message] of [
    [{ secretAccessKey: 'wrong' }, '403 SignatureDoesNotMatch (correct storage.secret_access_key)'],
    [{ accessKeyId: 'nobody' }, '403 InvalidAccessKeyId (correct storage.access_key_id)'],
    [{ bucket: 'other' }, '404 NoSuchBucket (create the bucket, or correct storage.url)'],
    [
      { endpoint: 'http://127.0.0.1:1' },
      'the bucket mail at http://127.0.0.1:1 cannot be reached: connect ECONNREFUSED',
    ],
  ] as const) {
    const bucket = open({ ...options, ...change });
    const expected = { code, message: expect.stringContaining(message) };
    await expect(bucket.put('obj_1', Buffer.from('x'))).rejects.toMatchObject(expected);
    await expect(bucket.get('obj_1')).rejects.toMatchObject({ code });
    await expect(bucket.remove('obj_1')).rejects.toMatchObject({ code });
  }
});

test('a connection that breaks is made again', async () => {
  const { options, proxy } = await startTestBucket();
  const bucket = open(options);
  await bucket.put('obj_1', Buffer.from('x'));
  proxy.hangUp();
  expect(Buffer.from(await bucket.get('obj_1')).toString()).toBe('x');
});

test('a server that says nothing is waited for no longer than a request may take', async () => {
  const { options, proxy } = await startTestBucket();
  const bucket = open({ ...options, wholeMs: 300 });
  proxy.freeze();
  await expect(bucket.get('obj_1')).rejects.toThrow('cannot be reached: no answer within 0.3 s');
});
