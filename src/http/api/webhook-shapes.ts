/** What requests about webhooks say, and what is shown of them. */
import { z } from 'zod';
import { eventsOf } from '../../events/targets.ts';
import type { Tested } from '../../events/webhooks.ts';
import { isoTime } from '../../lib/clock.ts';
import { environmentOf } from '../../lib/ids.ts';
import { PUBLIC_EVENTS } from '../../lib/event-types.ts';
import type { WebhookRow } from '../../store/tables-accounts.ts';
import type { WebhookDelivery } from '../../store/webhook-deliveries.ts';
import { environment } from './account-shapes.ts';

const url = z.string().min(1).max(2000).describe('An http or https address that the world can reach.');
const events = z
  .array(z.enum(PUBLIC_EVENTS))
  .transform((types) => PUBLIC_EVENTS.filter((type) => types.includes(type)))
  .describe('What it is told of; empty: everything.');
const description = z.string().max(500).describe('What it is for.');
const time = z.iso.datetime().nullable();

export const wanted = z.strictObject({ url, events: events.default([]), description: description.default('') });

export const changes = z.strictObject({
  url: url.optional(),
  events: events.optional(),
  description: description.optional(),
  status: z.enum(['active', 'disabled']).optional(),
});

export const replay = z.strictObject({
  event: z
    .string()
    .regex(/^evt_[0-9a-z]{26}$/, 'must be the id of an event')
    .optional()
    .describe('The one event.'),
  since: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('All events from this time on that the webhook asks for.'),
});

export const secretShape = z.string().describe('`whsec_…`, shown this once.');

export const webhookShape = z.object({
  id: z.string(),
  environment,
  url: z.string(),
  events: z.array(z.enum(PUBLIC_EVENTS)),
  description: z.string(),
  project: z.string().nullable().describe('The project whose configuration names it; null: the API made it.'),
  form: z.string().nullable().describe('The form of whose submissions alone it is told.'),
  status: z.enum(['active', 'disabled']),
  reason: z.string().nullable().describe('Why it was disabled.'),
  failing_since: time.describe('Since when every try has failed.'),
  created_at: time,
});

export const deliveryShape = z.object({
  id: z.string().describe('The `webhook-id`.'),
  event: z.string().nullable().describe('Null for a test.'),
  type: z.string().nullable().describe('Null where the event is not kept any more.'),
  state: z.enum(['pending', 'delivered', 'failed']),
  attempts: z.int(),
  last_attempt_at: time,
  next_attempt_at: time,
  last_status: z.int().nullable(),
  last_result: z.string().nullable().describe('The status and the beginning of the answer, or the fault.'),
  created_at: time,
});

export const testShape = z.object({
  id: z.string().describe('The `webhook-id` that was sent.'),
  delivered: z.boolean(),
  status: z.int().nullable(),
  result: z.string(),
}) satisfies z.ZodType<Tested>;

export function shown(webhook: WebhookRow): object {
  const { id, url, description, project, form, status, reason, failing_since, created_at } = webhook;
  return {
    id,
    environment: environmentOf(webhook.tenant),
    url,
    events: eventsOf(webhook),
    description,
    project,
    form: form === '' ? null : form,
    status,
    reason,
    failing_since: timeOf(failing_since),
    created_at: timeOf(created_at),
  };
}

export function shownDelivery(delivery: WebhookDelivery & { readonly type: string | null }): object {
  const { id, event, type, state, attempts, last_attempt_at, next_attempt_at, last_status, last_result } = delivery;
  return {
    id,
    event,
    type: event === null ? 'webhook.test' : type,
    state,
    attempts,
    last_attempt_at: timeOf(last_attempt_at),
    next_attempt_at: timeOf(next_attempt_at),
    last_status,
    last_result,
    created_at: timeOf(delivery.created_at),
  };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms);
}
