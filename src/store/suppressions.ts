/** Addresses that a tenant's mail is no longer sent to: they bounced, complained, or somebody put them here. All are in lower case. */
import { sql } from 'kysely';
import { countOf, deleteFrom, finder, insertInto, lister, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SuppressionRow } from './tables.ts';

const insert = insertInto('suppressions', sql`on conflict do nothing`);
const remove = deleteFrom('suppressions', 'tenant', 'address');
const one = finder('suppressions', 'tenant', 'address');
const ofAddress = lister('suppressions', ['address'], sql`order by tenant`);

/** The statement that suppresses the address for this tenant. */
export function suppress(suppression: SuppressionRow): Statement {
  return insert({ ...suppression, address: suppression.address.toLowerCase() });
}

/** The statement that takes the address off the list. */
export function allow(tenant: string, address: string): Statement {
  return remove({ tenant, address: address.toLowerCase() });
}

/** Whether the tenant's mail is no longer sent to this address. */
export async function isSuppressed(store: Store, tenant: string, address: string): Promise<boolean> {
  return (await findSuppression(store, tenant, address)) !== undefined;
}

/** The entry of this address, or undefined. */
export function findSuppression(store: Store, tenant: string, address: string): Promise<SuppressionRow | undefined> {
  return one(store, tenant, address.toLowerCase());
}

/** On whose lists the address is. */
export function suppressionsOf(store: Store, address: string): Promise<SuppressionRow[]> {
  return ofAddress(store, address.toLowerCase());
}

/** The tenant's list by address, those after `after` where it is given. */
export function selectSuppressions(
  store: Store,
  { tenant, after, limit }: { tenant: string; after: string | undefined; limit: number },
): Promise<SuppressionRow[]> {
  const rows = store.read.selectFrom('suppressions').selectAll().where('tenant', '=', tenant);
  const page = after === undefined ? rows : rows.where('address', '>', after);
  return page.orderBy('address').limit(limit).execute();
}

/** How many addresses are on the tenant's list. */
export function countSuppressions(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('suppressions').where('tenant', '=', tenant));
}
