/** What visitors sent: listed, exported, shown with its files, judged anew, mailed once more, removed. */
import { accountIdOf, type Principal } from '../../accounts/principal.ts';
import * as contract from '../../contract/submissions.ts';
import { parseFormId } from '../../forms/find.ts';
import { markAsSpam, type Decided, type Decision, releaseSubmission, resendSubmission } from '../../forms/release.ts';

import { chunksOfFile, filesOf, findSubmission, removeSubmission } from '../../store/submissions.ts';

import { UnmetError } from '../../store/store.ts';
import { countSubmissions, listSubmissions, type SubmissionFilter } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { download } from '../answer.ts';
import type { Exchange } from '../context.ts';
import { type Refusal, refuse } from '../errors.ts';
import { knownForm, mayTouchForm } from './forms.ts';
import { implement, json, notFound, type Route, type Services } from './route.ts';
import { exportCsv, exportJson, shownSubmissions } from './submission-export.ts';

/** `/forms/{form}/submissions`, `/submissions/…`, `/instant/submissions` */
export function submissionsRoutes(services: Services): Route[] {
  const { store } = services;

  /** The submission, or why this principal gets none. */
  async function find(principal: Principal, id: string): Promise<SubmissionRow | Refusal> {
    const row = await findSubmission(store, id);
    if (row === undefined || row.tenant !== principal.tenant.id) return notFound('submission', id);
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

  async function list(filter: SubmissionFilter, page: { cursor?: string | undefined; limit: number }) {
    const { rows, next } = await listSubmissions(store, filter, { before: page.cursor, limit: page.limit });
    const count = await countSubmissions(store, filter);
    return json({ submissions: await shownSubmissions(store, rows), count, next_cursor: next });
  }

  async function show(id: string) {
    const row = await findSubmission(store, id);
    const [submission] = row === undefined ? [] : await shownSubmissions(store, [row]);
    return submission === undefined ? refuse('NOT_FOUND') : json(submission);
  }

  async function decide(
    { principal, exchange: { snapshot }, params: { id } }: Asked,
    decision: (row: SubmissionRow, decision: Decision) => Promise<Decided>,
  ) {
    const row = await find(principal, id);
    if ('kind' in row) return row;
    const decided = await decision(row, { snapshot, environment: principal.environment });
    if (decided.kind === 'done') return show(id);
    return decided.kind === 'unconfirmed'
      ? refuse('RECIPIENT_NOT_CONFIRMED', { message: UNCONFIRMED })
      : refuse('CONFLICT', { message: CONFLICTS[decided.kind] });
  }

  return implement(contract.submissions, {
    async export({ principal, exchange, params, query: { format, status, q: text, from, to } }) {
      const form = await formId(principal, params.form, exchange);
      if (typeof form !== 'string') return form;
      const filter = { tenant: principal.tenant.id, form, status, text, from, until: to };
      const filename = `${form.replaceAll('/', '-')}-submissions.${format}`;
      return format === 'csv'
        ? download({ type: 'text/csv; charset=utf-8', filename, stream: exportCsv(store, filter) })
        : download({ type: 'application/json', filename, stream: exportJson(store, filter) });
    },
    async list({ principal, exchange, params, query: { status, q: text, from, to: until, ...page } }) {
      const form = await formId(principal, params.form, exchange);
      if (typeof form !== 'string') return form;
      return list({ tenant: principal.tenant.id, form, status, text, from, until }, page);
    },
    listInstant: ({ principal, query: { status, q: text, from, to: until, ...page } }) =>
      list({ tenant: principal.tenant.id, form: { kind: 'instant' }, status, text, from, until }, page),
    async show({ principal, params: { id } }) {
      const row = await find(principal, id);
      return 'kind' in row ? row : show(id);
    },
    async file({ principal, params: { id, file: wanted } }) {
      const row = await find(principal, id);
      if ('kind' in row) return row;
      const file = (await filesOf(store, id)).find((each) => each.id === wanted);
      if (file === undefined) return refuse('NOT_FOUND', { message: `It has no file ${wanted.slice(0, 60)}.` });
      const { filename, size } = file;
      return download({ type: 'application/octet-stream', filename, size, stream: chunksOfFile(store, file.id) });
    },
    spam: (asked) => decide(asked, (row) => markAsSpam(row, services)),
    ham: (asked) => decide(asked, (row, decision) => releaseSubmission(row, decision, services)),
    resend: (asked) => decide(asked, (row, decision) => resendSubmission(row, decision, services)),
    async remove({ principal, params: { id } }) {
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
  });
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
