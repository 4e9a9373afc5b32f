/** Submissions as lists: newest first, page by page, and found by what is written in them. */
import { sql, type RawBuilder, type SelectQueryBuilder } from 'kysely';
import { accountOf, firstId } from '../lib/ids.ts';
import { countOf, listed, listerAmong, newestFirst, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { DeliveryRow, FileRow, MessageRow, SubmissionRow, Tables } from './tables.ts';

export interface SubmissionFilter {
  readonly tenant: string;
  /** The id of one form, or all instant forms of the tenant. */
  readonly form: string | { readonly kind: 'instant' };
  readonly status?: SubmissionRow['status'] | undefined;
  /** From this moment on, ms. */
  readonly from?: number | undefined;
  /** Before this moment, ms. */
  readonly until?: number | undefined;
  /** Stands in a name or value of its fields, in whatever case. */
  readonly text?: string | undefined;
}

/** So many submissions are searched at a time, so that no search keeps the daemon busy for long. */
export const SEARCHED = 2000;

/** One page; `next` is `before` of the next one, null after the last. With `text` it may hold few or none although there are more: `next` goes on where the search ended. */
export async function listSubmissions(
  store: Store,
  filter: SubmissionFilter,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<{ readonly rows: readonly SubmissionRow[]; readonly next: string | null }> {
  const { text } = filter;
  const most = text === undefined ? limit + 1 : SEARCHED;
  const ids = await newest(store, filter, { before, limit: most });
  const rows = await rowsOf(store, ids, { text, limit: limit + 1 });
  if (rows.length > limit) return { rows: rows.slice(0, limit), next: rows[limit - 1]?.id ?? null };
  return { rows, next: text !== undefined && ids.length === most ? (ids.at(-1) ?? null) : null };
}

/** How many there are; with `text`, among the newest `SEARCHED`. */
export async function countSubmissions(store: Store, filter: SubmissionFilter): Promise<number> {
  const { text, status } = filter;
  if (text !== undefined) {
    const ids = await newest(store, filter, { limit: SEARCHED });
    return (await rowsOf(store, ids, { text, limit: SEARCHED })).length;
  }
  // Spam and what is pending have indexes of their own; the others have not.
  if (status === 'accepted') {
    const [all, spam, pending] = await Promise.all(
      ([undefined, 'spam', 'pending'] as const).map((each) => counted({ ...filter, status: each })),
    );
    return (all ?? 0) - (spam ?? 0) - (pending ?? 0);
  }
  return counted(filter);

  function counted(which: SubmissionFilter): Promise<number> {
    return countOf(filtered(store, which));
  }
}

/** How many a tenant has, of all forms. */
export function countSubmissionsOf(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('submissions').where('tenant', '=', tenant));
}

type Query = SelectQueryBuilder<Tables, 'submissions', object>;

/** Ids alone, which the index has. */
async function newest(
  store: Store,
  filter: SubmissionFilter,
  page: { readonly before?: string | undefined; readonly limit: number },
): Promise<string[]> {
  return (await newestFirst(filtered(store, filter).select('id'), page)).map(({ id }) => id);
}

function filtered(store: Store, { tenant, form, status, from, until }: SubmissionFilter): Query {
  let rows: Query = store.read.selectFrom('submissions');
  rows = rows.where('tenant', '=', tenant);
  if (typeof form === 'string') rows = rows.where('form', '=', form);
  else {
    rows = rows.where(
      sql<boolean>`form in (select id from forms
        where forms.tenant in (${tenant}, ${accountOf(tenant)}) and kind = ${form.kind})`,
    );
  }
  // Written as the partial indexes have it.
  if (status === 'spam') rows = rows.where(sql<boolean>`status = 'spam'`);
  else if (status === 'pending') rows = rows.where(sql<boolean>`status = 'pending'`);
  else if (status !== undefined) rows = rows.where('status', '=', status);
  if (from !== undefined) rows = rows.where('id', '>=', firstId('sub', from));
  if (until !== undefined) rows = rows.where('id', '<', firstId('sub', until));
  return rows;
}

async function rowsOf(
  store: Store,
  ids: readonly string[],
  { text, limit }: { readonly text: string | undefined; readonly limit: number },
): Promise<SubmissionRow[]> {
  if (ids.length === 0) return [];
  let rows = store.read.selectFrom('submissions').selectAll().where('id', 'in', ids);
  if (text !== undefined) rows = rows.where((eb) => eb.or(patternsOf(text).map((each) => holds(each, store))));
  return rows.orderBy('id', 'desc').limit(limit).execute();
}

function holds(pattern: string, { dialect }: Store): RawBuilder<boolean> {
  return dialect === 'sqlite'
    ? sql<boolean>`fields like ${pattern} escape '\\'`
    : sql<boolean>`fields ilike ${pattern} escape '\\'`;
}

/** Patterns of LIKE for the text as the JSON of the fields has it. SQLite knows the case of ASCII letters alone: hence three. */
function patternsOf(text: string): string[] {
  const lower = text.toLowerCase();
  const spellings = new Set([lower, text.toUpperCase(), lower.charAt(0).toUpperCase() + lower.slice(1)]);
  return [...spellings].map((spelling) => {
    const json = JSON.stringify(spelling).slice(1, -1);
    return `%${json.replaceAll(/[\\%_]/g, '\\$&')}%`;
  });
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
