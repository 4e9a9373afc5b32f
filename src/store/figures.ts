/** What the operator watches: how much waits, and for how long. Cheap enough to be asked every few seconds. */
import { sql } from 'kysely';
import { RELAY } from './destinations.ts';
import { firstId, lastId } from '../lib/ids.ts';
import { unsettled, waiting } from './messages.ts';
import { reader } from './statement.ts';
import type { Store } from './store.ts';
import type { DeliveryState, DomainStatus } from './tables.ts';

export interface Figures {
  /** Deliveries by state, but for those that are delivered: nobody wants to count millions. */
  readonly deliveries: readonly {
    readonly state: DeliveryState;
    readonly transport: 'smtp' | 'http';
    readonly count: number;
  }[];
  /**
   * When the oldest due mail became due, ms; null where nothing is. What is held or paused does not count; mail of suspended
   * tenants is not due.
   */
  readonly dueSince: number | null;
  /** Destinations that are left alone for a while, and those that the operator holds. */
  readonly paused: number;
  readonly held: number;
  /** 1 while the smarthost fails. */
  readonly relayFailing: number;
  readonly domains: readonly { readonly status: DomainStatus; readonly count: number }[];
}

// All in the index by state and id: the transport is told by the id.
const deliveries = reader(
  () => sql<{ state: DeliveryState; count: number; http: number }>`
    select state, count(*) as count, count(case when substr(id, 1, 4) = 'whd_' then 1 end) as http
    from deliveries where ${unsettled} group by state`,
);
const domains = reader(
  () => sql<Figures['domains'][number]>`
    select status, count(*) as count from domains where project <> '' group by status`,
);
// A webhook gets few posts at a time: what waits for a slow one is no fault of the queue.
const others = reader(
  (now: number) => sql<{
    due: number | null;
    paused: number;
    held: number;
    relayFailing: number;
  }>`select
    (select min(next_due_at) from destinations where next_due_at is not null and held = 0
      and substr(name, 1, 4) <> 'whk_' and (paused_until is null or paused_until <= ${now})) as due,
    (select count(*) from destinations where paused_until > ${now} and name <> ${sql.lit(RELAY)}) as paused,
    (select count(*) from destinations where held = 1) as held,
    (select count(*) from destinations where name = ${sql.lit(RELAY)} and failures > 0) as "relayFailing"`,
);

const open = reader(
  () => sql<{ id: string }>`select id from deliveries
    where state in ('queued', 'deferred', 'sending') and ${unsettled} limit 1`,
);

/** Whether anything is still to be delivered, now or later. */
export async function isAnyDeliveryOpen(store: Store): Promise<boolean> {
  return (await open(store)).length > 0;
}

export interface WorstDestination {
  readonly destination: string;
  /** At most `MAX_COUNTED`. */
  readonly waiting: number;
  /** 0 or 1 */
  readonly held: number;
  readonly failures: number;
  readonly paused_until: number | null;
  readonly last_error: string | null;
  /** Of one of its deliveries. */
  readonly last_reply: string | null;
}

/** More than these are not counted: each costs a look at its row. */
const MAX_COUNTED = 500;

const worst = reader(
  (limit: number) => sql<WorstDestination>`
    select worst.name as destination, held, failures, paused_until, last_error,
      (select count(*) from (select 1 as one from deliveries where destination = worst.name and ${waiting}
        limit ${sql.lit(MAX_COUNTED)}) as counted) as waiting,
      (select last_reply from deliveries where destination = worst.name and ${waiting}
        order by next_attempt_at desc limit 1) as last_reply
    from (select * from destinations where (next_due_at is not null or held = 1) and name <> ${sql.lit(RELAY)}
      order by failures desc, held desc, next_due_at limit ${limit}) as worst
    order by failures desc, held desc, waiting desc, worst.name`,
);
const queuedSince = reader(
  (first: string, last: string) =>
    sql<{ count: number }>`select count(*) as count from deliveries where id >= ${first} and id < ${last}`,
);

/** Destinations for which something waits: those that fail come first, then those that are held, then those due longest. */
export function worstDestinations(store: Store, limit: number): Promise<WorstDestination[]> {
  return worst(store, limit);
}

/** How many deliveries of mail have been queued since `at`, whatever has become of them. */
export async function countQueuedSince(store: Store, at: number): Promise<number> {
  return (await queuedSince(store, firstId('dlv', at), lastId('dlv')))[0]?.count ?? 0;
}

/** Reads them all. */
export async function readFigures(store: Store, now: number): Promise<Figures> {
  const [byState, byStatus, [other]] = await Promise.all([deliveries(store), domains(store), others(store, now)]);
  const { due = null, paused = 0, held = 0, relayFailing = 0 } = other ?? {};
  const dueSince = relayFailing === 0 && due !== null && due <= now ? due : null;
  const byTransport = byState.flatMap(({ state, count, http }) => [
    { state, transport: 'smtp' as const, count: count - http },
    { state, transport: 'http' as const, count: http },
  ]);
  return {
    deliveries: byTransport.filter(({ count }) => count > 0),
    dueSince,
    paused,
    held,
    relayFailing,
    domains: byStatus,
  };
}
