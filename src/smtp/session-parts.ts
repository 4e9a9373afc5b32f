/** What an SMTP session is made with. */
import type { Decision } from './recipients.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { DoorLimits } from './connection-limits.ts';
import type { Refusal } from './header-check.ts';
import type { ReceiveParts } from './receive.ts';
import type { Recorder } from './record.ts';

// What a session at the door needs of the rest of the house.

export interface SmtpDoor {
  /** What becomes of mail from this sender for the address as it stands in RCPT. */
  readonly decide: (address: string, sender: string) => Promise<Decision>;
  readonly record: Recorder;
  readonly receive: ReceiveParts;
  /** Why no mail is taken just now; undefined as a rule. */
  readonly outage: () => Refusal | undefined;
  readonly mostRecipients: () => number;
}

/** How long a client may take, ms. */
export interface Deadlines {
  /** For its next command. */
  readonly command: number;
  /** From MAIL to the end of the message. */
  readonly transaction: number;
  /** Then it may begin nothing more. */
  readonly connection: number;
}

/** Who asks to be let in. */
export interface Credentials {
  readonly user: string;
  readonly password: string;
  readonly ip: string;
  readonly helo: string;
}

/** The door behind which this client is known, or why it is not let in. */
export type Login = (credentials: Credentials) => Promise<SmtpDoor | Refusal>;

/** A client that was let in; smtp-server keeps it as the session's user. */
export class Visitor {
  readonly door: SmtpDoor;

  constructor(door: SmtpDoor) {
    this.door = door;
  }
}

export interface SessionParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: DoorLimits;
  readonly deadlines: () => Deadlines;
  /** Until the client has logged in, where it can. */
  readonly smtp: SmtpDoor;
  /** What this very daemon shows when it comes with mail of its own; nobody may unless told. */
  readonly mark?: string | undefined;
}
