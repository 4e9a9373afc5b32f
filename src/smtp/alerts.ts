/**
 * Alerts to the operator about what other mail servers say: that mail of this server is not wanted somewhere, because of what
 * we are, not of whom it is for, whether that was said in the dialogue or came back later; that the smarthost fails; and that no
 * mail server can be reached from one of several machines. Each is sent once a day at most.
 */
import type { ServerConfig } from '../config/schema.ts';
import { parseAddress } from '../lib/addresses.ts';
import { isoTime } from '../lib/clock.ts';
import type { BounceClass } from '../mail/bounce-class.ts';
import type { RelayPause } from '../queue/destinations.ts';
import { alertOperator } from '../queue/system-mail.ts';
import type { Failure } from '../queue/transport.ts';
import { readRelay } from '../smtp-client/route.ts';
import type { Store } from '../store/store.ts';
import type { MessageRow } from '../store/tables.ts';

export interface PolicyParts {
  readonly store: Store;
  readonly config: () => ServerConfig;
}

interface NotWanted {
  readonly message: Pick<MessageRow, 'id' | 'kind'>;
  readonly recipient: string;
  /** The other server's words. */
  readonly reply: string;
  readonly when: 'in the dialogue' | 'later';
}

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

/** Tells the operator that mail of this server is refused, unless it did so today. Rejects where the store cannot be used. */
export async function policyAlert(
  { message, recipient, reply, when }: NotWanted,
  { store, config }: PolicyParts,
  now: number,
): Promise<void> {
  if (!OWN.has(message.kind)) return;
  const { server } = config();
  const said = when === 'later' ? `was accepted for ${recipient} and then returned` : `to ${recipient} was refused`;
  const text = [
    `Mail from this server ${said}:`,
    '',
    `    ${reply}`,
    '',
    'The recipient address is not at fault and was not added to a suppression list. The usual reason is the reputation of',
    'this server or of the sending domain: check reverse DNS, SPF, DKIM and DMARC, and any block list named above.',
    '',
    `To see the message: postern queue show ${message.id}`,
  ].join('\n');
  const subject = `Mail from ${server.hostname} is refused by ${parseAddress(recipient)?.domain ?? recipient}`;
  await alertOperator(store, { name: 'refused', subject, text, days: 1 }, { ...server, now });
}

/** The same for what was said in the dialogue. */
export async function policyAlertFor({ message, recipients, at }: Failure, parts: PolicyParts): Promise<void> {
  // Where nobody said it, the words are ours.
  const refused = recipients.find(({ host, class: why }) => host !== null && isAboutUs(why));
  if (refused === undefined) return;
  const { address: recipient, reply } = refused;
  await policyAlert({ message, recipient, reply, when: 'in the dialogue' }, parts, at);
}

/** Whether mail of this class is refused because of us. */
export function isAboutUs(why: BounceClass): boolean {
  return ABOUT_US.has(why);
}

/**
 * Tells the operator that the smarthost fails, so that all mail waits: with the second pause in a row, because a restart of
 * the smarthost is over by then. Where mail to the operator needs the smarthost too, it waits with the rest. Rejects where the store cannot be used.
 */
export async function relayAlert(
  { pauses, reply, until, at }: RelayPause,
  { store, config }: { readonly store: Store; readonly config: ServerConfig },
): Promise<void> {
  const { relay } = config.delivery;
  if (relay === null || pauses < 2) return;
  const { hostname } = config.server;
  const { host, port } = readRelay(relay);
  const text = [
    `${hostname} cannot send mail through its smarthost ${host}, port ${port}:`,
    '',
    `    ${reply}`,
    '',
    `All mail is waiting in the queue, and nothing has bounced. The next attempt is at ${isoTime(until)}.`,
    '',
    'Check `delivery.relay` in server.yml: host, port, user name and password. To see what the smarthost replies now:',
    '',
    '    postern doctor',
    '',
    'After a change to server.yml, or with `postern queue retry`, mail is retried at once.',
  ].join('\n');
  const subject = `${hostname} cannot send mail: the smarthost is failing`;
  await alertOperator(store, { name: 'relay', subject, text, days: 1 }, { ...config.server, now: at });
}

export interface LostRoute {
  /** The name of the machine. */
  readonly machine: string;
  /** What the last failure was. */
  readonly reply: string;
  readonly at: number;
}

/** Sends it; another machine delivers it. Rejects where the store cannot be used. */
export async function routeAlert(
  { machine, reply, at }: LostRoute,
  { store, config }: { readonly store: Store; readonly config: ServerConfig },
): Promise<void> {
  const text = [
    `${machine} cannot reach any mail server. The last attempt ended with:`,
    '',
    `    ${reply}`,
    '',
    'It no longer claims mail from the queue. The other machines deliver it, and nothing has bounced.',
    '',
    'Check its network, its firewall for outgoing connections to port 25, and its DNS resolver. On this machine:',
    '',
    '    postern doctor',
    '',
    'It retries with one message every 30 seconds, and resumes when a mail server answers.',
  ].join('\n');
  const subject = `${machine} cannot reach any mail server`;
  await alertOperator(store, { name: `no_route ${machine}`, subject, text, days: 1 }, { ...config.server, now: at });
}
