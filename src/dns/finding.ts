/** What a check of one DNS record found: the verdict, what is published, what to change. */
import type { Failed } from './resolver.ts';

export type RecordStatus = 'ok' | 'missing' | 'wrong' | 'duplicate' | 'unknown';

export interface Finding {
  readonly status: RecordStatus;
  /** What stands there today and bears on this record. */
  readonly found: readonly string[];
  /** What is the matter, in words for the owner of the domain; absent where nothing is. */
  readonly problem?: string;
  /** What is worth knowing of a record that is right. */
  readonly note?: string;
  /** What to publish, where that depends on what is there; empty: nothing, before its owner or DNS has said more. */
  readonly value?: string;
}

/** DNS did not answer, which proves nothing. */
export function unanswered({ reason }: Failed): Finding {
  return { status: 'unknown', found: [], problem: `DNS did not answer: ${reason}` };
}

/** What is published is not what it should be. */
export function wrong(problem: string, found: readonly string[]): Finding {
  return { status: 'wrong', found, problem };
}

/** It is right, with notes if there are any. */
export function ok(found: readonly string[], notes: readonly (string | undefined)[] = []): Finding {
  const note = notes.filter((each) => each !== undefined).join(' ');
  return { status: 'ok', found, ...(note === '' ? {} : { note }) };
}

/** Nothing is there that counts; `found` is what else does. */
export function missing(problem: string, found: readonly string[] = []): Finding {
  return { status: 'missing', found, problem };
}

/** Lists of tags, as DKIM keys and DMARC policies are written: `v=DKIM1; k=rsa; p=…` (RFC 6376 §3.2). */
export type Tags = ReadonlyMap<string, string>;

/** The tags in order, or nothing where the grammar does not hold or a tag is there twice; the last `;` may be missing. */
export function tagList(text: string): Tags | undefined {
  const tags = new Map<string, string>();
  const parts = text.trim().replace(/;$/, '').split(';');
  for (const part of parts) {
    const equals = part.indexOf('=');
    const name = part.slice(0, equals).trim();
    if (equals < 1 || !/^[A-Za-z]\w*$/.test(name) || tags.has(name)) return undefined;
    tags.set(name, part.slice(equals + 1).trim());
  }
  return tags;
}
