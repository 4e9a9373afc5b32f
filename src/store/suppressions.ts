/** Addresses that a tenant's mail is no longer sent to: they bounced, complained, or somebody put them here. */
import { define, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SuppressionRow } from './tables.ts';

const insert = define<SuppressionRow>()((db, value) =>
  db
    .insertInto('suppressions')
    .values({
      tenant: value('tenant'),
      address: value('address'),
      reason: value('reason'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.columns(['tenant', 'address']).doNothing()),
);

/** The statement that suppresses the address for this tenant; it is compared without case. */
export function suppress(suppression: SuppressionRow): Statement {
  return insert({ ...suppression, address: suppression.address.toLowerCase() });
}

const suppressed = define<{ tenant: string; address: string }>()((db, value) =>
  db
    .selectFrom('suppressions')
    .select('address')
    .where('tenant', '=', value('tenant'))
    .where('address', '=', value('address')),
);

/** Whether the tenant's mail is no longer sent to this address; it is compared without case. */
export async function isSuppressed(store: Store, tenant: string, address: string): Promise<boolean> {
  const rows = await store.select(suppressed({ tenant, address: address.toLowerCase() }));
  return rows.length > 0;
}
