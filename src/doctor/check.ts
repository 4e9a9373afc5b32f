/** A check of the doctor and its result. */
import type { Finding } from '../dns/finding.ts';

export const CHECK_STATUSES = ['ok', 'warning', 'failed', 'unknown'] as const;

export interface Check {
  /** A stable name, such as `reverse_dns`; several checks may have one name. */
  readonly name: string;
  /** `unknown`: it could not be found out. */
  readonly status: (typeof CHECK_STATUSES)[number];
  readonly found: string;
  /** What to do; undefined where there is nothing to do. */
  readonly advice?: string;
}

const LATER = 'Look again when DNS answers.';

type Words = Pick<Check, 'status' | 'found'> & { readonly advice?: string | undefined };

export function check(name: string, { status, found, advice }: Words): Check {
  return { name, status, found, ...(advice === undefined || status === 'ok' ? {} : { advice }) };
}

/** DNS did not answer, which proves nothing. */
export function unanswered(name: string, reason: string): Check {
  return check(name, { status: 'unknown', found: `DNS did not answer: ${reason}`, advice: LATER });
}

/** A record as a check; `record` is what to publish, such as `TXT mail.example.net: v=spf1 …`. */
export function checkOfFinding(name: string, { status, found, problem, note }: Finding, record: string): Check {
  const stands = found.length === 0 ? 'nothing' : found.join(' | ');
  switch (status) {
    case 'ok':
      return check(name, { status, found: note === undefined ? stands : `${stands} (${note})` });
    case 'unknown':
      return check(name, { status, found: problem ?? stands, advice: LATER });
    case 'missing':
    case 'wrong':
    case 'duplicate':
      return check(name, { status: 'failed', found: stands, advice: `${problem ?? ''} Publish ${record}`.trim() });
  }
}
