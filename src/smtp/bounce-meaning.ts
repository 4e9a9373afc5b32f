/** What a bounce means for a delivery of ours: which one it is about, and whose fault it was. */
import { parseAddress } from '../lib/addresses.ts';
import type { ReportedRecipient } from '../mail/report.ts';
import type { DeliveryRow } from '../store/tables.ts';

export type Fault =
  /** There is no such mailbox: the address is good for nothing. */
  | 'mailbox'
  /** They do not want mail from us, or of this kind. */
  | 'policy'
  /** It is full, or their server's mood: another day it may work. */
  | 'other';

/** RFC 3463: no such mailbox or domain, one that cannot be, moved, takes no mail (RFC 7505), disabled. */
const MAILBOX = new Set(['5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1']);

/** Of servers that give no status, the words for the same. */
const NO_MAILBOX =
  /\b(?:no such (?:user|mailbox|recipient|person|address|account)|(?:user|recipient|mailbox|address|account) (?:is )?(?:unknown|not found|(?:does not|doesn't) exist)|(?:unknown|invalid) (?:user|recipient|mailbox)|no mailbox here by that name)\b/i;

/** Of servers that give another status, or none, the words for a block list. */
const BLOCKED =
  /\b(?:block ?list(?:ed)?|blacklist(?:ed)?|dnsbl|rbl|blocked using|poor reputation|bad reputation|spamhaus|barracudacentral|spamcop)\b/i;

/** Whether a reply (`554 5.7.1 …`) says for good that they do not want mail from us, or of this kind. */
export function isPolicy(reply: string): boolean {
  return /^5\d\d[ -]5\.7\.\d/.test(reply) || (reply.startsWith('5') && BLOCKED.test(reply));
}

/** Whose fault it was that this recipient never got it. */
export function faultOf({ status, diagnostic }: Pick<ReportedRecipient, 'status' | 'diagnostic'>): Fault {
  if (MAILBOX.has(status)) return 'mailbox';
  if (status.startsWith('5.7.') || BLOCKED.test(diagnostic)) return 'policy';
  return (status === '' || status === '5.0.0') && NO_MAILBOX.test(diagnostic) ? 'mailbox' : 'other';
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
