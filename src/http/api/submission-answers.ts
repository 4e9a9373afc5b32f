/** What the API shows of a submission, and who may see the form. */
import { mayTouch, type Principal } from '../../accounts/principal.ts';
import { parseFormId } from '../../forms/find.ts';
import { readFields, readReasons } from '../../forms/fields.ts';
import { isoTime } from '../../lib/clock.ts';
import { recipientStatuses, type RecipientStatuses } from '../../store/consents.ts';
import { type Store } from '../../store/store.ts';
import { partsOf, type SubmissionParts } from '../../store/submission-list.ts';
import type { SubmissionRow } from '../../store/tables.ts';

/** Whether the principal's key may touch the form with this id; `domain` is that of its submissions, where there are any. */
export function mayTouchForm(principal: Principal, form: string, domain?: string): boolean {
  const id = parseFormId(form);
  if (id?.kind === 'own') return mayTouch(principal, domain);
  return mayTouch(principal, id?.kind === 'domain' ? id.domain : undefined);
}

/** The submissions as the API shows them. */
// oxlint-disable-next-line typescript/explicit-module-boundary-types -- handlers check it against the contract
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
