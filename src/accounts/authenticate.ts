/**
 * From what a request shows to who asks. A key that was revoked is refused from then on: what is remembered counts only
 * while nobody has written keys or tenants, and only where no other daemon can. A key that opens nothing is counted, told as
 * an event, and answered slowly to an address that goes on. All of that is bounded: addresses that are remembered, events a
 * minute, answers that wait.
 */
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { Tally } from '../lib/tally.ts';
import { recordEvent } from '../store/events.ts';

import { OPERATOR, findTenant } from '../store/tenants.ts';
import type { ApiKeyRow, TenantRow } from '../store/tables.ts';

import type { Store } from '../store/store.ts';
import { clientBucket } from './rate-limits.ts';
import { Recent } from '../lib/lru.ts';
import { addressInRanges } from '../dns/networks.ts';
import { findKey, findKeyByHash, noteKeyUse } from '../store/api-keys.ts';

import { hashOfKey, isKeyValue, isActive, permissionsOf } from './api-keys.ts';
import { PERMISSIONS, type Permission } from '../lib/permission-names.ts';
import { partitionOf, restrictionsOf, type Principal } from './principal.ts';
import { accountOf, environmentOf } from '../lib/ids.ts';
import { writeBehind } from './usage.ts';

export const AUTH_FAILURES = [
  'AUTH_INVALID_KEY',
  'AUTH_EXPIRED_KEY',
  'AUTH_REVOKED_KEY',
  'AUTH_IP_NOT_ALLOWED',
  'TENANT_SUSPENDED',
  'TENANT_UNCONFIRMED',
] as const;

export interface AuthFailure {
  /** The client's. */
  readonly address: string;
  /** What was shown. */
  readonly value: string;
  readonly reason: (typeof AUTH_FAILURES)[number];
  /** The key, where there is one, and whose it is. */
  readonly key?: { readonly id: string; readonly tenant: string } | undefined;
}

export interface AuthFailures {
  /** Counts and tells of a failure; settles when it may be answered. Never rejects. */
  note(failure: AuthFailure): Promise<void>;
  readonly tally: Tally<AuthFailure['reason']>;
}

const MINUTE_MS = 60_000;
/** From then on an address waits. */
const SLOW_AFTER = 60;
const WAIT_MS = 1000;
/** Beyond them answers are not delayed: what waits holds a connection. */
const MAX_WAITING = 200;
const MAX_ADDRESSES = 10_000;
/** However many addresses a botnet has. */
const MAX_EVENTS_PER_MINUTE = 300;

export function createAuthFailures({ store, clock, log }: { store: Store; clock: Clock; log: Log }): AuthFailures {
  const tally = new Tally(AUTH_FAILURES);
  const recent = new Recent<{ readonly since: number; count: number }>(MAX_ADDRESSES);
  let minute = { since: -Infinity, events: 0 };
  let waiting = 0;

  async function tell({ address, value, reason, key }: AuthFailure): Promise<void> {
    const last4 = value.slice(-4);
    log.info('auth.failed', { ip: address, last4, reason, ...(key === undefined ? {} : { key: key.id }) });
    const data = { address, last4, reason, ...(key === undefined ? {} : { key: key.id }) };
    try {
      await store.write([recordEvent({ type: 'auth.failed', tenant: key?.tenant ?? OPERATOR, at: clock.now(), data })]);
    } catch (error) {
      log.warn('auth.failure_not_recorded', errorFields(error));
    }
  }

  return {
    tally,
    async note(failure) {
      tally.count(failure.reason);
      const now = clock.monotonic();
      const bucket = clientBucket(failure.address);
      const known = recent.get(bucket);
      const seen = known === undefined || now - known.since >= MINUTE_MS ? { since: now, count: 0 } : known;
      if (seen !== known) recent.set(bucket, seen);
      seen.count++;
      if (now - minute.since >= MINUTE_MS) minute = { since: now, events: 0 };
      // The request does not wait for the disk.
      if (seen.count === 1 && minute.events++ < MAX_EVENTS_PER_MINUTE) void tell(failure);
      if (seen.count <= SLOW_AFTER || waiting >= MAX_WAITING) return;
      waiting++;
      await clock.sleep(WAIT_MS);
      waiting--;
    },
  };
}

/** Why a value opens nothing; with TENANT_… the key is right, but its account is not to be served. */
export type AuthFault = Exclude<AuthFailure['reason'], 'AUTH_IP_NOT_ALLOWED'>;

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
  /** When keys were used last: written behind, so that no request waits for it. A crash forgets seconds. */
  let uses = new Map<string, number>();
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
      uses.set(found.held.key.id, now);
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
    async saveUses() {
      // In one order, so that two daemons on one database never wait for each other.
      const rows = [...uses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, at]) => ({ id, at }));
      uses = new Map();
      const left = await writeBehind(rows, noteKeyUse, { store, log, failure: 'keys.uses_not_saved' });
      for (const { id, at } of left) uses.set(id, uses.get(id) ?? at);
    },
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
