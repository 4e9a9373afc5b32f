/** What the operator watches: how much waits, and for how long. Cheap enough to be asked every few seconds. */
import { sql } from 'kysely';
import { unsettled } from './deliveries.ts';
import { countOf } from './rows.ts';
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
  readonly domains: readonly { readonly status: DomainStatus; readonly count: number }[];
  /** Accepted by all forms since the beginning. */
  readonly submissions: number;
}

/** Reads them all. */
export async function readFigures({ read }: Store, now: number): Promise<Figures> {
  const count = sql<number>`count(*)`.as('count');
  const transport = sql<'smtp' | 'http'>`case when webhook is null then 'smtp' else 'http' end`.as('transport');
  const destinations = read.selectFrom('destinations');
  const submissions = sql<number>`cast(coalesce(sum(submissions), 0) as bigint)`.as('sum');
  const [due, total] = await Promise.all([
    // A webhook gets few posts at a time: what waits for a slow one is no fault of the queue.
    destinations
      .select((eb) => eb.fn.min('next_due_at').as('at'))
      .where(
        sql<boolean>`next_due_at is not null and held = 0 and substr(name, 1, 4) <> 'whk_'
        and (paused_until is null or paused_until <= ${now})`,
      )
      .executeTakeFirstOrThrow(),
    read.selectFrom('form_counters').select(submissions).executeTakeFirstOrThrow(),
  ]);
  const [deliveries, domains, paused, held] = await Promise.all([
    read
      .selectFrom('deliveries')
      .select(['state', transport, count])
      .where(unsettled)
      .groupBy(['state', 'transport'])
      .execute(),
    read.selectFrom('domains').select(['status', count]).where('project', '<>', '').groupBy('status').execute(),
    countOf(destinations.where('paused_until', '>', now)),
    countOf(destinations.where('held', '=', 1)),
  ]);
  const { at } = due;
  return {
    deliveries,
    dueSince: at !== null && at <= now ? at : null,
    paused,
    held,
    domains,
    submissions: total.sum,
  };
}
