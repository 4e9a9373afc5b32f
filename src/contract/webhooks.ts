/** Webhooks: created by the API, or declared in a configuration, which the API shows and cannot change. */
import { z } from 'zod';
import { PUBLIC_EVENTS } from '../lib/event-types.ts';
import { route } from './route.ts';
import { environment, listing, longPage, optionalTime, page, time } from './values.ts';

const url = z.string().min(1).max(2000).describe('A public http or https URL.');
const events = z
  .array(z.enum(PUBLIC_EVENTS))
  .transform((types) => PUBLIC_EVENTS.filter((type) => types.includes(type)))
  .describe('Types of events to send; empty: all.');
const description = z.string().max(500).describe('What it is for.');
const secret = z.string().describe('`whsec_…`, shown only once.');
const status = z.enum(['active', 'disabled']);

const webhook = z.object({
  id: z.string(),
  environment,
  url: z.string(),
  events: z.array(z.enum(PUBLIC_EVENTS)),
  description: z.string(),
  project: z
    .string()
    .nullable()
    .describe('The project whose configuration declares it; null: created through the API.'),
  form: z.string().nullable().describe('The form that it is restricted to; null: all.'),
  status,
  reason: z.string().nullable().describe('Why it was disabled.'),
  failing_since: optionalTime.describe('Since when all attempts have failed.'),
  created_at: optionalTime,
});

const eventId = z.string().regex(/^evt_[0-9a-z]{26}$/, 'must be the ID of an event');
const deliveryState = z.enum(['pending', 'delivered', 'failed']);

const delivery = z.object({
  id: z.string().describe('The `webhook-id`.'),
  event: z.string().nullable().describe('null for a test.'),
  type: z.string().nullable().describe('null if the event is no longer kept.'),
  state: deliveryState,
  attempts: z.int(),
  last_attempt_at: optionalTime,
  next_attempt_at: optionalTime,
  last_status: z.int().nullable(),
  last_result: z.string().nullable().describe('The status and the beginning of the response, or the error.'),
  created_at: optionalTime,
});

/** Characters of a request body that are shown. */
export const MAX_SHOWN_BODY = 65_536;

const headers = z.record(z.string(), z.string());

const post = z.object({
  number: z.int().describe('The attempt, from 1.'),
  started_at: time,
  duration_ms: z.int().describe('From the DNS lookup to the end of the response.'),
  request: z.object({
    url: z.string(),
    headers: headers.describe('Headers set by Postern. The signature is valid for this time and body.'),
  }),
  answer: z
    .object({
      status: z.int(),
      headers: headers.describe('At most 50 headers and 4 kB.'),
      body: z.string().describe('The first 4,096 characters.'),
      body_is_cut: z.boolean(),
    })
    .nullable()
    .describe('null if there was no response.'),
  error: z.string().nullable().describe('Why there was no response.'),
});

const deliveryWithPosts = delivery.extend({
  body: z
    .string()
    .nullable()
    .describe('The request body, the same for every attempt; null if the event is no longer kept.'),
  body_is_cut: z.boolean().describe('Whether the body is longer than 65,536 characters and was cut.'),
  posts: z
    .array(post)
    .describe(
      'What each attempt sent and received. Kept for the newest 1,000 deliveries of a webhook, for at most 30 days.',
    ),
});

const WEBHOOKS = { permission: 'projects.write', domains: 'refuse', tag: 'Webhooks' } as const;

export const webhooks = {
  list: route('GET /webhooks', {
    ...WEBHOOKS,
    summary: 'Lists the webhooks of the account, newest first, including those of its configurations.',
    query: z.strictObject(listing('whk')),
    answer: page({ webhooks: z.array(webhook) }),
  }),
  create: route('POST /webhooks', {
    ...WEBHOOKS,
    summary: 'Creates a webhook for events from now on, and shows its secret once.',
    description:
      'Requests are signed according to the [Standard Webhooks](https://www.standardwebhooks.com) specification; its libraries can verify them with this secret.',
    body: z.strictObject({ url, events: events.default([]), description: description.default('') }),
    answer: z.object({ id: z.string(), url: z.string(), events: z.array(z.string()), secret }),
    errors: ['PLAN_LIMIT'],
  }),
  show: route('GET /webhooks/:id', {
    ...WEBHOOKS,
    summary: 'Shows a webhook, its status, and its newest deliveries.',
    answer: webhook.extend({ deliveries: z.array(delivery) }),
  }),
  deliveries: route('GET /webhooks/:id/deliveries', {
    ...WEBHOOKS,
    summary: 'Lists the deliveries of a webhook, newest first.',
    description: 'Deliveries are kept for 30 days.',
    query: z.strictObject({
      ...listing('whd'),
      state: deliveryState.optional().describe('Only deliveries in this state.'),
      event: eventId.optional().describe('Only the delivery of this event.'),
    }),
    answer: longPage({ deliveries: z.array(delivery) }),
  }),
  delivery: route('GET /webhooks/:id/deliveries/:delivery', {
    ...WEBHOOKS,
    summary: 'Shows a delivery with its request and the response to each attempt.',
    answer: deliveryWithPosts,
  }),
  replayDelivery: route('POST /webhooks/:id/deliveries/:delivery/replay', {
    ...WEBHOOKS,
    summary: 'Sends a delivery again with the same ID.',
    description: 'Earlier attempts are deleted. 409 if the delivery was a test or its event is no longer kept.',
    body: z.strictObject({}),
    answer: delivery,
    errors: ['CONFLICT'],
  }),
  change: route('PATCH /webhooks/:id', {
    ...WEBHOOKS,
    summary: 'Changes, disables or enables a webhook.',
    description:
      'When a webhook is enabled, it gets new events and its pending deliveries; use `replay` for the rest. Of a webhook declared in a configuration, only `status` can be changed here.',
    body: z.strictObject({
      url: url.optional(),
      events: events.optional(),
      description: description.optional(),
      status: status.optional(),
    }),
    answer: webhook,
    errors: ['CONFLICT'],
  }),
  remove: route('DELETE /webhooks/:id', {
    ...WEBHOOKS,
    summary: 'Deletes a webhook and its pending deliveries.',
    answer: z.object({ id: z.string(), deleted: z.literal(true) }),
    errors: ['CONFLICT'],
  }),
  test: route('POST /webhooks/:id/test', {
    ...WEBHOOKS,
    summary: 'Sends an event of type `webhook.test` now, and shows the result.',
    body: z.strictObject({}),
    answer: z.object({
      id: z.string().describe('The `webhook-id` that was sent.'),
      delivered: z.boolean(),
      status: z.int().nullable(),
      result: z.string(),
    }),
  }),
  rotate: route('POST /webhooks/:id/rotate', {
    ...WEBHOOKS,
    summary:
      'Creates a new secret for a webhook and shows it once; for 24 hours, requests are also signed with the old one.',
    body: z.strictObject({}),
    answer: z.object({ secret, old_secret_until: time }),
    errors: ['CONFLICT'],
  }),
  replay: route('POST /webhooks/:id/replay', {
    ...WEBHOOKS,
    summary: 'Sends an event, or all events since a time, again with the same IDs.',
    body: z.strictObject({
      event: eventId.optional().describe('One event.'),
      since: z.iso
        .datetime({ offset: true })
        .optional()
        .describe('All events since this time that the webhook is subscribed to.'),
    }),
    answer: z.object({
      replayed: z.int().describe('Number of events sent again.'),
      more: z.boolean().describe('Whether there are more events than one replay covers (10,000, oldest first).'),
    }),
    errors: ['CONFLICT'],
  }),
};
