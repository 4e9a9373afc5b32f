/** Writes the replies to each recipient into the log of inbound mail, and makes an event of it where the address is an account's. */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { recordEvent } from '../store/events.ts';
import { insertInboundLog } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { Tally } from '../lib/tally.ts';

/** What was said, and to whom. */
export interface LoggedReply {
  readonly ip: string;
  readonly helo: string;
  /** Envelope sender; empty for the null sender, and before there is one. */
  readonly sender: string;
  /** As it stood in RCPT; empty where none had been named. */
  readonly recipient: string;
  readonly tenant: string | null;
  readonly domain: string | null;
  /** `550 5.1.1 …` */
  readonly reply: string;
  /** A stable name. */
  readonly reason: string;
  /** The message that was taken (`inb_…`). */
  readonly inbound?: string | undefined;
}

const MAX_LENGTH = 500;

/** The statements that write it down. */
export function logReply(said: LoggedReply, now: number): Statement[] {
  const { ip, tenant, domain, reply, reason, inbound = null } = said;
  const [helo, sender, recipient] = [said.helo, said.sender, said.recipient].map((text) => text.slice(0, MAX_LENGTH));
  if (helo === undefined || sender === undefined || recipient === undefined) return [];
  const outcome = outcomeOf(reply);
  const row = { tenant, domain, ip, helo, sender, recipient, outcome, reply, reason, inbound, created_at: now };
  const written = insertInboundLog({ id: newId('inl', now), ...row });
  if (tenant === null || outcome === 'deferred') return [written];
  const data = { from: sender, to: recipient, ip, helo, reason, reply, inbound };
  const type = `inbound.${outcome}` as const;
  return [written, recordEvent({ type, tenant, at: now, data, ...(domain === null ? {} : { domain }) })];
}

function outcomeOf(reply: string): 'accepted' | 'rejected' | 'deferred' {
  if (reply.startsWith('2')) return 'accepted';
  return reply.startsWith('4') ? 'deferred' : 'rejected';
}

export interface RecorderParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly counters?: SmtpCounters;
}

export type Recorder = (said: readonly LoggedReply[]) => void;

/** Writes refusals behind the answer: nobody waits for them, and mail is refused whether or not the disk has room. */
export function createRecorder({ store, clock, log, counters }: RecorderParts): Recorder {
  return (said) => {
    for (const { ip, sender, recipient, reply, reason } of said)
      log.info(`inbound.${outcomeOf(reply)}`, { ip, sender, recipient, reply, reason });
    for (const { reply } of said) counters?.recipients.count(outcomeOf(reply));
    const now = clock.now();
    store
      .write(said.flatMap((each) => logReply(each, now)))
      .catch((error: unknown) => log.error('inbound.log_failed', errorFields(error)));
  };
}

export interface SmtpCounters {
  /** Connections accepted, and rejected by a limit. */
  readonly connections: Tally<'accepted' | 'rejected'>;
  /** What RCPT or the message was answered, for each recipient. */
  readonly recipients: Tally<'accepted' | 'rejected' | 'deferred'>;
}

export function createSmtpCounters(): SmtpCounters {
  return {
    connections: new Tally(['accepted', 'rejected']),
    recipients: new Tally(['accepted', 'rejected', 'deferred']),
  };
}
