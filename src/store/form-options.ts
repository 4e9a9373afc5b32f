/**
 * What options of forms keep beside a submission: that its visitor has to confirm it (`double_opt_in`), and that its
 * `fallback` gets it where mail about it fails. These rows go with the submission.
 */
import { sql } from 'kysely';
import { deleteFrom, finder, insertInto, query, reader, update, type Statement } from './statement.ts';
import type { FallbackRow, MessageRow, SubmissionRow } from './tables.ts';

/** The statement that makes a submission wait for its visitor. */
export const insertOptIn = insertInto('opt_ins');

/** The statement that ends that; with `expect` 1 its unit fails where it has ended. */
export const deleteOptIn = deleteFrom('opt_ins', 'submission');

/** What one link confirms: pending submissions to the same form, of the same mailbox and client, the linked one first. */
export const confirmedWith = reader(
  (submission: string, limit: number) => sql<SubmissionRow>`select submissions.*
    from opt_ins as linked
      join opt_ins as each on each.tenant = linked.tenant and each.form = linked.form
        and each.mailbox = linked.mailbox and each.client = linked.client
      join submissions on submissions.id = each.submission
    where linked.submission = ${submission} and submissions.status = 'pending'
    order by case when submissions.id = ${submission} then 0 else 1 end, submissions.id limit ${limit}`,
);

/** Pending submissions that nobody confirmed in time, oldest first. */
export const expiredOptIns = reader(
  (now: number, limit: number) => sql<{ id: string }>`select submission as id from opt_ins
    where expires_at <= ${now} order by expires_at limit ${limit}`,
);

/** The statement that watches over the mail about a submission; of one whose fallback was used nothing changes. */
export const armFallback = query<{ submission: string; late_at: number }>(
  (value) => sql`insert into fallbacks (submission, late_at, due_at)
    values (${value('submission')}, ${value('late_at')}, ${value('late_at')})
    on conflict (submission) do update set late_at = excluded.late_at, due_at = excluded.due_at
      where fallbacks.used_at is null`,
);

/** Submissions whose mail is to be looked at now. */
export const dueFallbacks = reader(
  (now: number, limit: number) => sql<FallbackRow>`select * from fallbacks
    where due_at is not null and due_at <= ${now} order by due_at limit ${limit}`,
);

/** What is known of the fallback of a submission; undefined where its form had none. */
export const fallbackOf = finder('fallbacks', 'submission');

/** The statements that have the mail about a submission looked at now, because some of it has failed; none for other mail. */
export function noteFailedNotification({
  message: { kind, submission },
  at,
}: {
  readonly message: Pick<MessageRow, 'kind' | 'submission'>;
  readonly at: number;
}): Statement[] {
  return kind === 'notification' && submission !== null ? [hasten({ submission, at })] : [];
}

const hasten = query<{ submission: string; at: number }>(
  (value) => sql`update fallbacks set due_at = ${value('at')}
    where submission = ${value('submission')} and used_at is null`,
);

/** The statement that has it looked at later, or (null) when some of it fails; unless that came meanwhile. */
export const putOffFallback = query<Pick<FallbackRow, 'submission' | 'due_at'> & { next: number | null }>(
  (value) => sql`update fallbacks set due_at = ${value('next')}
    where submission = ${value('submission')} and due_at = ${value('due_at')} and used_at is null`,
);

/** The statement that says the fallback was used; with `expect` 1 its unit fails where that was so. */
export const useFallback = update('fallbacks', ['used_at', sql`due_at = null`], ['submission', sql`used_at is null`]);
