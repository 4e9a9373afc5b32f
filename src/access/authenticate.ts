/** From what a request shows to who asks. Nothing is remembered: a key that was revoked is refused from then on. */
import type { Clock } from '../lib/clock.ts';
import { findKeyByHash } from '../store/api-keys.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';
import { findTenant } from '../store/tenants.ts';
import { hashOfKey, isKeyValue } from './key-value.ts';
import { PERMISSIONS, permissionsOf, type Permission } from './permissions.ts';
import { restrictionsOf, type Principal } from './principal.ts';

export type AuthFault = 'AUTH_INVALID_KEY' | 'AUTH_EXPIRED_KEY' | 'AUTH_REVOKED_KEY';

export interface Authenticator {
  /** Whose key this is. Revocation and expiry count from the next call on. */
  byKey(value: string): Promise<Principal | AuthFault>;
  /** The operator, acting for this tenant (its own unless told); undefined where there is no such tenant. */
  operator(tenant?: string): Promise<Principal | undefined>;
}

const EVERYTHING: ReadonlySet<Permission> = new Set(PERMISSIONS);

/** Keys as the store has them. */
export function createAuthenticator({ store, clock }: { store: Store; clock: Clock }): Authenticator {
  return {
    async byKey(value) {
      if (!isKeyValue(value)) return 'AUTH_INVALID_KEY';
      const found = await findKeyByHash(store, hashOfKey(value));
      if (found === undefined) return 'AUTH_INVALID_KEY';
      const { key, tenant } = found;
      if (key.revoked_at !== null) return 'AUTH_REVOKED_KEY';
      if (key.expires_at !== null && key.expires_at <= clock.now()) return 'AUTH_EXPIRED_KEY';
      return {
        tenant,
        key,
        permissions: permissionsOf(key.permissions),
        environment: key.environment,
        restrictions: restrictionsOf(key.restrictions),
      };
    },
    async operator(id = OPERATOR) {
      const tenant = await findTenant(store, id);
      return tenant && { tenant, key: undefined, permissions: EVERYTHING, environment: 'live', restrictions: {} };
    },
  };
}
