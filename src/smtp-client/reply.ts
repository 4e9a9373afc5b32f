/**
 * Replies of an SMTP server (RFC 5321 §4.2) from bytes that arrive in any portions. What it keeps is bounded: a line of
 * more than 2 KiB, a reply of more than 16 KiB or a line without a code ends the conversation.
 */
import type { TransactionStage } from '../mail/bounce-class.ts';

export interface Reply {
  readonly code: number;
  /** The enhanced status code (RFC 3463) where the text begins with one of the same class. */
  readonly enhanced?: string;
  /** The text of each line, without the codes' first three digits, printable. */
  readonly lines: readonly string[];
}

/** The other side does not speak SMTP. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

const MAX_LINE_LENGTH = 2048;
const MAX_REPLY_LENGTH = 16_384;
const LF = 0x0a;
const LINE = /^([2-9]\d\d)(?:([ -])(.*))?$/s;
const ENHANCED = /^([245])\.\d{1,3}\.\d{1,3}(?= |$)/;

export class ReplyParser {
  #rest: Buffer = Buffer.alloc(0);
  #lines: string[] = [];
  #size = 0;

  /** Takes bytes and answers the replies that they complete. Throws ProtocolError. */
  push(bytes: Buffer): Reply[] {
    const replies: Reply[] = [];
    let buffer = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (let end = buffer.indexOf(LF); end !== -1; end = buffer.indexOf(LF)) {
      const reply = this.#line(buffer.subarray(0, end));
      if (reply !== undefined) replies.push(reply);
      buffer = buffer.subarray(end + 1);
    }
    if (buffer.length > MAX_LINE_LENGTH) throw new ProtocolError(`a reply line of more than ${MAX_LINE_LENGTH} bytes`);
    // A copy of the little that is left, so that the large buffer of the socket can go.
    this.#rest = Buffer.from(buffer);
    return replies;
  }

  /** Whether nothing of an unfinished reply is held: at STARTTLS it must not be (RFC 3207 §4, CVE-2011-0411). */
  get isEmpty(): boolean {
    return this.#rest.length === 0 && this.#lines.length === 0;
  }

  #line(bytes: Buffer): Reply | undefined {
    this.#size += bytes.length;
    if (bytes.length > MAX_LINE_LENGTH) throw new ProtocolError(`a reply line of more than ${MAX_LINE_LENGTH} bytes`);
    if (this.#size > MAX_REPLY_LENGTH) throw new ProtocolError(`a reply of more than ${MAX_REPLY_LENGTH} bytes`);
    const text = bytes
      .toString('utf8')
      .replace(/\r$/, '')
      .replaceAll(/\p{Cc}/gu, ' ');
    const [, code, separator, rest = ''] = LINE.exec(text) ?? [];
    if (code === undefined) throw new ProtocolError(`not a reply: ${text.slice(0, 200)}`);
    this.#lines.push(rest);
    if (separator === '-') return undefined;
    const lines = this.#lines;
    this.#lines = [];
    this.#size = 0;
    const enhanced = ENHANCED.exec(lines[0] ?? '')?.[0];
    return {
      code: Number(code),
      lines,
      ...(enhanced === undefined || enhanced[0] !== code[0] ? {} : { enhanced }),
    };
  }
}

/** The reply on one line, as given in attempts and logs: `550 5.1.1 no such user`. */
export function replyText({ code, lines, enhanced }: Reply): string {
  // Each line of a long reply repeats the enhanced code (RFC 2034 §4); once is enough.
  const texts = lines.map((line, i) =>
    i > 0 && enhanced !== undefined && line.startsWith(`${enhanced} `) ? line.slice(enhanced.length + 1) : line,
  );
  return `${code} ${texts.join(' ')}`.trim().slice(0, 1000);
}

export type Step = 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'final';

export type ConnectionFault =
  /** No connection: refused, unroutable, reset before the greeting. */
  | 'refused'
  | 'timeout'
  /** The connection broke. */
  | 'closed'
  /** The other side speaks something else. */
  | 'protocol'
  /** A policy of ours (TLS, authentication) cannot be kept there. */
  | 'unsuitable'
  /** The TLS policy of the recipients' domain is not kept there. */
  | 'insecure';

export type Happening =
  | {
      readonly step: Step;
      readonly reply: Reply;
      /** Recipients that were accepted before in this transaction. */
      readonly accepted?: number;
    }
  | { readonly step: Step; readonly fault: ConnectionFault; readonly words: string };

export type ReplyClass =
  | { readonly kind: 'ok' }
  | {
      readonly kind: 'temporary';
      /** Worth trying at the next address now, or only when the schedule says. */
      readonly next: 'address' | 'schedule';
      /** The connection, not the message, is what failed. */
      readonly connection: boolean;
      /** There was not even a connection. */
      readonly absent?: true;
      /** The smarthost refused the sender; where it refuses each, that is what failed. */
      readonly sender?: true;
    }
  | {
      readonly kind: 'permanent';
      /** `host`: unless another mail host thinks otherwise. */
      readonly next: 'none' | 'host';
      /** Policies often concern the address that we came from (5.7.x): the other family may pass. */
      readonly otherFamily: boolean;
      readonly after: TransactionStage;
    }
  /** Too many recipients for one transaction: this one belongs in the next. */
  | { readonly kind: 'again' };

const OK: ReplyClass = { kind: 'ok' };
const LATER: ReplyClass = { kind: 'temporary', next: 'address', connection: false };
const LOST: ReplyClass = { kind: 'temporary', next: 'address', connection: true };
const ABSENT: ReplyClass = { kind: 'temporary', next: 'address', connection: true, absent: true };
const REFUSED_SENDER: ReplyClass = { kind: 'temporary', next: 'schedule', connection: false, sender: true };
/** The message may have arrived: a second copy at once would be the likelier harm. */
const UNCERTAIN: ReplyClass = { kind: 'temporary', next: 'schedule', connection: true };

/**
 * What an answer of the server, or the lack of one, means for the attempt: the one place that decides between trying
 * elsewhere, trying later and giving up, by the codes alone (RFC 5321 §4.2.1). What it does not know is temporary. Why the
 * server refused is for mail/bounce-class to say. What a smarthost says of itself, or of us, is temporary as well: it costs
 * no recipient anything, and the operator can correct it.
 */
export function classify(happening: Happening, isRelay = false): ReplyClass {
  const { step } = happening;
  if (step === 'connect') return ABSENT;
  if ('fault' in happening) return step === 'final' && happening.fault !== 'unsuitable' ? UNCERTAIN : LOST;
  const { code, enhanced } = happening.reply;
  if (step === 'data' ? code === 354 : code >= 200 && code < 300) return OK;
  if (code === 421) return LOST;
  if (isRelay) {
    if (NOT_AUTHENTICATED.has(code) || beforeMail(step)) return LOST;
    // Unless it is about this message: its size (RFC 1870 §6.1) or its form.
    if (step === 'mail' && code !== 552 && !/^5\.(3\.4|6\.)/.test(enhanced ?? '')) return REFUSED_SENDER;
  }
  // RFC 5321 §4.5.3.1.10: servers say 552 as well where they mean 452.
  if (step === 'rcpt' && (code === 452 || code === 552) && (happening.accepted ?? 0) > 0) return { kind: 'again' };
  if (code >= 400 && code < 500) return beforeMail(step) ? LOST : LATER;
  if (code >= 500 && code < 600) return refusal(step, enhanced);
  return LOST;
}

/** The smarthost takes nothing from anybody who does not authenticate, or not like this (RFC 4954 §6). */
const NOT_AUTHENTICATED: ReadonlySet<number> = new Set([530, 534, 535, 538]);

function refusal(step: Step, enhanced: string | undefined): ReplyClass {
  // Our own credentials are wrong: the operator can correct that, and no mail is to bounce for it.
  if (step === 'auth' || step === 'starttls') return LOST;
  return {
    kind: 'permanent',
    next: beforeMail(step) || step === 'mail' ? 'host' : 'none',
    otherFamily: enhanced?.startsWith('5.7.') === true,
    after: beforeMail(step) || step === 'mail' ? 'sender' : step === 'final' ? 'message' : 'recipient',
  };
}

function beforeMail(step: Step): boolean {
  return !['mail', 'rcpt', 'data', 'final'].includes(step);
}

/** The words for attempts and logs. */
export function happeningText(happening: Happening): string {
  return 'reply' in happening ? replyText(happening.reply) : `${FAULT_CODES[happening.fault]} ${happening.words}`;
}

/** RFC 3463 codes for what no server says, because none was there to say it. */
const FAULT_CODES: Readonly<Record<ConnectionFault, string>> = {
  refused: '421 4.4.1',
  timeout: '421 4.4.2',
  closed: '421 4.4.2',
  protocol: '421 4.5.0',
  unsuitable: '421 4.7.0',
  insecure: '421 4.7.5',
};
