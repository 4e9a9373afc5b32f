/** What the operator watches: how much waits, and for how long. Cheap enough to be asked every few seconds. */
import type { Store } from './store.ts';
import type { DeliveryState, DomainStatus } from './tables.ts';
import { unsettled } from './deliveries.ts';
import { countPending } from './webhook-deliveries.ts';

export interface Figures {
  /** Deliveries by state, but for those that are delivered: nobody wants to count millions. */
  readonly deliveries: readonly { readonly state: DeliveryState; readonly count: number }[];
  /**
   * When the oldest due work became due, ms; null where nothing is. What is held or paused does not count; mail of suspended
   * tenants is not due.
   */
  readonly dueSince: number | null;
  /** Destinations that are left alone for a while, and those that the operator holds. */
  readonly paused: number;
  readonly held: number;
  readonly domains: readonly { readonly status: DomainStatus; readonly count: number }[];
  /** Posts to webhooks that are still to be made. */
  readonly webhooks: number;
  /** Accepted by all forms since the beginning. */
  readonly submissions: number;
}

export async function readFigures(store: Store, now: number): Promise<Figures> {
  const { read } = store;
  const [deliveries, due, paused, held, domains, webhooks, submissions] = await Promise.all([
    read
      .selectFrom('deliveries')
      .select((eb) => ['state', eb.fn.countAll().as('count')])
      .where(unsettled)
      .groupBy('state')
      .execute(),
    read
      .selectFrom('destinations')
      .select((eb) => eb.fn.min('next_due_at').as('at'))
      .where('next_due_at', 'is not', null)
      .where('held', '=', 0)
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
    countPending(store),
    read
      .selectFrom('form_counters')
      .select((eb) => eb.fn.sum('submissions').as('sum'))
      .executeTakeFirst(),
  ]);
  const at = due?.at ?? null;
  return {
    deliveries: deliveries.map(({ state, count }) => ({ state, count: Number(count) })),
    dueSince: at !== null && at <= now ? at : null,
    paused: Number(paused.count),
    held: Number(held.count),
    domains: domains.map(({ status, count }) => ({ status, count: Number(count) })),
    webhooks,
    submissions: Number(submissions?.sum ?? 0),
  };
}
