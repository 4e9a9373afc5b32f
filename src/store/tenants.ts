/** Tenants: who owns projects, keys and mail. */
import { sql } from 'kysely';
import {
  countOf,
  finder,
  insertInto,
  lister,
  listerAmong,
  newestFirst,
  query,
  reader,
  update,
  type Statement,
} from './statement.ts';
import type { Store } from './store.ts';
import type { TenantRow } from './tables.ts';

/** The operator's tenant, which owns the projects of files. */
export const OPERATOR = 'ten_operator';

const saved = insertInto('tenants', sql`on conflict (id) do update set email = excluded.email`);

/** Makes the operator's tenant, or notes that the operator's address changed. */
export async function saveOperator(store: Store, email: string, now: number): Promise<void> {
  const row = { id: OPERATOR, name: 'Operator', email, plan: 'enterprise', suspended: 0, trusted: 1 };
  await store.write([saved({ ...row, confirmed_at: now, created_at: now })]);
}

const touch = update('tenants', [sql`created_at = created_at`], ['id']);

/** Whether the database takes writes: writes the operator's row as it is. Rejects with StoreError where it cannot. */
export async function probeStore(store: Store): Promise<void> {
  await store.write([touch({ id: OPERATOR })]);
}

/** The statement that keeps a new tenant. */
export const insertTenant = insertInto('tenants');

/** What may be changed of a tenant; what is not named stays. */
export interface TenantChange {
  readonly plan?: string | undefined;
  /** null: the plan's. */
  readonly requests_per_hour?: number | null | undefined;
  /** The same. */
  readonly messages_per_hour?: number | null | undefined;
  readonly messages_per_day?: number | null | undefined;
  readonly suspended?: boolean | undefined;
  readonly trusted?: boolean | undefined;
}

const CHANGEABLE = [
  'plan',
  'requests_per_hour',
  'messages_per_hour',
  'messages_per_day',
  'suspended',
  'trusted',
] as const;
const setters = CHANGEABLE.map((column) => {
  const set = query<{ id: string; to: string | number | null }>(
    (value) => sql`update tenants set ${sql.ref(column)} = ${value('to')} where id = ${value('id')}`,
  );
  return { column, set };
});

/** The statements that change it, none where nothing is named; their unit fails with UnmetError where there is no such tenant. */
export function changeTenant(id: string, change: TenantChange): Statement[] {
  return setters.flatMap(({ column, set }) => {
    const to = change[column];
    return to === undefined ? [] : [set({ id, to: typeof to === 'boolean' ? Number(to) : to }, 1)];
  });
}

/** The statement that confirms a tenant; touches one row, or none where that was done before. */
export const confirmTenant = query<{ id: string; at: number }>(
  (value) => sql`update tenants set confirmed_at = ${value('at')}
    where id = ${value('id')} and confirmed_at is null`,
);

const forgetKeysOfUnconfirmed = query<{ before: number }>(
  (value) => sql`delete from api_keys where tenant in (
    select id from tenants where confirmed_at is null and created_at <= ${value('before')})`,
);
const forgetTenants = query<{ before: number }>(
  (value) => sql`delete from tenants where confirmed_at is null and created_at <= ${value('before')}`,
);

/** The statements that forget tenants made before, which nobody has confirmed, and their keys. */
export function forgetUnconfirmed(before: number): Statement[] {
  return [forgetKeysOfUnconfirmed({ before }), forgetTenants({ before })];
}

/** The tenant with this id, or undefined. */
export const findTenant = finder('tenants', 'id');

/** Those of these tenants that there are. */
export const findTenants = listerAmong('tenants', 'id');

/** One page of all tenants, newest first. */
export function listTenants(
  store: Store,
  page: { readonly before?: string | undefined; readonly limit: number },
): Promise<TenantRow[]> {
  return newestFirst(store.read.selectFrom('tenants').selectAll(), page);
}

/** Every tenant, oldest first. */
export const allTenants = lister('tenants', [], sql`order by id`);

/** How many tenants there are. */
export function countTenants(store: Store): Promise<number> {
  return countOf(store.read.selectFrom('tenants'));
}

const findSuspended = reader(() => sql<{ id: string }>`select id from tenants where suspended = 1`);

/** The tenants of which nothing leaves. */
export async function suspendedTenants(store: Store): Promise<string[]> {
  const rows = await findSuspended(store);
  return rows.map(({ id }) => id);
}
