/**
 * Uploaded files, in pieces of at most 256 KiB. Pieces of a large file are written while it still comes in, before there
 * is a submission; the row that names the file comes with the submission. Pieces without one are orphans.
 */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { FileChunkRow, FileRow } from './tables.ts';

/** The statement that ties a file to its submission. */
export const insertFile = define<FileRow>()((db, value) =>
  db.insertInto('submission_files').values({
    id: value('id'),
    submission: value('submission'),
    position: value('position'),
    field: value('field'),
    filename: value('filename'),
    content_type: value('content_type'),
    size: value('size'),
  }),
);

/** The statement that keeps one piece of a file. */
export const insertFileChunk = define<FileChunkRow>()((db, value) =>
  db.insertInto('file_chunks').values({
    file: value('file'),
    seq: value('seq'),
    bytes: value('bytes'),
    created_at: value('created_at'),
  }),
);

/** The statement that drops the pieces of one file. */
export const deleteFileChunks = define<{ file: string }>()((db, value) =>
  db.deleteFrom('file_chunks').where('file', '=', value('file')),
);

/** The statement that drops pieces written from `since` until before `before` whose submission never came. */
export const deleteOrphans = define<{ since: number; before: number }>()((db, value) =>
  db
    .deleteFrom('file_chunks')
    .where('created_at', '>=', value('since'))
    .where('created_at', '<', value('before'))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb.selectFrom('submission_files').select('id').whereRef('submission_files.id', '=', 'file_chunks.file'),
        ),
      ),
    ),
);

const ofSubmission = define<{ submission: string }>()((db, value) =>
  db.selectFrom('submission_files').selectAll().where('submission', '=', value('submission')).orderBy('position'),
);
const chunksOf = define<{ file: string }>()((db, value) =>
  db.selectFrom('file_chunks').select('bytes').where('file', '=', value('file')).orderBy('seq'),
);

const oneChunk = define<{ file: string; seq: number }>()((db, value) =>
  db.selectFrom('file_chunks').select('bytes').where('file', '=', value('file')).where('seq', '=', value('seq')),
);

/** The files of a submission, in the order sent. */
export function filesOf(store: Store, submission: string): Promise<FileRow[]> {
  return store.select(ofSubmission({ submission }));
}

/** The content of a file piece by piece, one of them in memory at a time. */
export async function* chunksOfFile(store: Store, file: string): AsyncGenerator<Uint8Array> {
  for (let seq = 0; ; seq++) {
    const [chunk] = await store.select(oneChunk({ file, seq }));
    if (chunk === undefined) return;
    yield chunk.bytes;
  }
}

/** The whole content of a file. */
export async function readFile(store: Store, file: string): Promise<Buffer> {
  return Buffer.concat((await store.select(chunksOf({ file }))).map(({ bytes }) => bytes));
}
