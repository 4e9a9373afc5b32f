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
export function usageOf(store: Store, tenant: string, { from, until, key }: Days & { key?: string | undefined }) {
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

/** The sum of a tenant's keys over these days; zeros where there was nothing. */
export async function usageSum(
  store: Store,
  tenant: string,
  { from, until }: Days,
): Promise<Omit<TenantUsage, 'tenant'>> {
  const sum = await store.read
    .selectFrom('usage')
    .select(({ fn }) => [
      fn.sum<number | null>('requests').as('requests'),
      fn.sum<number | null>('errors').as('errors'),
      fn.sum<number | null>('rate_limited').as('rate_limited'),
    ])
    .where('tenant', '=', tenant)
    .where('day', '>=', from)
    .where('day', '<', until)
    .executeTakeFirstOrThrow();
  return { requests: Number(sum.requests), errors: Number(sum.errors), rate_limited: Number(sum.rate_limited) };
}
