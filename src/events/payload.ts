/** The body that is posted: `{ type, timestamp, data }`, as Standard Webhooks has it, the same for every try of an event. */
import { z } from 'zod';
import { isoTime } from '../lib/clock.ts';
import type { EventRow, FileRow, SubmissionRow } from '../store/tables.ts';

const data = z.record(z.string(), z.unknown());
const fields = z.array(z.tuple([z.string(), z.union([z.string(), z.array(z.string())])]));

/** What a visitor sent, for the events that tell of it. */
export interface Sent {
  readonly submission: Pick<SubmissionRow, 'id' | 'form' | 'fields'>;
  readonly files: readonly FileRow[];
}

/** The body for an event; `sent` where it is about a submission that is still kept. */
export function bodyOf(event: EventRow, sent: Sent | undefined): string {
  const { id, type, created_at, form, submission, message, domain } = event;
  const ids = { form, submission, message, domain };
  return JSON.stringify({
    type,
    timestamp: isoTime(created_at),
    data: {
      event: id,
      ...Object.fromEntries(Object.entries(ids).filter(([, value]) => value !== null)),
      ...data.parse(JSON.parse(event.data)),
      ...(sent === undefined ? {} : content(sent)),
    },
  });
}

/** The body of a test, which is about the webhook itself. */
export function testBody(webhook: string, now: number): string {
  return JSON.stringify({ type: 'webhook.test', timestamp: isoTime(now), data: { webhook } });
}

function content({ submission, files }: Sent): object {
  return {
    id: submission.id,
    form: submission.form,
    fields: Object.fromEntries(fields.parse(JSON.parse(submission.fields))),
    files: files.map(({ field, filename, content_type, size }) => ({ field, filename, content_type, size })),
  };
}
