/** What an inbound message is to those who authenticate, forward or read it, and what they answer. */
import type { Statement } from '../store/statement.ts';
import type { Accepted } from './recipients.ts';

/** A client, and how it introduced itself. */
export interface Client {
  readonly ip: string;
  /** The argument of EHLO. */
  readonly helo: string;
  /** `TLSv1.3`, … ; null for clear text. */
  readonly tls: string | null;
  /** `ESMTPS`, … (RFC 3848), for Received. */
  readonly protocol: string;
  /** Whether it is this very daemon, with mail of its own. */
  readonly isOwn: boolean;
}

/** A whole message that is not answered yet. */
export interface InboundMessage extends Client {
  /** `inb_…` */
  readonly id: string;
  /** Envelope sender in its normal form; empty for the null sender. */
  readonly sender: string;
  readonly recipients: readonly Accepted[];
  readonly size: number;
  readonly encoding: '7bit' | '8bit' | 'smtputf8';
  /** When it had come, ms. */
  readonly at: number;
  /** Its bytes as they came, dots unstuffed, piece by piece; may be called again. */
  pieces(): AsyncIterable<Uint8Array>;
}

export interface AuthenticationOutcome {
  /** Header lines that say what was found, each with its CRLF. */
  readonly headers: string;
  /** For whoever forwards it or answers its sender. */
  readonly verdicts: string;
  /** It is not to be taken; `550 5.7.1 …`. */
  readonly refusal?: { readonly reply: string; readonly reason: string } | undefined;
}

/** Finds out who really sent it. Never rejects for what the message or DNS says. */
export type MailAuthenticator = (mail: InboundMessage) => Promise<AuthenticationOutcome>;

/** What becomes of the message for one recipient. */
export interface IntakeResult {
  /** For the unit that takes the message: all of it is committed with 250, or nothing. */
  readonly rows: readonly Statement[];
  /** Destinations that are then due, as `enqueue` answers them. */
  readonly dues?: readonly { readonly name: string; readonly due: number }[];
  /** The messages (`msg_…`) that read the pieces of this one until they are sent. */
  readonly messages?: readonly string[];
  /** It is not to be taken after all, for anybody; `550 5.1.1 …`. */
  readonly refusal?: { readonly reply: string; readonly reason: string };
}

/** Takes the message for one recipient of its kind. Where it rejects the client hears 451, and keeps the mail. */
export type Intake<Kind extends Accepted['kind']> = (
  mail: InboundMessage,
  recipient: Extract<Accepted, { readonly kind: Kind }>,
  authentication: AuthenticationOutcome,
) => Promise<IntakeResult>;
