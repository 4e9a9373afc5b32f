/** What a check of the doctor found. */
import type { Finding } from '../dns/finding.ts';

export interface Result {
  /** `unknown`: it could not be found out. */
  readonly status: 'ok' | 'warning' | 'failed' | 'unknown';
  readonly found: string;
  /** What to do where it is not `ok`. */
  readonly advice?: string | undefined;
}

/** One result or more, such as one for each address. */
export type Results = Result | readonly Result[];

/** The advice where DNS did not answer. */
export const LATER = 'Check again when DNS answers.';

/** DNS did not answer, which proves nothing. */
export function unanswered(reason: string): Result {
  return { status: 'unknown', found: `DNS did not answer: ${reason}`, advice: LATER };
}

/** A record as a result; `record` is what to publish, such as `TXT mail.example.net: v=spf1 …`. */
export function resultOf({ status, found, problem, note }: Finding, record: string): Result {
  const shown = found.length === 0 ? 'nothing' : found.join(' | ');
  if (status === 'ok') return { status, found: note === undefined ? shown : `${shown} (${note})` };
  if (status === 'unknown') return { status, found: problem ?? shown, advice: LATER };
  return { status: 'failed', found: shown, advice: `${problem ?? ''} Publish ${record}`.trim() };
}
