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

const remove = define<{ tenant: string; address: string }>()((db, value) =>
  db.deleteFrom('suppressions').where('tenant', '=', value('tenant')).where('address', '=', value('address')),
);
const one = define<{ tenant: string; address: string }>()((db, value) =>
  db
    .selectFrom('suppressions')
    .selectAll()
    .where('tenant', '=', value('tenant'))
    .where('address', '=', value('address')),
);

/** The statement that takes the address off the list; it is compared without case. */
export function allow(tenant: string, address: string): Statement {
  return remove({ tenant, address: address.toLowerCase() });
}

/** The entry of this address, or undefined; it is compared without case. */
export async function findSuppression(
  store: Store,
  tenant: string,
  address: string,
): Promise<SuppressionRow | undefined> {
  const [row] = await store.select(one({ tenant, address: address.toLowerCase() }));
  return row;
}

const ofAddress = define<{ address: string }>()((db, value) =>
  db.selectFrom('suppressions').selectAll().where('address', '=', value('address')).orderBy('tenant'),
);

/** On whose lists the address is; it is compared without case. */
export function suppressionsOf(store: Store, address: string): Promise<SuppressionRow[]> {
  return store.select(ofAddress({ address: address.toLowerCase() }));
}

/** The tenant's list by address, those after `after` where it is given. */
export function selectSuppressions(
  store: Store,
  { tenant, after, limit }: { tenant: string; after: string | undefined; limit: number },
): Promise<SuppressionRow[]> {
  const query = store.read.selectFrom('suppressions').selectAll().where('tenant', '=', tenant);
  const page = after === undefined ? query : query.where('address', '>', after);
  return page.orderBy('address').limit(limit).execute();
}

/** How many addresses are on the tenant's list. */
export async function countSuppressions(store: Store, tenant: string): Promise<number> {
  const query = store.read.selectFrom('suppressions').where('tenant', '=', tenant);
  const { count } = await query.select((eb) => eb.fn.countAll().as('count')).executeTakeFirstOrThrow();
  return Number(count);
}
