/** The public kinds of events: webhooks may ask for these, by these names. */
export const PUBLIC_EVENTS = [
  'submission.accepted',
  'submission.spam',
  'email.queued',
  'email.delivered',
  'email.deferred',
  'email.bounced',
  'email.complained',
  'email.suppressed',
  'inbound.accepted',
  'inbound.rejected',
  'domain.verified',
  'domain.degraded',
  'domain.failed',
  'config.pushed',
] as const;

export type PublicEvent = (typeof PUBLIC_EVENTS)[number];
