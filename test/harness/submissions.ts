/** Rows of submissions, for tests that write them without a form post. */
import { newId } from '../../src/lib/ids.ts';
import type { SubmissionRow } from '../../src/store/tables.ts';

/** One that was accepted at `at` (ms), with `more` of its own. */
export function submissionRow(at: number, more: Partial<SubmissionRow> = {}): SubmissionRow {
  return {
    id: newId('sub', at),
    tenant: 'ten_1',
    form: 'example.com/contact',
    domain: 'example.com',
    revision: 'rev_1',
    fields: '[]',
    control: '{}',
    stored: null,
    learned: null,
    accepted_at: null,
    unread: 1,
    has_files: 0,
    ip: '192.0.2.7',
    user_agent: '',
    referer: '',
    status: 'accepted',
    spam_score: 0,
    spam_reasons: '[]',
    environment: 'live',
    created_at: at,
    ...more,
  };
}
