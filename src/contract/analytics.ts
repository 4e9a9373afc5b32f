/** Statistics and events of an account. */
import { z } from 'zod';
import { route } from './route.ts';
import { listing, optionalTime, page, parsed, since, time, until } from './values.ts';

/** Buckets that `GET /analytics` answers at most: a month of hours, two years of days. */
export const MAX_BUCKETS = 750;

export const INTERVALS = ['hour', 'day', 'month'] as const;
export type Interval = (typeof INTERVALS)[number];

/** What is counted. */
export const numbers = z.object({
  submissions: z.int(),
  spam: z.int(),
  queued: z.int(),
  delivered: z.int(),
  deferred: z.int(),
  bounced: z.int(),
  forwarded: z.int(),
  rejected: z.int(),
});

export type Numbers = z.output<typeof numbers>;

const eventType = /^[a-z]+\.[a-z_]+$/;
const MAX_TYPES = 50;

export const event = z.object({
  id: z.string(),
  type: z.string().describe('As in webhooks; account events such as key.created are listed only here.'),
  created_at: time,
  domain: z.string().nullable(),
  form: z.string().nullable(),
  submission: z.string().nullable(),
  message: z.string().nullable(),
  data: z.record(z.string(), z.unknown()).describe('Details, depending on the type.'),
});

const today = numbers.pick({ submissions: true, spam: true, delivered: true, deferred: true, bounced: true });

const attentionKind = z.enum([
  'domain_pending',
  'domain_degraded',
  'domain_failed',
  'webhook_failing',
  'webhook_disabled',
  'form_over_limit',
  'recipients_unconfirmed',
  'queue',
  'relay',
  'disk',
  'configuration',
  'restart_needed',
  'certificate',
  'block_list',
  'receiver',
  'destination_failing',
  'destination_held',
]);

const attention = z.object({
  kind: attentionKind,
  subject: z
    .string()
    .describe('What it is about: a domain, the ID of a webhook or form, a host name, a configuration key.'),
  message: z.string(),
  since: optionalTime,
});

const ANALYTICS = { permission: 'analytics.read', tag: 'Analytics' } as const;

export const analytics = {
  show: route('GET /analytics', {
    ...ANALYTICS,
    domains: 'narrow',
    summary: 'Counts submissions and mail over time.',
    description: `Whole buckets, from the one that contains \`from\` to the one that contains \`to\`: at most ${MAX_BUCKETS}, including empty ones. \`queued\` counts messages; \`delivered\`, \`deferred\` and \`bounced\` count recipients, each deferral once. \`forwarded\` and \`rejected\` are inbound mail.`,
    query: z.strictObject({
      from: since
        .optional()
        .describe('First bucket: a date or a time. Default: 24 hours, 30 days or 12 months before `to`.'),
      to: until.optional().describe('Last bucket: a date (that whole day) or a time. Default: now.'),
      interval: z.enum(INTERVALS).default('day').describe('Length of a bucket, UTC.'),
      form: z.string().optional().describe('ID of a form: only what its submissions caused.'),
      domain: z.string().toLowerCase().optional().describe('Only what belongs to this domain.'),
      scope: z
        .enum(['account', 'server'])
        .default('account')
        .describe('`server`: all accounts together, without `top_forms` and `top_domains`. Needs `admin`.'),
    }),
    answer: z.object({
      from: time,
      to: time.describe('End of the last bucket.'),
      interval: z.enum(INTERVALS),
      totals: numbers,
      series: z.array(z.object({ at: time, ...numbers.shape })),
      top_forms: z.array(z.object({ form: z.string(), submissions: z.int(), spam: z.int() })),
      top_domains: z.array(z.object({ domain: z.string(), submissions: z.int(), delivered: z.int() })),
    }),
  }),
  apiUsage: route('GET /analytics/api-usage', {
    ...ANALYTICS,
    domains: 'refuse',
    summary: 'Counts the requests of each API key per UTC day.',
    description: 'CSV with `Accept: text/csv` or `format=csv`.',
    query: z.strictObject({
      last: z.enum(['7d', '30d']).default('30d').describe('Number of days, including today.'),
      key: z.string().optional().describe('ID of a key: only its requests.'),
      format: z.enum(['json', 'csv']).optional().describe('Default: according to `Accept`.'),
    }),
    answer: z.object({
      usage: z.array(
        z.object({
          day: z.iso.date(),
          key: z.string(),
          requests: z.int(),
          errors: z.int().describe('Answers with status 400 or higher, except 429.'),
          rate_limited: z.int().describe('Answers with status 429.'),
        }),
      ),
    }),
    alsoAnswers: 'text/csv',
    errors: ['NOT_FOUND'],
  }),
  overview: route('GET /overview', {
    ...ANALYTICS,
    domains: 'narrow',
    summary: 'Shows today’s figures, what needs attention, and the first steps of a new account.',
    description:
      'For the operator it covers the whole server, otherwise the account. `last_week` counts the same time span as `today`, seven days earlier.',
    query: z.strictObject({
      from: since
        .optional()
        .describe('Start of the day, at most 48 hours ago. Default: 00:00 UTC. Send midnight in your own time zone.'),
    }),
    answer: z.object({
      scope: z.enum(['account', 'server']),
      from: time,
      to: time,
      today,
      last_week: today,
      oldest_waiting_at: optionalTime.describe(
        'When the oldest waiting message was accepted. null: nothing is waiting, or the key is restricted to domains.',
      ),
      attention: z.array(attention).describe('What needs attention, worst first; at most 20 of each kind.'),
      first_steps: z.object({
        has_domain: z.boolean(),
        has_verified_domain: z.boolean(),
        has_form: z.boolean(),
        has_submission: z.boolean(),
      }),
    }),
  }),
  events: route('GET /events', {
    ...ANALYTICS,
    domains: 'narrow',
    summary: 'Lists events, newest first.',
    query: z.strictObject({
      ...listing('evt'),
      type: z
        .string()
        .regex(eventType, 'must be a type such as email.delivered')
        .optional()
        .describe('Only events of this type.'),
      domain: z.string().toLowerCase().optional().describe('Only events of this domain.'),
      form: z.string().optional().describe('Only events of this form’s submissions.'),
      from: since.optional().describe('Only events since this date or time.'),
      to: until.optional().describe('Only events until this date (that whole day) or time.'),
    }),
    answer: page({ events: z.array(event) }),
  }),
  stream: route('GET /events/stream', {
    ...ANALYTICS,
    domains: 'narrow',
    summary: 'Sends events as they happen, as a stream of server-sent events.',
    description:
      'Each event has its `id` and, in `data`, the same JSON as `GET /events`. A new stream begins with an `id` of its own. With the last `id` in the header `Last-Event-ID`, which browsers send when they reconnect, the stream continues there; events from the seconds before may be repeated. After more than an hour, or more than 10,000 events, a message of type `gap` says what is missing: get it from `GET /events`. If nothing happens, a comment is sent every 20 seconds. The stream ends when the key or session ends, or when the client reads nothing for 30 seconds. An account can have at most 20 streams.',
    query: z.strictObject({
      types: parsed((text) => {
        const types = text.split(',').map((type) => type.trim());
        return types.length <= MAX_TYPES && types.every((type) => eventType.test(type)) ? types : undefined;
      }, `must be at most ${MAX_TYPES} types separated by commas, such as email.delivered,email.bounced`)
        .optional()
        .describe('Only events of these types, separated by commas. Default: all.'),
      domain: z.string().toLowerCase().optional().describe('Only events of this domain.'),
      form: z.string().optional().describe('Only events of this form’s submissions.'),
    }),
    answer: z.string(),
    alsoAnswers: 'text/event-stream',
  }),
};
