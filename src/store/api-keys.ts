/** API keys: of their values only a SHA-256 and the last four characters. */
import { sql } from 'kysely';
import { countOf, finder, insertInto, lister, query, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { ApiKeyRow, TenantRow } from './tables.ts';

/** The statement that keeps a new key. */
export const insertKey = insertInto('api_keys');

/** The statement that revokes a key; touches one row, or none where it was revoked before. */
export const revokeKey = query<{ id: string; tenant: string; at: number }>(
  (value) => sql`update api_keys set revoked_at = ${value('at')}
    where id = ${value('id')} and tenant = ${value('tenant')} and revoked_at is null`,
);

/** The statement that notes when a key was used last; it never goes back. */
export const noteKeyUse = query<{ id: string; at: number }>(
  (value) => sql`update api_keys set last_used_at = ${value('at')}
    where id = ${value('id')} and (last_used_at is null or last_used_at < ${value('at')})`,
);

type OfTenant = { readonly [C in Exclude<keyof TenantRow, 'id'> as `tenant_${C}`]: TenantRow[C] };

const byHash = reader(
  (hash: string) => sql<ApiKeyRow & OfTenant>`select k.*, t.name as tenant_name, t.email as tenant_email,
      t.plan as tenant_plan, t.requests_per_hour as tenant_requests_per_hour,
      t.messages_per_hour as tenant_messages_per_hour, t.messages_per_day as tenant_messages_per_day,
      t.suspended as tenant_suspended, t.trusted as tenant_trusted, t.confirmed_at as tenant_confirmed_at,
      t.created_at as tenant_created_at
    from api_keys as k join tenants as t on t.id = k.tenant where k.hash = ${hash}`,
);

/** The key whose value has this SHA-256, with whose it is; one look-up, because every request makes it. */
export async function findKeyByHash(
  store: Store,
  hash: string,
): Promise<{ readonly key: ApiKeyRow; readonly tenant: TenantRow } | undefined> {
  const [row] = await byHash(store, hash);
  if (row === undefined) return undefined;
  const {
    tenant_name: name,
    tenant_email: email,
    tenant_plan: plan,
    tenant_requests_per_hour: requests_per_hour,
    tenant_messages_per_hour: messages_per_hour,
    tenant_messages_per_day: messages_per_day,
    tenant_suspended: suspended,
    tenant_trusted: trusted,
    tenant_confirmed_at: confirmed_at,
    tenant_created_at: created_at,
    ...key
  } = row;
  const limits = { requests_per_hour, messages_per_hour, messages_per_day };
  const tenant = { id: key.tenant, name, email, plan, ...limits, suspended, trusted, confirmed_at, created_at };
  return { key, tenant };
}

/** The tenant's key with this id, or undefined. */
export const findKey = finder('api_keys', 'tenant', 'id');

/** How many keys of the tenant can be used. */
export function countActiveKeys(store: Store, tenant: string, now: number): Promise<number> {
  const usable = sql<boolean>`revoked_at is null and (expires_at is null or expires_at > ${now})`;
  return countOf(store.read.selectFrom('api_keys').where('tenant', '=', tenant).where(usable));
}

/** The tenant's keys, newest first, revoked ones among them. */
export const listKeys = lister('api_keys', ['tenant'], sql`order by id desc`);
