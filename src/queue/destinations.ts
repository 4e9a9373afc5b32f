/** What the queue knows of a destination by its name: whether it is a webhook, is reached by the smarthost, is a big receiver. */
import type { ServerConfig } from '../config/schema.ts';
import { SANDBOX } from './sandbox.ts';

/** Whether deliveries to this destination are posted to a webhook: its id has an underscore, and no domain has one there. */
export function isWebhook(destination: string): boolean {
  return destination.startsWith('whk_');
}

// The smarthost. All mail waits for it together while it cannot be reached or takes nothing from us; after each pause one
// message finds out. No destination is blamed, and nothing bounces for it.

/** Everything waits for the smarthost: it is asked more often than a destination, ms. */
const MAX_PAUSE_MS = 15 * 60_000;

/** The table of its pauses: the operator's (`delivery.retry`), without the long steps. */
export function relayTable(table: readonly number[]): readonly number[] {
  return table.map((delay) => Math.min(delay, MAX_PAUSE_MS));
}

/** Destinations whose mail does not leave through the smarthost; undefined where there is none. */
export function besideRelay({ delivery }: Pick<ServerConfig, 'delivery'>): readonly string[] | undefined {
  return delivery.relay === null ? undefined : [SANDBOX, ...Object.keys(delivery.routes)];
}

/** Whether mail for the destination leaves through the smarthost. */
export function isRelayed(config: Pick<ServerConfig, 'delivery'>, destination: string): boolean {
  return !isWebhook(destination) && besideRelay(config)?.includes(destination) === false;
}

/** Why the smarthost is paused, and for how long. */
export interface RelayPause {
  /** How often it was paused in a row, from 1. */
  readonly pauses: number;
  readonly reply: string;
  /** Until when, and when that was decided, ms. */
  readonly until: number;
  readonly at: number;
}

/** Is told before the pause is written. Rejects where the store cannot be used. */
export type OnRelayPause = (pause: RelayPause) => Promise<void>;

// The big receivers of mail, by their MX hosts: few names, so that figures by receiver stay few, whoever mail is for.

/** Ends of the names of their MX hosts, and of the domains of their own mailboxes. */
const RECEIVERS = {
  'amazonaws.com': 'amazon',
  'awsapps.com': 'amazon',
  'icloud.com': 'apple',
  'me.com': 'apple',
  'mac.com': 'apple',
  'apple.com': 'apple',
  'messagingengine.com': 'fastmail',
  'fastmail.com': 'fastmail',
  'gmx.net': 'gmx',
  'gmx.de': 'gmx',
  'gmx.at': 'gmx',
  'gmx.ch': 'gmx',
  'web.de': 'gmx',
  'mail.com': 'gmx',
  'google.com': 'google',
  'googlemail.com': 'google',
  'gmail.com': 'google',
  'psmtp.com': 'google',
  'kundenserver.de': 'ionos',
  'ionos.com': 'ionos',
  'ionos.de': 'ionos',
  'perfora.net': 'ionos',
  'mail.ru': 'mailru',
  'outlook.com': 'microsoft',
  'hotmail.com': 'microsoft',
  'live.com': 'microsoft',
  'msn.com': 'microsoft',
  'mx.microsoft': 'microsoft',
  'mimecast.com': 'mimecast',
  'mimecast.co.za': 'mimecast',
  'orange.fr': 'orange',
  'wanadoo.fr': 'orange',
  'ovh.net': 'ovh',
  'ovh.ca': 'ovh',
  'pphosted.com': 'proofpoint',
  'ppe-hosted.com': 'proofpoint',
  'protonmail.ch': 'proton',
  'proton.me': 'proton',
  'protonmail.com': 'proton',
  't-online.de': 'telekom',
  'magenta.de': 'telekom',
  'yahoodns.net': 'yahoo',
  'yahoo.com': 'yahoo',
  'aol.com': 'yahoo',
  'ymail.com': 'yahoo',
  'yandex.net': 'yandex',
  'yandex.ru': 'yandex',
  'zoho.com': 'zoho',
  'zoho.eu': 'zoho',
} as const;

export type Receiver = (typeof RECEIVERS)[keyof typeof RECEIVERS] | 'other' | 'webhook';

const BY_SUFFIX: ReadonlyMap<string, Receiver> = new Map(Object.entries(RECEIVERS));

/** Who takes the mail of this destination; `host` is the MX host that was reached, or would be. */
export function receiverOf(destination: string, host: string | null): Receiver {
  if (isWebhook(destination)) return 'webhook';
  const labels = (host ?? destination).toLowerCase().split('.');
  return BY_SUFFIX.get(labels.slice(-2).join('.')) ?? BY_SUFFIX.get(labels.slice(-3).join('.')) ?? 'other';
}
