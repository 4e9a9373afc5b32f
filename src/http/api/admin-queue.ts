/** The operator's view of the queue and the hand on it, as `queue/operate` has them. */
import { z } from 'zod';
import { parseDomain } from '../../lib/addresses.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import {
  cancel,
  heldAmong,
  hold,
  listDeliveries,
  release,
  retryNow,
  showMessage,
  type Operated,
} from '../../queue/operate.ts';
import { countDeliveries } from '../../store/deliveries.ts';
import type { Store } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../../store/tables.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { listing, listOf } from './listing.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface AdminQueueParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

const STATES = [
  'queued',
  'sending',
  'deferred',
  'delivered',
  'bounced',
  'expired',
  'cancelled',
  'suppressed',
  'captured',
] as const satisfies readonly DeliveryRow['state'][];

const time = z.iso.datetime().nullable();
const domainName = z
  .string()
  .transform((text) => parseDomain(text))
  .refine((name) => name !== undefined, 'must be a domain name such as example.com');
const delivery = z.object({
  id: z.string(),
  message: z.string(),
  tenant: z.string(),
  recipient: z.string(),
  destination: z.string(),
  held: z.boolean().describe('Whether the operator holds its destination: nothing goes there until that ends.'),
  state: z.enum(STATES),
  attempts: z.int(),
  next_attempt_at: time,
  last_reply: z.string().nullable(),
  created_at: time,
  expires_at: time,
  settled_at: time,
});
const attempt = z.object({
  number: z.int(),
  at: time,
  host: z.string().nullable(),
  address: z.string().nullable(),
  tls: z.string().nullable(),
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
  created_at: time,
  expires_at: time,
});
const operated = z.object({
  deliveries: z.array(z.string()),
  held: z.array(z.string()).describe('Destinations of these that the operator holds.'),
});
const steered = z.object({ destination: z.string(), held: z.boolean() });
const destination = z.strictObject({ domain: domainName.describe('Domain of the recipients, such as example.com.') });

const OPERATOR = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;

/** `/admin/queue…` */
export function adminQueueRoutes({ store, clock, wake }: AdminQueueParts): Route[] {
  async function operate(id: string, operation: typeof retryNow): Promise<Outcome> {
    const done = await operation(store, id, clock.now());
    if (done.kind === 'done') wake();
    return answerFor(done, id);
  }

  async function steer(name: string, operation: typeof hold): Promise<Outcome> {
    await operation(store, name);
    wake();
    return json({ destination: name, held: operation === hold });
  }

  return [
    defineRoute({
      ...OPERATOR,
      method: 'GET',
      path: '/admin/queue',
      summary: 'Lists deliveries, newest first.',
      query: z.strictObject({
        ...listing('dlv'),
        state: z.enum(STATES).optional().describe('Only those in this state.'),
        domain: domainName.optional().describe('Only those to this domain.'),
      }),
      answer: listOf('deliveries', delivery),
      async handle({ query: { limit, cursor, state, domain } }) {
        const filter = { ...(state && { state }), ...(domain && { destination: domain }) };
        const page = await listDeliveries(store, { ...filter, ...(cursor && { before: cursor }), limit });
        const count = await countDeliveries(store, filter);
        const held = await heldAmong(store, page.deliveries);
        const deliveries = page.deliveries.map((row) => shownDelivery(row, held));
        return json({ deliveries, count, next_cursor: page.next });
      },
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/hold',
      summary: 'Lets nothing more go to a domain until it is released.',
      body: destination,
      answer: steered,
      handle: ({ body: { domain } }) => steer(domain, hold),
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/release',
      summary: 'Ends the hold of a domain, and its pause.',
      body: destination,
      answer: steered,
      handle: ({ body: { domain } }) => steer(domain, release),
    }),
    defineRoute({
      ...OPERATOR,
      method: 'GET',
      path: '/admin/queue/:id',
      summary: 'Shows a message with its deliveries and every attempt.',
      answer: z.object({ message, deliveries: z.array(delivery.extend({ tries: z.array(attempt) })) }),
      async handle({ params: { id } }) {
        const shown = await showMessage(store, id);
        if (shown === undefined) return unknown(id);
        const held = await heldAmong(store, shown.deliveries);
        const deliveries = shown.deliveries.map((row) => ({
          ...shownDelivery(row, held),
          tries: row.tries.map(shownAttempt),
        }));
        return json({ message: shownMessage(shown.message), deliveries });
      },
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/:id/retry',
      summary: 'Makes what waits of a message or delivery due now.',
      answer: operated,
      handle: ({ params: { id } }) => operate(id, retryNow),
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/:id/cancel',
      summary: 'Ends what waits of a message or delivery for good.',
      answer: operated,
      handle: ({ params: { id } }) => operate(id, cancel),
    }),
  ];
}

function answerFor(done: Operated, id: string): Outcome {
  switch (done.kind) {
    case 'done':
      return json({ deliveries: done.deliveries, held: done.held });
    case 'not-waiting':
      return refuse('CONFLICT', { message: `Nothing of it waits: ${[...new Set(done.states)].join(', ')}.` });
    case 'unknown':
      return unknown(id);
  }
}

function unknown(id: string): Outcome {
  return refuse('NOT_FOUND', { message: `There is no message or delivery ${id.slice(0, 60)}.` });
}

function shownDelivery(row: DeliveryRow, held: readonly string[]): object {
  const { id, message, tenant, recipient, destination, state, attempts, last_reply } = row;
  const { next_attempt_at, created_at, expires_at, settled_at } = row;
  return {
    id,
    message,
    tenant,
    recipient,
    destination,
    held: held.includes(destination),
    state,
    attempts,
    next_attempt_at: timeOf(next_attempt_at),
    last_reply,
    created_at: timeOf(created_at),
    expires_at: timeOf(expires_at),
    settled_at: timeOf(settled_at),
  };
}

function shownMessage({ id, tenant, kind, submission, domain, size, created_at, expires_at }: MessageRow): object {
  return { id, tenant, kind, submission, domain, size, created_at: timeOf(created_at), expires_at: timeOf(expires_at) };
}

function shownAttempt({ number, at, host, address, tls, outcome, reply }: AttemptRow): object {
  return { number, at: timeOf(at), host, address, tls, outcome, reply };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms);
}
