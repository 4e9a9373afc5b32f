/**
 * From what a request shows to who asks. A key that was revoked is refused from then on: what is remembered counts only
 * while nobody has written keys or tenants, and only where no other daemon can.
 */
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { findKeyByHash } from '../store/api-keys.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';
import type { ApiKeyRow, TenantRow } from '../store/tables-accounts.ts';
import { findTenant } from '../store/tenants.ts';
import { hashOfKey, isKeyValue } from './key-value.ts';
import { createKeyUses } from './key-uses.ts';
import { Recent } from './recent.ts';
import { PERMISSIONS, type Permission } from '../lib/permission-names.ts';
import { permissionsOf } from './permissions.ts';
import { restrictionsOf, type Principal } from './principal.ts';

/** Why a value opens nothing; the last two: the key is right, but its account is not to be served. */
export type AuthFault =
  'AUTH_INVALID_KEY' | 'AUTH_EXPIRED_KEY' | 'AUTH_REVOKED_KEY' | 'TENANT_SUSPENDED' | 'TENANT_UNCONFIRMED';

export interface Authenticator {
  /** Whose key this is. Revocation, expiry and suspension count from the next call on. */
  byKey(value: string): Promise<Principal | AuthFault>;
  /** The operator, acting for this tenant (its own unless told); undefined where there is no such tenant. */
  operator(tenant?: string): Promise<Principal | undefined>;
  /** Writes when keys were used last, as far as that is not written yet. Never rejects. */
  saveUses(): Promise<void>;
}

const MOST_KNOWN = 1000;
const EVERYTHING: ReadonlySet<Permission> = new Set(PERMISSIONS);

/** Keys as the store has them. */
export function createAuthenticator({ store, clock, log }: { store: Store; clock: Clock; log: Log }): Authenticator {
  const uses = createKeyUses({ store, log });
  const recent = new Recent<Known>(MOST_KNOWN);

  async function find(hash: string): Promise<Known | undefined> {
    const version = store.accountVersion();
    const known = recent.get(hash);
    if (known !== undefined && version !== undefined && known.version === version) return known;
    const held = await findKeyByHash(store, hash);
    if (held === undefined) return undefined;
    const found = { version, held, principal: principalOf(held) };
    if (version !== undefined) recent.set(hash, found);
    return found;
  }

  return {
    async byKey(value) {
      if (!isKeyValue(value)) return 'AUTH_INVALID_KEY';
      const found = await find(hashOfKey(value));
      if (found === undefined) return 'AUTH_INVALID_KEY';
      const now = clock.now();
      const fault = faultOf(found.held, now);
      if (fault !== undefined) return fault;
      uses.note(found.held.key.id, now);
      return found.principal;
    },
    async operator(id = OPERATOR) {
      const tenant = await findTenant(store, id);
      return tenant && { tenant, key: undefined, permissions: EVERYTHING, environment: 'live', restrictions: {} };
    },
    saveUses: uses.save,
  };
}

interface Known {
  /** Of the accounts, when it was read. */
  readonly version: number | undefined;
  readonly held: Held;
  readonly principal: Principal;
}

interface Held {
  readonly key: ApiKeyRow;
  readonly tenant: TenantRow;
}

function faultOf({ key, tenant }: Held, now: number): AuthFault | undefined {
  if (key.revoked_at !== null) return 'AUTH_REVOKED_KEY';
  if (key.expires_at !== null && key.expires_at <= now) return 'AUTH_EXPIRED_KEY';
  if (tenant.suspended !== 0) return 'TENANT_SUSPENDED';
  return tenant.confirmed_at === null ? 'TENANT_UNCONFIRMED' : undefined;
}

/** Who asks with this key. */
export function principalOf({ key, tenant }: Held): Principal {
  return {
    tenant,
    key,
    permissions: permissionsOf(key.permissions),
    environment: key.environment,
    restrictions: restrictionsOf(key.restrictions),
  };
}
