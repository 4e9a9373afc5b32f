/** The operator's view of the queue and the hand on it, as `queue/operate` has them. */
import { z } from 'zod';
import { parseDomain } from '../../lib/addresses.ts';
import { isoTime, type Clock } from '../../lib/clock.ts';
import { isWebhook } from '../../queue/transport.ts';
import {
  actOnMany,
  countDeliveries,
  cancel,
  heldAmong,
  hold,
  listDeliveries,
  release,
  retryNow,
  showMessage,
  type Operated,
} from '../../queue/operate.ts';
import { duration } from '../../config/scalars.ts';
import { HELD, type DeliveryFilter } from '../../store/deliveries.ts';
import type { Store } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../../store/tables.ts';
import { suspendedTenants } from '../../store/tenants.ts';
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
const destinationName = z
  .string()
  .transform((text) => (isWebhook(text) ? text : parseDomain(text)))
  .refine((name) => name !== undefined, 'must be a domain name such as example.com, or the id of a webhook (whk_…)');
const delivery = z.object({
  id: z.string().describe('`dlv_…` of mail, `whd_…` of a webhook delivery.'),
  message: z.string(),
  tenant: z.string(),
  recipient: z.string().describe('An address; of a webhook delivery the origin of its URL.'),
  destination: z.string().describe("The recipient's domain, or the webhook (`whk_…`)."),
  held: z.boolean().describe('Whether the operator holds it or its destination: it waits until that ends.'),
  suspended: z.boolean().describe('Whether its tenant is suspended: it waits until that ends, or it expires.'),
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
const destination = z.strictObject({
  domain: destinationName.describe('Domain of the recipients, such as example.com, or a webhook (`whk_…`).'),
});

const ACTIONS = ['retry', 'cancel', 'hold', 'release'] as const;
const WAITING = ['queued', 'deferred'] as const;

/** Which deliveries, beside their state. */
const FILTER = {
  domain: destinationName.optional().describe('Only those to this domain, or this webhook (`whk_…`).'),
  tenant: z.string().max(60).optional().describe('Only those of this tenant.'),
  sender: domainName.optional().describe('Only those whose mail is from this domain.'),
  older_than: duration.optional().describe('Only those enqueued longer ago, such as 2h or 3d.'),
};

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

  async function shown(rows: readonly DeliveryRow[]): Promise<object[]> {
    const [held, suspended] = await Promise.all([heldAmong(store, rows), suspendedTenants(store)]);
    return rows.map((row) => shownDelivery(row, { held, suspended }));
  }

  return [
    defineRoute({
      ...OPERATOR,
      method: 'GET',
      path: '/admin/queue',
      summary: 'Lists deliveries of mail and to webhooks, newest first.',
      query: z.strictObject({
        ...listing('dlv'),
        state: z.enum(STATES).optional().describe('Only those in this state.'),
        ...FILTER,
      }),
      answer: listOf('deliveries', delivery),
      async handle({ query: { limit, cursor, ...asked } }) {
        const filter = filterOf(asked, clock.now());
        const page = await listDeliveries(store, { ...filter, before: cursor, limit });
        const count = await countDeliveries(store, filter);
        const deliveries = await shown(page.deliveries);
        return json({ deliveries, count, next_cursor: page.next });
      },
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/actions',
      summary: 'Does something to all deliveries that wait and match.',
      description:
        'They are made due now (`retry`), ended for good (`cancel`), kept back until they are released, without expiring (`hold`), or due again (`release`). It concerns what waits now, not what comes later. What is being tried just then is left to its try and counted in `in_progress`.',
      body: z.strictObject({
        action: z.enum(ACTIONS),
        filter: z
          .strictObject({ ...FILTER, state: z.enum(WAITING).optional().describe('Only those in this state.') })
          .refine((filter) => Object.keys(filter).length > 0, 'must name what is to match'),
        dry_run: z.boolean().default(false).describe('Only counts.'),
      }),
      answer: z.object({ action: z.enum(ACTIONS), count: z.int(), in_progress: z.int(), dry_run: z.boolean() }),
      async handle({ body: { action, filter: asked, dry_run: dryRun } }) {
        const now = clock.now();
        const filter = filterOf(asked, now);
        const count = await actOnMany(store, action, { filter, now, dryRun });
        const inProgress = await countDeliveries(store, { ...filter, state: 'sending' });
        if (!dryRun) wake();
        return json({ action, count, in_progress: inProgress, dry_run: dryRun });
      },
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/hold',
      summary: 'Lets nothing more go to a domain or webhook until it is released.',
      body: destination,
      answer: steered,
      handle: ({ body: { domain } }) => steer(domain, hold),
    }),
    defineRoute({
      ...OPERATOR,
      method: 'POST',
      path: '/admin/queue/release',
      summary: 'Ends the hold of a domain or webhook, and its pause.',
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
        const found = await showMessage(store, id);
        if (found === undefined) return unknown(id);
        const rows = await shown(found.deliveries);
        const deliveries = rows.map((row, i) => ({ ...row, tries: found.deliveries[i]?.tries.map(shownAttempt) }));
        return json({ message: shownMessage(found.message), deliveries });
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

interface Asked {
  readonly state?: DeliveryRow['state'] | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly older_than?: number | undefined;
}

function filterOf({ state, domain, tenant, sender, older_than: age }: Asked, now: number): DeliveryFilter {
  return { state, destination: domain, tenant, sender, createdBefore: age === undefined ? undefined : now - age };
}

function shownDelivery(
  row: DeliveryRow,
  { held, suspended }: { held: readonly string[]; suspended: readonly string[] },
): object {
  const { id, message, tenant, recipient, destination, state, attempts, last_reply } = row;
  const { next_attempt_at, created_at, expires_at, settled_at } = row;
  return {
    id,
    message,
    tenant,
    recipient,
    destination,
    held: next_attempt_at === HELD || held.includes(destination),
    suspended: suspended.includes(tenant),
    state,
    attempts,
    next_attempt_at: next_attempt_at === HELD ? null : timeOf(next_attempt_at),
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
