/** What the API shows of a submission, and under which conditions it lists them. */
import { z } from 'zod';
import { mayTouch, type Principal } from '../../accounts/principal.ts';
import { readFields, readReasons } from '../../forms/fields.ts';
import { isoTime } from '../../lib/clock.ts';
import { recipientStatuses, type RecipientStatuses } from '../../store/consents.ts';
import type { Store } from '../../store/store.ts';
import { partsOf, type SubmissionParts } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';
import { parseFormId } from '../../forms/find.ts';
import { environment } from './account-shapes.ts';
import { recipientStatus } from './form-shapes.ts';
import { since, until } from './times.ts';

const value = z.union([z.string(), z.array(z.string())]);

export const submissionShape = z.object({
  id: z.string(),
  form: z.string(),
  environment,
  domain: z.string().describe('The form’s domain; of other forms the name that their mail is sent from.'),
  fields: z.record(z.string(), value).describe('As they were sent; a field that was repeated is a list.'),
  files: z.array(
    z.object({
      id: z.string(),
      field: z.string(),
      filename: z.string(),
      content_type: z.string().describe('As the sender called it.'),
      size: z.int().describe('Bytes.'),
    }),
  ),
  ip: z.string(),
  user_agent: z.string(),
  referer: z.string(),
  status: z.enum(['accepted', 'spam']),
  spam: z.object({
    score: z.int(),
    reasons: z.array(z.object({ name: z.string(), score: z.int(), detail: z.string() })),
  }),
  created_at: z.iso.datetime(),
  messages: z.array(z.string()).describe('Ids of the messages that tell of it.'),
  deliveries: z
    .array(
      z.object({ message: z.string(), recipient: z.string(), state: z.string(), recipient_status: recipientStatus }),
    )
    .describe('Its notifications by recipient; while a `recipient_status` is pending, its mail waits.'),
});

/** The conditions of a list or an export, as its query has them. */
export const conditions = {
  status: z.enum(['accepted', 'spam']).optional().describe('Only those with this status.'),
  q: z.string().min(1).max(200).optional().describe('Only those with this text in a name or value of their fields.'),
  from: since.optional().describe('Only those since this date or time.'),
  to: until.optional().describe('Only those until this date (that whole day) or time.'),
};

/** Whether the principal's key may touch the form with this id; `domain` is that of its submissions, where there are any. */
export function mayTouchForm(principal: Principal, form: string, domain?: string): boolean {
  const id = parseFormId(form);
  if (id?.kind === 'own') return mayTouch(principal, domain);
  return mayTouch(principal, id?.kind === 'domain' ? id.domain : undefined);
}

/** The submissions as the API shows them. */
export async function shownSubmissions(store: Store, rows: readonly SubmissionRow[]): Promise<object[]> {
  const parts = await partsOf(store, rows);
  const statuses = new Map<string, RecipientStatuses>();
  for (const [tenant, own] of Map.groupBy(rows, (row) => row.tenant)) {
    const addresses = new Set(own.flatMap(({ id }) => parts(id).deliveries.map(({ recipient }) => recipient)));
    statuses.set(tenant, await recipientStatuses(store, tenant, [...addresses]));
  }
  return rows.map((row) => shown(row, parts(row.id), statuses.get(row.tenant)));
}

function shown(
  row: SubmissionRow,
  { files, messages, deliveries }: SubmissionParts,
  statuses?: RecipientStatuses,
): object {
  const { id, form, domain, ip, user_agent, referer, status, spam_score, spam_reasons, created_at } = row;
  return {
    id,
    form,
    environment: row.environment,
    domain,
    fields: Object.fromEntries(readFields(row.fields)),
    files: files.map(({ id, field, filename, content_type, size }) => ({ id, field, filename, content_type, size })),
    ip,
    user_agent,
    referer,
    status,
    spam: { score: spam_score, reasons: readReasons(spam_reasons) },
    created_at: isoTime(created_at),
    messages,
    deliveries: deliveries.map(({ message, recipient, state }) => {
      return { message, recipient, state, recipient_status: statuses?.get(recipient) ?? 'pending' };
    }),
  };
}
