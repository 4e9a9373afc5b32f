/**
 * What an answer of the other side, or the lack of one, means for the try: the one place that decides between trying
 * elsewhere, trying later and giving up, by the codes alone (RFC 5321 §4.2.1). What it does not know is temporary. Why the
 * other side refused is for mail/bounce-class to say.
 */
import type { Asked } from '../mail/bounce-class.ts';
import { replyText, type Reply } from './reply.ts';

export type Step = 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'final';

export type Fault =
  /** No connection: refused, unroutable, reset before the greeting. */
  | 'refused'
  | 'timeout'
  /** The connection broke. */
  | 'closed'
  /** The other side speaks something else. */
  | 'protocol'
  /** A policy of ours (TLS, authentication) cannot be kept there. */
  | 'unsuitable';

export type Happening =
  | {
      readonly step: Step;
      readonly reply: Reply;
      /** Recipients that were accepted before in this transaction. */
      readonly accepted?: number;
    }
  | { readonly step: Step; readonly fault: Fault; readonly words: string };

export type Verdict =
  | { readonly kind: 'ok' }
  | {
      readonly kind: 'temporary';
      /** Worth trying at the next address now, or only when the schedule says. */
      readonly next: 'address' | 'schedule';
      /** The connection, not the message, is what failed. */
      readonly connection: boolean;
    }
  | {
      readonly kind: 'permanent';
      /** `host`: unless another mail host thinks otherwise. */
      readonly next: 'none' | 'host';
      /** Policies often concern the address that we came from (5.7.x): the other family may pass. */
      readonly otherFamily: boolean;
      readonly after: Asked;
    }
  /** Too many recipients for one transaction: this one belongs into the next. */
  | { readonly kind: 'again' };

const OK: Verdict = { kind: 'ok' };
const LATER: Verdict = { kind: 'temporary', next: 'address', connection: false };
const LOST: Verdict = { kind: 'temporary', next: 'address', connection: true };
/** The message may have arrived: a second copy at once would be the likelier harm. */
const UNCERTAIN: Verdict = { kind: 'temporary', next: 'schedule', connection: true };

/** What `happening` means. */
export function classify(happening: Happening): Verdict {
  const { step } = happening;
  if ('fault' in happening) return step === 'final' && happening.fault !== 'unsuitable' ? UNCERTAIN : LOST;
  const { code, enhanced } = happening.reply;
  if (step === 'data' ? code === 354 : code >= 200 && code < 300) return OK;
  if (code === 421) return LOST;
  // RFC 5321 §4.5.3.1.10: servers say 552 as well where they mean 452.
  if (step === 'rcpt' && (code === 452 || code === 552) && (happening.accepted ?? 0) > 0) return { kind: 'again' };
  if (code >= 400 && code < 500) return beforeMail(step) ? LOST : LATER;
  if (code >= 500 && code < 600) return refusal(step, enhanced);
  return LOST;
}

function refusal(step: Step, enhanced: string | undefined): Verdict {
  // Our own credentials are wrong: the operator can mend that, and no mail is to bounce for it.
  if (step === 'auth' || step === 'starttls') return LOST;
  return {
    kind: 'permanent',
    next: beforeMail(step) || step === 'mail' ? 'host' : 'none',
    otherFamily: enhanced?.startsWith('5.7.') === true,
    after: askedBefore(step),
  };
}

function askedBefore(step: Step): Asked {
  if (beforeMail(step) || step === 'mail') return 'sender';
  return step === 'final' ? 'message' : 'recipient';
}

function beforeMail(step: Step): boolean {
  return step === 'connect' || step === 'greeting' || step === 'ehlo' || step === 'starttls' || step === 'auth';
}

/** The words for attempts and logs. */
export function happeningText(happening: Happening): string {
  return 'reply' in happening ? replyText(happening.reply) : `${codesOf(happening.fault)} ${happening.words}`;
}

/** RFC 3463 codes for what no server says, because none was there to say it. */
function codesOf(fault: Fault): string {
  switch (fault) {
    case 'refused':
      return '421 4.4.1';
    case 'timeout':
    case 'closed':
      return '421 4.4.2';
    case 'protocol':
      return '421 4.5.0';
    case 'unsuitable':
      return '421 4.7.0';
  }
}
