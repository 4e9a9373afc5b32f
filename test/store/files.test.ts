import { expect, test } from 'vitest';
import {
  deleteFileChunks,
  deleteOrphans,
  filesOf,
  insertFile,
  insertFileChunk,
  readFile,
  insertSubmission,
} from '../../src/store/submissions.ts';
import type { Store } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const submission = submissionRow(1, { id: 'sub_1' });

function chunk(file: string, seq: number, created_at = 1) {
  return insertFileChunk({ file, seq, bytes: Uint8Array.of(seq, 0, 255), created_at });
}

async function remaining(store: Store): Promise<string[]> {
  const rows = await store.read
    .selectFrom('file_chunks')
    .select(['file', 'seq'])
    .orderBy('file')
    .orderBy('seq')
    .execute();
  return rows.map(({ file, seq }) => `${file}/${seq}`);
}

test('files come back in the order sent and their pieces in theirs', async () => {
  const store = await openTestStore();
  const file = {
    submission: 'sub_1',
    field: 'cv',
    filename: 'a.pdf',
    content_type: 'application/pdf',
    unscanned: 0,
    size: 33,
  };
  await store.write([chunk('fil_b', 1), chunk('fil_b', 10), chunk('fil_b', 2)]);
  await store.write([
    insertSubmission(submission),
    insertFile({ ...file, id: 'fil_b', position: 0 }),
    insertFile({ ...file, id: 'fil_a', position: 1, size: 0 }),
  ]);
  expect((await filesOf(store, 'sub_1')).map(({ id }) => id)).toEqual(['fil_b', 'fil_a']);
  expect([...(await readFile(store, 'fil_b'))]).toEqual([1, 0, 255, 2, 0, 255, 10, 0, 255]);
  expect((await readFile(store, 'fil_a')).length).toBe(0);
});

test('pieces without a submission go when they are old, and no others', async () => {
  const store = await openTestStore();
  const file = {
    position: 0,
    field: 'f',
    filename: 'f',
    content_type: 'text/plain',
    unscanned: 0,
    size: 3,
    submission: 'sub_1',
  };
  await store.write([insertSubmission(submission), insertFile({ ...file, id: 'fil_kept' })]);
  await store.write([
    chunk('fil_kept', 0, 10),
    chunk('fil_orphan', 0, 10),
    chunk('fil_orphan', 1, 10),
    chunk('fil_new', 0, 20),
  ]);
  await store.write([deleteOrphans({ since: 0, before: 20 })]);
  expect(await remaining(store)).toEqual(['fil_kept/0', 'fil_new/0']);
  await store.write([deleteFileChunks({ file: 'fil_new' })]);
  expect(await remaining(store)).toEqual(['fil_kept/0']);
});
