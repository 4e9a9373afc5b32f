/**
 * What visitors sent, accepted or kept as spam, and how often each form was used. Uploaded files lie in pieces of at most
 * 256 KiB: those of a large file are written while it still comes in, before there is a submission; the row that names the
 * file comes with the submission. Pieces without one are orphans. A submission that is old enough goes only when all mail
 * about it is settled and every active webhook has been told of it. Whether its mail is settled is asked again in the unit
 * that removes it, so that a mail which is asked for meanwhile keeps what it is made of.
 */
import { sql } from 'kysely';
import { lastId } from '../lib/ids.ts';
import { countedOf } from './forms.ts';
import {
  deleteFrom,
  finder,
  insertInto,
  listed,
  lister,
  query,
  reader,
  update,
  type Dialect,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { DomainStatus, FileChunkRow, SubmissionRow } from './tables.ts';

/** The statement that keeps a submission. */
export const insertSubmission = insertInto('submissions');

/** The statement that notes that a submission is to be found by its words (search.ts). */
export const noteToIndex = insertInto('submissions_to_index');

/** Rows among which the connections of daemons share the count of a form: one row would be locked by whoever commits, for all others. */
const SLOTS = 32;

function slotOf(dialect: Dialect) {
  return dialect === 'sqlite' ? sql`0` : sql`pg_backend_pid() % ${sql.lit(SLOTS)}`;
}

/** The statement that counts one more accepted submission of the form. */
export const countSubmission = query<{ form: string }>((value, dialect) => count(value('form'), dialect, 1), {
  columns: { form: 'text' },
  touches: 'any',
  build: (rows, value) => sql`insert into form_counts (form, slot, submissions)
    select ${value('form')}, ${slotOf('postgres')}, count(*) from ${rows} group by 1 order by 1
    on conflict (form, slot) do update set submissions = form_counts.submissions + excluded.submissions`,
});

/** The statement that counts one less: what was accepted is spam after all. */
export const uncountSubmission = query<{ form: string }>((value, dialect) => count(value('form'), dialect, -1));

function count(form: string, dialect: Dialect, change: 1 | -1) {
  return sql<never>`insert into form_counts (form, slot, submissions)
    values (${form}, ${slotOf(dialect)}, ${sql.lit(change)})
    on conflict (form, slot) do update set submissions = form_counts.submissions + excluded.submissions`;
}

/** The statement that gives a submission another status; it touches no row where it had another meanwhile. */
export const markSubmission = query<Pick<SubmissionRow, 'id' | 'status'> & { from: SubmissionRow['status'] }>(
  (value) => sql`update submissions set status = ${value('status')}
    where id = ${value('id')} and status = ${value('from')}`,
);

/** The same for one that is accepted now, and was not when it came. */
export const acceptLater = query<{ id: string; from: SubmissionRow['status']; at: number }>(
  (value) => sql`update submissions set status = 'accepted', accepted_at = ${value('at')}
    where id = ${value('id')} and status = ${value('from')}`,
);

/** The statement that changes nothing: with `expect` 1 its unit fails where the submission is gone, and nobody removes it before. */
export const keepSubmission = update('submissions', [sql`status = status`], ['id']);

/** The statement that notes whether somebody has read these submissions of the tenant. */
export const noteRead = query<{ tenant: string; ids: readonly string[]; unread: number }>(
  (value) => sql`update submissions set unread = ${value('unread')}
    where id in ${listed(value('ids'))} and tenant = ${value('tenant')} and unread <> ${value('unread')}`,
);

/** Whether all mail about the submission of the surrounding statement is settled. */
const isSettled = sql<boolean>`not exists (
  select 1 from messages join deliveries on deliveries.message = messages.id
  where messages.submission = submissions.id and deliveries.state in ('queued', 'sending', 'deferred'))`;

/** A submission and what else decides about its mail. */
export interface SubmissionToMail extends SubmissionRow {
  /** Of its domain; null where that is gone. */
  domain_status: DomainStatus | null;
}

/** The submission with this id, or undefined. */
export const findSubmission = finder('submissions', 'id');

const toMail = reader(
  (id: string) => sql<SubmissionToMail>`select submissions.*,
      (select status from domains
        where domains.tenant = submissions.tenant and domains.name = submissions.domain) as domain_status
    from submissions where id = ${id}`,
);

/** The same in one look, which is made for each mail. */
export async function submissionToMail(store: Store, id: string): Promise<SubmissionToMail | undefined> {
  return (await toMail(store, id))[0];
}

const counter = reader(
  (form: string) => sql<{ submissions: number }>`select ${countedOf(sql`${form}`)} as submissions`,
);

/** How many submissions of the form were ever accepted. */
export async function submissionsOf(store: Store, form: string): Promise<number> {
  return Math.max(0, (await counter(store, form))[0]?.submissions ?? 0);
}

/** The statement that ties a file to its submission. */
export const insertFile = insertInto('submission_files');

/** The statement that keeps one piece of a file. */
export const insertFileChunk = insertInto('file_chunks');

/** The statement that drops the pieces of one file. */
export const deleteFileChunks = deleteFrom('file_chunks', 'file');

/** As a condition: there is no row that names the file of these pieces. */
const isOrphan = sql<boolean>`not exists (select 1 from submission_files where submission_files.id = file_chunks.file)`;

/** The statement that drops pieces written from `since` until before `before` whose submission never came. */
export const deleteOrphans = query<{ since: number; before: number }>(
  (value) => sql`delete from file_chunks
    where created_at >= ${value('since')} and created_at < ${value('before')} and ${isOrphan}`,
);

const chunksOf = lister('file_chunks', ['file'], sql`order by seq`);
const chunk = finder('file_chunks', 'file', 'seq');

/** The files of a submission, in the order sent. */
export const filesOf = lister('submission_files', ['submission'], sql`order by position`);

/** The content of a file piece by piece, one of them in memory at a time. */
export async function* chunksOfFile(store: Store, file: string): AsyncGenerator<Uint8Array> {
  let found: FileChunkRow | undefined;
  for (let seq = 0; (found = await chunk(store, file, seq)) !== undefined; seq++) yield await store.blobs.get(found);
}

/** The whole content of a file. */
export async function readFile(store: Store, file: string): Promise<Buffer> {
  const chunks = await chunksOf(store, file);
  return Buffer.concat(await Promise.all(chunks.map((each) => store.blobs.get(each))));
}

/** Submissions of one form with the same status and flags: they stand together in the index, by id. */
export interface Section extends Pick<SubmissionRow, 'tenant' | 'form' | 'status' | 'unread' | 'has_files'> {}

/** Before every section. */
export const FIRST_SECTION = { tenant: '', form: '', status: 'accepted', unread: 0, has_files: 0 } as const;

const nextSection = query<Section, Section>(
  (value) => sql`select tenant, form, status, unread, has_files from submissions
    where (tenant, form, status, unread, has_files) > (${value('tenant')}, ${value('form')}, ${value('status')},
      ${value('unread')}, ${value('has_files')})
    order by tenant, form, status, unread, has_files limit 1`,
);

/** The section after this one; undefined after the last. */
export async function sectionAfter(store: Store, section: Section): Promise<Section | undefined> {
  return (await store.select(nextSection(section)))[0];
}

const hasArrived = sql`exists (
  select 1 from messages join deliveries on deliveries.message = messages.id
  where messages.submission = submissions.id and messages.kind = 'notification'
    and deliveries.state in ('delivered', 'captured'))`;

/** Of the id: when the submission came. On PostgreSQL the days of events that cannot have what is asked for are not looked at. */
const timePart = sql`substr(submissions.id, 5, 10)`;
const afterItsEvent = sql`case when submissions.accepted_at is null then 'evt_' || ${timePart} || 'zzzzzzzzzzzzzzzzz' else ${sql.lit(lastId('evt'))} end`;

/** Events are found a while after they were recorded (events/webhooks), and posted a while after that. */
const isTold = sql`not exists (
  select 1 from webhooks
  where webhooks.tenant = submissions.tenant and webhooks.status = 'active' and (
    webhooks.cursor <= coalesce(submissions.accepted_at, submissions.created_at) + 120000
    or exists (
      select 1 from events join deliveries on deliveries.event = events.id
      where events.tenant = submissions.tenant
        and events.created_at = coalesce(submissions.accepted_at, submissions.created_at)
        and events.id >= 'evt_' || ${timePart} and events.id < ${afterItsEvent}
        and events.submission = submissions.id
        and deliveries.webhook = webhooks.id and deliveries.settled_at is null)))`;

const old = query<Section & { after: string; before: string; unreached: string; limit: number }, { id: string }>(
  (value) => sql`select id from submissions
    where tenant = ${value('tenant')} and form = ${value('form')} and status = ${value('status')}
      and unread = ${value('unread')} and has_files = ${value('has_files')}
      and id > ${value('after')} and id < ${value('before')} and (id < ${value('unreached')} or ${hasArrived})
      and ${isSettled} and ${isTold}
    order by id limit ${value('limit')}`,
);

/** The submissions of which less is to stay: the same conditions, without a form. */
const reducible = query<{ after: string; unreached: string; limit: number }, Pick<SubmissionRow, 'id' | 'stored'>>(
  (value) => sql`select id, stored from submissions
    where stored in ('metadata', 'none') and id > ${value('after')} and (id < ${value('unreached')} or ${hasArrived})
      and ${isSettled} and ${isTold}
    order by id limit ${value('limit')}`,
);

const sizes = reader(
  (ids: readonly string[]) => sql<{ submission: string; file: string | null; size: number }>`
    select submission, id as file, size from submission_files where submission in ${listed(ids)}
    union all select submission, null, size from messages where submission in ${listed(ids)} and body <> 'dropped'`,
);

export interface OldSubmission {
  readonly id: string;
  readonly files: readonly string[];
  /** Of its files and of the bodies of its mail. */
  readonly bytes: number;
}

export interface OldOnes extends Section {
  /** Only those behind this one. */
  readonly after: string;
  /** Only those before this id; and of those that no recipient got, only those before `unreached`. */
  readonly before: string;
  readonly unreached: string;
  readonly limit: number;
}

/** Submissions of the section that may go, oldest first. */
export async function oldSubmissions(store: Store, which: OldOnes): Promise<OldSubmission[]> {
  return sizesOf(store, await store.select(old(which)));
}

export interface ReducibleSubmission extends OldSubmission {
  /** What is to stay: its metadata or nothing. */
  readonly stored: SubmissionRow['stored'];
}

/** Submissions whose mail has arrived and of which less is to stay, oldest first. */
export async function reducibleSubmissions(
  store: Store,
  which: Pick<OldOnes, 'after' | 'unreached' | 'limit'>,
): Promise<ReducibleSubmission[]> {
  return sizesOf(store, await store.select(reducible(which)));
}

/** These submissions with their files, and how much they take. */
export async function sizesOf<Row extends { readonly id: string }>(
  store: Store,
  rows: readonly Row[],
): Promise<(Row & OldSubmission)[]> {
  if (rows.length === 0) return [];
  const parts = Map.groupBy(
    await sizes(
      store,
      rows.map(({ id }) => id),
    ),
    ({ submission }) => submission,
  );
  return rows.map((row) => {
    const own = parts.get(row.id) ?? [];
    const bytes = own.reduce((sum, { size }) => sum + size, 0);
    return { ...row, files: own.flatMap(({ file }) => file ?? []), bytes };
  });
}

/**
 * The statement that keeps these submissions for this unit. On SQLite units come one after another; on PostgreSQL what
 * locks their rows is waited for and then seen.
 */
const lockSubmissions = query<{ ids: readonly string[] }>(
  (value, dialect) => sql`select id from submissions where id in ${listed(value('ids'))} order by id
    ${dialect === 'postgres' ? sql`for update` : sql``}`,
);

/** The rows of their files go with them. */
const removeSettled = query<{ ids: readonly string[] }>(
  (value) => sql`delete from submissions where id in ${listed(value('ids'))} and ${isSettled}`,
);
const removeFiles = query<{ files: readonly string[] }>(
  (value) => sql`delete from file_chunks where file in ${listed(value('files'))} and ${isOrphan}`,
);
const isGone = sql`not exists (select 1 from submissions where submissions.id = messages.submission)`;
const removeBodies = query<{ ids: readonly string[] }>(
  (value) => sql`delete from message_chunks where message in (
    select id from messages where submission in ${listed(value('ids'))} and ${isGone})`,
);
const dropBodies = query<{ ids: readonly string[] }>(
  (value) => sql`update messages set body = 'dropped'
    where submission in ${listed(value('ids'))} and body <> 'dropped' and ${isGone}`,
);

/** The unit that removes those of these submissions whose mail is settled still, their files and the bodies of their mail. */
export function removeOldSubmissions(those: readonly OldSubmission[]): Statement[] {
  const ids = those.map(({ id }) => id);
  return [
    lockSubmissions({ ids }),
    removeSettled({ ids }),
    removeFiles({ files: those.flatMap((each) => each.files) }),
    removeBodies({ ids }),
    dropBodies({ ids }),
  ];
}

/** What a visitor wrote; also in what the spam filter says of it. */
const dropFields = query<{ ids: readonly string[] }>(
  (
    value,
  ) => sql`update submissions set fields = '[]', control = '{}', spam_reasons = '[]', has_files = 0, stored = 'dropped'
    where id in ${listed(value('ids'))} and ${isSettled}`,
);
const unindexDropped = query<{ ids: readonly string[] }>(
  (value) => sql`delete from submission_documents where submission in (
    select id from submissions where id in ${listed(value('ids'))} and stored = 'dropped')`,
);
const isDropped = sql`exists (
  select 1 from submissions where submissions.id = messages.submission and submissions.stored = 'dropped')`;
const dropFileRows = query<{ ids: readonly string[] }>(
  (value) => sql`delete from submission_files where submission in (
    select id from submissions where id in ${listed(value('ids'))} and stored = 'dropped')`,
);
const dropBodiesOfDropped = query<{ ids: readonly string[] }>(
  (value) => sql`delete from message_chunks where message in (
    select id from messages where submission in ${listed(value('ids'))} and ${isDropped})`,
);
const markBodiesOfDropped = query<{ ids: readonly string[] }>(
  (value) => sql`update messages set body = 'dropped'
    where submission in ${listed(value('ids'))} and body <> 'dropped' and ${isDropped}`,
);

/** The unit that drops what those of these submissions say whose mail is settled still; their metadata stays. */
export function dropSubmissionContent(those: readonly OldSubmission[]): Statement[] {
  const ids = those.map(({ id }) => id);
  return [
    lockSubmissions({ ids }),
    dropFields({ ids }),
    unindexDropped({ ids }),
    dropFileRows({ ids }),
    removeFiles({ files: those.flatMap((each) => each.files) }),
    dropBodiesOfDropped({ ids }),
    markBodiesOfDropped({ ids }),
  ];
}

const removeFilesOf = query<{ id: string }>(
  (value) => sql`delete from file_chunks
    where file in (select id from submission_files where submission = ${value('id')})`,
);

/** The unit that removes a submission, its files and the bodies of its mail; unmet where it is gone or its mail is on its way. */
export function removeSubmission(id: string): Statement[] {
  const ids = [id];
  return [
    lockSubmissions({ ids }),
    removeFilesOf({ id }),
    removeSettled({ ids }, 1),
    removeBodies({ ids }),
    dropBodies({ ids }),
  ];
}
