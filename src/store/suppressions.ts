/**
 * Addresses that a tenant's mail is no longer sent to: they bounced, complained, or somebody put them here. All are in lower
 * case; of one that was erased there is a hash (`hashedAddress`).
 */
import { sql } from 'kysely';
import { hashedAddress } from '../lib/addresses.ts';
import { countOf, insertInto, listed, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SuppressionRow } from './tables.ts';

const insert = insertInto('suppressions', sql`on conflict do nothing`);
const remove = query<{ tenant: string; addresses: readonly string[] }>(
  (value) =>
    sql`delete from suppressions where tenant = ${value('tenant')} and address in ${listed(value('addresses'))}`,
);
const one = reader(
  (tenant: string, addresses: readonly string[]) => sql<SuppressionRow>`select * from suppressions
    where tenant = ${tenant} and address in ${listed(addresses)} limit 1`,
);
const ofAddress = reader(
  (addresses: readonly string[]) => sql<SuppressionRow>`select * from suppressions
    where address in ${listed(addresses)} order by tenant`,
);

/** How the list may have the address. */
function spellings(address: string): string[] {
  return [address.toLowerCase(), hashedAddress(address)];
}

/** The statement that suppresses the address for this tenant. */
export function suppress(suppression: SuppressionRow): Statement {
  return insert({ ...suppression, address: suppression.address.toLowerCase() });
}

/** The statement that takes the address off the list. */
export function allow(tenant: string, address: string): Statement {
  return remove({ tenant, addresses: spellings(address) });
}

/** Whether the tenant's mail is no longer sent to this address. */
export async function isSuppressed(store: Store, tenant: string, address: string): Promise<boolean> {
  return (await findSuppression(store, tenant, address)) !== undefined;
}

/** The entry of this address, or undefined. */
export async function findSuppression(
  store: Store,
  tenant: string,
  address: string,
): Promise<SuppressionRow | undefined> {
  return (await one(store, tenant, spellings(address)))[0];
}

/** On whose lists the address is. */
export function suppressionsOf(store: Store, address: string): Promise<SuppressionRow[]> {
  return ofAddress(store, spellings(address));
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
