/**
 * Submissions as lists: newest first, page by page, and found by what is written in them. One index has them by form, status
 * and flags, then by id: the sections of a tenant are found by a look at each, and a list is merged of the newest of those
 * that it is about. However many submissions there are, a page reads a few rows of each section.
 */
import { sql, type RawBuilder } from 'kysely';
import { accountOf, firstId, lastId } from '../lib/ids.ts';
import { type Found, searchSubmissions, soughtBy } from './search.ts';
import { listed, listerAmong, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { Section } from './submissions.ts';
import type { AttemptRow, DeliveryRow, FileRow, MessageRow, SubmissionRow } from './tables.ts';

export interface SubmissionFilter {
  readonly tenant: string;
  /** The id of one form, or all instant forms of the tenant; undefined: all forms. */
  readonly form?: string | { readonly kind: 'instant' } | undefined;
  /** Of all forms only those that this lets through; `domain` is that of their submissions. */
  readonly isWanted?: ((form: string, domain: string) => boolean) | undefined;
  readonly status?: SubmissionRow['status'] | undefined;
  /** Only those that nobody has read, or that somebody has. */
  readonly unread?: boolean | undefined;
  /** Only those with files, or without. */
  readonly files?: boolean | undefined;
  /** From this moment on, ms. */
  readonly from?: number | undefined;
  /** Before this moment, ms. */
  readonly until?: number | undefined;
  /** Its words stand in names or values of the fields, in whatever case; the last one may be the beginning of a word. */
  readonly text?: string | undefined;
}

/** Of so many with the words at a time the others of a filter are chosen, so that no search keeps the daemon busy for long. */
export const SEARCHED = 1000;
/** Nothing is counted further. */
export const MAX_COUNT = 10_000;
/** Unread submissions of one form are not counted further. */
export const MAX_UNREAD_OF_FORM = 1000;
const MAX_FORMS_COUNTED = 200;
/** So many sections are read by one statement: SQLite joins 500 at most. */
const AT_ONCE = 100;

export interface SubmissionPage {
  readonly rows: readonly SubmissionRow[];
  readonly next: string | null;
  /** On the first page of a search what `countSubmissions` would say: it is known by then. */
  readonly count?: Count | undefined;
}

/** One page; `next` is `before` of the next one, null after the last. With `text` it may hold few or none although there are more: `next` goes on where the search ended. */
export async function listSubmissions(
  store: Store,
  filter: SubmissionFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<SubmissionPage> {
  if (filter.text !== undefined) return searched(store, { ...filter, text: filter.text }, { before, limit });
  const ids = await newestSubmissions(store, filter, { before, limit: limit + 1 });
  const rows = await rowsOf(store, ids);
  return { rows: rows.slice(0, limit), next: rows.length > limit ? (rows[limit - 1]?.id ?? null) : null };
}

type TextFilter = SubmissionFilter & { readonly text: string };

async function searched(
  store: Store,
  filter: TextFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<SubmissionPage> {
  const { ids, end } = await foundBy(store, filter, before);
  const rows = await rowsOf(store, ids.slice(0, limit + 1));
  const next = ids.length > limit ? ids[limit - 1] : end;
  const count = before === undefined ? { count: ids.length, isMore: end !== undefined } : undefined;
  return { rows: rows.slice(0, limit), next: next ?? null, count };
}

/** The newest with the words, of `SEARCHED` those that are in the sections of the filter. */
async function foundBy(store: Store, filter: TextFilter, before?: string): Promise<Found> {
  const sought = soughtBy(filter.text);
  if (sought === undefined) return { ids: [], end: undefined };
  const { tenant, form, isWanted, status, unread, files } = filter;
  const range = rangeOf(filter, before);
  const isNarrow = form !== undefined || isWanted !== undefined;
  const sections = isNarrow ? await sectionsOf(store, { tenant, form, isWanted }, rangeOf({})) : [];
  const forms = isNarrow ? new Set(sections.map((section) => section.form)) : undefined;
  const found = await searchSubmissions(store, {
    tenant,
    forms: forms && [...forms],
    sought,
    range,
    limit: SEARCHED,
  });
  const flags = await flagsOf(store, found.ids);
  const ids = flags
    .filter(
      (row) =>
        row.tenant === tenant &&
        (forms === undefined || forms.has(row.form)) &&
        (status === undefined || row.status === status) &&
        (unread === undefined || (row.unread === 1) === unread) &&
        (files === undefined || (row.has_files === 1) === files),
    )
    .map(({ id }) => id);
  return { ids, end: found.end };
}

/** A count that ends at `MAX_COUNT`, or with `text` at what was searched. */
export interface Count {
  readonly count: number;
  /** There are more than these. */
  readonly isMore: boolean;
}

/** How many there are; with `text`, among the newest `SEARCHED` with its words. */
export async function countSubmissions(store: Store, filter: SubmissionFilter): Promise<Count> {
  const { text } = filter;
  const range = rangeOf(filter);
  if (text !== undefined) {
    const { ids, end } = await foundBy(store, { ...filter, text });
    return { count: ids.length, isMore: end !== undefined };
  }
  return counted(await countIn(store, await sectionsOf(store, filter, range), { ...range, most: MAX_COUNT + 1 }));
}

function counted(found: number): Count {
  return { count: Math.min(found, MAX_COUNT), isMore: found > MAX_COUNT };
}

export interface InboxCounts {
  readonly all: number;
  /** Accepted ones that nobody has read. */
  readonly unread: number;
  readonly spam: number;
  readonly pending: number;
  /** Of the same, those of each form that has some, the form with the newest first. */
  readonly by_form: readonly { readonly form: string; readonly unread: number }[];
}

/** What an inbox of these forms holds; no figure goes beyond `MAX_COUNT`, and that of a form not beyond `MAX_UNREAD_OF_FORM`. */
export async function countInbox(
  store: Store,
  filter: Pick<SubmissionFilter, 'tenant' | 'isWanted'>,
): Promise<InboxCounts> {
  const range = rangeOf({});
  const sections = await sectionsOf(store, filter, range);
  const unread = sections.filter((section) => section.status === 'accepted' && section.unread === 1);

  function count(those: readonly SectionHead[], most = MAX_COUNT): Promise<number> {
    return countIn(store, those, { ...range, most });
  }

  const forms = [...Map.groupBy(unread.toSorted(byHead), ({ form }) => form)].slice(0, MAX_FORMS_COUNTED);
  return {
    all: await count(sections),
    unread: await count(unread),
    spam: await count(sections.filter(({ status }) => status === 'spam')),
    pending: await count(sections.filter(({ status }) => status === 'pending')),
    by_form: await Promise.all(
      forms.map(async ([form, own]) => ({ form, unread: await count(own, MAX_UNREAD_OF_FORM) })),
    ),
  };
}

/** How many a tenant has, of all forms. */
export async function countSubmissionsOf(store: Store, tenant: string): Promise<number> {
  const { rows } = await sql<{
    count: number;
  }>`select count(*) as count from submissions where tenant = ${tenant}`.execute(store.read);
  return rows[0]?.count ?? 0;
}

/** Ids from the first on and before the last. */
interface Range {
  readonly first: string;
  readonly last: string;
}

const LAST = lastId('sub');

function rangeOf({ from, until }: Partial<SubmissionFilter>, before = LAST): Range {
  const last = until === undefined ? LAST : firstId('sub', until);
  return { first: from === undefined ? '' : firstId('sub', from), last: before < last ? before : last };
}

/** A section that has submissions in the range. */
interface SectionHead extends Section {
  /** Of its submissions. */
  readonly domain: string;
  /** The newest of them. */
  readonly head: string;
}

function byHead(one: SectionHead, other: SectionHead): number {
  return one.head < other.head ? 1 : Number(one.head > other.head) * -1;
}

/** The sections of the filter that have submissions in the range. */
async function sectionsOf(store: Store, filter: SubmissionFilter, range: Range): Promise<SectionHead[]> {
  const { tenant, form, isWanted, status, unread, files } = filter;
  const found = await readSections(store, { tenant, form: typeof form === 'string' ? form : undefined, range });
  const instant = typeof form === 'object' ? await instantAmong(store, found) : undefined;
  return found.filter(
    (section) =>
      (instant === undefined || instant.has(section.form)) &&
      (isWanted === undefined || isWanted(section.form, section.domain)) &&
      (status === undefined || section.status === status) &&
      (unread === undefined || (section.unread === 1) === unread) &&
      (files === undefined || (section.has_files === 1) === files),
  );
}

interface Sought {
  readonly tenant: string;
  readonly form: string | undefined;
  readonly range: Range;
}

/** Goes from each section to the next by the index: it takes a step for each section, not for each submission. */
async function readSections(store: Store, { tenant, form, range }: Sought): Promise<SectionHead[]> {
  const own = form === undefined ? sql`tenant = ${tenant}` : sql`tenant = ${tenant} and form = ${form}`;
  const order = sql`order by form, status, unread, has_files, id`;
  const key = sql`id, form, status, unread, has_files, domain`;
  const next =
    store.dialect === 'sqlite'
      ? sql`select n.id, n.form, n.status, n.unread, n.has_files, n.domain from sections
          join submissions as n on n.id = ${behindOnSqlite(tenant, form)}`
      : sql`select n.* from sections
          cross join lateral (select ${key} from submissions where ${own} and ${behindOnPostgres(form)} ${order} limit 1) as n`;
  const { rows } = await sql<SectionHead & { readonly head: string | null }>`
    with recursive sections as (
      select * from (select ${key} from submissions where ${own} ${order} limit 1) as first
      union all ${next})
    select form, status, unread, has_files, domain, (
      select submissions.id from submissions
      where submissions.tenant = ${tenant} and submissions.form = sections.form
        and submissions.status = sections.status and submissions.unread = sections.unread
        and submissions.has_files = sections.has_files
        and submissions.id >= ${range.first} and submissions.id < ${range.last}
      order by submissions.id desc limit 1) as head
    from sections`.execute(store.read);
  return rows.flatMap(({ head, ...section }) => (head === null ? [] : [{ ...section, tenant, head }]));
}

/** What is behind a section. Of one form without its column: the index is used only by what follows an equal column. */
function behindOnPostgres(form: string | undefined): RawBuilder<unknown> {
  return form === undefined
    ? sql`(form, status, unread, has_files) > (sections.form, sections.status, sections.unread, sections.has_files)`
    : sql`(status, unread, has_files) > (sections.status, sections.unread, sections.has_files)`;
}

/** The first submission behind a section. SQLite compares rows by their first column alone where they are those of a join. */
function behindOnSqlite(tenant: string, form: string | undefined): RawBuilder<unknown> {
  const own = sql`tenant = ${tenant}`;
  const ofForm = sql`${own} and form = sections.form`;
  const ofStatus = sql`${ofForm} and status = sections.status`;
  const others = [
    sql`${ofStatus} and unread = sections.unread and has_files > sections.has_files order by has_files, id`,
    sql`${ofStatus} and unread > sections.unread order by unread, has_files, id`,
    sql`${ofForm} and status > sections.status order by status, unread, has_files, id`,
    ...(form === undefined ? [sql`${own} and form > sections.form order by form, status, unread, has_files, id`] : []),
  ];
  return sql`coalesce(${sql.join(others.map((where) => sql`(select id from submissions where ${where} limit 1)`))})`;
}

const instantForms = reader(
  (ids: readonly string[], tenant: string, account: string) => sql<{ id: string }>`select id from forms
    where id in ${listed(ids)} and tenant in (${tenant}, ${account}) and kind = 'instant'`,
);

async function instantAmong(store: Store, sections: readonly Section[]): Promise<Set<string>> {
  const [first] = sections;
  if (first === undefined) return new Set();
  const ids = [...new Set(sections.map(({ form }) => form))];
  return new Set((await instantForms(store, ids, first.tenant, accountOf(first.tenant))).map(({ id }) => id));
}

/** The newest ids of the filter: only the sections whose own newest are among them matter. */
export async function newestSubmissions(
  store: Store,
  filter: SubmissionFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<string[]> {
  const range = rangeOf(filter, before);
  const sections = (await sectionsOf(store, filter, range)).toSorted(byHead).slice(0, limit);
  const ids: string[] = [];
  for (const some of portionsOf(sections)) {
    const parts = some.map(
      (section) => sql`select id from (${idsOf(section, range)} order by id desc limit ${limit}) as s`,
    );
    const { rows } = await sql<{ id: string }>`select id from (${sql.join(parts, sql` union all `)}) as ids
      order by id desc limit ${limit}`.execute(store.read);
    ids.push(...rows.map(({ id }) => id));
  }
  return ids.sort().reverse().slice(0, limit);
}

async function countIn(
  store: Store,
  sections: readonly Section[],
  { most, ...range }: Range & { readonly most: number },
): Promise<number> {
  let count = 0;
  for (const some of portionsOf(sections)) {
    if (count >= most) break;
    const parts = some.map((section) => idsOf(section, range));
    const { rows } = await sql<{ count: number }>`select count(*) as count
      from (${sql.join(parts, sql` union all `)} limit ${most - count}) as ids`.execute(store.read);
    count += rows[0]?.count ?? 0;
  }
  return count;
}

function portionsOf(sections: readonly SectionHead[]): SectionHead[][];
function portionsOf(sections: readonly Section[]): Section[][];
function portionsOf(sections: readonly Section[]): Section[][] {
  const portions: Section[][] = [];
  for (let i = 0; i < sections.length; i += AT_ONCE) portions.push(sections.slice(i, i + AT_ONCE));
  return portions;
}

function idsOf({ tenant, form, status, unread, has_files }: Section, { first, last }: Range): RawBuilder<unknown> {
  return sql`select id from submissions where tenant = ${tenant} and form = ${form} and status = ${status}
    and unread = ${unread} and has_files = ${has_files} and id >= ${first} and id < ${last}`;
}

const rowsAmong = listerAmong('submissions', 'id');

/** The rows, newest first. */
async function rowsOf(store: Store, ids: readonly string[]): Promise<SubmissionRow[]> {
  return ids.length === 0 ? [] : (await rowsAmong(store, ids)).reverse();
}

const flagsAmong = reader(
  (ids: readonly string[]) => sql<Section & { id: string }>`select id, tenant, form, status, unread, has_files
    from submissions where id in ${listed(ids)} order by id desc`,
);

/** What decides about lists, newest first. */
async function flagsOf(store: Store, ids: readonly string[]): Promise<(Section & { id: string })[]> {
  return ids.length === 0 ? [] : flagsAmong(store, ids);
}

const files = listerAmong('submission_files', 'submission', 'position');
const messages = reader(
  (ids: readonly string[]) => sql<Pick<MessageRow, 'id' | 'submission'>>`select id, submission from messages
    where submission in ${listed(ids)} order by id`,
);

type Notified = Pick<MessageRow, 'submission'> & Pick<DeliveryRow, 'message' | 'recipient' | 'state'>;

const notified = reader(
  (ids: readonly string[]) => sql<Notified>`
    select messages.submission, deliveries.message, deliveries.recipient, deliveries.state
    from messages join deliveries on deliveries.message = messages.id
    where messages.submission in ${listed(ids)} and messages.kind = 'notification'
    order by messages.created_at, deliveries.recipient, messages.id`,
);

export interface SubmissionParts {
  readonly files: readonly FileRow[];
  /** Ids of the messages that tell of it, oldest first. */
  readonly messages: readonly string[];
  /** What became of its notifications, oldest first. */
  readonly deliveries: readonly Pick<DeliveryRow, 'message' | 'recipient' | 'state'>[];
}

/** The files and messages of these submissions, by the submission's id. */
export async function partsOf(store: Store, rows: readonly SubmissionRow[]): Promise<(id: string) => SubmissionParts> {
  const ids = rows.map(({ id }) => id);
  const [ofFiles, ofMessages, ofDeliveries] = await Promise.all([
    files(store, ids),
    messages(store, ids),
    notified(store, ids),
  ]);
  const deliveriesBy = Map.groupBy(ofDeliveries, ({ submission }) => submission);
  const filesBy = Map.groupBy(ofFiles, ({ submission }) => submission);
  const messagesBy = Map.groupBy(ofMessages, ({ submission }) => submission);
  return (id) => ({
    files: filesBy.get(id) ?? [],
    messages: (messagesBy.get(id) ?? []).map((message) => message.id),
    deliveries: deliveriesBy.get(id) ?? [],
  });
}

type SubmissionDelivery = Pick<MessageRow, 'kind'> &
  Pick<DeliveryRow, 'id' | 'destination' | 'state' | 'recipient' | 'last_reply'>;

/** Every delivery of the mail that tells of a submission. */
export const deliveriesOfSubmission = reader(
  (submission: string) => sql<SubmissionDelivery>`
    select messages.kind, deliveries.id, deliveries.destination, deliveries.state, deliveries.recipient,
      deliveries.last_reply
    from messages join deliveries on deliveries.message = messages.id
    where messages.submission = ${submission} order by deliveries.id`,
);

type SubmissionAttempt = Pick<DeliveryRow, 'message' | 'recipient'> &
  Pick<AttemptRow, 'at' | 'host' | 'tls' | 'outcome' | 'reply'>;

/** The newest attempts to deliver the mail that tells of a submission, newest first. */
export const attemptsOfSubmission = reader(
  (submission: string, limit: number) => sql<SubmissionAttempt>`
    select deliveries.message, deliveries.recipient, attempts.at, attempts.host, attempts.tls, attempts.outcome,
      attempts.reply
    from messages join deliveries on deliveries.message = messages.id
      join attempts on attempts.delivery = deliveries.id
    where messages.submission = ${submission} order by attempts.at desc, attempts.number desc limit ${limit}`,
);
