/**
 * From what a request shows to who asks. A key that was revoked is refused from then on: what is remembered counts only
 * while nobody has written keys or tenants, and only where no other daemon can.
 */
import { addressInRanges } from '../dns/networks.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { findKey, findKeyByHash, noteKeyUse } from '../store/api-keys.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import type { ApiKeyRow, TenantRow } from '../store/tables.ts';

import { createAuthFailures, type AuthFailures } from './auth-failures.ts';
import { hashOfKey, isKeyValue, isActive, permissionsOf } from './api-keys.ts';
import { Recent } from '../lib/lru.ts';
import { PERMISSIONS, type Permission } from '../lib/permission-names.ts';
import { partitionOf, restrictionsOf, type Principal } from './principal.ts';
import { accountOf, environmentOf } from '../lib/ids.ts';
import { errorFields } from '../lib/errors.ts';

/** Why a value opens nothing; the last two: the key is right, but its account is not to be served. */
export type AuthFault =
  'AUTH_INVALID_KEY' | 'AUTH_EXPIRED_KEY' | 'AUTH_REVOKED_KEY' | 'TENANT_SUSPENDED' | 'TENANT_UNCONFIRMED';

export interface AuthenticatorParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly failures?: Pick<AuthFailures, 'note'>;
}

export interface Authenticator {
  /**
   * Whose key this is. Revocation, expiry and suspension count from the next call on. Where the client's address is given, a
   * failure is told of, and answered later to one that tries again and again.
   */
  byKey(value: string, address?: string): Promise<Principal | AuthFault>;
  /** The operator, acting for this tenant or test partition (its own unless told); undefined where there is none such. */
  operator(tenant?: string): Promise<Principal | undefined>;
  /** Writes when keys were used last, as far as that is not written yet. Never rejects. */
  saveUses(): Promise<void>;
}

const MAX_KNOWN = 1000;
const EVERYTHING: ReadonlySet<Permission> = new Set(PERMISSIONS);

/** Keys as the store has them. */
export function createAuthenticator(parts: AuthenticatorParts): Authenticator {
  const { store, clock, log, failures = createAuthFailures(parts) } = parts;
  const uses = createKeyUses({ store, log });
  const recent = new Recent<Known>(MAX_KNOWN);

  async function find(hash: string): Promise<Known | undefined> {
    const version = store.accountVersion();
    const known = recent.get(hash);
    if (known !== undefined && version !== undefined && known.version === version) return known;
    const held = await findKeyByHash(store, hash);
    if (held === undefined) return undefined;
    const found = { version, held, principal: principalOf(held), makers: await makersOf(held.key) };
    if (version !== undefined) recent.set(hash, found);
    return found;
  }

  /** The keys of the account that made this one, directly or not, the first of them first. */
  async function makersOf({ tenant, created_by: maker }: ApiKeyRow): Promise<readonly ApiKeyRow[]> {
    const row = maker === null ? undefined : await findKey(store, tenant, maker);
    return row === undefined ? [] : [...(await makersOf(row)), row];
  }

  return {
    async byKey(value, address) {
      const found = isKeyValue(value) ? await find(hashOfKey(value)) : undefined;
      const now = clock.now();
      const fault = found === undefined ? 'AUTH_INVALID_KEY' : faultOf(found.held, now);
      const networks = found?.principal.restrictions.ip_whitelist;
      if (address !== undefined && value !== '') {
        const isElsewhere = networks !== undefined && !addressInRanges(address, networks);
        const reason = fault ?? (isElsewhere ? 'AUTH_IP_NOT_ALLOWED' : undefined);
        if (reason !== undefined) await failures.note({ address, value, reason, key: found?.held.key });
      }
      if (found === undefined || fault !== undefined) return fault ?? 'AUTH_INVALID_KEY';
      uses.note(found.held.key.id, now);
      const makers = found.makers.filter((maker) => isActive(maker, now));
      if (makers.length === 0) return found.principal;
      const shown = makers.map(({ id, restrictions }) => ({ id, restrictions: restrictionsOf(restrictions) }));
      return { ...found.principal, makers: shown };
    },
    async operator(id = OPERATOR) {
      const tenant = await findTenant(store, accountOf(id));
      const environment = environmentOf(id);
      if (tenant === undefined) return undefined;
      const acting = { tenant: partitionOf(tenant, environment), key: undefined, environment };
      return { ...acting, permissions: EVERYTHING, restrictions: {} };
    },
    saveUses: uses.save,
  };
}

interface Known {
  /** Of the accounts, when it was read. */
  readonly version: number | undefined;
  readonly held: Held;
  readonly principal: Principal;
  readonly makers: readonly ApiKeyRow[];
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
    tenant: partitionOf(tenant, key.environment),
    key,
    permissions: permissionsOf(key.permissions),
    environment: key.environment,
    restrictions: restrictionsOf(key.restrictions),
  };
}

// When keys were used last: noted in memory, written behind, so that no request waits for it. A crash forgets seconds.

export interface KeyUses {
  note(key: string, at: number): void;
  /** Writes what is not written yet; what cannot be written is kept for the next time. */
  save(): Promise<void>;
}

/** So many rows go into one commit. */
const BATCH = 250;

function createKeyUses({ store, log }: { store: Store; log: Log }): KeyUses {
  let uses = new Map<string, number>();

  async function save(): Promise<void> {
    const saving = uses;
    uses = new Map();
    // In one order, so that two daemons on one database never wait for each other.
    const entries = [...saving].sort(([a], [b]) => (a < b ? -1 : 1));
    for (let i = 0; i < entries.length; i += BATCH) {
      await store
        .write(entries.slice(i, i + BATCH).map(([id, at]) => noteKeyUse({ id, at })))
        .catch((error: unknown) => {
          log.warn('keys.uses_not_saved', errorFields(error));
          for (const [id, at] of entries.slice(i, i + BATCH)) uses.set(id, uses.get(id) ?? at);
        });
    }
  }

  return {
    note: (key, at) => void uses.set(key, at),
    save,
  };
}
