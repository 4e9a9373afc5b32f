/** What a bounce means for a delivery of ours: whether it ends it, and which one it is about. */
import { parseAddress } from '../lib/addresses.ts';

import type { ReportedRecipient } from '../mail/report-shapes.ts';
import type { DeliveryRow } from '../store/tables.ts';

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
