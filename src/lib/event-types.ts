/** The public types of events, with what each means: webhooks may ask for these, by these names. */
import { namesOf } from './permission-names.ts';

export const EVENT_TEXTS = {
  'submission.accepted': 'A form accepted a submission.',
  'submission.spam': 'A submission was marked as spam.',
  'submission.fallback':
    'The notification of a submission could not be delivered, and the fallback of its form was used.',
  'email.queued': 'A message was queued.',
  'email.delivered': 'The next server accepted the message for a recipient.',
  'email.deferred': 'A delivery attempt failed; it will be retried.',
  'email.bounced': 'The message cannot be delivered to a recipient.',
  'email.complained': 'A recipient reported the message as spam.',
  'email.suppressed': 'The message was not sent because the address is on the suppression list.',
  'inbound.accepted': 'A message was accepted for forwarding.',
  'inbound.rejected': 'A message was rejected.',
  'domain.verified': 'All required DNS records of a domain were found.',
  'domain.degraded': 'A required DNS record of a verified domain is missing or wrong.',
  'domain.failed': 'The DNS records of a domain stayed wrong; its mail is held.',
  'config.pushed': 'A configuration was deployed.',
} as const;

export type PublicEvent = keyof typeof EVENT_TEXTS;

export const PUBLIC_EVENTS: readonly PublicEvent[] = namesOf(EVENT_TEXTS);
