/**
 * The alert that tells the operator that mail of this server is not wanted somewhere: because of what we are, not of whom
 * it is for. One a day at most, whether that was said in the dialogue or came back later.
 */
import { sliceAt } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import type { BounceClass } from '../mail/bounce-class.ts';
import type { Failure } from '../queue/transport.ts';
import { systemMail } from '../queue/system-mail.ts';
import { slicesOf, takeSlice } from '../store/limits.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';

export interface PolicyParts {
  readonly store: Store;
  readonly config: () => ServerConfig;
}

export interface NotWanted {
  readonly message: Pick<MessageRow, 'id' | 'kind'>;
  readonly recipient: string;
  /** The other server's words. */
  readonly reply: string;
  readonly when: 'in the dialogue' | 'later';
}

const DAY = 86_400_000;
/** Named as all limits are: by its window, ms, and what it is for. */
const BUCKET = `${DAY}:alert:policy`;
/** What is refused because of this server, its domains or what it sends, and not because of the recipient. */
const ABOUT_US: ReadonlySet<BounceClass> = new Set(['blocked', 'authentication', 'policy', 'spam', 'rate']);
/** Mail that we only pass on says more about its author; an alert to the operator causes no other alert. */
const OWN: ReadonlySet<MessageRow['kind']> = new Set([
  'notification',
  'acknowledgment',
  'confirmation',
  'transactional',
  'reply',
]);

/** The statements that send it, for the unit of what it tells of; none where there was one today. Rejects where the store cannot write. */
export async function policyAlert(
  { message, recipient, reply, when }: NotWanted,
  { store, config }: PolicyParts,
  now: number,
): Promise<Statement[]> {
  if (!OWN.has(message.kind)) return [];
  const window = { bucket: BUCKET, slice: sliceAt(now, DAY), since: now - DAY, max: 1 };
  // While everybody refuses, this is asked for each mail: only the first one of the day costs a write.
  if ((await store.select(slicesOf(window))).length > 0) return [];
  const [taken] = await store.write([takeSlice(window)]);
  if (taken.changes === 0) return [];
  const { hostname, operator: to } = config().server;
  const said = when === 'later' ? `was accepted for ${recipient} and came back` : `to ${recipient} was refused`;
  const text = [
    `Mail of this server ${said}:`,
    '',
    `    ${reply}`,
    '',
    'That is no fault of the address, so nobody was put on a suppression list. As a rule the reason is the reputation of',
    'this server or of the sending domain: look at reverse DNS, SPF, DKIM and DMARC, and at the block list that is named.',
    '',
    `The message: postern queue show ${message.id}`,
    '',
    'You get at most one such alert a day.',
  ].join('\n');
  const subject = `Mail of ${hostname} is refused at ${parseAddress(recipient)?.domain ?? recipient}`;
  return systemMail({ tenant: OPERATOR, to, subject, text }, hostname, now);
}

/** The same for what was said in the dialogue. */
export async function policyAlertFor({ message, recipients, at }: Failure, parts: PolicyParts): Promise<Statement[]> {
  // Where nobody said it, the words are ours.
  const refused = recipients.find(({ host, class: why }) => host !== null && isAboutUs(why));
  if (refused === undefined) return [];
  const { address: recipient, reply } = refused;
  return policyAlert({ message, recipient, reply, when: 'in the dialogue' }, parts, at);
}

/** Whether mail of this class is refused because of us. */
export function isAboutUs(why: BounceClass): boolean {
  return ABOUT_US.has(why);
}
