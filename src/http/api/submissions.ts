/** What visitors sent: listed, exported, shown with its files, judged anew, mailed once more, removed. */
import { z } from 'zod';
import { accountIdOf, type Principal } from '../../accounts/principal.ts';
import {
  markAsSpam,
  releaseSubmission,
  resendSubmission,
  type Decided,
  type Decision,
  type ReleaseParts,
} from '../../forms/release.ts';
import { chunksOfFile, filesOf } from '../../store/files.ts';
import { UnmetError } from '../../store/store.ts';
import { countSubmissions, listSubmissions, SEARCHED, type SubmissionFilter } from '../../store/submission-list.ts';
import { findSubmission, removeSubmission } from '../../store/submissions.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { json, type Answer, download } from '../answer.ts';
import { refuse, type Refusal } from '../errors.ts';
import type { Exchange } from '../context.ts';
import { parseFormId } from '../../forms/find.ts';
import { knownForm } from './form-lookup.ts';
import { listing, listOf } from './listing.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';
import { exportCsv, exportJson } from './submission-export.ts';
import { conditions, mayTouchForm, shownSubmissions, submissionShape } from './submission-shapes.ts';

export interface SubmissionsParts extends ReleaseParts {}

const READ = { permission: 'forms.read', domains: 'narrow', tag: 'Submissions' } as const;
const WRITE = { ...READ, permission: 'forms.write' } as const;
const SEARCH = `With \`q\` a page looks at the next ${SEARCHED} submissions: it may hold few or none although \`next_cursor\` goes on, and \`count\` is of the newest ${SEARCHED}.`;

/** `/forms/{form}/submissions`, `/submissions/…`, `/instant/submissions` */
export function submissionsRoutes(parts: SubmissionsParts): Route[] {
  const { store } = parts;

  /** The submission, or why this principal gets none. */
  async function find(principal: Principal, id: string): Promise<SubmissionRow | Refusal> {
    const row = await findSubmission(store, id);
    if (row === undefined || row.tenant !== principal.tenant.id) {
      return refuse('NOT_FOUND', { message: `There is no submission ${id.slice(0, 60)}.` });
    }
    return mayTouchForm(principal, row.form, row.domain) ? row : refuse('AUTH_DOMAIN_NOT_ALLOWED');
  }

  /** The one spelling of a form's id, of one that there is or was. */
  async function formId(principal: Principal, text: string, { snapshot }: Exchange): Promise<string | Refusal> {
    const form = parseFormId(text)?.id;
    if (form === undefined) return refuse('FORM_NOT_FOUND');
    const tenant = principal.tenant.id;
    if ((await knownForm(form, { principal, snapshot, store })) !== undefined) return form;
    if (!mayTouchForm(principal, form)) return refuse('AUTH_DOMAIN_NOT_ALLOWED');
    if ((await countSubmissions(store, { tenant, form })) > 0) return form;
    // To a live form test keys post, too; what they posted is listed.
    const live = { ...principal, tenant: { ...principal.tenant, id: accountIdOf(principal) } };
    if (principal.environment === 'test' && (await knownForm(form, { principal: live, snapshot, store }))) return form;
    return refuse('FORM_NOT_FOUND');
  }

  async function list(filter: SubmissionFilter, page: { cursor?: string | undefined; limit: number }): Promise<Answer> {
    const { rows, next } = await listSubmissions(store, filter, { before: page.cursor, limit: page.limit });
    const count = await countSubmissions(store, filter);
    return json({ submissions: await shownSubmissions(store, rows), count, next_cursor: next });
  }

  async function show(id: string): Promise<Answer> {
    const row = await findSubmission(store, id);
    const [submission] = row === undefined ? [] : await shownSubmissions(store, [row]);
    return json(submission ?? {});
  }

  async function decide(
    { principal, exchange: { snapshot }, params: { id } }: Asked,
    decision: (row: SubmissionRow, decision: Decision) => Promise<Decided>,
  ): Promise<Outcome> {
    const row = await find(principal, id);
    if ('kind' in row) return row;
    const decided = await decision(row, { snapshot, environment: principal.environment });
    if (decided.kind === 'done') return show(id);
    return decided.kind === 'unconfirmed'
      ? refuse('RECIPIENT_NOT_CONFIRMED', { message: UNCONFIRMED })
      : refuse('CONFLICT', { message: CONFLICTS[decided.kind] });
  }

  return [
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/forms/*form/submissions/export',
      summary: 'Downloads the submissions of a form, all of them, newest first.',
      description: 'In CSV each field is a column, behind those of the submission itself; files are told by name.',
      query: z.strictObject({ format: z.enum(['csv', 'json']).default('csv').describe('Of the file.'), ...conditions }),
      answer: z.object({ submissions: z.array(submissionShape) }),
      alsoAnswers: 'text/csv',
      async handle({ principal, exchange, params, query: { format, status, q: text, from, to } }) {
        const form = await formId(principal, params.form, exchange);
        if (typeof form !== 'string') return form;
        const filter = { tenant: principal.tenant.id, form, status, text, from, until: to };
        const filename = `${form.replaceAll('/', '-')}-submissions.${format}`;
        return format === 'csv'
          ? download({ type: 'text/csv; charset=utf-8', filename, stream: exportCsv(store, filter) })
          : download({ type: 'application/json', filename, stream: exportJson(store, filter) });
      },
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/forms/*form/submissions',
      summary: 'Lists the submissions of a form, newest first; also of one that is gone.',
      description: `The slashes of the form’s id may be written as they are or as \`%2F\`. ${SEARCH}`,
      query: z.strictObject({ ...listing('sub'), ...conditions }),
      answer: listOf('submissions', submissionShape),
      async handle({ principal, exchange, params, query: { status, q: text, from, to: until, ...page } }) {
        const form = await formId(principal, params.form, exchange);
        if (typeof form !== 'string') return form;
        return list({ tenant: principal.tenant.id, form, status, text, from, until }, page);
      },
    }),
    defineRoute({
      ...READ,
      domains: 'refuse',
      method: 'GET',
      path: '/instant/submissions',
      summary: 'Lists the submissions of all instant forms, newest first.',
      description: SEARCH,
      query: z.strictObject({ ...listing('sub'), ...conditions }),
      answer: listOf('submissions', submissionShape),
      handle: ({ principal, query: { status, q: text, from, to: until, ...page } }) =>
        list({ tenant: principal.tenant.id, form: { kind: 'instant' }, status, text, from, until }, page),
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/submissions/:id',
      summary: 'Shows a submission.',
      answer: submissionShape,
      async handle({ principal, params: { id } }) {
        const row = await find(principal, id);
        return 'kind' in row ? row : show(id);
      },
    }),
    defineRoute({
      ...READ,
      method: 'GET',
      path: '/submissions/:id/files/:file',
      summary: 'Downloads a file of a submission, as bytes of no type: a stranger sent it.',
      answer: z.string(),
      alsoAnswers: 'application/octet-stream',
      async handle({ principal, params: { id, file: wanted } }) {
        const row = await find(principal, id);
        if ('kind' in row) return row;
        const file = (await filesOf(store, id)).find((each) => each.id === wanted);
        if (file === undefined) return refuse('NOT_FOUND', { message: `It has no file ${wanted.slice(0, 60)}.` });
        const { filename, size } = file;
        return download({ type: 'application/octet-stream', filename, size, stream: chunksOfFile(store, file.id) });
      },
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/submissions/:id/spam',
      summary: 'Marks a submission as spam: it counts no more, and what is still to be sent about it is cancelled.',
      answer: submissionShape,
      handle: (asked) => decide(asked, (row) => markAsSpam(row, parts)),
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/submissions/:id/ham',
      summary: 'Releases a submission that was taken for spam: it counts, and its notification is sent.',
      description: 'Doing it again changes nothing. The visitor gets no acknowledgment, so long afterwards.',
      answer: submissionShape,
      handle: (asked) => decide(asked, (row, decision) => releaseSubmission(row, decision, parts)),
    }),
    defineRoute({
      ...WRITE,
      method: 'POST',
      path: '/submissions/:id/resend',
      summary: 'Sends the notification of a submission once more, as a new message to whom the form names today.',
      description: '403 `RECIPIENT_NOT_CONFIRMED` while none of them has agreed to get it.',
      answer: submissionShape,
      handle: (asked) => decide(asked, (row, decision) => resendSubmission(row, decision, parts)),
    }),
    defineRoute({
      ...WRITE,
      method: 'DELETE',
      path: '/submissions/:id',
      summary: 'Removes a submission with its files and the bodies of its mail, and shows it for the last time.',
      description: 'Refused while mail about it is on its way. The form’s count stays.',
      answer: submissionShape,
      async handle({ principal, params: { id } }) {
        const row = await find(principal, id);
        if ('kind' in row) return row;
        const answer = await show(id);
        try {
          await store.write(removeSubmission(id));
        } catch (error) {
          if (error instanceof UnmetError) return refuse('CONFLICT', { message: ON_ITS_WAY });
          throw error;
        }
        return answer;
      },
    }),
  ];
}

interface Asked {
  readonly principal: Principal;
  readonly exchange: Exchange;
  readonly params: { readonly id: string };
}

const ON_ITS_WAY = 'Mail about it is on its way. Try again later, or mark it as spam, which cancels what still waits.';

const UNCONFIRMED =
  'No recipient of the form has agreed yet to get mail of this account: what is sent is kept. POST /recipients asks again.';

const CONFLICTS = {
  'submission-gone': 'This submission has just been removed.',
  'form-gone': 'The form of this submission is gone: nobody knows who is to get it.',
  spam: 'This submission is marked as spam. Release it first.',
} as const satisfies Readonly<Record<Exclude<Decided['kind'], 'done' | 'unconfirmed'>, string>>;
