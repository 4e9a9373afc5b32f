/**
 * Addresses that a tenant's mail is no longer sent to: they bounced, complained, or somebody put them here. An entry with a
 * form ends the notifications of that form alone. All are in lower case.
 */
import { sql } from 'kysely';
import { countOf, deleteFrom, finder, insertInto, lister, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SuppressionRow } from './tables.ts';

const insert = insertInto('suppressions', sql`on conflict do nothing`);
const remove = deleteFrom('suppressions', 'tenant', 'address', 'form');
const one = finder('suppressions', 'tenant', 'address', 'form');
const ofAddress = lister('suppressions', ['address'], sql`order by tenant, form`);

/** Which entry: `form` is empty for the one that is about no form. */
export type SuppressionKey = Pick<SuppressionRow, 'tenant' | 'address' | 'form'>;

/** The statement that suppresses the address for this tenant, or for one of its forms. */
export function suppress({
  form = '',
  ...suppression
}: Omit<SuppressionRow, 'form'> & Partial<Pick<SuppressionRow, 'form'>>): Statement {
  return insert({ ...suppression, form, address: suppression.address.toLowerCase() });
}

/** The statement that takes the entry off the list. */
export function allow({ tenant, address, form }: SuppressionKey): Statement {
  return remove({ tenant, address: address.toLowerCase(), form });
}

/** Whether the tenant's mail, but for notifications, is no longer sent to this address. */
export async function isSuppressed(store: Store, tenant: string, address: string): Promise<boolean> {
  return (await findSuppression(store, { tenant, address, form: '' })) !== undefined;
}

/** The entry, or undefined. */
export function findSuppression(
  store: Store,
  { tenant, address, form }: SuppressionKey,
): Promise<SuppressionRow | undefined> {
  return one(store, tenant, address.toLowerCase(), form);
}

/** On whose lists the address is. */
export function suppressionsOf(store: Store, address: string): Promise<SuppressionRow[]> {
  return ofAddress(store, address.toLowerCase());
}

/** The tenant's list by address and form, those after `after` where it is given. */
export function selectSuppressions(
  store: Store,
  {
    tenant,
    after,
    limit,
  }: { tenant: string; after: Pick<SuppressionRow, 'address' | 'form'> | undefined; limit: number },
): Promise<SuppressionRow[]> {
  const rows = store.read.selectFrom('suppressions').selectAll().where('tenant', '=', tenant);
  const page =
    after === undefined ? rows : rows.where(sql<boolean>`(address, form) > (${after.address}, ${after.form})`);
  return page.orderBy('address').orderBy('form').limit(limit).execute();
}

/** How many entries are on the tenant's list. */
export function countSuppressions(store: Store, tenant: string): Promise<number> {
  return countOf(store.read.selectFrom('suppressions').where('tenant', '=', tenant));
}
