/**
 * What visitors sent, accepted or kept as spam, and how often each form was used. Uploaded files lie in pieces of at most
 * 256 KiB: those of a large file are written while it still comes in, before there is a submission; the row that names the
 * file comes with the submission. Pieces without one are orphans.
 */
import { sql } from 'kysely';
import { deleteFrom, finder, insertInto, listed, query, selectFrom, update } from './rows.ts';
import type { Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { DomainStatus, FileChunkRow, FileRow, SubmissionRow } from './tables.ts';

/** The statement that keeps a submission. */
export const insertSubmission = insertInto('submissions');

/** The statement that counts one more accepted submission of the form. */
export const countSubmission = query<{ form: string; at: number }>(
  (value) => sql`insert into form_counters (form, submissions, created_at) values (${value('form')}, 1, ${value('at')})
    on conflict (form) do update set submissions = form_counters.submissions + 1`,
);

/** The statement that counts one less: what was accepted is spam after all. */
export const uncountSubmission = update(
  'form_counters',
  [sql`submissions = submissions - 1`],
  ['form', sql`submissions > 0`],
);

/** The statement that calls a submission spam, or takes that back; it touches no row where it is called that already. */
export const markSubmission = query<Pick<SubmissionRow, 'id' | 'status'>>(
  (value) => sql`update submissions set status = ${value('status')}
    where id = ${value('id')} and status <> ${value('status')}`,
);

/** The statement that changes nothing: with `expect` 1 its unit fails where the submission is gone, and nobody removes it before. */
export const keepSubmission = update('submissions', [sql`status = status`], ['id']);

const removeChunks = query<{ id: string }>(
  (value) => sql`delete from file_chunks
    where file in (select id from submission_files where submission = ${value('id')})`,
);
const removeBodies = query<{ id: string }>(
  (value) => sql`delete from message_chunks
    where message in (select id from messages where submission = ${value('id')})`,
);
const dropBodies = query<{ id: string }>(
  (value) => sql`update messages set body = 'dropped' where submission = ${value('id')}`,
);

/** Whether all mail about the submission of the surrounding statement is settled. */
export const isSettled = sql<boolean>`not exists (
  select 1 from messages join deliveries on deliveries.message = messages.id
  where messages.submission = submissions.id and deliveries.state in ('queued', 'sending', 'deferred'))`;

/** Its files' rows go with it. */
const removeSettled = deleteFrom('submissions', 'id', isSettled);

/**
 * The statement that keeps these submissions for this unit. On SQLite units come one after another; on PostgreSQL what
 * locks their rows is waited for and then seen.
 */
export const lockSubmissions = query<{ ids: string }>(
  (value, dialect) => sql`select id from submissions where id in ${listed(value('ids'), dialect)} order by id
    ${dialect === 'postgres' ? sql`for update` : sql``}`,
);

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

/** A submission and what else decides about its mail. */
export interface SubmissionToMail extends SubmissionRow {
  /** 1: there are files. */
  has_files: number;
  /** Of its domain; null where that is gone. */
  domain_status: DomainStatus | null;
}

const toMail = query<{ id: string }, SubmissionToMail>(
  (value) => sql`select submissions.*,
      case when exists (select 1 from submission_files where submission = submissions.id) then 1 else 0 end as has_files,
      (select status from domains
        where domains.tenant = submissions.tenant and domains.name = submissions.domain) as domain_status
    from submissions where id = ${value('id')}`,
);

/** The submission with this id, or undefined. */
export const findSubmission = finder('submissions', 'id');

/** The same in one look, which is made for each mail. */
export async function submissionToMail(store: Store, id: string): Promise<SubmissionToMail | undefined> {
  return (await store.select(toMail({ id })))[0];
}

const counter = finder('form_counters', 'form');

/** How many submissions of the form were ever accepted. */
export async function submissionsOf(store: Store, form: string): Promise<number> {
  return (await counter(store, form))?.submissions ?? 0;
}

/** The statement that ties a file to its submission. */
export const insertFile = insertInto('submission_files');

/** The statement that keeps one piece of a file. */
export const insertFileChunk = insertInto('file_chunks');

/** The statement that drops the pieces of one file. */
export const deleteFileChunks = deleteFrom('file_chunks', 'file');

/** As a condition: there is no row that names the file of these pieces. */
export const isOrphan = sql<boolean>`not exists (select 1 from submission_files where submission_files.id = file_chunks.file)`;

/** The statement that drops pieces written from `since` until before `before` whose submission never came. */
export const deleteOrphans = query<{ since: number; before: number }>(
  (value) => sql`delete from file_chunks
    where created_at >= ${value('since')} and created_at < ${value('before')} and ${isOrphan}`,
);

const ofSubmission = selectFrom('submission_files', ['submission'], 'position');
const chunksOf = selectFrom('file_chunks', ['file'], 'seq');
const chunk = finder('file_chunks', 'file', 'seq');

/** The files of a submission, in the order sent. */
export function filesOf(store: Store, submission: string): Promise<FileRow[]> {
  return store.select(ofSubmission({ submission }));
}

/** The content of a file piece by piece, one of them in memory at a time. */
export async function* chunksOfFile(store: Store, file: string): AsyncGenerator<Uint8Array> {
  let found: FileChunkRow | undefined;
  for (let seq = 0; (found = await chunk(store, file, seq)) !== undefined; seq++) yield found.bytes;
}

/** The whole content of a file. */
export async function readFile(store: Store, file: string): Promise<Buffer> {
  return Buffer.concat((await store.select(chunksOf({ file }))).map(({ bytes }) => bytes));
}
