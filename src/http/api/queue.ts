/** The operator's view of the mail: the queue and the hand on it, who was accepted or refused, and what happened or would. */
import type { Principal } from '../../accounts/principal.ts';
import { duration } from '../../config/scalars.ts';
import * as contract from '../../contract/queue.ts';
import { MAX_COUNT } from '../../contract/values.ts';
import {
  actOnMany,
  cancel,
  countDeliveries,
  heldAmong,
  hold,
  listDeliveries,
  release,
  retryNow,
  showMessage,
} from '../../queue/operate.ts';
import { MAX_COUNTED } from '../../queue/waiting.ts';
import { type DeliveryFilter, HELD } from '../../store/messages.ts';
import { relayPause } from '../../store/destinations.ts';
import { recordEvent } from '../../store/events.ts';
import { countInboundLog, listInboundLog } from '../../store/inbound.ts';
import { failingDestinations, heldByOperator } from '../../store/overview.ts';
import type { Store } from '../../store/store.ts';
import type { DeliveryRow } from '../../store/tables.ts';
import { OPERATOR, suspendedTenants } from '../../store/tenants.ts';
import { waitingDetails, waitingOf } from '../../store/waiting.ts';
import { type Refusal, refuse } from '../answer.ts';
import {
  type CallOf,
  type DataOf,
  type Success,
  implement,
  success,
  notFound,
  pageOf,
  type Route,
  type Services,
} from './route.ts';

type OnOne = CallOf<typeof contract.queue.retry>;
type OnDestination = CallOf<typeof contract.queue.hold>;

/** `/admin/queue…`, `/admin/inbound`, `/admin/trace/{id}`, `/admin/explain` */
export function queueRoutes({ store, clock, wake, trace, explain, waiting }: Services): Route[] {
  /** Who did what to the queue, as an event of the operator's account. */
  async function note(principal: Principal, data: { readonly action: string; readonly [detail: string]: unknown }) {
    const by = principal.key?.id ?? null;
    await store.write([
      recordEvent({ type: 'queue.changed', tenant: OPERATOR, at: clock.now(), data: { ...data, by } }),
    ]);
  }

  async function operate(
    { principal, params: { id } }: Pick<OnOne, 'principal' | 'params'>,
    action: 'retry' | 'cancel',
  ) {
    const done = await (action === 'retry' ? retryNow : cancel)(store, id, clock.now());
    if (done.kind === 'unknown') return notFound('message or delivery', id);
    if (done.kind === 'not-waiting') return nothingWaits(done.states);
    wake();
    await note(principal, { action, id, count: done.deliveries.length });
    return success(done);
  }

  async function steer(
    { principal, body: { domain } }: Pick<OnDestination, 'principal' | 'body'>,
    action: 'hold' | 'release',
  ) {
    await (action === 'hold' ? hold : release)(store, domain);
    wake();
    await note(principal, { action, destination: domain });
    return success({ destination: domain, held: action === 'hold' });
  }

  const queue = implement(contract.queue, {
    ...queueReads({ store, clock }),
    async destinations({ query: { limit, state } }) {
      const now = clock.now();
      const { destinations, count, at, complete } = await waiting.read();
      const counts = new Map(destinations.map((one) => [one.name, one.waiting]));
      const rows =
        state === 'all'
          ? destinations.slice(0, limit)
          : await (state === 'held' ? heldByOperator : failingDestinations)(store, limit);
      const names = rows.map(({ name }) => name);
      const details = new Map((await waitingDetails(store, names)).map((one) => [one.name, one]));
      const more = await waitingOf(store, {
        names: names.filter((name) => !counts.has(name)),
        most: MAX_COUNTED,
      });
      for (const one of more) counts.set(one.name, one.waiting);
      const shown = names.map((name) => {
        const detail = details.get(name);
        const { held = 0, failures = 0, oldest, next = null, paused_until: until = null } = detail ?? {};
        const isPaused = until !== null && until > now;
        return {
          destination: name,
          waiting: counts.get(name) ?? 0,
          oldest_at: oldest,
          next_attempt_at: isPaused && next !== null ? Math.max(until, next) : next,
          held,
          paused_until: isPaused ? until : null,
          failures,
          last_error: detail?.last_error,
          last_reply: detail?.last_reply,
        };
      });
      return success({ destinations: shown, relay: await relayShown(store, now), count, counted_at: at, complete });
    },
    async act({ principal, body: { action, filter: asked, dry_run: dryRun } }) {
      const now = clock.now();
      const filter = filterOf(asked, now);
      const count = await actOnMany(store, action, { filter, now, dryRun });
      const inProgress = await countDeliveries(store, { ...filter, state: 'sending' });
      if (!dryRun) {
        wake();
        await note(principal, { action, filter: asked, count });
      }
      return success({ action, count, in_progress: inProgress, dry_run: dryRun });
    },
    hold: (call) => steer(call, 'hold'),
    release: (call) => steer(call, 'release'),
    retry: (call) => operate(call, 'retry'),
    cancel: (call) => operate(call, 'cancel'),
  });

  const mailLog = implement(contract.mailLog, {
    async inbound({ query: { limit, cursor, to, ...asked } }) {
      const filter = { ...asked, until: to };
      const rows = await listInboundLog(store, filter, { limit: limit + 1, before: cursor });
      const { page, next_cursor } = pageOf(rows, limit, ({ id }) => id);
      const inbound = page.map((row) => ({ ...row, at: row.created_at }));
      return success({ inbound, count: await countInboundLog(store, filter), next_cursor });
    },
    trace: tracing(trace),
    async explain({ query: { what } }) {
      const explained = await explain(what.trim());
      if (explained !== undefined) return success(explained);
      return refuse('NOT_FOUND', {
        message: `${what} is neither an email address nor a form of this server. Use form IDs as in \`GET /forms\`: example.com/contact, c/team/join, frm_….`,
      });
    },
  });

  return [...queue, ...mailLog];
}

type Tracing = (
  call: Pick<CallOf<typeof contract.mailLog.trace>, 'params'>,
) => Promise<Success<DataOf<typeof contract.mailLog.trace>> | Refusal>;

/** `GET /admin/trace/{id}`, which needs no daemon. */
export function tracing(trace: Services['trace']): Tracing {
  return async ({ params: { id } }) => {
    const traced = await trace(id);
    if (traced !== undefined) return success(traced);
    return refuse('NOT_FOUND', {
      message: `No records found for ${id.slice(0, 200)}. Requests that were rejected or had no effect are only in the log; records older than the retention of events are deleted.`,
    });
  };
}

type Reading<Name extends keyof typeof contract.queue> = (
  call: Pick<CallOf<(typeof contract.queue)[Name]>, 'query' | 'params'>,
) => Promise<Success<DataOf<(typeof contract.queue)[Name]>> | Refusal>;

interface QueueReads {
  readonly list: Reading<'list'>;
  readonly show: Reading<'show'>;
}

/** What only reads the queue, and so needs no daemon. */
export function queueReads({ store, clock }: Pick<Services, 'store' | 'clock'>): QueueReads {
  async function shown<Row extends DeliveryRow>(rows: readonly Row[]) {
    const [held, suspended] = await Promise.all([heldAmong(store, rows), suspendedTenants(store)]);
    return rows.map((row) => ({
      ...row,
      held: row.next_attempt_at === HELD || held.includes(row.destination),
      suspended: suspended.includes(row.tenant),
      next_attempt_at: row.next_attempt_at === HELD ? null : row.next_attempt_at,
    }));
  }

  return {
    async list({ query: { limit, cursor, ...asked } }) {
      const filter = filterOf(asked, clock.now());
      const page = await listDeliveries(store, { ...filter, before: cursor, limit });
      const count = await countDeliveries(store, filter, MAX_COUNT);
      const relay = await relayShown(store, clock.now());
      const deliveries = await shown(page.deliveries);
      return success({ deliveries, relay, count, next_cursor: page.next });
    },
    async show({ params: { id } }) {
      const found = await showMessage(store, id);
      if (found === undefined) return notFound('message or delivery', id);
      return success({ message: found.message, deliveries: await shown(found.deliveries) });
    },
  };
}

async function relayShown(store: Store, now: number) {
  const paused = await relayPause(store, now);
  return paused === undefined
    ? null
    : { paused_until: paused.until, failures: paused.failures, last_error: paused.error };
}

/** The refusal of an action on mail of which nothing waits. */
export function nothingWaits(states: readonly string[]): Refusal {
  return refuse('CONFLICT', { message: `Nothing is waiting for delivery: ${[...new Set(states)].join(', ')}.` });
}

interface QueueQuery {
  readonly state?: DeliveryRow['state'] | undefined;
  readonly domain?: string | undefined;
  readonly tenant?: string | undefined;
  readonly sender?: string | undefined;
  readonly project?: string | undefined;
  readonly older_than?: string | undefined;
}

function filterOf(
  { domain: destination, older_than: age, project: slug, ...asked }: QueueQuery,
  now: number,
): DeliveryFilter {
  const { tenant = slug === undefined ? undefined : OPERATOR } = asked;
  const project = slug === undefined ? undefined : { tenant: tenant ?? OPERATOR, slug };
  const createdBefore = age === undefined ? undefined : now - duration.parse(age);
  return { ...asked, tenant, destination, project, createdBefore };
}
