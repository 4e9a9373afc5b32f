/** API keys: of their values only a SHA-256 and the last four characters. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { ApiKeyRow, TenantRow } from './tables.ts';

/** The statement that keeps a new key. */
export const insertKey = define<ApiKeyRow>()((db, value) =>
  db.insertInto('api_keys').values({
    id: value('id'),
    tenant: value('tenant'),
    name: value('name'),
    environment: value('environment'),
    prefix: value('prefix'),
    hash: value('hash'),
    last4: value('last4'),
    permissions: value('permissions'),
    restrictions: value('restrictions'),
    created_by: value('created_by'),
    created_at: value('created_at'),
    expires_at: value('expires_at'),
    revoked_at: value('revoked_at'),
    last_used_at: value('last_used_at'),
  }),
);

/** The statement that revokes a key; touches one row, or none where it was revoked before. */
export const revokeKey = define<{ id: string; tenant: string; at: number }>()((db, value) =>
  db
    .updateTable('api_keys')
    .set({ revoked_at: value('at') })
    .where('id', '=', value('id'))
    .where('tenant', '=', value('tenant'))
    .where('revoked_at', 'is', null),
);

/** The statement that notes when a key was used last; it never goes back. */
export const noteKeyUse = define<{ id: string; at: number }>()((db, value) =>
  db
    .updateTable('api_keys')
    .set({ last_used_at: value('at') })
    .where('id', '=', value('id'))
    .where((where) => where.or([where('last_used_at', 'is', null), where('last_used_at', '<', value('at'))])),
);

const byHash = define<{ hash: string }>()((db, value) =>
  db
    .selectFrom('api_keys')
    .innerJoin('tenants', 'tenants.id', 'api_keys.tenant')
    .selectAll('api_keys')
    .select([
      'tenants.name as tenant_name',
      'tenants.email as tenant_email',
      'tenants.plan as tenant_plan',
      'tenants.requests_per_hour as tenant_requests_per_hour',
      'tenants.messages_per_hour as tenant_messages_per_hour',
      'tenants.messages_per_day as tenant_messages_per_day',
      'tenants.suspended as tenant_suspended',
      'tenants.trusted as tenant_trusted',
      'tenants.confirmed_at as tenant_confirmed_at',
      'tenants.created_at as tenant_created_at',
    ])
    .where('api_keys.hash', '=', value('hash')),
);

const byId = define<{ id: string; tenant: string }>()((db, value) =>
  db.selectFrom('api_keys').selectAll().where('id', '=', value('id')).where('tenant', '=', value('tenant')),
);

/** The key whose value has this SHA-256, with whose it is; one look-up, because every request makes it. */
export async function findKeyByHash(
  store: Store,
  hash: string,
): Promise<{ readonly key: ApiKeyRow; readonly tenant: TenantRow } | undefined> {
  const [row] = await store.select(byHash({ hash }));
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
export async function findKey(store: Store, tenant: string, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await store.select(byId({ id, tenant }));
  return row;
}

/** How many keys of the tenant can be used. */
export async function countActiveKeys(store: Store, tenant: string, now: number): Promise<number> {
  const { count } = await store.read
    .selectFrom('api_keys')
    .select((eb) => eb.fn.countAll().as('count'))
    .where('tenant', '=', tenant)
    .where('revoked_at', 'is', null)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** The tenant's keys, newest first, revoked ones among them. */
export function listKeys(store: Store, tenant: string): Promise<ApiKeyRow[]> {
  return store.read.selectFrom('api_keys').selectAll().where('tenant', '=', tenant).orderBy('id', 'desc').execute();
}
