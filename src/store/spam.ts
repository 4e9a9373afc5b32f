/** What the projects' owners have taught the spam filter: a row for each project that has decided anything. */
import { sql } from 'kysely';
import { finder, insertInto, query, reader } from './statement.ts';
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

/** The statement that says what was learned from a submission; it touches no row where that was learned before. */
export const noteLearned = query<{ id: string; learned: 'spam' | 'ham' }>(
  (value) => sql`update submissions set learned = ${value('learned')}
    where id = ${value('id')} and (learned is null or learned <> ${value('learned')})`,
);

/** What of a submission the filter compares with others. */
export type RecentSubmission = Pick<SubmissionRow, 'id' | 'tenant' | 'form' | 'domain' | 'fields' | 'control'>;

/** The newest submissions with ids after this one, the newest first; not those with more than `longest` characters. */
export const recentSubmissions = reader(
  (after: string, longest: number, limit: number) => sql<RecentSubmission>`
    select id, tenant, form, domain, fields, control from submissions
    where id > ${after} and length(fields) <= ${longest} order by id desc limit ${limit}`,
);
