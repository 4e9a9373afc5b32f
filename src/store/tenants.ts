/** Tenants: who owns projects, keys and mail. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { TenantRow } from './tables-accounts.ts';

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('tenants').selectAll().where('id', '=', value('id')),
);

/** The tenant with this id, or undefined. */
export async function findTenant(store: Store, id: string): Promise<TenantRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}
