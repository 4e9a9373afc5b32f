/** API keys for a test, made as the daemon makes them, without the HTTP around it. */
import { FULL, makeKey } from '../../src/accounts/api-keys.ts';
import { principalOf } from '../../src/accounts/authenticate.ts';
import type { Permission, PermissionName } from '../../src/lib/permission-names.ts';
import { expandPermissions, type Principal, type Restrictions } from '../../src/accounts/principal.ts';
import { isoTime, systemClock } from '../../src/lib/clock.ts';
import { newId } from '../../src/lib/ids.ts';
import { revokeKey } from '../../src/store/api-keys.ts';
import type { Store } from '../../src/store/store.ts';
import type { TenantRow } from '../../src/store/tables.ts';
import { findTenant, insertTenant } from '../../src/store/tenants.ts';

export interface TestKeySettings {
  /** Its owner, `OPERATOR` say; default: a new tenant. */
  readonly tenant?: string;
  /** Of a tenant that is new. */
  readonly account?: Partial<TenantRow>;
  readonly name?: string;
  /** Default: those of a full key. */
  readonly permissions?: readonly PermissionName[];
  readonly environment?: 'live' | 'test';
  readonly restrictions?: Restrictions;
  readonly expired?: boolean;
  readonly revoked?: boolean;
  /** Of the test's clock. */
  readonly now?: number;
}

export interface TestKey {
  readonly tenant: string;
  readonly id: string;
  /** As it goes into a header. */
  readonly value: string;
  /** The header. */
  readonly headers: { readonly Authorization: string };
}

/** A key in the store. */
export async function testKey(store: Store, settings: TestKeySettings = {}): Promise<TestKey> {
  const { now = systemClock.now(), permissions, restrictions = {}, environment = 'live', name = 'Test' } = settings;
  const tenant = settings.tenant ?? newId('ten', now);
  if ((await findTenant(store, tenant)) === undefined) {
    await store.write([
      insertTenant(tenantRow({ id: tenant, confirmed_at: now, created_at: now, ...settings.account })),
    ]);
  }
  const { row, value, unit } = makeKey(
    {
      tenant,
      name,
      environment,
      permissions: permissions === undefined ? FULL : expandPermissions(permissions),
      restrictions: settings.expired === true ? { ...restrictions, expires_at: isoTime(now - 1) } : restrictions,
      created_by: null,
    },
    now,
  );
  await store.write([...unit, ...(settings.revoked === true ? [revokeKey({ id: row.id, tenant, at: now })] : [])]);
  return { tenant, id: row.id, value, headers: { Authorization: `Bearer ${value}` } };
}

/** A tenant as the store has it: on the free plan, confirmed and trusted. */
export function tenantRow(more: Partial<TenantRow> = {}): TenantRow {
  return {
    id: 'ten_a',
    name: 'Tenant',
    email: 'tenant@inbox.test',
    plan: 'free',
    requests_per_hour: null,
    messages_per_hour: null,
    messages_per_day: null,
    suspended: 0,
    trusted: 1,
    confirmed_at: 1,
    created_at: 1,
    ...more,
  };
}

/** Who asks with a new key of this tenant, without a store. */
export function testPrincipal({
  tenant,
  permissions = [],
  restrictions = {},
}: {
  readonly tenant?: Partial<TenantRow>;
  readonly permissions?: readonly Permission[];
  readonly restrictions?: Restrictions;
}): Principal {
  const owner = tenantRow(tenant);
  const grant = { tenant: owner.id, name: 'Key', environment: 'live', created_by: null } as const;
  return principalOf({ key: makeKey({ ...grant, permissions, restrictions }, 0).row, tenant: owner });
}
