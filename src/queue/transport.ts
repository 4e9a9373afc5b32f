/**
 * What the queue knows of the world: where a message's bytes come from (`Source`), who takes them away (`Transport`), and who
 * cares where they never arrive (`OnFailure`). Whoever composes the daemon hands them in.
 */
import type { Fields } from '../lib/log.ts';
import type { TransactionStage, BounceClass } from '../mail/bounce-class.ts';
import type { Statement } from '../store/statement.ts';
import type { MessageRow } from '../store/tables.ts';

/** 0 ≤ number < 1. */
export type Random = () => number;

/** A finished message as a whole. */
export interface Finished {
  readonly kind: 'ready';
  /** Envelope sender; empty for the null sender. */
  readonly sender: string;
  /** The signed message: CRLF line ends alone, whole when joined. */
  readonly content: readonly Uint8Array[];
  readonly size: number;
  /** Whether its headers need SMTPUTF8 (RFC 6531). */
  readonly smtpUtf8: boolean;
  /** Then, the same mail in ASCII headers for servers without it, where there is one. */
  readonly plain?: Pick<Finished, 'content' | 'size'> | undefined;
}

export type Prepared = Finished | Streamed | { readonly kind: 'unrenderable'; readonly reason: string };

/** A finished message of any size that is never in memory as a whole: what was made of it here, and what lies in the store. */
export interface Streamed {
  readonly kind: 'streamed';
  /** Envelope sender; empty for the null sender. */
  readonly sender: string;
  /** Of all of it. */
  readonly size: number;
  readonly encoding: MessageRow['encoding'];
  /** How it begins; kept where it must be sent again, so that every try sends the same bytes. */
  readonly prefix: Uint8Array;
  /**
   * The rest, the same at each call, also while others read it; at most 256 KiB of it in memory at a time. It fails
   * where the rest is not whole.
   */
  pieces(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

/** Where the bytes of a message come from. It rejects where they cannot be had for now; the message then waits. */
export interface Source {
  /** `kept` is how a message begins that was `streamed` before, as the row tells its sender, size and encoding: those stay. */
  prepare(message: MessageRow, kept?: Uint8Array): Promise<Prepared>;
}

/** A finished message as the transport sends it; large ones come from the store piece by piece. */
export interface Body {
  readonly kind: 'ready';
  readonly sender: string;
  readonly size: number;
  readonly encoding: MessageRow['encoding'];
  /** What a server without SMTPUTF8 gets instead; undefined where it gets nothing else. */
  readonly plain?: Body | undefined;
  /** May be called again for another try. */
  pieces(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export interface Recipient {
  /** The delivery's id. */
  readonly id: string;
  readonly address: string;
  /** Which try this is, from 1. */
  readonly attempt: number;
}

export type Opened =
  | Body
  /** It can never be sent. */
  | { readonly kind: 'unrenderable'; readonly reason: string }
  /** It cannot be had for now; `isPassing`: the database is away, which speaks against no message. */
  | { readonly kind: 'unavailable'; readonly reason: string; readonly isPassing: boolean };

/** One message for recipients at one destination. */
export interface Batch {
  readonly destination: string;
  /** At least one. */
  readonly recipients: readonly Recipient[];
  /** Whether a server at the destination has answered before. */
  readonly isProven: boolean;
  /** RFC 8460 §3: a report about TLS gets through whatever policy broke, and is not reported on itself. */
  readonly isTlsReport: boolean;
  /**
   * Writes, before anybody is dialled or the message is made, that the try begins, and with it those of all that was claimed
   * together for the destination. Answers false where it must not: the lease is lost, or the tenant is suspended. Never
   * rejects.
   */
  begin(): Promise<boolean>;
  /** Whether others wait for what the try holds, so that a server that is silent is to be given up early. */
  isPressed(): boolean;
  /** The message's bytes, the same each time; asked for when there is a connection for them or one is being made. Never rejects. */
  open(): Promise<Opened>;
  /**
   * Asked before the bytes of the message leave, when nothing can be called back any more: false where the lease is lost or
   * the tenant is suspended.
   */
  mayLeave(): boolean;
  /** Takes the end of the try; called exactly once. Resolves when it is on the disk, or can never be. Never rejects. */
  done(result: Result): Promise<void>;
}

/** Where something was said, and over which TLS. */
export interface Peer {
  readonly host: string | null;
  readonly address: string | null;
  readonly tls: string | null;
  /** Where the recipients' domain has a TLS policy. */
  readonly policy?: AppliedPolicy | undefined;
  /** What was said there, a line each: `>` is ours, `<` the server's, `-` a note. */
  readonly dialogue?: string | undefined;
}

/** A TLS policy, and what came of it: null where no session got as far. */
export interface AppliedPolicy {
  readonly name: PolicyName;
  readonly result: TlsResult | null;
}

export type PolicyName = 'dane' | 'mta-sts enforce' | 'mta-sts testing';

/** In the words of RFC 8460 §4.3. `tlsa-invalid`: no TLSA record fits the certificate, or none can be used at all. */
export type TlsResult =
  | 'success'
  | 'tlsa-invalid'
  | 'dnssec-invalid'
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure';

export interface RecipientResult extends Peer {
  readonly recipient: Recipient;
  /**
   * `untouched`: not tried, as if it had never been claimed. `interrupted`: ended in the middle by a stop of the daemon,
   * when it may have arrived already. `captured`: kept instead of sent. `postponed`: not tried, and not to be for `wait`, or for two seconds.
   */
  readonly outcome: 'delivered' | 'deferred' | 'bounced' | 'untouched' | 'interrupted' | 'captured' | 'postponed';
  /** What a deferral is for: a reply, a fault of the connection, or silence after the message had left. */
  readonly cause: 'reply' | 'fault' | 'uncertain';
  /** The server's words (`550 5.1.1 no such user`), or ours. */
  readonly reply: string;
  /** The next attempt is no sooner, ms. */
  readonly wait?: number;
  /** What the server knew when it refused for good. */
  readonly after?: TransactionStage | undefined;
  /** The recipient called it spam. */
  readonly complained?: true;
}

export type Result =
  /** One for each recipient. */
  | { readonly kind: 'decided'; readonly recipients: readonly RecipientResult[] }
  /** No mail host could be reached, or none could be found for now: the destination's fault, not the message's. */
  | Unreachable;

export interface Unreachable extends Peer {
  readonly kind: 'unreachable';
  readonly reply: string;
  /** The smarthost could not be reached or does not take mail from us: the fault of no destination. */
  readonly isRelay?: true;
  /** When the try began, on the monotonic clock. */
  readonly began: number;
}

/** Takes batches to where they go: SMTP for mail, HTTP for webhooks. */
export interface Transport {
  /** Takes batches of one destination; each ends with `done`. */
  send(destination: string, batches: readonly Batch[]): void;
  /** How many recipients of this destination it is worth to have claimed at a time, those in flight included. */
  capacity(destination: string): number;
  /** Starts nothing more, lets what is on its way end for `graceMs`, then hangs up. */
  stop(graceMs: number): Promise<void>;
}

/** A recipient whom the message will never reach. */
export interface FailedRecipient {
  readonly address: string;
  /** The words for which it failed: a server's, or ours. */
  readonly reply: string;
  /** Whose words they are; null where they are ours. */
  readonly host: string | null;
  readonly class: BounceClass;
}

/** Deliveries of one message that ended together and for good, without arriving. */
export interface Failure {
  readonly message: MessageRow;
  /** At least one. */
  readonly recipients: readonly FailedRecipient[];
  /** Milliseconds. */
  readonly at: number;
}

/** What follows from it. */
export interface Consequence {
  /** Commits with the end itself, or not at all. */
  readonly unit: readonly Statement[];
  /** For the events that tell of the end. */
  readonly data: Fields;
}

/** What waits before its first try because its tenant has sent as much as it may. */
export interface Admission {
  /** Counts deliveries that are about to be tried first; answers until when (ms) some of them wait, and the reply that says why. */
  place(
    deliveries: readonly { readonly id: string; readonly tenant: string }[],
  ): Promise<ReadonlyMap<string, { readonly until: number; readonly reply: string }>>;
}

/** Asked before the end is written, and again where it could not be. Rejects where the store cannot be read. */
export type OnFailure = (failure: Failure) => Promise<Consequence>;

/** Of what no server said. */
export const NOBODY: Peer = { host: null, address: null, tls: null };

/** The result of a batch that ends for all its recipients in these words of ours. */
export function sameForAll(
  { recipients }: Pick<Batch, 'recipients'>,
  outcome: RecipientResult['outcome'],
  reply: string,
): Extract<Result, { kind: 'decided' }> {
  return {
    kind: 'decided',
    recipients: recipients.map((recipient) => ({ recipient, outcome, cause: 'reply', reply, ...NOBODY })),
  };
}

/** The result of a batch that nobody tried. */
export function untouched(batch: Batch): Result {
  return sameForAll(batch, 'untouched', '');
}
