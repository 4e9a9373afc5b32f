/** The big receivers of mail, by their MX hosts: few names, so that figures by receiver stay few, whoever mail is for. */
import { isWebhook } from './transport.ts';

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
