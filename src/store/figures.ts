/** What the operator watches: how much waits, and for how long. Cheap enough to be asked every few seconds. */
import { sql } from 'kysely';
import { RELAY } from './destinations.ts';
import { unsettled } from './deliveries.ts';
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

const deliveries = reader(
  () => sql<Figures['deliveries'][number]>`
    select state, case when webhook is null then 'smtp' else 'http' end as transport, count(*) as count
    from deliveries where ${unsettled} group by state, case when webhook is null then 'smtp' else 'http' end`,
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

/** Reads them all. */
export async function readFigures(store: Store, now: number): Promise<Figures> {
  const [byState, byStatus, [other]] = await Promise.all([deliveries(store), domains(store), others(store, now)]);
  const { due = null, paused = 0, held = 0, relayFailing = 0 } = other ?? {};
  const dueSince = relayFailing === 0 && due !== null && due <= now ? due : null;
  return { deliveries: byState, dueSince, paused, held, relayFailing, domains: byStatus };
}
