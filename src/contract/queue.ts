/** The operator's view of the mail: the queue, what was accepted or rejected, and what happened or would happen to it. */
import { z } from 'zod';
import { parseDomain } from '../lib/addresses.ts';
import { route } from './route.ts';
import {
  deliveryState,
  domainName,
  duration,
  listing,
  mailAddress,
  optionalTime,
  page,
  pageSize,
  parsed,
  since,
  slug,
  time,
  until,
} from './values.ts';

/** What happened to an object, step by step. */
export const timeline = z
  .array(
    z.object({
      at: time,
      step: z
        .string()
        .describe(
          '`request`, `inbound`, `judged`, `message`, `attempt`, `end`, `event`, `webhook`; `waits` is still to come.',
        ),
      id: z.string().describe('ID of the object that it happened to.'),
      text: z.string(),
    }),
  )
  .describe('Oldest first.');

/** A domain, or a webhook by its id. */
const destinationName = parsed(
  (text) => (text.startsWith('whk_') ? text : parseDomain(text)),
  'must be a domain name such as example.com, or the ID of a webhook (whk_…)',
);

const delivery = z.object({
  id: z.string().describe('`dlv_…` for mail, `whd_…` for a webhook delivery.'),
  message: z.string(),
  tenant: z.string(),
  recipient: z.string().describe('An email address; for a webhook delivery, the origin of its URL.'),
  destination: z.string().describe('The domain of the recipient, or the webhook (`whk_…`).'),
  held: z.boolean().describe('Whether the operator holds it or its destination. It waits until it is released.'),
  suspended: z
    .boolean()
    .describe('Whether its account is suspended. It waits until the suspension ends or it expires.'),
  state: deliveryState,
  attempts: z.int(),
  next_attempt_at: optionalTime,
  last_reply: z.string().nullable(),
  created_at: optionalTime,
  expires_at: optionalTime,
  settled_at: optionalTime,
});
const attempt = z.object({
  number: z.int(),
  at: optionalTime,
  host: z.string().nullable(),
  address: z.string().nullable(),
  tls: z.string().nullable().describe('TLS version; null for clear text.'),
  tls_policy: z
    .string()
    .nullable()
    .describe('The policy of the recipient’s domain that applied: `dane`, `mta-sts enforce` or `mta-sts testing`.'),
  tls_result: z
    .string()
    .nullable()
    .describe('Result of the policy: `success`, or a failure type from RFC 8460, such as `certificate-expired`.'),
  outcome: z.enum(['delivered', 'deferred', 'bounced', 'expired', 'interrupted', 'captured']),
  reply: z.string(),
});
const message = z.object({
  id: z.string(),
  tenant: z.string(),
  kind: z.string(),
  submission: z.string().nullable(),
  domain: z.string(),
  size: z.int(),
  created_at: optionalTime,
  expires_at: optionalTime,
});
const changed = z.object({
  deliveries: z.array(z.string()),
  held: z.array(z.string()).describe('Their destinations that the operator holds.'),
});
const destination = z.strictObject({
  domain: destinationName.describe('Domain of the recipients, such as example.com, or a webhook (`whk_…`).'),
});
const destinationState = z.object({ destination: z.string(), held: z.boolean() });

const relay = z.object({ paused_until: time, failures: z.int(), last_error: z.string() });

const action = z.enum(['retry', 'cancel', 'hold', 'release']);

/** Which deliveries, beside their state. */
const filter = {
  domain: destinationName.optional().describe('Only deliveries to this domain, or this webhook (`whk_…`).'),
  tenant: z.string().max(60).optional().describe('Only deliveries of this account.'),
  sender: domainName.optional().describe('Only deliveries of mail from this domain.'),
  project: slug
    .optional()
    .describe(
      'Only deliveries of mail from the domains of this project (a slug), which belongs to `tenant` or else to the operator.',
    ),
  older_than: duration.optional().describe('Only deliveries queued longer ago than this, such as 2h or 3d.'),
};

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

export const queue = {
  list: route('GET /admin/queue', {
    ...ADMIN,
    summary: 'Lists mail and webhook deliveries, newest first.',
    query: z.strictObject({
      ...listing('dlv'),
      state: deliveryState.optional().describe('Only deliveries in this state.'),
      ...filter,
    }),
    answer: page({
      deliveries: z.array(delivery),
      relay: relay
        .nullable()
        .describe('Pause of the smarthost (`delivery.relay`); all its mail waits until it ends. null: not paused.'),
    }),
  }),
  destinations: route('GET /admin/queue/destinations', {
    ...ADMIN,
    summary: 'Lists the destinations with waiting mail or webhook deliveries, those with the most first.',
    description:
      'Counts are up to 10 seconds old. If there are very many destinations, the first answer may list only some of them (`complete`: false); repeat the request.',
    query: z.strictObject({
      limit: pageSize,
      state: z
        .enum(['all', 'failing', 'held'])
        .default('all')
        .describe(
          '`failing`: destinations whose last connections failed, worst first. `held`: destinations that the operator holds.',
        ),
    }),
    answer: z.object({
      destinations: z.array(
        z.object({
          destination: z.string().describe('A domain, or a webhook (`whk_…`).'),
          waiting: z.int().describe('Number of waiting deliveries; 10000 means that many or more.'),
          oldest_at: optionalTime.describe('When the oldest of the 100 deliveries that are due next was accepted.'),
          next_attempt_at: optionalTime,
          held: z.boolean(),
          paused_until: optionalTime,
          failures: z.int().describe('Consecutive connection failures.'),
          last_error: z.string().nullable().describe('Why the last connection failed.'),
          last_reply: z.string().nullable().describe('The last reply to one of the waiting deliveries.'),
        }),
      ),
      relay: relay.nullable().describe('Pause of the smarthost (`delivery.relay`). null: not paused.'),
      count: z.int().describe('Number of destinations with waiting deliveries.'),
      counted_at: time,
      complete: z.boolean(),
    }),
  }),
  act: route('POST /admin/queue/actions', {
    ...ADMIN,
    summary: 'Retries, cancels, holds or releases all waiting deliveries that match.',
    description:
      '`retry` makes them due now; `cancel` cancels them; `hold` keeps them, without expiring, until `release`. This applies to deliveries that are waiting now, not to later mail. Deliveries with an attempt in progress are skipped and counted in `in_progress`.',
    body: z.strictObject({
      action,
      filter: z
        .strictObject({
          ...filter,
          state: z.enum(['queued', 'deferred']).optional().describe('Only deliveries in this state.'),
        })
        .refine((given) => Object.keys(given).length > 0, 'must have at least one condition'),
      dry_run: z.boolean().default(false).describe('Count without changing anything.'),
    }),
    answer: z.object({ action, count: z.int(), in_progress: z.int(), dry_run: z.boolean() }),
  }),
  hold: route('POST /admin/queue/hold', {
    ...ADMIN,
    summary: 'Holds all mail to a domain, or all deliveries to a webhook, until released.',
    body: destination,
    answer: destinationState,
  }),
  release: route('POST /admin/queue/release', {
    ...ADMIN,
    summary: 'Releases a domain or webhook, and ends its pause.',
    body: destination,
    answer: destinationState,
  }),
  show: route('GET /admin/queue/:id', {
    ...ADMIN,
    summary: 'Shows a message with its deliveries and all attempts.',
    answer: z.object({ message, deliveries: z.array(delivery.extend({ tries: z.array(attempt) })) }),
  }),
  retry: route('POST /admin/queue/:id/retry', {
    ...ADMIN,
    summary: 'Makes a waiting delivery, or all waiting deliveries of a message, due now.',
    answer: changed,
    errors: ['CONFLICT'],
  }),
  cancel: route('POST /admin/queue/:id/cancel', {
    ...ADMIN,
    summary: 'Cancels a waiting delivery, or all waiting deliveries of a message.',
    answer: changed,
    errors: ['CONFLICT'],
  }),
};

const inboundOutcome = z.enum(['accepted', 'rejected', 'deferred']);
const reasonName = z.string().regex(/^[a-z_]{1,60}$/, 'must be a reason such as unknown_recipient');

/** A step of what would happen to mail. */
export const explainStep = z.object({
  step: z.string().describe('A stable name: `domain`, `rule`, `recipients`, `route`, …'),
  about: z.string().optional().describe('The email address it is about, if there are several.'),
  verdict: z
    .enum(['ok', 'warning', 'stop'])
    .describe('`stop`: mail stops here or waits. `warning`: something may go wrong.'),
  found: z.string(),
  because: z.string(),
});

const check = z.object({ result: z.string(), domain: z.string() });
const inboundEntry = z.object({
  id: z.string(),
  at: time,
  domain: z.string().nullable(),
  ip: z.string(),
  helo: z.string(),
  sender: z.string().describe('The envelope sender; empty for the null sender.'),
  recipient: z.string().describe('Empty if the session ended before a recipient was named.'),
  outcome: inboundOutcome,
  reply: z.string(),
  reason: z.string().describe('A stable name, such as unknown_recipient.'),
  inbound: z.string().nullable().describe('The message that was accepted.'),
});

/** Mail that comes in for the domains of an account. */
export const inbound = {
  list: route('GET /inbound', {
    permission: 'forms.read',
    domains: 'narrow',
    tag: 'Messages',
    summary: 'Lists the recipients of incoming mail, accepted or not, newest first.',
    description:
      'Each page searches a limited number of entries: with filters, it may have few entries or none even if there is a `next_cursor`. If `count_is_more` is true, there may be more than `count`; otherwise `count` is exact.',
    query: z.strictObject({
      ...listing('inl'),
      outcome: inboundOutcome.optional().describe('Only entries with this outcome.'),
      domain: domainName.optional().describe('Only mail for this domain.'),
      reason: reasonName.optional().describe('Only entries with this reason.'),
      recipient: mailAddress.optional().describe('Only mail for this address.'),
      sender: mailAddress.optional().describe('Only mail with this envelope sender.'),
      from: since.optional().describe('Only entries since this date or time.'),
      to: until.optional().describe('Only entries until this date (that whole day) or time.'),
    }),
    answer: page({
      inbound: z.array(
        inboundEntry.extend({
          tls: z.string().nullable().describe('TLS version; null for clear text and for mail that was not accepted.'),
          size: z.int().nullable().describe('Bytes; null for mail that was not accepted.'),
          authentication: z
            .object({
              from: z.string().describe('The author’s address; empty if it cannot be determined.'),
              spf: check,
              dkim: z.array(check.extend({ aligned: z.boolean() })),
              dmarc: check.extend({ policy: z.string() }),
              arc: z.string(),
            })
            .nullable()
            .describe('Authentication results of an accepted message.'),
          messages: z.array(z.string()).describe('The messages (`msg_…`) created from it.'),
        }),
      ),
      count_is_more: z.boolean(),
    }),
  }),
};

export const mailLog = {
  inbound: route('GET /admin/inbound', {
    ...ADMIN,
    summary: 'Lists the recipients of incoming mail, accepted or not, newest first.',
    query: z.strictObject({
      ...listing('inl'),
      outcome: inboundOutcome.optional().describe('Only entries with this outcome.'),
      domain: domainName.optional().describe('Only mail for this domain.'),
      reason: reasonName.optional().describe('Only entries with this reason.'),
      from: since.optional().describe('Only entries since this date or time.'),
      to: until.optional().describe('Only entries until this date (that whole day) or time.'),
    }),
    answer: page({
      inbound: z.array(
        inboundEntry.extend({
          tenant: z.string().nullable().describe('The account that the address belongs to; null: none.'),
        }),
      ),
    }),
  }),
  trace: route('GET /admin/trace/:id', {
    ...ADMIN,
    summary: 'Shows what happened to a request, submission or message.',
    description:
      'Accepts the ID of a request (`req_…`, the `X-Request-Id` of an answer), submission, message, delivery, event or inbound message, or a Message-ID. Events and attempts are shown while they are kept.',
    answer: z.object({
      id: z.string(),
      request: z.string().nullable(),
      submission: z.string().nullable(),
      messages: z.array(z.string()),
      timeline,
    }),
  }),
  explain: route('GET /admin/explain', {
    ...ADMIN,
    summary: 'Explains what would happen to mail for an address, or to a post to a form.',
    description:
      'Nothing is sent. An address of a domain of this server is explained as incoming mail, any other address as outgoing mail. DNS is queried at once.',
    query: z.strictObject({
      what: z
        .string()
        .min(1)
        .max(400)
        .describe('An email address, or a form: `example.com/contact`, `c/team/join`, `frm_…`.'),
    }),
    answer: z.object({
      what: z.string(),
      kind: z.enum(['inbound', 'outbound', 'form']),
      steps: z.array(explainStep),
    }),
    errors: ['NOT_FOUND'],
  }),
};
