/** The rows of mail that comes in. As in tables.ts. */

/** A message that was accepted by SMTP, once per transaction; what becomes of it is in `messages`. */
export interface InboundRow {
  /** `inb_…` */
  id: string;
  /** Envelope sender; empty for the null sender. */
  sender: string;
  /** JSON: the recipients that it was accepted for. */
  recipients: string;
  ip: string;
  helo: string;
  /** `TLSv1.3`, … ; null for clear text. */
  tls: string | null;
  /** Of the bytes in raw_chunks. */
  size: number;
  encoding: '7bit' | '8bit' | 'smtputf8';
  /** Header lines of ours that stand before those bytes: Received, Received-SPF, Authentication-Results; CRLF ends. */
  trace: string;
  /** JSON: what was found of SPF, DKIM, DMARC and ARC (mail/authenticate). */
  verdicts: string;
  /** JSON: the messages (`msg_…`) that it became; none for a bounce. */
  messages: string;
  created_at: number;
}

/** The bytes of an inbound message as they came, in pieces of at most 256 KiB; written while they come in. */
export interface RawChunkRow {
  inbound: string;
  seq: number;
  bytes: Uint8Array;
  /** Pieces whose message was never accepted are swept by age. */
  created_at: number;
}

/** What we replied about one recipient, or about a whole transaction. */
export interface InboundLogRow {
  /** `inl_…` */
  id: string;
  /** Whose address it was; null where it was nobody's. */
  tenant: string | null;
  domain: string | null;
  ip: string;
  helo: string;
  sender: string;
  /** Empty where it ended before a recipient was named. */
  recipient: string;
  outcome: 'accepted' | 'rejected' | 'deferred';
  /** `550 5.1.1 …` */
  reply: string;
  /** A stable name: `unknown_recipient`, `relay_denied`, `dmarc`, `loop`, … */
  reason: string;
  inbound: string | null;
  created_at: number;
}

/** A message that came back to the return path of one of ours, until it was read: taken with 250, and not lost by a crash. */
export interface BounceRow {
  /** `inb_…` */
  inbound: string;
  /** `msg_…`, whose return path it came to. */
  message: string;
  /** How it begins; what a report tells stands there. */
  head: Uint8Array;
  /** How often reading it was begun. */
  tries: number;
  /** When it is to be read, ms; while it is being read, when it is to be read again. */
  due: number;
  created_at: number;
}
