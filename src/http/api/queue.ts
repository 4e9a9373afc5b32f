/** The operator's view of the queue and the hand on it, as `queue/operate` has them. */
import { duration } from '../../config/scalars.ts';
import * as contract from '../../contract/queue.ts';
import type { Clock } from '../../lib/clock.ts';
import {
  actOnMany,
  cancel,
  countDeliveries,
  heldAmong,
  hold,
  listDeliveries,
  type Operated,
  release,
  retryNow,
  showMessage,
} from '../../queue/operate.ts';
import { type DeliveryFilter, HELD } from '../../store/deliveries.ts';
import type { Store } from '../../store/store.ts';
import type { AttemptRow, DeliveryRow, MessageRow } from '../../store/tables.ts';
import { suspendedTenants } from '../../store/tenants.ts';
import { json } from '../answer.ts';
import { type Refusal, refuse } from '../errors.ts';
import { type BodyOf, implement, type Outcome, type Route, timeOf } from './route.ts';

export interface QueueParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Tells the queue that there may be something to do. */
  readonly wake: () => void;
}

/** `/admin/queue…` */
export function queueRoutes({ store, clock, wake }: QueueParts): Route[] {
  async function operate(id: string, operation: typeof retryNow) {
    const done = await operation(store, id, clock.now());
    if (done.kind === 'done') wake();
    return answerFor(done, id);
  }

  async function steer(name: string, operation: typeof hold) {
    await operation(store, name);
    wake();
    return json({ destination: name, held: operation === hold });
  }

  async function shown(rows: readonly DeliveryRow[]) {
    const [held, suspended] = await Promise.all([heldAmong(store, rows), suspendedTenants(store)]);
    return rows.map((row) => shownDelivery(row, { held, suspended }));
  }

  return implement(contract.queue, {
    async list({ query: { limit, cursor, ...asked } }) {
      const filter = filterOf(asked, clock.now());
      const page = await listDeliveries(store, { ...filter, before: cursor, limit });
      const count = await countDeliveries(store, filter);
      const deliveries = await shown(page.deliveries);
      return json({ deliveries, count, next_cursor: page.next });
    },
    async act({ body: { action, filter: asked, dry_run: dryRun } }) {
      const now = clock.now();
      const filter = filterOf(asked, now);
      const count = await actOnMany(store, action, { filter, now, dryRun });
      const inProgress = await countDeliveries(store, { ...filter, state: 'sending' });
      if (!dryRun) wake();
      return json({ action, count, in_progress: inProgress, dry_run: dryRun });
    },
    hold: ({ body: { domain } }) => steer(domain, hold),
    release: ({ body: { domain } }) => steer(domain, release),
    async show({ params: { id } }) {
      const found = await showMessage(store, id);
      if (found === undefined) return unknown(id);
      const rows = await shown(found.deliveries);
      const deliveries = rows.map((row, i) => ({
        ...row,
        tries: (found.deliveries[i]?.tries ?? []).map(shownAttempt),
      }));
      return json({ message: shownMessage(found.message), deliveries });
    },
    retry: ({ params: { id } }) => operate(id, retryNow),
    cancel: ({ params: { id } }) => operate(id, cancel),
  });
}

function answerFor(done: Operated, id: string): Outcome<BodyOf<typeof contract.queue.retry>> {
  switch (done.kind) {
    case 'done':
      return json({ deliveries: done.deliveries, held: done.held });
    case 'not-waiting':
      return refuse('CONFLICT', { message: `Nothing of it waits: ${[...new Set(done.states)].join(', ')}.` });
    case 'unknown':
      return unknown(id);
  }
}

function unknown(id: string): Refusal {
  return refuse('NOT_FOUND', { message: `There is no message or delivery ${id.slice(0, 60)}.` });
}

interface Asked {
  readonly state?: DeliveryRow['state'] | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly older_than?: string | undefined;
}

function filterOf({ state, domain, tenant, sender, older_than: age }: Asked, now: number): DeliveryFilter {
  return {
    state,
    destination: domain,
    tenant,
    sender,
    createdBefore: age === undefined ? undefined : now - duration.parse(age),
  };
}

function shownDelivery(
  row: DeliveryRow,
  { held, suspended }: { held: readonly string[]; suspended: readonly string[] },
) {
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

function shownMessage({ id, tenant, kind, submission, domain, size, created_at, expires_at }: MessageRow) {
  return { id, tenant, kind, submission, domain, size, created_at: timeOf(created_at), expires_at: timeOf(expires_at) };
}

function shownAttempt({ number, at, host, address, tls, outcome, reply }: AttemptRow) {
  return { number, at: timeOf(at), host, address, tls, outcome, reply };
}
