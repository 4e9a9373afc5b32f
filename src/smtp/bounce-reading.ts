/**
 * Reads what came back to our return paths, and lets it count: the delivery that seemed to have arrived has bounced, an
 * address without a mailbox gets no more mail of its tenant, and a complaint ends it at once. Automatic answers count for
 * nothing. What it means and that it was read are one unit, so that it counts once.
 */
import type { ServerConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';

import type { Report, ReportedRecipient } from '../mail/report-parts.ts';
import { insertAttempt, deliveriesOfMessage, bounceDelivery } from '../store/deliveries.ts';
import { claimBounce, deleteBounce, postponeBounce } from '../store/inbound.ts';

import type { BounceRow, DeliveryRow, MessageRow } from '../store/tables.ts';

import { findMessage } from '../store/messages.ts';
import type { Statement } from '../store/statement.ts';
import { UnmetError, type Store } from '../store/store.ts';

import { complaintsOf, recordEvent } from '../store/events.ts';

import { findSuppression, suppress } from '../store/suppressions.ts';

import { isAboutUs, policyAlert } from './policy-alert.ts';
import type { ReportReader } from './report-reader.ts';

export interface ReadingParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly reader: ReportReader;
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

/** Answers the job that reads what is due. */
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
      if (state === 'delivered' && !late.has(id)) late.set(id, { ...found, message, reported });
    }
    const unit = [...late.values()].flatMap((each) => bounced(each, now));
    const policy = [...late.values()].find(({ reported }) => isAboutUs(reported.meaning.class));
    if (policy === undefined) return unit;
    const { recipient } = policy.delivery;
    const notWanted = { message, recipient, reply: replyOf(policy.reported), when: 'later' } as const;
    return [...unit, ...(await policyAlert(notWanted, parts, now))];
  }

  async function complaints(recipients: readonly string[], { message, deliveries }: Case) {
    const named = recipients.length === 0 ? [''] : recipients;
    const found = named.flatMap((address) => deliveryMeant(deliveries, [address]) ?? []);
    const distinct = new Map(found.map(({ delivery }) => [delivery.id, delivery]));
    const units = Array.from(distinct.values(), (delivery) => complained(store, { message, delivery }, clock.now()));
    return (await Promise.all(units)).flat();
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

  async function next(): Promise<boolean> {
    const now = clock.now();
    const row = await claimBounce(store, { now, until: now + BOUNCE_LEASE });
    if (row === undefined) return false;
    if (row.tries > MAX_TRIES) {
      await forget(row, 'unreadable');
      return true;
    }
    try {
      await readOne(row);
    } catch (error) {
      // Somebody else has read it, or counted another one of the same delivery: it is looked at again.
      if (!(error instanceof UnmetError)) throw error;
      log.warn('bounce.failed', { inbound: row.inbound, message: row.message, ...errorFields(error) });
    }
    return true;
  }

  return async () => {
    try {
      for (let count = 0; count < MAX_AT_ONCE && (await next()); count++);
    } finally {
      await reader.close();
    }
  };
}

/** RFC 5965 §7.3 and its registry: the recipient does not want it. */
const UNWANTED: ReadonlySet<string> = new Set(['abuse', 'fraud', 'opt-out', 'opt-out-list']);

interface DeliveryMeant {
  readonly delivery: DeliveryRow;
  /** It names the address that we sent to: no alias with others behind it. */
  readonly named: boolean;
}

/** The delivery that is meant; undefined where it could be several. */
function deliveryMeant(deliveries: readonly DeliveryRow[], addresses: readonly string[]): DeliveryMeant | undefined {
  const known = new Set(addresses.flatMap((text) => parseAddress(text)?.address.toLowerCase() ?? []));
  const delivery = deliveries.find(({ recipient }) => known.has(recipient.toLowerCase()));
  if (delivery !== undefined) return { delivery, named: true };
  const [only, ...others] = deliveries;
  return only === undefined || others.length > 0 ? undefined : { delivery: only, named: known.size === 0 };
}

/** A delivery that came back after all. */
interface LateBounce extends DeliveryMeant {
  readonly message: MessageRow;
  readonly reported: ReportedRecipient;
}

/** The statements that make it bounced; unmet where it is no longer delivered. */
function bounced({ delivery, named, message, reported }: LateBounce, now: number): Statement[] {
  const { id, tenant, recipient: address, attempts } = delivery;
  const { kind, environment } = message;
  const reply = replyOf(reported);
  const words = { reply, host: reported.remote === '' ? null : reported.remote, address: null, tls: null };
  const attempt = attempts + 1;
  // An owner's notifications must not end because of a mistake of the owner's server.
  const isProgram = environment === 'live' && (kind === 'transactional' || kind === 'acknowledgment');
  const data = { state: 'bounced', ...words, class: reported.meaning.class, attempt, late: true };
  return [
    bounceDelivery({ id, reply, at: now }, 1),
    insertAttempt({ delivery: id, number: attempt, at: now, ...words, outcome: 'bounced' }),
    eventOf('email.bounced', { message, delivery }, { at: now, data }),
    ...(named && reported.meaning.suppress && isProgram
      ? [suppress({ tenant, address, reason: 'bounce', created_at: now })]
      : []),
  ];
}

/** The statements that say a recipient called it spam; none where he has said so before. */
async function complained(
  store: Store,
  about: Pick<LateBounce, 'message' | 'delivery'>,
  now: number,
): Promise<Statement[]> {
  const { id } = about.message;
  const { tenant, recipient: address } = about.delivery;
  const known = await complaintsOf(store, [id]);
  if (known.has(id) && (await findSuppression(store, tenant, address)) !== undefined) return [];
  return [
    eventOf('email.complained', about, { at: now, data: {} }),
    suppress({ tenant, address, reason: 'complaint', created_at: now }),
  ];
}

function eventOf(
  type: 'email.bounced' | 'email.complained',
  { message: { id: message, domain, submission }, delivery }: Pick<LateBounce, 'message' | 'delivery'>,
  { at, data }: { readonly at: number; readonly data: object },
): Statement {
  const { id, tenant, recipient } = delivery;
  const about = { message, domain, ...(submission === null ? {} : { submission }) };
  return recordEvent({ type, tenant, at, data: { delivery: id, recipient, ...data }, ...about });
}

/** Whether it says that mail will not arrive; a delay does not matter. */
export function isFailure({ action, status }: ReportedRecipient): boolean {
  return action === 'failed' || (action === '' && status.startsWith('5'));
}

/** The words that the delivery is left with: `550 5.1.1 …`. */
function replyOf({ status, diagnostic }: ReportedRecipient): string {
  if (/^[45]\d\d[ -]/.test(diagnostic)) return diagnostic;
  return `550 ${status === '' ? '5.0.0' : status} ${diagnostic === '' ? 'it came back' : diagnostic}`;
}
