/**
 * Addresses that a tenant's mail is no longer sent to: they bounced, complained, or somebody put them here. An entry with a
 * form ends the notifications of that form alone. All are in lower case; of one that was erased there is a hash
 * (`hashedAddress`).
 */
import { sql } from 'kysely';
import { hashedAddress } from '../lib/addresses.ts';
import { countOf, insertInto, listed, query, reader, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { SuppressionRow } from './tables.ts';

const insert = insertInto('suppressions', sql`on conflict do nothing`);
const remove = query<{ tenant: string; addresses: readonly string[]; form: string }>(
  (value) => sql`delete from suppressions where tenant = ${value('tenant')}
    and address in ${listed(value('addresses'))} and form = ${value('form')}`,
);
const one = reader(
  (tenant: string, addresses: readonly string[], form: string) => sql<SuppressionRow>`select * from suppressions
    where tenant = ${tenant} and address in ${listed(addresses)} and form = ${form} limit 1`,
);
const ofAddress = reader(
  (addresses: readonly string[]) => sql<SuppressionRow>`select * from suppressions
    where address in ${listed(addresses)} order by tenant, form`,
);

/** How the list may have the address. */
function spellings(address: string): string[] {
  return [address.toLowerCase(), hashedAddress(address)];
}

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
  return remove({ tenant, addresses: spellings(address), form });
}

/** Whether the tenant's mail, but for notifications, is no longer sent to this address. */
export async function isSuppressed(store: Store, tenant: string, address: string): Promise<boolean> {
  return (await findSuppression(store, { tenant, address, form: '' })) !== undefined;
}

/** The entry, or undefined. */
export async function findSuppression(
  store: Store,
  { tenant, address, form }: SuppressionKey,
): Promise<SuppressionRow | undefined> {
  return (await one(store, tenant, spellings(address), form))[0];
}

/** On whose lists the address is. */
export function suppressionsOf(store: Store, address: string): Promise<SuppressionRow[]> {
  return ofAddress(store, spellings(address));
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
