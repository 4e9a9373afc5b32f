/** What visitors sent, accepted or kept as spam, and how often each form was used. */
import { listed } from './rows.ts';
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { DomainStatus, SubmissionRow, FileChunkRow, FileRow } from './tables.ts';

/** The statement that keeps a submission. */
export const insertSubmission = define<SubmissionRow>()((db, value) =>
  db.insertInto('submissions').values({
    id: value('id'),
    tenant: value('tenant'),
    form: value('form'),
    domain: value('domain'),
    revision: value('revision'),
    fields: value('fields'),
    control: value('control'),
    ip: value('ip'),
    user_agent: value('user_agent'),
    referer: value('referer'),
    status: value('status'),
    spam_score: value('spam_score'),
    spam_reasons: value('spam_reasons'),
    environment: value('environment'),
    created_at: value('created_at'),
  }),
);

/** The statement that counts one more accepted submission of the form. */
export const countSubmission = define<{ form: string; at: number }>()((db, value) =>
  db
    .insertInto('form_counters')
    .values({ form: value('form'), submissions: 1, created_at: value('at') })
    .onConflict((conflict) =>
      conflict.column('form').doUpdateSet((eb) => ({ submissions: eb('form_counters.submissions', '+', 1) })),
    ),
);

/** The statement that counts one less: what was accepted is spam after all. */
export const uncountSubmission = define<{ form: string }>()((db, value) =>
  db
    .updateTable('form_counters')
    .set((eb) => ({ submissions: eb('submissions', '-', 1) }))
    .where('form', '=', value('form'))
    .where('submissions', '>', 0),
);

/** The statement that calls a submission spam, or takes that back; it touches no row where it is called that already. */
export const markSubmission = define<Pick<SubmissionRow, 'id' | 'status'>>()((db, value) =>
  db
    .updateTable('submissions')
    .set({ status: value('status') })
    .where('id', '=', value('id'))
    .where('status', '<>', value('status')),
);

/** The statement that changes nothing: with `expect` 1 its unit fails where the submission is gone, and nobody removes it before. */
export const keepSubmission = define<{ id: string }>()((db, value) =>
  db
    .updateTable('submissions')
    .set((eb) => ({ status: eb.ref('status') }))
    .where('id', '=', value('id')),
);

const removeChunks = define<{ id: string }>()((db, value) =>
  db
    .deleteFrom('file_chunks')
    .where('file', 'in', (eb) =>
      eb.selectFrom('submission_files').select('submission_files.id').where('submission', '=', value('id')),
    ),
);
const removeBodies = define<{ id: string }>()((db, value) =>
  db
    .deleteFrom('message_chunks')
    .where('message', 'in', (eb) =>
      eb.selectFrom('messages').select('messages.id').where('submission', '=', value('id')),
    ),
);
const dropBodies = define<{ id: string }>()((db, value) =>
  db.updateTable('messages').set({ body: 'dropped' }).where('submission', '=', value('id')),
);
/** Its files' rows go with it. */
const removeSettled = define<{ id: string }>()((db, value) =>
  db
    .deleteFrom('submissions')
    .where('id', '=', value('id'))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('messages')
            .innerJoin('deliveries', 'deliveries.message', 'messages.id')
            .select('deliveries.id')
            .where('messages.submission', '=', value('id'))
            .where('deliveries.state', 'in', ['queued', 'sending', 'deferred']),
        ),
      ),
    ),
);

/**
 * The statement that keeps these submissions for this unit. On SQLite units come one after another; on PostgreSQL what
 * locks their rows is waited for and then seen.
 */
export const lockSubmissions = define<{ ids: string }>()((db, value, dialect) => {
  const query = db
    .selectFrom('submissions')
    .select('id')
    .where('id', 'in', listed(value('ids'), dialect))
    .orderBy('id');
  return dialect === 'postgres' ? query.forUpdate() : query;
});

/** The unit that removes a submission, its files and the bodies of its mail; unmet where it is gone or its mail is on its way. */
export function removeSubmission(id: string): Statement[] {
  return [
    lockSubmissions({ ids: JSON.stringify([id]) }),
    removeChunks({ id }),
    removeBodies({ id }),
    dropBodies({ id }),
    removeSettled({ id }, 1),
  ];
}

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('submissions').selectAll().where('id', '=', value('id')),
);
const toMail = define<{ id: string }>()((db, value) =>
  db
    .selectFrom('submissions')
    .selectAll()
    .select((eb) => [
      eb
        .case()
        .when(
          eb.exists(
            eb
              .selectFrom('submission_files')
              .select('submission_files.id')
              .whereRef('submission_files.submission', '=', 'submissions.id'),
          ),
        )
        .then(1)
        .else(0)
        .end()
        .as('has_files'),
      eb
        .selectFrom('domains')
        .select('domains.status')
        .whereRef('domains.tenant', '=', 'submissions.tenant')
        .whereRef('domains.name', '=', 'submissions.domain')
        .as('domain_status'),
    ])
    .where('id', '=', value('id')),
);
const counter = define<{ form: string }>()((db, value) =>
  db.selectFrom('form_counters').select('submissions').where('form', '=', value('form')),
);

/** The submission with this id, or undefined. */
export async function findSubmission(store: Store, id: string): Promise<SubmissionRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** A submission and what else decides about its mail. */
export interface SubmissionToMail extends SubmissionRow {
  /** 1: there are files. */
  has_files: number;
  /** Of its domain; null where that is gone. */
  domain_status: DomainStatus | null;
}

/** The same in one look, which is made for each mail. */
export async function submissionToMail(store: Store, id: string): Promise<SubmissionToMail | undefined> {
  const [row] = await store.select(toMail({ id }));
  return row;
}

/** How many submissions of the form were ever accepted. */
export async function submissionsOf(store: Store, form: string): Promise<number> {
  const [row] = await store.select(counter({ form }));
  return row?.submissions ?? 0;
}

// * Uploaded files, in pieces of at most 256 KiB. Pieces of a large file are written while it still comes in, before there
// is a submission; the row that names the file comes with the submission. Pieces without one are orphans.

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
