/** What visitors sent: listed, exported, shown with its files, judged anew, mailed once more, removed. */
import { accountIdOf, mayTouch, type Principal } from '../../accounts/principal.ts';
import * as contract from '../../contract/submissions.ts';
import { submissions } from '../../contract/submissions.ts';
import { parseFormId } from '../../forms/find.ts';
import { markAsSpam, type Resent, type Decision, releaseSubmission, resendSubmission } from '../../forms/release.ts';
import { chunksOfFile, filesOf, findSubmission, noteRead, removeSubmission } from '../../store/submissions.ts';
import { type Store, writeIfMet } from '../../store/store.ts';
import {
  attemptsOfSubmission,
  countInbox,
  countSubmissions,
  listSubmissions,
  type SubmissionFilter,
  partsOf,
  type SubmissionParts,
} from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { download, type Refusal, refuse, csvLine, wordsOf } from '../answer.ts';
import type { RequestContext } from '../context.ts';
import { knownForm, mayTouchForm } from './forms.ts';
import { type Call, implement, success, notFound, type Route, type Services, writerOf } from './route.ts';
import { type Field, valuesOf, readFields, readReasons } from '../../forms/fields.ts';
import { isoTime } from '../../lib/clock.ts';
import { recipientStatuses, type RecipientStatuses } from '../../store/consents.ts';

/** `/submissions`, `/forms/{form}/submissions`, `/submissions/…`, `/instant/submissions` */
export function submissionsRoutes(services: Services): Route[] {
  const { store } = services;

  /** The submission, or why this principal gets none. */
  async function find(principal: Principal, id: string): Promise<SubmissionRow | Refusal> {
    const row = await findSubmission(store, id);
    if (row === undefined || row.tenant !== principal.tenant.id) return notFound('submission', id);
    return mayTouchForm(principal, row.form, row.domain) ? row : refuse('AUTH_DOMAIN_NOT_ALLOWED');
  }

  /** The one spelling of a form's id, of one that there is or was. */
  async function formId(principal: Principal, text: string, context: RequestContext): Promise<string | Refusal> {
    const form = parseFormId(text)?.id;
    if (form === undefined) return refuse('FORM_NOT_FOUND');
    const tenant = principal.tenant.id;
    if ((await knownForm(form, { principal, context }, store)) !== undefined) return form;
    if (!mayTouchForm(principal, form)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    if ((await countSubmissions(store, { tenant, form })).count > 0) return form;
    // To a live form test keys post, too; what they posted is listed.
    const live = { ...principal, tenant: { ...principal.tenant, id: accountIdOf(principal) } };
    if (principal.environment === 'test' && (await knownForm(form, { principal: live, context }, store))) return form;
    return refuse('FORM_NOT_FOUND');
  }

  async function list(filter: SubmissionFilter, page: { cursor?: string | undefined; limit: number }) {
    const {
      rows,
      next,
      count: known,
    } = await listSubmissions(store, filter, { before: page.cursor, limit: page.limit });
    const { count, isMore } = known ?? (await countSubmissions(store, filter));
    return success({
      submissions: await shownSubmissions(store, rows),
      count,
      count_is_more: isMore,
      next_cursor: next,
    });
  }

  async function show(id: string) {
    const row = await findSubmission(store, id);
    const [submission] = row === undefined ? [] : await shownSubmissions(store, [row]);
    return submission === undefined ? refuse('NOT_FOUND') : success(submission);
  }

  const decisions: Readonly<Record<'spam' | 'ham' | 'resend', Decide>> = {
    spam: (row) => markAsSpam(row, services),
    ham: (row, decision) => releaseSubmission(row, decision, services),
    resend: (row, decision) => resendSubmission(row, decision, services),
  };

  /** Does this to a submission; the refusal where it may not be. */
  async function act(
    row: SubmissionRow,
    action: keyof typeof decisions | 'delete',
    { principal, context: { snapshot } }: Pick<SubmissionCall, 'principal' | 'context'>,
  ): Promise<Refusal | undefined> {
    if (action === 'delete') {
      const removed = await writeIfMet(store, removeSubmission(row.id));
      return removed === undefined ? refuse('CONFLICT', { message: ON_ITS_WAY }) : undefined;
    }
    const decided = await decisions[action](row, { snapshot, environment: principal.environment });
    if (decided.kind === 'done') return undefined;
    return decided.kind === 'unconfirmed'
      ? refuse('RECIPIENT_NOT_CONFIRMED', { message: UNCONFIRMED })
      : refuse('CONFLICT', { message: CONFLICTS[decided.kind] });
  }

  async function decide(call: SubmissionCall, action: keyof typeof decisions) {
    const { id } = call.params;
    const row = await find(call.principal, id);
    if ('kind' in row) return row;
    return (await act(row, action, call)) ?? show(id);
  }

  /** The submission, or why this principal may do nothing to it. */
  async function findToChange(principal: Principal, id: string): Promise<SubmissionRow | Refusal> {
    const found = await find(principal, id);
    if (!('kind' in found) || principal.environment === 'live') return found;
    const row = await findSubmission(store, id);
    return row?.tenant === accountIdOf(principal) ? refuse('AUTH_TEST_KEY') : found;
  }

  return implement(contract.submissions, {
    async inbox({ principal, context, query: { form: named, domain, unread, files, status, q, from, to, ...page } }) {
      const form = named === undefined ? undefined : await formId(principal, named, context);
      if (typeof form === 'object') return form;
      if (domain !== undefined && !mayTouch(principal, domain)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
      const isWanted = wantedForms(principal, domain);
      const flags = { unread: unread === 'true' || undefined, files: files === 'true' || undefined };
      const filter = { tenant: principal.tenant.id, form, isWanted, status, text: q, from, until: to, ...flags };
      return list(filter, page);
    },
    async counts({ principal }) {
      return success(await countInbox(store, { tenant: principal.tenant.id, isWanted: wantedForms(principal) }));
    },
    async act({ principal, context, body: { action, ids } }) {
      const found = new Map<string, SubmissionRow | Refusal>();
      for (const id of ids) if (!found.has(id)) found.set(id, await findToChange(principal, id));
      const refusals = new Map<string, Refusal>();
      const rows: SubmissionRow[] = [];
      for (const [id, row] of found) {
        if ('kind' in row) refusals.set(id, row);
        else rows.push(row);
      }
      if (action === 'read' || action === 'unread') {
        const unread = action === 'unread' ? 1 : 0;
        await store.write([noteRead({ tenant: principal.tenant.id, ids: rows.map(({ id }) => id), unread })]);
      } else {
        for (const row of rows) {
          const refusal = await act(row, action, { principal, context });
          if (refusal !== undefined) refusals.set(row.id, refusal);
        }
      }
      const results = [...found.keys()].map((id) => {
        const refusal = refusals.get(id);
        return { id, done: refusal === undefined, code: refusal?.code, error: refusal && wordsOf(refusal) };
      });
      return success({ results });
    },
    async export({ principal, context, params, query: { format, status, q: text, from, to } }) {
      const form = await formId(principal, params.form, context);
      if (typeof form !== 'string') return form;
      const filter = { tenant: principal.tenant.id, form, status, text, from, until: to };
      const filename = `${form.replaceAll('/', '-')}-submissions.${format}`;
      return format === 'csv'
        ? download({ type: 'text/csv; charset=utf-8', filename, stream: exportCsv(store, filter) })
        : download({ type: 'application/json', filename, stream: exportJson(store, filter) });
    },
    async list({ principal, context, params, query: { status, q: text, from, to: until, ...page } }) {
      const form = await formId(principal, params.form, context);
      if (typeof form !== 'string') return form;
      return list({ tenant: principal.tenant.id, form, status, text, from, until }, page);
    },
    listInstant: ({ principal, query: { status, q: text, from, to: until, ...page } }) =>
      list({ tenant: principal.tenant.id, form: { kind: 'instant' }, status, text, from, until }, page),
    async show({ principal, params: { id } }) {
      const row = await find(principal, id);
      if ('kind' in row) return row;
      const [submission] = await shownSubmissions(store, [row]);
      if (submission === undefined) return refuse('NOT_FOUND');
      return success({ ...submission, attempts: (await attemptsOfSubmission(store, id, MAX_ATTEMPTS)).reverse() });
    },
    async file({ principal, params: { id, file: wanted } }) {
      const row = await find(principal, id);
      if ('kind' in row) return row;
      const file = (await filesOf(store, id)).find((each) => each.id === wanted);
      if (file === undefined)
        return refuse('NOT_FOUND', { message: `The submission has no file ${wanted.slice(0, 60)}.` });
      const { filename, size } = file;
      return download({ type: 'application/octet-stream', filename, size, stream: chunksOfFile(store, file.id) });
    },
    spam: (call) => decide(call, 'spam'),
    ham: (call) => decide(call, 'ham'),
    resend: (call) => decide(call, 'resend'),
    async remove(call) {
      const { id } = call.params;
      const row = await find(call.principal, id);
      if ('kind' in row) return row;
      const answer = await show(id);
      return (await act(row, 'delete', call)) ?? answer;
    },
  });
}

type Decide = (row: SubmissionRow, decision: Decision) => Promise<Resent>;
type SubmissionCall = Pick<Call<unknown, unknown, 'id'>, 'principal' | 'context' | 'params'>;

/** Which forms a list of all is about; undefined: every one. */
function wantedForms(principal: Principal, domain?: string): SubmissionFilter['isWanted'] {
  if (domain === undefined && principal.restrictions.domain_restrictions === undefined) return undefined;
  return (form, of) => {
    const isThere = domain === undefined || (parseFormId(form)?.kind !== 'collection' && of === domain);
    return isThere && mayTouchForm(principal, form, of);
  };
}

const MAX_ATTEMPTS = 100;

const ON_ITS_WAY =
  'Mail about this submission is being delivered. Try again later, or mark it as spam, which cancels its queued mail.';

const UNCONFIRMED =
  'No recipient of the form has agreed to receive mail from this account yet. Submissions are kept. To ask again, call POST /recipients.';

const CONFLICTS = {
  'submission-gone': 'This submission has just been deleted.',
  'form-gone': 'The form of this submission is gone, so its recipient is unknown.',
  spam: 'This submission is marked as spam. Release it first.',
  pending: 'The visitor has not confirmed this submission yet. Release it first.',
  'content-gone': 'The fields of this submission were deleted after delivery (`store` of the form).',
} as const satisfies Readonly<Record<Exclude<Resent['kind'], 'done' | 'unconfirmed'>, string>>;

// All submissions of a form as one file, written page by page as the client takes it: memory holds one page, however many
// there are.

const PAGE = 500;
/** What the fields are called is up to whoever fills in the form: the rest shares a column. */
const MOST_COLUMNS = 500;
/** By this spreadsheets know UTF-8. */
const BOM = '\ufeff';

const COLUMNS = [
  'submission_id',
  'submitted_at',
  'status',
  'spam_score',
  'spam_reasons',
  'ip',
  'user_agent',
  'referer',
  'files',
];

/** The submissions as the API shows them. */
async function shownSubmissions(store: Store, rows: readonly SubmissionRow[]) {
  const parts = await partsOf(store, rows);
  const statuses = new Map<string, RecipientStatuses>();
  for (const [tenant, own] of Map.groupBy(rows, (row) => row.tenant)) {
    const addresses = new Set(own.flatMap(({ id }) => parts(id).deliveries.map(({ recipient }) => recipient)));
    statuses.set(tenant, await recipientStatuses(store, tenant, [...addresses]));
  }
  return rows.map((row) => shown(row, parts(row.id), statuses.get(row.tenant)));
}

function shown(row: SubmissionRow, { files, messages, deliveries }: SubmissionParts, statuses?: RecipientStatuses) {
  return {
    ...row,
    fields: Object.fromEntries(readFields(row.fields)),
    files,
    read: row.unread === 0,
    stored: row.stored === 'dropped' ? ('metadata' as const) : ('all' as const),
    spam: { score: row.spam_score, reasons: readReasons(row.spam_reasons) },
    messages: [...messages],
    deliveries: deliveries.map((delivery) => {
      return { ...delivery, recipient_status: statuses?.get(delivery.recipient) ?? ('pending' as const) };
    }),
  };
}

/** CSV: a column for each field that any of them has, in the order in which they first come up; files by their names. */
async function* exportCsv(store: Store, filter: SubmissionFilter): AsyncGenerator<string> {
  const names = new Set<string>();
  let newest = '';
  for await (const rows of pages(store, filter)) {
    newest ||= rows[0]?.id ?? '';
    for (const row of rows) for (const [name] of readFields(row.fields)) names.add(name);
  }
  const columns = [...names].slice(0, MOST_COLUMNS);
  const hasMore = names.size > columns.length;
  yield BOM + csvLine([...COLUMNS, ...columns, ...(hasMore ? ['other_fields'] : [])]);
  for await (const page of pages(store, filter)) {
    // What came since may hold other fields.
    const rows = page.filter(({ id }) => id <= newest);
    const parts = await partsOf(store, rows);
    const lines = rows.map((row) => {
      const fields = readFields(row.fields);
      const values = new Map(fields.map((field) => [field[0], textOf(field)]));
      const cells = columns.map((name) => values.get(name) ?? null);
      const rest = fields.filter(([name]) => !columns.includes(name)).map((field) => `${field[0]}: ${textOf(field)}`);
      const files = parts(row.id).files.map(({ filename }) => filename);
      return csvLine([...own(row, files), ...cells, ...(hasMore ? [rest.join('\n')] : [])]);
    });
    yield lines.join('');
  }
}

/** JSON: `{ "submissions": [...] }`, each as the API shows it. */
async function* exportJson(store: Store, filter: SubmissionFilter): AsyncGenerator<string> {
  const write = writerOf(submissions.export.answer.shape.submissions.element);
  let before = '{"submissions":[';
  for await (const rows of pages(store, filter)) {
    const texts = (await shownSubmissions(store, rows)).map((one) => JSON.stringify(write(one)));
    yield before + texts.join(',\n');
    before = ',\n';
  }
  yield before.startsWith('{') ? `${before}]}` : ']}';
}

/** Newest first, none of them empty. */
async function* pages(store: Store, filter: SubmissionFilter): AsyncGenerator<readonly SubmissionRow[]> {
  let before: string | undefined;
  do {
    const { rows, next } = await listSubmissions(store, filter, { before, limit: PAGE });
    if (rows.length > 0) yield rows;
    before = next ?? undefined;
  } while (before !== undefined);
}

function own(row: SubmissionRow, files: readonly string[]): (string | number)[] {
  const { id, created_at, status, spam_score, ip, user_agent, referer } = row;
  const reasons = readReasons(row.spam_reasons).map(({ name }) => name);
  return [id, isoTime(created_at), status, spam_score, reasons.join(', '), ip, user_agent, referer, files.join(', ')];
}

function textOf([, value]: Field): string {
  return valuesOf(value).join(', ');
}
