/** The body that webhooks are sent for an event: the same at every attempt, as long as what it is about is kept. */
import { z } from 'zod';
import { isoTime } from '../lib/clock.ts';
import type { Store } from '../store/store.ts';
import { filesOf, findSubmission } from '../store/submissions.ts';
import type { EventRow, FileRow, SubmissionRow } from '../store/tables.ts';

const data = z.record(z.string(), z.unknown());
const fields = z.array(z.tuple([z.string(), z.union([z.string(), z.array(z.string())])]));

/** The body for an event, `{ type, timestamp, data }`, the same at every attempt; `sent` where it is about a submission that is still kept. */
export function bodyOf(
  event: EventRow,
  sent: { submission: Pick<SubmissionRow, 'id' | 'form' | 'fields'>; files: readonly FileRow[] } | undefined,
): string {
  const { id, type, created_at, form, submission, message, domain } = event;
  const ids = { form, submission, message, domain };
  return JSON.stringify({
    type,
    timestamp: isoTime(created_at),
    data: {
      event: id,
      ...Object.fromEntries(Object.entries(ids).filter(([, value]) => value !== null)),
      ...data.parse(JSON.parse(event.data)),
      ...(sent && {
        id: sent.submission.id,
        form: sent.submission.form,
        fields: Object.fromEntries(fields.parse(JSON.parse(sent.submission.fields))),
        files: sent.files.map(({ field, filename, content_type, size }) => ({ field, filename, content_type, size })),
      }),
    },
  });
}

/** The same, with the submission that the store has. */
export async function bodyOfEvent(store: Store, event: EventRow): Promise<string> {
  const { type, submission } = event;
  if (submission === null || !type.startsWith('submission.')) return bodyOf(event, undefined);
  const row = await findSubmission(store, submission);
  return bodyOf(event, row && { submission: row, files: await filesOf(store, submission) });
}
