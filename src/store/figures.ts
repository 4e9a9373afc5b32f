/** What the operator watches: how much waits, and for how long. Cheap enough to be asked every few seconds. */
import type { Store } from './store.ts';
import type { DeliveryState, DomainStatus } from './tables.ts';
import { unsettled } from './deliveries.ts';
import { sql } from 'kysely';

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

const TRANSPORT = sql<'smtp' | 'http'>`case when webhook is null then 'smtp' else 'http' end`;

export async function readFigures(store: Store, now: number): Promise<Figures> {
  const { read } = store;
  const [deliveries, due, paused, held, domains, submissions] = await Promise.all([
    read
      .selectFrom('deliveries')
      .select((eb) => ['state', TRANSPORT.as('transport'), eb.fn.countAll().as('count')])
      .where(unsettled)
      .groupBy(['state', 'transport'])
      .execute(),
    read
      .selectFrom('destinations')
      .select((eb) => eb.fn.min('next_due_at').as('at'))
      .where('next_due_at', 'is not', null)
      .where('held', '=', 0)
      // A webhook gets few posts at a time: what waits for a slow one is no fault of the queue.
      .where(sql<boolean>`substr(name, 1, 4) <> 'whk_'`)
      .where((eb) => eb.or([eb('paused_until', 'is', null), eb('paused_until', '<=', now)]))
      .executeTakeFirst(),
    read
      .selectFrom('destinations')
      .select((eb) => eb.fn.countAll().as('count'))
      .where('paused_until', '>', now)
      .executeTakeFirstOrThrow(),
    read
      .selectFrom('destinations')
      .select((eb) => eb.fn.countAll().as('count'))
      .where('held', '=', 1)
      .executeTakeFirstOrThrow(),
    read
      .selectFrom('domains')
      .select((eb) => ['status', eb.fn.countAll().as('count')])
      .where('project', '<>', '')
      .groupBy('status')
      .execute(),
    read
      .selectFrom('form_counters')
      .select((eb) => eb.fn.sum('submissions').as('sum'))
      .executeTakeFirst(),
  ]);
  const at = due?.at ?? null;
  return {
    deliveries: deliveries.map(({ state, transport, count }) => ({ state, transport, count: Number(count) })),
    dueSince: at !== null && at <= now ? at : null,
    paused: Number(paused.count),
    held: Number(held.count),
    domains: domains.map(({ status, count }) => ({ status, count: Number(count) })),
    submissions: Number(submissions?.sum ?? 0),
  };
}
