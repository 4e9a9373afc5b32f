/** What the projects' owners have taught the spam filter: a row for each project that has decided anything. */
import { sql } from 'kysely';
import { finder, insertInto, query } from './rows.ts';
import type { Store } from './store.ts';
import type { SpamLearnedRow, SubmissionRow } from './tables.ts';

/** What the project has learned, or undefined. */
export const findLearned = finder('spam_learned', 'tenant', 'project');

/** The statement that keeps the first decision; it touches no row where there is one already. */
export const insertLearned = insertInto('spam_learned', sql`on conflict (tenant, project) do nothing`);

/** The statement that keeps one more decision; it touches no row where another was kept since `before`. */
export const updateLearned = query<SpamLearnedRow & { before: number }>(
  (value) => sql`update spam_learned
    set weights = ${value('weights')}, decisions = ${value('decisions')}, updated_at = ${value('updated_at')}
    where tenant = ${value('tenant')} and project = ${value('project')} and decisions = ${value('before')}`,
);

/** What of a submission the filter compares with others. */
export type RecentSubmission = Pick<SubmissionRow, 'id' | 'tenant' | 'form' | 'domain' | 'fields' | 'control'>;

const recent = query<{ after: string; longest: number; limit: number }, RecentSubmission>(
  (value) => sql`select id, tenant, form, domain, fields, control from submissions
    where id > ${value('after')} and length(fields) <= ${value('longest')} order by id desc limit ${value('limit')}`,
);

/** The newest submissions with ids after this one, the newest first. */
export function recentSubmissions(
  store: Store,
  which: { readonly after: string; readonly longest: number; readonly limit: number },
): Promise<RecentSubmission[]> {
  return store.select(recent(which));
}
