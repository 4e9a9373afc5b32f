/** What keys asked for, per key and UTC day. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { UsageRow } from './tables-accounts.ts';

/** The statement that adds to what the key's day holds already, whichever daemon counted it. */
export const addUsage = define<UsageRow>()((db, value) =>
  db
    .insertInto('usage')
    .values({
      tenant: value('tenant'),
      key: value('key'),
      day: value('day'),
      requests: value('requests'),
      errors: value('errors'),
      rate_limited: value('rate_limited'),
    })
    .onConflict((conflict) =>
      conflict.columns(['key', 'day']).doUpdateSet((eb) => ({
        requests: eb('usage.requests', '+', eb.ref('excluded.requests')),
        errors: eb('usage.errors', '+', eb.ref('excluded.errors')),
        rate_limited: eb('usage.rate_limited', '+', eb.ref('excluded.rate_limited')),
      })),
    ),
);

/** Days from `from` (inclusive) to `until`, as starts of UTC days in ms. */
export interface Days {
  readonly from: number;
  readonly until: number;
}

/** The days of a tenant's keys, or of one of them, oldest first. */
export function usageOf(
  store: Store,
  tenant: string,
  { from, until, key }: Days & { key?: string | undefined },
): Promise<UsageRow[]> {
  const days = store.read
    .selectFrom('usage')
    .selectAll()
    .where('tenant', '=', tenant)
    .where('day', '>=', from)
    .where('day', '<', until)
    .orderBy('day')
    .orderBy('key');
  return (key === undefined ? days : days.where('key', '=', key)).execute();
}

export interface TenantUsage {
  readonly tenant: string;
  readonly requests: number;
  readonly errors: number;
  readonly rate_limited: number;
}

/** The sums of each tenant's keys over these days; tenants without any are not there. */
export function usageOfAll(store: Store, { from, until }: Days): Promise<TenantUsage[]> {
  return store.read
    .selectFrom('usage')
    .select((eb) => [
      'tenant',
      eb.cast<number>(eb.fn.sum('requests'), 'bigint').as('requests'),
      eb.cast<number>(eb.fn.sum('errors'), 'bigint').as('errors'),
      eb.cast<number>(eb.fn.sum('rate_limited'), 'bigint').as('rate_limited'),
    ])
    .where('day', '>=', from)
    .where('day', '<', until)
    .groupBy('tenant')
    .execute();
}
