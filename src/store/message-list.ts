/**
 * Mail of an account as a list: newest first, page by page, in whatever state, and found by what is known of it. However
 * much there is, one call looks at a bounded number of rows: where a filter lets few through, a page may hold few or none,
 * and `next` goes on where the search ended.
 */
import { sql, type RawBuilder } from 'kysely';
import { firstId } from '../lib/ids.ts';
import { listed, reader } from './statement.ts';
import { newestSubmissions } from './submission-list.ts';
import type { Store } from './store.ts';
import type { DeliveryState, MessageKind, MessageRow } from './tables.ts';

/** Kinds that an account is shown: mail of the system holds links that act for whoever gets it. */
export type ListedKind = Exclude<MessageKind, 'webhook' | 'system' | 'tls_report'>;

export interface MessageListFilter {
  readonly tenant: string;
  /** At least one. */
  readonly kinds: readonly ListedKind[];
  /** Only mail of these domains. */
  readonly domains?: readonly string[] | undefined;
  /** Only mail of which a delivery is in this state. */
  readonly state?: DeliveryState | undefined;
  /** Only mail to this address, in lower case. */
  readonly recipient?: string | undefined;
  /** Only mail with this envelope sender, in lower case. */
  readonly sender?: string | undefined;
  /** Only mail of submissions of this form, as `submissions.form`. */
  readonly form?: string | undefined;
  /** Only mail of this submission. */
  readonly submission?: string | undefined;
  /** Stands in the subject or a recipient's address, in whatever case. */
  readonly text?: string | undefined;
  /** From this moment on, ms. */
  readonly from?: number | undefined;
  /** Before this moment, ms. */
  readonly until?: number | undefined;
}

/** So many rows are looked at where more than an index is read, and where an index alone is. */
const MAX_EXAMINED = 5000;
const MAX_EXAMINED_IN_INDEX = 20_000;
/** Of a form, whose mail is in the order of its submissions: in that order it has no index to be counted by. */
const MAX_COUNT_OF_FORM = 1000;
/** Submissions of a form whose mail is looked at. */
const MAX_SUBMISSIONS = 300;
/** Numbers are exact up to here. */
const MAX_COUNT = 10_000;

/** States that have an index by account. */
const INDEXED_STATES: ReadonlySet<DeliveryState> = new Set([
  'deferred',
  'bounced',
  'expired',
  'cancelled',
  'suppressed',
  'captured',
]);
// Written as the partial indexes have it.
const isListed = sql`kind not in ('webhook', 'system', 'tls_report')`;
export const isIndexed = sql`state in ('deferred', 'bounced', 'expired', 'cancelled', 'suppressed', 'captured') and webhook is null`;

/** An index that a search walks: ids of messages, newest first. */
interface Walk {
  readonly from: RawBuilder<unknown>;
  readonly id: RawBuilder<string>;
  readonly where: RawBuilder<unknown>;
  /** What else the rows of the list must fulfil. */
  readonly rest: readonly RawBuilder<unknown>[];
  readonly mostExamined: number;
}

interface Ids {
  readonly ids: readonly string[];
  /** `before` of the next page; null after the last. */
  readonly next: string | null;
}

/** The ids of one page. */
export async function listMessageIds(
  store: Store,
  filter: MessageListFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<Ids> {
  if (filter.form !== undefined && filter.recipient === undefined) return listOfForm(store, filter, { before, limit });
  const { rows: found, end } = await span(store, filter, before);
  const { rows } = await sql<{ id: string }>`select distinct ${found} order by id desc limit ${limit + 1}`.execute(
    store.read,
  );
  const ids = rows.map(({ id }) => id);
  if (ids.length > limit) return { ids: ids.slice(0, limit), next: ids[limit - 1] ?? null };
  return { ids, next: end === floorOf(filter) ? null : end };
}

/** How many there are, up to MAX_COUNT; `more`: there are, or may be, more. */
export async function countMessages(
  store: Store,
  filter: MessageListFilter,
): Promise<{ readonly count: number; readonly more: boolean }> {
  if (filter.form !== undefined && filter.recipient === undefined) {
    const { ids, next } = await listOfForm(store, filter, { limit: MAX_COUNT_OF_FORM });
    return { count: ids.length, more: next !== null };
  }
  const { rows: found, end } = await span(store, filter);
  const { rows } = await sql<{ count: number }>`select count(*) as count
    from (select distinct ${found} limit ${MAX_COUNT + 1}) as found`.execute(store.read);
  const count = rows[0]?.count ?? 0;
  return { count: Math.min(count, MAX_COUNT), more: count > MAX_COUNT || end !== floorOf(filter) };
}

/**
 * Mail of one form, by the age of its submissions: they have an index that knows the form. A cursor is the id of a message, or, where
 * the search ended without one, of a submission in the shape of one.
 */
async function listOfForm(
  store: Store,
  filter: MessageListFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<Ids> {
  const { tenant, form, from, until } = filter;
  const cursor = before === undefined ? undefined : await placeOf(store, before);
  const page = { before: cursor?.submission, limit: MAX_SUBMISSIONS };
  const older = await newestSubmissions(store, { tenant, form, from, until }, page);
  const submissions = cursor === undefined ? older : [cursor.submission, ...older];
  const id = sql.ref<string>('messages.id');
  const rest = [
    // They are of the form already: asked again, PostgreSQL reads all submissions.
    ...ofMessages({ ...filter, form: undefined }),
    ...ofDeliveries(store, { ...filter, recipient: undefined }, id),
    ...(cursor === undefined ? [] : [sql`(submission < ${cursor.submission} or ${id} < ${cursor.message})`]),
  ];
  const { rows } = await sql<{ id: string }>`select id from messages
    where submission in ${listedValues(submissions)} and tenant = ${tenant} and ${isListed} ${all(rest)}
    order by submission desc, id desc limit ${limit + 1}`.execute(store.read);
  const ids = rows.map((row) => row.id);
  if (ids.length > limit) return { ids: ids.slice(0, limit), next: ids[limit - 1] ?? null };
  const last = older.length === MAX_SUBMISSIONS ? older.at(-1) : undefined;
  return { ids, next: last === undefined ? null : last.replace('sub_', 'msg_') };
}

/** As values of the query: it is built anew each time. */
function listedValues(ids: readonly string[]): RawBuilder<unknown> {
  return sql`(${sql.join(ids.length === 0 ? [''] : ids)})`;
}

const submissionOf = reader(
  (id: string) => sql<Pick<MessageRow, 'submission'>>`select submission from messages where id = ${id}`,
);

/** Where a cursor is in the mail of a form. */
async function placeOf(
  store: Store,
  cursor: string,
): Promise<{ readonly submission: string; readonly message: string }> {
  const [row] = await submissionOf(store, cursor);
  const { submission } = row ?? {};
  return typeof submission === 'string'
    ? { submission, message: cursor }
    : { submission: cursor.replace('msg_', 'sub_'), message: '' };
}

/** What one call looks at: the columns and the rest of a query, and the oldest id among it. */
async function span(
  store: Store,
  filter: MessageListFilter,
  before?: string,
): Promise<{ readonly rows: RawBuilder<unknown>; readonly end: string }> {
  const { id, from, where, rest, mostExamined } = walkOf(store, filter);
  const first = earliest(before, filter.until === undefined ? undefined : firstId('msg', filter.until));
  const floor = floorOf(filter);
  const among = first === undefined ? where : sql`${where} and ${id} < ${first}`;
  const [last] =
    rest.length === 0
      ? []
      : (
          await sql<{ id: string }>`select ${id} as id from ${from} where ${among} and ${id} >= ${floor}
            order by ${id} desc limit 1 offset ${mostExamined - 1}`.execute(store.read)
        ).rows;
  const end = last?.id ?? floor;
  return { rows: sql`${id} as id from ${from} where ${among} and ${id} >= ${end} ${all(rest)}`, end };
}

function floorOf({ from }: MessageListFilter): string {
  return from === undefined ? '' : firstId('msg', from);
}

function earliest(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}

function all(conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> {
  return conditions.length === 0 ? sql`` : sql`and ${sql.join(conditions, sql` and `)}`;
}

function walkOf(store: Store, filter: MessageListFilter): Walk {
  const { tenant, recipient, state, submission } = filter;
  if (submission !== undefined) {
    const where = sql`submission = ${submission} and tenant = ${tenant} and ${isListed}`;
    const rest = [...ofMessages(filter), ...ofDeliveries(store, filter, sql.ref('messages.id'))];
    return { from: sql`messages`, id: sql.ref('messages.id'), where, rest, mostExamined: MAX_EXAMINED };
  }
  if (recipient !== undefined || (state !== undefined && INDEXED_STATES.has(state))) {
    const id = sql<string>`deliveries.message`;
    const where =
      recipient === undefined
        ? sql`deliveries.tenant = ${tenant} and state = ${state} and ${isIndexed}`
        : sql`deliveries.tenant = ${tenant} and lower(recipient) = ${recipient} and webhook is null`;
    const ofMessage = sql`exists (select 1 from messages where messages.id = deliveries.message and ${isListed}
      ${all(ofMessages(filter))})`;
    const rest = [
      ofMessage,
      ...(recipient === undefined || state === undefined ? [] : [sql`deliveries.state = ${state}`]),
      ...ofDeliveries(store, { ...filter, state: undefined, recipient: undefined }, id),
    ];
    return { from: sql`deliveries`, id, where, rest, mostExamined: MAX_EXAMINED };
  }
  const id = sql.ref<string>('messages.id');
  const where = sql`messages.tenant = ${tenant} and ${isListed}`;
  const ofDelivery = ofDeliveries(store, filter, id);
  const rest = [...ofMessages(filter), ...ofDelivery];
  const isInIndex = ofDelivery.length === 0 && filter.form === undefined && filter.sender === undefined;
  return { from: sql`messages`, id, where, rest, mostExamined: isInIndex ? MAX_EXAMINED_IN_INDEX : MAX_EXAMINED };
}

const ALL_KINDS = 7;

function ofMessages({ kinds, domains, form, sender }: MessageListFilter): RawBuilder<unknown>[] {
  return [
    ...(kinds.length === ALL_KINDS ? [] : [sql`kind in (${sql.join(kinds)})`]),
    ...(domains === undefined ? [] : [sql`messages.domain in (${sql.join([...domains, ''])})`]),
    ...(sender === undefined ? [] : [sql`lower(sender) = ${sender}`]),
    ...(form === undefined
      ? []
      : [
          sql`exists (select 1 from submissions where submissions.id = messages.submission and submissions.form = ${form})`,
        ]),
  ];
}

/** What a delivery of the message must fulfil. */
function ofDeliveries(
  store: Store,
  { state, recipient, text }: MessageListFilter,
  id: RawBuilder<string>,
): RawBuilder<unknown>[] {
  const conditions = [
    ...(state === undefined ? [] : [sql`d.state = ${state}`]),
    ...(recipient === undefined ? [] : [sql`lower(d.recipient) = ${recipient}`]),
    ...(text === undefined ? [] : [sql`(${holds('d.subject', text, store)} or ${holds('d.recipient', text, store)})`]),
  ];
  return conditions.length === 0
    ? []
    : [sql`exists (select 1 from deliveries as d where d.message = ${id} ${all(conditions)})`];
}

/** SQLite knows the case of ASCII letters alone: hence three spellings. */
function holds(column: string, text: string, { dialect }: Store): RawBuilder<unknown> {
  const lower = text.toLowerCase();
  const spellings = new Set([lower, text.toUpperCase(), lower.charAt(0).toUpperCase() + lower.slice(1)]);
  const like = dialect === 'sqlite' ? sql`like` : sql`ilike`;
  const patterns = Array.from(spellings, (each) => `%${each.replaceAll(/[\\%_]/g, '\\$&')}%`);
  return sql`(${sql.join(
    patterns.map((pattern) => sql`${sql.ref(column)} ${like} ${pattern} escape '\\'`),
    sql` or `,
  )})`;
}

export type ListedMessage = Pick<
  MessageRow,
  'id' | 'tenant' | 'kind' | 'environment' | 'domain' | 'submission' | 'sender' | 'body' | 'size' | 'created_at'
> & { readonly form: string | null };

// Not `source`, which may be large.
const byIds = reader(
  (ids: readonly string[]) => sql<ListedMessage>`
    select messages.id, messages.tenant, messages.kind, messages.environment, messages.domain, messages.submission,
      messages.sender, messages.body, messages.size, messages.created_at, submissions.form
    from messages left join submissions on submissions.id = messages.submission
    where messages.id in ${listed(ids)} order by messages.id desc`,
);

/** These messages, newest first, each with the form that it is about. */
export function listedMessages(store: Store, ids: readonly string[]): Promise<ListedMessage[]> {
  return byIds(store, ids);
}
