/** Tenants: who owns projects, keys and mail. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { TenantRow } from './tables-accounts.ts';

/** The statement that keeps a new tenant. */
export const insertTenant = define<TenantRow>()((db, value) =>
  db.insertInto('tenants').values({
    id: value('id'),
    name: value('name'),
    email: value('email'),
    plan: value('plan'),
    requests_per_hour: value('requests_per_hour'),
    suspended: value('suspended'),
    confirmed_at: value('confirmed_at'),
    created_at: value('created_at'),
  }),
);

/** The statement that changes what an operator may change of a tenant. */
export const updateTenant = define<Pick<TenantRow, 'id' | 'plan' | 'requests_per_hour' | 'suspended'>>()((db, value) =>
  db
    .updateTable('tenants')
    .set({
      plan: value('plan'),
      requests_per_hour: value('requests_per_hour'),
      suspended: value('suspended'),
    })
    .where('id', '=', value('id')),
);

/** The statement that confirms a tenant; touches one row, or none where that was done before. */
export const confirmTenant = define<{ id: string; at: number }>()((db, value) =>
  db
    .updateTable('tenants')
    .set({ confirmed_at: value('at') })
    .where('id', '=', value('id'))
    .where('confirmed_at', 'is', null),
);

const byId = define<{ id: string }>()((db, value) =>
  db.selectFrom('tenants').selectAll().where('id', '=', value('id')),
);

/** The tenant with this id, or undefined. */
export async function findTenant(store: Store, id: string): Promise<TenantRow | undefined> {
  const [row] = await store.select(byId({ id }));
  return row;
}

/** One page of all tenants, newest first. */
export function listTenants(
  store: Store,
  { before, limit }: { readonly before?: string | undefined; readonly limit: number },
): Promise<TenantRow[]> {
  const all = store.read.selectFrom('tenants').selectAll().orderBy('id', 'desc').limit(limit);
  return (before === undefined ? all : all.where('id', '<', before)).execute();
}

/** How many tenants there are. */
export async function countTenants(store: Store): Promise<number> {
  const { count } = await store.read
    .selectFrom('tenants')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}
