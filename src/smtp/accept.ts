/**
 * Takes a whole message: judges it, and commits it with all that becomes of it in one unit, many of which share a sync.
 * The reply that says 250 is made after that commit and nowhere else.
 */
import type { Consent } from '../accounts/consent.ts';
import type { Clock } from '../lib/clock.ts';
import { codeOf, errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { enqueue } from '../queue/enqueue.ts';
import { noteDue } from '../store/destinations.ts';
import { insertInbound } from '../store/inbound.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, UnknownOutcomeError, type Store } from '../store/store.ts';
import type { ForwardSource } from './forward-source.ts';
import type { Refusal } from './header-check.ts';
import type { IntakeResult, InboundMessage, Intake, MailAuthenticator, AuthenticationOutcome } from './interfaces.ts';
import type { Chunks } from './chunks.ts';
import type { Accepted } from './recipients.ts';
import { logReply, type Recorder, type SmtpCounters } from './record.ts';

export interface AcceptParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly record: Recorder;
  readonly counters?: SmtpCounters;
  readonly authenticate: MailAuthenticator;
  /** The Received line of a message, with its CRLF. */
  readonly received: (mail: InboundMessage) => string;
  readonly takeBounce: Intake<'bounce'>;
  readonly takeReturned: Intake<'srs'>;
  readonly takeReply: Intake<'reply'>;
  /** How long a forward is tried, ms. */
  readonly ttl: () => number;
  /** Asks the targets of a tenant to agree to its mail, where they have to. Never rejects. */
  readonly ask: Consent['ask'];
  /** There is mail to send. */
  readonly wake: () => void;
}

export type Accept = (mail: InboundMessage, pieces: Chunks) => Promise<string>;

/** The reply to a message whose pieces are settled. Never rejects. */
export function createAccept(parts: AcceptParts): Accept {
  const { store, clock, log, record } = parts;

  async function take(mail: InboundMessage, pieces: Chunks): Promise<string> {
    if (mail.recipients.every(({ kind }) => kind === 'discard')) return discard(mail, pieces);
    const authentication = await parts.authenticate(mail);
    if (authentication.refusal !== undefined) return refuse(mail, pieces, authentication.refusal);
    const handled = await Promise.all(mail.recipients.map((recipient) => handle(mail, recipient, authentication)));
    const refused = handled.find(({ refusal }) => refusal !== undefined)?.refusal;
    if (refused !== undefined) return refuse(mail, pieces, refused);
    const messages = handled.flatMap((each) => each.messages ?? []);
    const needed = messages.length > 0;
    const reply = `250 2.0.0 taken as ${mail.id}`;
    await store.write([
      insertInbound({
        id: mail.id,
        sender: mail.sender,
        recipients: JSON.stringify(mail.recipients.map(({ original }) => original)),
        ip: mail.ip,
        helo: mail.helo,
        tls: mail.tls,
        size: mail.size,
        encoding: mail.encoding,
        trace: parts.received(mail) + authentication.headers,
        verdicts: authentication.verdicts,
        messages: JSON.stringify(messages),
        created_at: mail.at,
      }),
      ...(needed ? pieces.last() : pieces.dropped()),
      ...handled.flatMap(({ rows }) => rows),
      ...told(mail, reply),
      ...duesOf(handled),
    ]);
    parts.counters?.recipients.count('accepted', mail.recipients.length);
    log.info('inbound.accepted', { inbound: mail.id, ip: mail.ip, sender: mail.sender, size: mail.size });
    parts.wake();
    for (const recipient of mail.recipients) {
      if (recipient.kind !== 'forward') continue;
      void parts.ask({ tenant: recipient.tenant, addresses: recipient.targets });
    }
    return reply;
  }

  async function handle(
    mail: InboundMessage,
    recipient: Accepted,
    authentication: AuthenticationOutcome,
  ): Promise<IntakeResult> {
    switch (recipient.kind) {
      case 'forward':
        return forward(mail, recipient);
      case 'discard':
        return { rows: [] };
      case 'bounce':
        return parts.takeBounce(mail, recipient, authentication);
      case 'srs':
        return parts.takeReturned(mail, recipient, authentication);
      case 'reply':
        return parts.takeReply(mail, recipient, authentication);
    }
  }

  function forward(mail: InboundMessage, recipient: Extract<Accepted, { kind: 'forward' }>): IntakeResult {
    const { tenant, domain, targets, original } = recipient;
    const source: ForwardSource = { inbound: mail.id, original, sender: mail.sender };
    const message = { tenant, kind: 'forward', submission: null, domain, source, recipients: targets } as const;
    const { id, rows, dues } = enqueue({ ...message, ttl: parts.ttl() }, clock.now());
    return { rows, dues, messages: [id] };
  }

  async function discard(mail: InboundMessage, pieces: Chunks): Promise<string> {
    const reply = '250 2.0.0 taken';
    await store.write([...pieces.dropped(), ...told(mail, reply)]);
    parts.counters?.recipients.count('accepted', mail.recipients.length);
    log.info('inbound.discarded', { ip: mail.ip, sender: mail.sender, size: mail.size });
    return reply;
  }

  async function refuse(mail: InboundMessage, pieces: Chunks, refusal: Refusal): Promise<string> {
    const { reply, reason } = refusal;
    record(mail.recipients.map((recipient) => ({ ...whose(mail, recipient), reply, reason })));
    if (isDroppable(refusal)) await drop(pieces);
    return reply;
  }

  /** What cannot be dropped now is swept later. */
  async function drop(pieces: Chunks): Promise<void> {
    const unit = pieces.dropped();
    if (unit.length === 0) return;
    await store.write(unit).catch((error: unknown) => log.warn('inbound.cleanup_failed', errorFields(error)));
  }

  function told(mail: InboundMessage, reply: string): Statement[] {
    return mail.recipients.flatMap((recipient) => {
      const inbound = recipient.kind === 'discard' ? undefined : mail.id;
      return logReply({ ...whose(mail, recipient), reply, reason: recipient.kind, inbound }, mail.at);
    });
  }

  return async (mail, pieces) => {
    try {
      return await take(mail, pieces);
    } catch (error) {
      log.error('inbound.failed', { inbound: mail.id, ...errorFields(error) });
      return refuse(mail, pieces, storeRefusal(error));
    }
  };
}

/** The mail may be in the queue all the same: what is stored of it stays. */
const OUTCOME_UNKNOWN: Refusal = {
  reply: '451 4.3.0 the database did not confirm the mail: send it again',
  reason: 'outcome_unknown',
};

/** Whether what has come of the mail can be dropped: it is surely not accepted. */
export function isDroppable(refusal: Refusal): boolean {
  return refusal !== OUTCOME_UNKNOWN;
}

/** What a client hears of a store that cannot write: it keeps the mail. */
export function storeRefusal(error: unknown): Refusal {
  if (error instanceof UnknownOutcomeError) return OUTCOME_UNKNOWN;
  const isFull = error instanceof StoreError && /^(?:SQLITE_FULL|53100|ENOSPC)/.test(codeOf(error) ?? '');
  return isFull
    ? { reply: '452 4.3.1 there is no room for mail just now', reason: 'disk_full' }
    : { reply: '451 4.3.0 mail cannot be stored just now', reason: 'store_failed' };
}

function whose({ ip, helo, sender }: InboundMessage, { tenant, domain, original }: Accepted) {
  return { ip, helo, sender, recipient: original, tenant, domain };
}

/** Rows that many messages share, in one order and last (queue/enqueue). */
function duesOf(handled: readonly IntakeResult[]): Statement[] {
  const dues = new Map<string, number>();
  for (const { name, due } of handled.flatMap((each) => each.dues ?? []))
    dues.set(name, Math.min(due, dues.get(name) ?? Infinity));
  return [...dues].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, due]) => noteDue({ name, due }));
}
