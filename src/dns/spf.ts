/**
 * SPF by evaluation (RFC 7208): what a receiver would make of mail from an address. mailauth evaluates, in the mode that
 * keeps to the RFC; the suite of openspf.org holds it (test/peers/spf.test.ts).
 */
import { spf } from 'mailauth';
import type { Resolver } from './answers.ts';
import { mailauthResolver } from './mailauth.ts';

export type SpfResolver = Pick<Resolver, 'txt' | 'mx' | 'lookup'>;

export interface SpfQuestion {
  /** Envelope sender. */
  readonly sender: string;
  /** Of the client that sends. */
  readonly ip: string;
  readonly helo: string;
  readonly resolver: SpfResolver;
  /** Look-ups, and look-ups that find nothing, after which it is an error; those of the RFC unless told. */
  readonly most?: number;
}

const RESULTS = ['none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror'] as const;

export interface SpfOutcome {
  readonly result: (typeof RESULTS)[number];
  /** Of an error, in words. */
  readonly reason: string | undefined;
  /** Look-ups that counted. */
  readonly lookups: number;
  /** How many of them found nothing. */
  readonly voids: number;
}

/** §4.6.4 */
export const MOST_LOOKUPS = 10;
export const MOST_VOIDS = 2;

/** §4.6.4 asks for at least 20 s. */
const MOST_MS = 20_000;

/** Never rejects: what DNS does not say is a `temperror`. */
export async function evaluateSpf({ sender, ip, helo, resolver, most }: SpfQuestion): Promise<SpfOutcome> {
  const found = await spf({
    sender,
    ip,
    helo,
    mta: helo,
    resolver: mailauthResolver(resolver),
    strict: true,
    maxResolveCount: most ?? MOST_LOOKUPS,
    maxVoidCount: most ?? MOST_VOIDS,
    maxElapsedTime: MOST_MS,
  });
  const { result, comment = '' } = found.status;
  const reason = comment.split(`processing during lookup of ${sender}: `)[1];
  const { count: lookups, void: voids } = found.lookups ?? { count: 0, void: 0 };
  return { result: isResult(result) ? result : 'temperror', reason, lookups, voids };
}

function isResult(word: string): word is SpfOutcome['result'] {
  return RESULTS.some((result) => result === word);
}

/** What follows the version, term by term. */
export function termsOf(record: string): string[] {
  return record.split(/ +/).filter((term, i) => i > 0 && term !== '');
}

/** Whether the term matches everybody (§5.1). */
export function isAll(term: string): boolean {
  return /^[-+~?]?all$/i.test(term);
}

/** The texts among these that are SPF records (§4.5). */
export function spfRecords(texts: readonly string[]): string[] {
  return texts.filter((text) => /^v=spf1( |$)/i.test(text));
}
