import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { createFileStore, type Upload } from '../../src/forms/files.ts';
import { fileStatements } from '../../src/forms/accept.ts';
import { filesOf, readFile, insertSubmission } from '../../src/store/submissions.ts';
import { ROW_BLOBS, type Store } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const PIECE = 256 * 1024;
const head = { field: 'cv', filename: 'cv.pdf', contentType: 'application/pdf' };

async function chunkSizes(store: Store): Promise<number[]> {
  const rows = await store.read.selectFrom('file_chunks').select('bytes').orderBy('seq').execute();
  return rows.map(({ bytes }) => bytes.length);
}

async function submit(store: Store, uploads: readonly Upload[]): Promise<void> {
  const submission = insertSubmission(submissionRow(1, { id: 'sub_1' }));
  const files = uploads.map((upload) => ({ ...upload, last: { bytes: upload.tail } }));
  await store.write([submission, ...fileStatements('sub_1', files, 1)]);
}

test('whatever the chunks, the file comes back byte by byte, in pieces of at most 256 KiB', async () => {
  const sizes = fc.array(fc.integer({ min: 0, max: PIECE + 1000 }), { maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(sizes, async (chunks) => {
      const stored: Uint8Array[] = [];
      const store = {
        blobs: ROW_BLOBS,
        write: ([{ values }]: [{ values: { bytes: Uint8Array } }]) => Promise.resolve(stored.push(values.bytes)),
      };
      const writer = createFileStore({ store: store as unknown as Store, clock: testClock() }).begin(head);
      const sent = chunks.map((size, i) => Buffer.alloc(size, i + 1));
      for (const chunk of sent) {
        const reused = Buffer.from(chunk);
        await writer.write(reused);
        reused.fill(0);
      }
      const { tail, size, pieces } = writer.end();
      const pieceSizes = [...stored, tail].map(({ length }) => length);
      expect(Buffer.concat([...stored, tail]).equals(Buffer.concat(sent))).toBe(true);
      expect(size).toBe(Buffer.concat(sent).length);
      expect(pieces).toBe(stored.length);
      expect(pieceSizes.slice(0, -1).every((length) => length === PIECE)).toBe(true);
      // A view would take the memory behind it along into the store's thread.
      for (const piece of [...stored, tail]) expect(piece.buffer.byteLength).toBe(piece.length);
    }),
    { numRuns: 30 },
  );
});

test('a small file costs no commit until its submission, and an empty one no piece', async () => {
  const store = await openTestStore();
  const write = vi.spyOn(store, 'write');
  const files = createFileStore({ store, clock: testClock() });
  const small = files.begin({ ...head, hash: true });
  await small.write(Buffer.from('hello '));
  await small.write(Buffer.from('world'));
  const uploads = [small.end(), files.begin({ ...head, filename: 'empty' }).end()];
  expect(write).not.toHaveBeenCalled();
  expect(uploads[0]?.sha256).toBe(createHash('sha256').update('hello world').digest('hex'));
  await submit(store, uploads);
  const rows = await filesOf(store, 'sub_1');
  expect(rows.map(({ filename, size }) => [filename, size])).toEqual([
    ['cv.pdf', 11],
    ['empty', 0],
  ]);
  expect((await readFile(store, uploads[0]?.id ?? '')).toString()).toBe('hello world');
  expect(await chunkSizes(store)).toEqual([11]);
});

test('a large file is in the store before it ends, and gone when it is not wanted', async () => {
  const store = await openTestStore();
  const files = createFileStore({ store, clock: testClock() });
  const [kept, aborted] = [files.begin(head), files.begin(head)];
  for (const writer of [kept, aborted]) await writer.write(Buffer.alloc(PIECE * 2 + 1, 7));
  expect(await chunkSizes(store)).toHaveLength(4);
  await aborted.abort();
  expect(await chunkSizes(store)).toEqual([PIECE, PIECE]);
  const upload = kept.end();
  expect(upload).toMatchObject({ size: PIECE * 2 + 1, pieces: 2 });
  await files.discard([upload]);
  expect(await chunkSizes(store)).toEqual([]);
});

test('pieces of a file whose submission never came are swept after an hour, and no others', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const files = createFileStore({ store, clock });
  const [kept, lost] = [files.begin(head), files.begin(head)];
  await kept.write(Buffer.alloc(PIECE));
  await lost.write(Buffer.alloc(PIECE));
  await submit(store, [kept.end()]);
  clock.advance(3_599_000);
  await files.sweep();
  expect(await chunkSizes(store)).toHaveLength(2);
  const late = files.begin(head);
  await late.write(Buffer.alloc(PIECE));
  clock.advance(2000);
  await files.sweep();
  expect(await chunkSizes(store)).toHaveLength(2);
  await files.sweep();
  expect(await chunkSizes(store)).toHaveLength(2);
  clock.advance(3_600_000);
  await files.sweep();
  expect(await chunkSizes(store)).toHaveLength(1);
});

test('names are one line without control characters, whatever the client says', () => {
  const files = createFileStore({ store: {} as Store, clock: testClock() });
  const upload = files
    .begin({ field: 'f\0', filename: 'a\r\nBcc: x@y\0.pdf', contentType: 'text/plain\r\nX: y' })
    .end();
  expect(upload).toMatchObject({ field: 'f', filename: 'a  Bcc: x@y .pdf', contentType: 'text/plain  X: y' });
});
