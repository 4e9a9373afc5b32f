/**
 * Mail that comes back to an address which only we could have made. A report about what we forwarded goes on to the one who
 * sent that, with the null sender that it has, where SPF or DKIM had vouched for him; all else is kept in the unit that
 * takes it, to be read. Nothing answers it, whatever it is, so that no two servers talk to each other.
 *
 * Whoever gets forwarded mail learns the address, and may write to it: it takes reports alone, and a few a day.
 */
import type { Limits } from '../accounts/rate-limits.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { readAuthResults } from '../mail/auth-results.ts';
import { isReport } from '../mail/automatic.ts';
import { fieldsOf, splitHeader } from '../mail/header.ts';
import { MAX_REPORT_BYTES } from '../mail/report.ts';
import { SRS_VALID_MS } from '../mail/own-addresses.ts';
import { noteFailedNotification } from '../store/form-options.ts';
import { insertBounce, findInbound, claimBounce, deleteBounce, postponeBounce } from '../store/inbound.ts';
import type { Report, ReportedRecipient } from '../mail/report-parts.ts';
import { eventOf, suppressesGone } from '../queue/results.ts';
import { complaintsOf } from '../store/events.ts';
import { bounceDelivery, deliveriesOfMessage, findMessage, insertAttempt } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { findSuppression, suppress } from '../store/suppressions.ts';
import type { BounceRow, DeliveryRow, MessageRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import { enqueueForward, type Intake, type IntakeResult } from './accept.ts';
import { readForward } from './forward-source.ts';
import { isAboutUs, policyAlert, type PolicyParts } from './alerts.ts';
import type { InboundMessage } from './receive.ts';
import { decideRecipient, type Directory } from './recipients.ts';
import type { ReportReader } from './report-reader.ts';

export interface BounceParts {
  readonly store: Store;
  /** Counts the reports for each sender. */
  readonly limits: Pick<Limits, 'take'>;
  /** As of now: a sender may be one of ours. */
  readonly directory: () => Directory;
  /** How long it is tried, ms. */
  readonly ttl: () => number;
}

const MAX_REPORTS = { count: 5, windowMs: 86_400_000 };

export function createBounces({ store, limits, directory, ttl }: BounceParts): {
  readonly takeBounce: Intake<'bounce'>;
  readonly takeReturned: Intake<'srs'>;
} {
  /** Where mail for this address is to be sent, and by whose word: it is ours to forward where the domain is. */
  function targetsOf(address: string): { readonly tenant: string; readonly recipients: readonly string[] } {
    const decision = decideRecipient(address, '', directory());
    if (decision.kind === 'forward') return { tenant: decision.tenant, recipients: decision.targets };
    const isForeign = decision.kind === 'refuse' && decision.domain === null && parseAddress(address) !== undefined;
    return { tenant: OPERATOR, recipients: isForeign ? [address] : [] };
  }

  async function passOn(mail: InboundMessage, original: string, sender: string): Promise<IntakeResult> {
    const { tenant, recipients } = targetsOf(sender);
    if (recipients.length === 0) return {};
    const { header } = await splitHeader(mail.pieces());
    if (mail.sender !== '' || !isReport(fieldsOf(header))) {
      const reply = '550 5.7.1 this address accepts only delivery reports from the null sender';
      return { refusal: { reply, reason: 'not_a_report' } };
    }
    const room = await limits.take(`returned:${sender.toLowerCase()}`, MAX_REPORTS);
    if (!room.allowed) {
      const reply = '550 5.7.1 too many delivery reports for this address today';
      return { refusal: { reply, reason: 'rate_limited' } };
    }
    const domain = directory().snapshot.server.server.hostname;
    const about = { tenant, domain, recipients, ttl: ttl(), subject: mail.subject };
    return enqueueForward({ inbound: mail.id, original, sender: '' }, about, mail.at);
  }

  /** The one who sent what is forwarded by this message, where he did. */
  async function vouchedSender({ source }: MessageRow): Promise<string | undefined> {
    const { inbound: id, sender } = readForward(source);
    const inbound = sender === '' ? undefined : await findInbound(store, id);
    return inbound !== undefined && readAuthResults(inbound.verdicts).vouched ? sender : undefined;
  }

  return {
    takeReturned: (mail, { original, sender }) => passOn(mail, original, sender),
    async takeBounce(mail, { message: id, original }) {
      const message = await findMessage(store, id);
      if (message === undefined) return {};
      if (message.kind === 'forward') {
        // It holds no longer than an SRS address.
        if (mail.at - message.created_at > SRS_VALID_MS) return {};
        // Of a sender whose address has no SRS form.
        const sender = await vouchedSender(message);
        if (sender !== undefined) return passOn(mail, original, sender);
      }
      const head = await headOf(mail);
      return {
        rows: [insertBounce({ inbound: mail.id, message: id, head, tries: 0, due: mail.at, created_at: mail.at })],
      };
    },
  };
}

async function headOf(mail: InboundMessage): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of mail.pieces()) {
    pieces.push(piece);
    size += piece.length;
    if (size >= MAX_REPORT_BYTES) break;
  }
  return Buffer.concat(pieces).subarray(0, MAX_REPORT_BYTES);
}

export interface ReadingParts extends PolicyParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly reader: ReportReader<Report>;
  /** There is mail to send. */
  readonly wake: () => void;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** When reading is begun again that never ended. */
export const BOUNCE_LEASE = 5 * MINUTE;
const MAX_TRIES = 3;
const MAX_AT_ONCE = 1000;

/** What a report is about. */
interface Case {
  readonly row: BounceRow;
  readonly message: MessageRow;
  readonly deliveries: readonly DeliveryRow[];
}

/**
 * Answers the job that reads what is due, and lets it count: the delivery that seemed to have arrived has bounced, an address
 * without a mailbox gets no more mail of its tenant, and a complaint ends it at once. Automatic answers count for nothing.
 * What it means and that it was read are one unit, so that it counts once.
 */
export function createBounceReading(parts: ReadingParts): () => Promise<void> {
  const { store, clock, log, reader } = parts;

  async function readOne(row: BounceRow): Promise<void> {
    const message = await findMessage(store, row.message);
    if (message === undefined) return forget(row, 'message_gone');
    const report = await reader.read(row.head);
    if (report === undefined) {
      log.warn('bounce.unreadable', { inbound: row.inbound, message: row.message, tries: row.tries });
      return row.tries < MAX_TRIES ? undefined : forget(row, 'unreadable');
    }
    // Not before: while the report was read the word of the server that took the mail may have been written down.
    const deliveries = await deliveriesOfMessage(store, message.id);
    const unit = await consequences(report, { row, message, deliveries });
    if (unit === 'later') return postpone(row);
    if (unit.length === 0) return forget(row, report.kind);
    const { inbound } = row;
    await store.write([deleteBounce({ inbound, message: message.id }, 1), ...unit]);
    log.info('bounce.recorded', { inbound, message: message.id, kind: report.kind });
    parts.wake();
  }

  async function bounces(recipients: readonly ReportedRecipient[], { row, message, deliveries }: Case) {
    const late = new Map<string, LateBounce>();
    const now = clock.now();
    for (const reported of recipients.filter(isFailure)) {
      const found = deliveryMeant(deliveries, [reported.original, reported.address]);
      if (found === undefined) continue;
      const { id, state } = found.delivery;
      // It came back before the reply of the server that took it was written down.
      const isOpen = state === 'queued' || state === 'sending' || state === 'deferred';
      if (isOpen && now - row.created_at < DAY) return 'later';
      if (state === 'delivered' && !late.has(id)) late.set(id, { ...found, reported });
    }
    const unit = [...late.values()].flatMap((each) => bounced(each, message, now));
    if (late.size > 0) unit.push(...noteFailedNotification({ message, at: now }));
    const policy = [...late.values()].find(({ reported }) => isAboutUs(reported.meaning.class));
    if (policy === undefined) return unit;
    const { recipient } = policy.delivery;
    await policyAlert({ message, recipient, reply: replyOf(policy.reported), when: 'later' }, parts, now);
    return unit;
  }

  async function complaints(recipients: readonly string[], { message, deliveries }: Case) {
    const named = recipients.length === 0 ? [''] : recipients;
    const found = named.flatMap((address) => deliveryMeant(deliveries, [address]) ?? []);
    const distinct = new Map(found.map(({ delivery }) => [delivery.id, delivery]));
    const units = Array.from(distinct.values(), (delivery) => complained(delivery, message));
    return (await Promise.all(units)).flat();
  }

  /** The statements that say a recipient called it spam; none where he has said so before. */
  async function complained(row: DeliveryRow, message: MessageRow): Promise<Statement[]> {
    const { tenant, recipient: address } = row;
    const known = await complaintsOf(store, [message.id]);
    if (known.has(message.id) && (await findSuppression(store, { tenant, address, form: '' })) !== undefined) return [];
    const now = clock.now();
    const complaint = suppress({ tenant, address, reason: 'complaint', created_at: now });
    return [...eventOf({ row, message, now }, 'email.complained', {}), complaint];
  }

  function consequences(report: Report, about: Case) {
    if (report.kind === 'bounce') return bounces(report.recipients, about);
    return report.kind === 'complaint' && UNWANTED.has(report.feedback) ? complaints(report.recipients, about) : [];
  }

  /** A minute later, then after as long again as it has waited. */
  async function postpone({ inbound, message, created_at }: BounceRow): Promise<void> {
    const now = clock.now();
    await store.write([postponeBounce({ inbound, message, due: now + Math.max(MINUTE, now - created_at) })]);
  }

  async function forget({ inbound, message }: BounceRow, reason: string): Promise<void> {
    await store.write([deleteBounce({ inbound, message })]);
    log.info('bounce.ignored', { inbound, message, reason });
  }

  return async () => {
    try {
      for (let count = 0; count < MAX_AT_ONCE; count++) {
        const now = clock.now();
        const row = await claimBounce(store, { now, until: now + BOUNCE_LEASE });
        if (row === undefined) return;
        await (row.tries > MAX_TRIES ? forget(row, 'unreadable') : readOne(row)).catch((error: unknown) => {
          // Somebody else has read it, or counted another one of the same delivery: it is looked at again.
          if (!(error instanceof UnmetError)) throw error;
          log.warn('bounce.failed', { inbound: row.inbound, message: row.message, ...errorFields(error) });
        });
      }
    } finally {
      await reader.close();
    }
  };
}

/** RFC 5965 §7.3 and its registry: the recipient does not want it. */
const UNWANTED: ReadonlySet<string> = new Set(['abuse', 'fraud', 'opt-out', 'opt-out-list']);

/**
 * The delivery that is meant; undefined where it could be several. `named`: by the address that we sent to, which is no alias
 * with others behind it.
 */
function deliveryMeant(deliveries: readonly DeliveryRow[], addresses: readonly string[]) {
  const known = new Set(addresses.flatMap((text) => parseAddress(text)?.address.toLowerCase() ?? []));
  const delivery = deliveries.find(({ recipient }) => known.has(recipient.toLowerCase()));
  if (delivery !== undefined) return { delivery, named: true };
  const [only, ...rest] = deliveries;
  return only === undefined || rest.length > 0 ? undefined : { delivery: only, named: known.size === 0 };
}

/** A delivery that came back after all. */
type LateBounce = NonNullable<ReturnType<typeof deliveryMeant>> & { readonly reported: ReportedRecipient };

/** The statements that make it bounced; unmet where it is no longer delivered. */
function bounced({ delivery, named, reported }: LateBounce, message: MessageRow, now: number): Statement[] {
  const { id, tenant, recipient: address, attempts } = delivery;
  const { class: why, suppress: isGone } = reported.meaning;
  const reply = replyOf(reported);
  const words = { reply, host: reported.remote === '' ? null : reported.remote, address: null, tls: null };
  const attempt = attempts + 1;
  const about = { row: delivery, message, now };
  return [
    bounceDelivery({ id, reply, at: now }, 1),
    insertAttempt({ delivery: id, number: attempt, at: now, ...words, outcome: 'bounced' }),
    ...eventOf(about, 'email.bounced', { state: 'bounced', ...words, class: why, attempt, late: true }),
    ...(named && isGone && suppressesGone(message)
      ? [suppress({ tenant, address, reason: 'bounce', created_at: now })]
      : []),
  ];
}

/** Whether it says that mail will not arrive; a delay does not matter. */
export function isFailure({ action, status }: ReportedRecipient): boolean {
  return action === 'failed' || (action === '' && status.startsWith('5'));
}

/** The words that the delivery is left with: `550 5.1.1 …`. */
function replyOf({ status, diagnostic }: ReportedRecipient): string {
  if (/^[45]\d\d[ -]/.test(diagnostic)) return diagnostic;
  return `550 ${status === '' ? '5.0.0' : status} ${diagnostic === '' ? 'the message was returned' : diagnostic}`;
}
