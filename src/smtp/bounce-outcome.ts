/** What a delivery report means for a delivery of ours: which one it is about, whether it failed, and the rows that say so. */
import type { ReportedRecipient } from '../mail/report-shapes.ts';
import { insertAttempt, bounceDelivery } from '../store/deliveries.ts';
import { complaintsOf, recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { findSuppression, suppress } from '../store/suppressions.ts';
import type { DeliveryRow, MessageRow } from '../store/tables.ts';
import { parseAddress } from '../lib/addresses.ts';

/** A delivery that came back after all. */
export interface LateBounce extends Tied {
  readonly message: MessageRow;
  readonly reported: ReportedRecipient;
}

/** The statements that make it bounced; unmet where it is no longer delivered. */
export function bounced({ delivery, named, message, reported }: LateBounce, now: number): Statement[] {
  const reply = replyOf(reported);
  const words = { reply, host: reported.remote === '' ? null : reported.remote, address: null, tls: null };
  const number = delivery.attempts + 1;
  const isOver = named && reported.meaning.suppress && isProgram(message);
  const { tenant, recipient: address } = delivery;
  return [
    bounceDelivery({ id: delivery.id, reply, at: now }, 1),
    insertAttempt({ delivery: delivery.id, number, at: now, ...words, outcome: 'bounced' }),
    eventOf(
      'email.bounced',
      { message, delivery, now },
      {
        state: 'bounced',
        ...words,
        class: reported.meaning.class,
        attempt: number,
        late: true,
      },
    ),
    ...(isOver ? [suppress({ tenant, address, reason: 'bounce', created_at: now })] : []),
  ];
}

/** RFC 5965 §7.3 and its registry: the recipient does not want it. */
export function isComplaint(feedback: string): boolean {
  return ['abuse', 'fraud', 'opt-out', 'opt-out-list'].includes(feedback);
}

/** The statements that say a recipient called it spam; none where he has said so before. */
export async function complained(
  store: Store,
  { message, delivery }: { message: MessageRow; delivery: DeliveryRow },
  now: number,
): Promise<Statement[]> {
  const { tenant, recipient: address } = delivery;
  const known = await complaintsOf(store, [message.id]);
  if (known.has(message.id) && (await findSuppression(store, tenant, address)) !== undefined) return [];
  return [
    eventOf('email.complained', { message, delivery, now }, {}),
    suppress({ tenant, address, reason: 'complaint', created_at: now }),
  ];
}

/** Whose recipients may be suppressed; an owner's leads must not end at a slip of his own server. */
function isProgram({ kind, environment }: MessageRow): boolean {
  return environment === 'live' && (kind === 'transactional' || kind === 'acknowledgment');
}

interface About {
  readonly message: MessageRow;
  readonly delivery: DeliveryRow;
  readonly now: number;
}

function eventOf(
  type: 'email.bounced' | 'email.complained',
  { message, delivery, now }: About,
  more: Readonly<Record<string, unknown>>,
): Statement {
  return recordEvent({
    type,
    tenant: delivery.tenant,
    at: now,
    data: { delivery: delivery.id, recipient: delivery.recipient, ...more },
    message: message.id,
    domain: message.domain,
    ...(message.submission === null ? {} : { submission: message.submission }),
  });
}

/** Whether it says that mail will not arrive; a delay is none of our business. */
export function isFailure({ action, status }: ReportedRecipient): boolean {
  return action === 'failed' || (action === '' && status.startsWith('5'));
}

export interface Tied {
  readonly delivery: DeliveryRow;
  /** It names the address that we sent to: no alias with others behind it. */
  readonly named: boolean;
}

/** The delivery that is meant; undefined where it could be several. */
export function tie(deliveries: readonly DeliveryRow[], addresses: readonly string[]): Tied | undefined {
  const known = new Set(addresses.flatMap((text) => parseAddress(text)?.address.toLowerCase() ?? []));
  const named = deliveries.find(({ recipient }) => known.has(recipient.toLowerCase()));
  if (named !== undefined) return { delivery: named, named: true };
  const [only, ...others] = deliveries;
  if (only === undefined || others.length > 0) return undefined;
  return { delivery: only, named: known.size === 0 };
}

/** The words that the delivery is left with: `550 5.1.1 …`. */
export function replyOf({ status, diagnostic }: ReportedRecipient): string {
  if (/^[45]\d\d[ -]/.test(diagnostic)) return diagnostic;
  return `550 ${status === '' ? '5.0.0' : status} ${diagnostic === '' ? 'it came back' : diagnostic}`;
}
