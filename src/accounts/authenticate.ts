/**
 * From what a request shows to who asks. A key that was revoked is refused from then on: what is remembered counts only
 * while nobody has written keys or tenants, and only where no other daemon can. A key that opens nothing is counted,
 * recorded as an event, and answered slowly to an address that goes on. All of that is bounded: addresses that are
 * remembered, events a minute, answers that wait.
 */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { addressInRanges } from '../dns/networks.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { accountOf, environmentOf } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { PERMISSIONS, type Permission } from '../lib/permission-names.ts';
import { findKey, findKeyByHash, noteKeyUse } from '../store/api-keys.ts';
import { recordEvent } from '../store/events.ts';
import { type Store, writeBehind } from '../store/store.ts';
import type { ApiKeyRow, TenantRow } from '../store/tables.ts';
import { OPERATOR, findTenant } from '../store/tenants.ts';
import { partitionOf, permissionsOf, restrictionsOf, type Principal } from './principal.ts';
import { MemoryCounters, clientBucket } from './rate-limits.ts';

/** Why a key opens nothing; with TENANT_… the key is right, but its account is not to be served. */
export type AuthFault =
  'AUTH_INVALID_KEY' | 'AUTH_EXPIRED_KEY' | 'AUTH_REVOKED_KEY' | 'TENANT_SUSPENDED' | 'TENANT_UNCONFIRMED';

type FailureReason = AuthFault | 'AUTH_IP_NOT_ALLOWED' | 'AUTH_INVALID_LINK' | 'AUTH_INVALID_CODE';

export interface AuthFailure {
  /** The client's. */
  readonly address: string;
  /** The last characters of what was shown. */
  readonly last4: string;
  readonly reason: FailureReason;
  /** The key, where there is one. */
  readonly key?: ApiKeyRow | undefined;
  /** Whose account it is about, where that is known without a key. */
  readonly tenant?: string | undefined;
}

const MINUTE_MS = 60_000;
const ONE_A_MINUTE = { count: 1, windowMs: MINUTE_MS };
/** From then on an address waits. */
const AT_ONCE = { count: 60, windowMs: MINUTE_MS };
/** However many addresses a botnet has. */
const MAX_EVENTS = { count: 300, windowMs: MINUTE_MS };
const WAIT_MS = 1000;
/** Beyond them answers are not delayed: what waits holds a connection. */
const MAX_WAITING = 200;
/** Two for each of ten thousand addresses. */
const MAX_BUCKETS = 20_000;
const MAX_KNOWN = 1000;
const EVERYTHING: ReadonlySet<Permission> = new Set(PERMISSIONS);

/** Keys as the store has them. */
export class Authenticator {
  /** Rejected keys, links and codes since the start, by reason. */
  readonly failures: Record<FailureReason, number> = {
    AUTH_INVALID_KEY: 0,
    AUTH_EXPIRED_KEY: 0,
    AUTH_REVOKED_KEY: 0,
    AUTH_IP_NOT_ALLOWED: 0,
    TENANT_SUSPENDED: 0,
    TENANT_UNCONFIRMED: 0,
    AUTH_INVALID_LINK: 0,
    AUTH_INVALID_CODE: 0,
  };
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #limits: MemoryCounters;
  /** By the hash of the value. */
  readonly #known = new LruMap<Known>(MAX_KNOWN);
  /** When keys were used last: written behind, so that no request waits for it. A crash forgets seconds. */
  #uses = new Map<string, number>();
  #waiting = 0;

  constructor({ store, clock, log }: { readonly store: Store; readonly clock: Clock; readonly log: Log }) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#limits = new MemoryCounters({ clock, maxBuckets: MAX_BUCKETS });
  }

  /**
   * Whose key this is. Revocation, expiry and suspension count from the next call on. Where the client's address is given, a
   * failure is recorded, and answered later to one that tries again and again.
   */
  async byKey(value: string, address?: string): Promise<Principal | AuthFault> {
    const found = isKeyValue(value) ? await this.#find(hashOfKey(value)) : undefined;
    const now = this.#clock.now();
    const fault = found === undefined ? 'AUTH_INVALID_KEY' : faultOf(found, now);
    const networks = found?.principal.restrictions.ip_whitelist;
    if (address !== undefined && value !== '') {
      const isElsewhere = networks !== undefined && !addressInRanges(address, networks);
      const reason = fault ?? (isElsewhere ? 'AUTH_IP_NOT_ALLOWED' : undefined);
      if (reason !== undefined) await this.failed({ address, last4: value.slice(-4), reason, key: found?.key });
    }
    if (found === undefined || fault !== undefined) return fault ?? 'AUTH_INVALID_KEY';
    return this.#used(found, now);
  }

  /** What the account's key with this id may do, for a session that it made; undefined where it opens nothing any more. */
  async byId(tenant: TenantRow, id: string): Promise<Principal | undefined> {
    const key = await findKey(this.#store, tenant.id, id);
    const now = this.#clock.now();
    if (key === undefined || faultOf({ key, tenant }, now) !== undefined) return undefined;
    const principal = principalOf({ key, tenant });
    return this.#used({ key, tenant, principal, makers: await this.#makersOf(key) }, now);
  }

  #used({ key, principal, makers: all }: Omit<Known, 'version'>, now: number): Principal {
    this.#uses.set(key.id, now);
    const makers = all.filter((maker) => isActive(maker, now));
    if (makers.length === 0) return principal;
    const shown = makers.map(({ id, restrictions }) => ({ id, restrictions: restrictionsOf(restrictions) }));
    return { ...principal, makers: shown };
  }

  /** The operator, acting for this tenant or test partition (default: its own); undefined where there is none such. */
  async operator(id = OPERATOR): Promise<Principal | undefined> {
    const tenant = await findTenant(this.#store, accountOf(id));
    const environment = environmentOf(id);
    if (tenant === undefined) return undefined;
    const acting = { tenant: partitionOf(tenant, environment), key: undefined, environment };
    return { ...acting, permissions: EVERYTHING, restrictions: {} };
  }

  /** Writes when keys were used last, as far as that is not written yet. Never rejects. */
  async saveUses(): Promise<void> {
    // In one order, so that two daemons on one database never wait for each other.
    const rows = [...this.#uses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, at]) => ({ id, at }));
    this.#uses = new Map();
    const parts = { store: this.#store, log: this.#log, failure: 'keys.uses_not_saved' } as const;
    for (const { id, at } of await writeBehind(rows, noteKeyUse, parts)) this.#uses.set(id, this.#uses.get(id) ?? at);
  }

  async #find(hash: string): Promise<Known | undefined> {
    const version = this.#store.accountVersion();
    const known = this.#known.get(hash);
    if (known !== undefined && version !== undefined && known.version === version) return known;
    const held = await findKeyByHash(this.#store, hash);
    if (held === undefined) return undefined;
    const found = { ...held, version, principal: principalOf(held), makers: await this.#makersOf(held.key) };
    if (version !== undefined) this.#known.set(hash, found);
    return found;
  }

  /** The keys of the account that made this one, directly or not, the first of them first. */
  async #makersOf({ tenant, created_by: maker }: ApiKeyRow): Promise<readonly ApiKeyRow[]> {
    const row = maker === null ? undefined : await findKey(this.#store, tenant, maker);
    return row === undefined ? [] : [...(await this.#makersOf(row)), row];
  }

  /** Counts and records that somebody was not let in; settles when that may be answered. */
  async failed(failure: AuthFailure): Promise<void> {
    this.failures[failure.reason]++;
    const client = clientBucket(failure.address);
    const isFirst = this.#limits.take(`event:${client}`, ONE_A_MINUTE).allowed;
    // The request does not wait for the disk.
    if (isFirst && this.#limits.take('events', MAX_EVENTS).allowed) void this.#record(failure);
    if (this.#limits.take(`answer:${client}`, AT_ONCE).allowed || this.#waiting >= MAX_WAITING) return;
    this.#waiting++;
    await this.#clock.sleep(WAIT_MS);
    this.#waiting--;
  }

  async #record({ address, last4, reason, key, tenant = OPERATOR }: AuthFailure): Promise<void> {
    const about = { last4, reason, ...(key && { key: key.id }) };
    this.#log.info('auth.failed', { ip: address, ...about });
    const event = { type: 'auth.failed', tenant: key?.tenant ?? tenant, data: { address, ...about } } as const;
    try {
      await this.#store.write([recordEvent({ ...event, at: this.#clock.now() })]);
    } catch (error) {
      this.#log.warn('auth.failure_not_recorded', errorFields(error));
    }
  }
}

interface Held {
  readonly key: ApiKeyRow;
  readonly tenant: TenantRow;
}

interface Known extends Held {
  /** Of the accounts, when it was read. */
  readonly version: number | undefined;
  readonly principal: Principal;
  readonly makers: readonly ApiKeyRow[];
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

/** Whether the key opens anything at this time. */
export function isActive({ revoked_at, expires_at }: ApiKeyRow, now: number): boolean {
  return revoked_at === null && (expires_at === null || expires_at > now);
}

// The values of API keys: `svc_sk_live_`, `svc_sk_test_` or `svc_rk_`, 28 random characters of base62 (166 bits), and
// six that check all before them, so that one that was mistyped is refused without a look-up.

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM = 28;
const CHECK = 6;

export const KEY_PREFIXES = ['svc_sk_live_', 'svc_sk_test_', 'svc_rk_'] as const;

export type KeyPrefix = (typeof KEY_PREFIXES)[number];

/** A new value. */
export function newKeyValue(prefix: KeyPrefix): string {
  const random = Array.from({ length: RANDOM }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
  return prefix + random + checkOf(prefix + random);
}

/** Whether the text is a value that was made by `newKeyValue`, as far as its form tells. */
export function isKeyValue(text: string): boolean {
  const prefix = KEY_PREFIXES.find((known) => text.startsWith(known));
  if (prefix?.length !== text.length - RANDOM - CHECK) return false;
  return text.endsWith(checkOf(text.slice(0, -CHECK)));
}

/** What is kept of a value: its SHA-256, hexadecimal. */
export function hashOfKey(value: string): string {
  return hash('sha256', value);
}

function checkOf(text: string): string {
  let rest = crc32(text);
  let check = '';
  for (let i = 0; i < CHECK; i++) {
    check = ALPHABET.charAt(rest % ALPHABET.length) + check;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return check;
}
