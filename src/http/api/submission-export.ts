/**
 * What the API shows of submissions. All submissions of a form as one file, written page by page as the client takes it, so that memory holds one page however
 * many there are.
 */
import { type Field, valuesOf, readFields, readReasons } from '../../forms/fields.ts';

import { submissions } from '../../contract/submissions.ts';
import { isoTime } from '../../lib/clock.ts';
import { recipientStatuses, type RecipientStatuses } from '../../store/consents.ts';
import type { Store } from '../../store/store.ts';
import { listSubmissions, partsOf, type SubmissionFilter, type SubmissionParts } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { csvLine } from '../answer.ts';
import { answerFrom } from './route.ts';

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
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- it is made an answer of the contract
export async function shownSubmissions(store: Store, rows: readonly SubmissionRow[]) {
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
    spam: { score: row.spam_score, reasons: readReasons(row.spam_reasons) },
    messages: [...messages],
    deliveries: deliveries.map((delivery) => {
      return { ...delivery, recipient_status: statuses?.get(delivery.recipient) ?? ('pending' as const) };
    }),
  };
}

/** CSV: a column for each field that any of them has, in the order in which they first come up; files by their names. */
export async function* exportCsv(store: Store, filter: SubmissionFilter): AsyncGenerator<string> {
  const names = new Set<string>();
  let newest = '';
  for await (const rows of pages(store, filter)) {
    newest ||= rows[0]?.id ?? '';
    for (const row of rows) for (const [name] of readFields(row.fields)) names.add(name);
  }
  const columns = [...names].slice(0, MOST_COLUMNS);
  const others = names.size > columns.length;
  yield BOM + csvLine([...COLUMNS, ...columns, ...(others ? ['other_fields'] : [])]);
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
      return csvLine([...own(row, files), ...cells, ...(others ? [rest.join('\n')] : [])]);
    });
    yield lines.join('');
  }
}

/** JSON: `{ "submissions": [...] }`, each as the API shows it. */
export async function* exportJson(store: Store, filter: SubmissionFilter): AsyncGenerator<string> {
  let before = '{"submissions":[';
  for await (const rows of pages(store, filter)) {
    const { element } = submissions.export.answer.shape.submissions;
    const texts = (await shownSubmissions(store, rows)).map((one) => JSON.stringify(answerFrom(element, one)));
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
