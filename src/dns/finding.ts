/** What a check of a DNS record found. */
import { type Failed } from './resolver.ts';

// What a look at DNS found of one record that is wanted: the verdict, what stands there, what to change.

export type RecordStatus = 'ok' | 'missing' | 'wrong' | 'duplicate' | 'unknown';

export interface Finding {
  readonly status: RecordStatus;
  /** What stands there today and bears on this record. */
  readonly found: readonly string[];
  /** What is the matter, in words for the owner of the domain; absent where nothing is. */
  readonly problem?: string;
  /** What is worth knowing of a record that is right. */
  readonly note?: string;
  /** What to publish, where that depends on what stands there; empty: nothing, before its owner or DNS has said more. */
  readonly value?: string;
}

/** DNS did not answer, which proves nothing. */
export function unanswered({ reason }: Failed): Finding {
  return { status: 'unknown', found: [], problem: `DNS did not answer: ${reason}` };
}

/** Nothing stands there that counts; `found` is what else does. */
export function missing(problem: string, found: readonly string[] = []): Finding {
  return { status: 'missing', found, problem };
}
