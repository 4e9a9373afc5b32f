/** The log of mail that comes in and is submitted: the reply to each recipient, and an event of it where the address is an account's. */
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

/** The statements that write it down, and make an event of it where it is an account's and final. */
export function logReply(said: LoggedReply, now: number): Statement[] {
  const { tenant, domain, ip, reply, reason, inbound = null } = said;
  const outcome = outcomeOf(reply);
  if (tenant === null || outcome === 'deferred') return [logRow(said, now)];
  const [helo, from, to] = textsOf(said);
  const data = { from, to, ip, helo, reason, reply, inbound };
  const type = `inbound.${outcome}` as const;
  const event = recordEvent({ type, tenant, at: now, data, ...(domain === null ? {} : { domain }) });
  return [logRow(said, now), event];
}

function logRow(said: LoggedReply, now: number): Statement {
  const { tenant, domain, ip, reply, reason, inbound = null } = said;
  const [helo, sender, recipient] = textsOf(said);
  const outcome = outcomeOf(reply);
  const row = { tenant, domain, ip, helo, sender, recipient, outcome, reply, reason, inbound, created_at: now };
  return insertInboundLog({ id: newId('inl', now), ...row });
}

function textsOf({ helo, sender, recipient }: LoggedReply): [helo: string, sender: string, recipient: string] {
  return [helo.slice(0, MAX_LENGTH), sender.slice(0, MAX_LENGTH), recipient.slice(0, MAX_LENGTH)];
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

/**
 * Writes refusals after the answer: nobody waits for them, and mail is refused whether or not the disk has room. What is
 * submitted is of the account that submits it, and makes no event.
 */
export function createRecorder(
  { store, clock, log, counters }: RecorderParts,
  name: 'inbound' | 'submission',
  submitter: string | null = null,
): Recorder {
  return (said) => {
    const now = clock.now();
    const isInbound = name === 'inbound';
    const tenant = isInbound ? {} : { tenant: submitter };
    for (const { ip, sender, recipient, reply, reason } of said) {
      log.info(`${name}.${outcomeOf(reply)}`, { ip, ...tenant, sender, recipient, reply, reason });
      if (isInbound) counters?.recipients.count(outcomeOf(reply));
    }
    store
      .write(said.flatMap((each) => (isInbound ? logReply(each, now) : [logRow({ ...each, ...tenant }, now)])))
      .catch((error: unknown) => log.error(`${name}.log_failed`, errorFields(error)));
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
