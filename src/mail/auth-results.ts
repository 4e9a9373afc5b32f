/** What was found of a message's sender (mail/authenticate), as it is kept with the message, and what follows from it. */
import { z } from 'zod';
import type { AuthorReading } from './header.ts';

const dkim = z.object({
  /** d=, lower case. */
  domain: z.string(),
  selector: z.string(),
  /** RFC 8601 §2.7.1 */
  result: z.string(),
  /** Whether the domain is the author's, or its organisation's, as DMARC wants it. */
  aligned: z.boolean(),
});

const verdicts = z.object({
  /** `domain` is the envelope sender's, or the one that the client called itself by where that is null. */
  spf: z.object({ result: z.string(), domain: z.string() }),
  /** One for each signature that could be read. */
  dkim: z.array(dkim),
  dmarc: z.object({
    /** RFC 8601 §2.7.2; `temperror` also where DNS did not say all that counts, `permerror` where the author cannot be told. */
    result: z.string(),
    /** What the author's domain asks for where it fails; `none` too where that is not known. */
    policy: z.enum(['none', 'quarantine', 'reject']),
    /** The author's; empty where it cannot be told. */
    domain: z.string(),
  }),
  arc: z.object({
    /** `temperror`: DNS did not say; the chain may be whole. */
    result: z.enum(['none', 'pass', 'fail', 'temperror']),
    /** Whether somebody whom we believe saw DMARC pass for this author. */
    trusted: z.boolean(),
  }),
  /** The author's address; empty where it cannot be told. */
  from: z.string(),
  /** Whether SPF or DKIM says that the envelope sender is no forgery: it may be told of what became of the message. */
  vouched: z.boolean(),
});

export type AuthResults = Readonly<z.output<typeof verdicts>>;
export type DkimResult = Readonly<z.output<typeof dkim>>;

export interface Refusal {
  /** `550 5.7.1 …` */
  readonly reply: string;
  /** A stable name. */
  readonly reason: string;
}

export function writeAuthResults(found: AuthResults): string {
  return JSON.stringify(found);
}

export function readAuthResults(json: string): AuthResults {
  return verdicts.parse(JSON.parse(json));
}

/**
 * Why a message is not taken whose author is not one address: whose policy counts could be chosen by whoever sends it
 * (RFC 9989 §11.5). Reports that name nobody are let in where `isReturned`: they come to an address that we made, and some
 * mail systems write no address into From.
 */
export function authorRefusal(
  author: AuthorReading,
  { isReturned }: { readonly isReturned: boolean },
): Refusal | undefined {
  if (author.kind === 'one' || (author.kind === 'none' && isReturned)) return undefined;
  return { reply: `550 5.7.1 ${author.fault}`, reason: 'invalid_from' };
}

/** Why the message is not taken (RFC 7489 §6.6.2), or nothing; `record` only looks. */
export function dmarcRefusal({ dmarc, arc }: AuthResults, mode: 'enforce' | 'record'): Refusal | undefined {
  if (mode === 'record') return undefined;
  if (dmarc.result !== 'fail' || dmarc.policy !== 'reject' || arc.trusted) return undefined;
  const whose = dmarc.domain === '' ? "its author's domain" : dmarc.domain;
  return { reply: `550 5.7.1 rejected by the DMARC policy of ${whose}`, reason: 'dmarc' };
}

/**
 * Whether DMARC would fail at the next server, which sees it come from us: no signature of the author's domain survives,
 * and its policy is to hide such mail or to refuse it.
 */
export function needsFromRewrite({ dkim, dmarc }: AuthResults): boolean {
  if (dmarc.policy === 'none') return false;
  // Its key may only have been out of reach.
  return !dkim.some(({ aligned, result }) => aligned && (result === 'pass' || result === 'temperror'));
}
