/** API keys: of their values only a SHA-256 and the last four characters. */
import { sql } from 'kysely';
import { countOf, finder, insertInto, query } from './rows.ts';
import type { Store } from './store.ts';
import { findTenant } from './tenants.ts';
import type { ApiKeyRow, TenantRow } from './tables.ts';

const KEYS = sql.table('api_keys');

/** The statement that keeps a new key. */
export const insertKey = insertInto('api_keys');

/** The statement that revokes a key; touches one row, or none where it was revoked before. */
export const revokeKey = query<{ id: string; tenant: string; at: number }>(
  (value) => sql`update ${KEYS} set revoked_at = ${value('at')}
    where id = ${value('id')} and tenant = ${value('tenant')} and revoked_at is null`,
);

/** The statement that notes when a key was used last; it never goes back. */
export const noteKeyUse = query<{ id: string; at: number }>(
  (value) => sql`update ${KEYS} set last_used_at = ${value('at')}
    where id = ${value('id')} and (last_used_at is null or last_used_at < ${value('at')})`,
);

const byHash = finder('api_keys', 'hash');

/** The key whose value has this SHA-256, with whose it is. */
export async function findKeyByHash(
  store: Store,
  hash: string,
): Promise<{ readonly key: ApiKeyRow; readonly tenant: TenantRow } | undefined> {
  const key = await byHash(store, hash);
  const tenant = key && (await findTenant(store, key.tenant));
  return tenant && { key, tenant };
}

/** The tenant's key with this id, or undefined. */
export const findKey = finder('api_keys', 'tenant', 'id');

/** How many keys of the tenant can be used. */
export function countActiveKeys(store: Store, tenant: string, now: number): Promise<number> {
  const usable = sql<boolean>`revoked_at is null and (expires_at is null or expires_at > ${now})`;
  return countOf(store.read.selectFrom('api_keys').where('tenant', '=', tenant).where(usable));
}

/** The tenant's keys, newest first, revoked ones among them. */
export function listKeys(store: Store, tenant: string): Promise<ApiKeyRow[]> {
  return store.read.selectFrom('api_keys').selectAll().where('tenant', '=', tenant).orderBy('id', 'desc').execute();
}
