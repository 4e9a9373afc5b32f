/**
 * The life of API keys. A key is no more than who made it: its permissions are a subset, its restrictions at least as
 * tight. Its value leaves here once, and only a hash of it is kept; its revocation counts from the commit on.
 */
import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { isoTime } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { insertKey, revokeKey } from '../store/api-keys.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import type { ApiKeyRow } from '../store/tables.ts';
import { PERMISSIONS, type Permission, type PermissionName, CONTAINED } from '../lib/permission-names.ts';
import { accountIdOf, type Principal, type Restrictions, mayTouch } from './principal.ts';
import { networkWithin } from '../dns/networks.ts';

export interface WantedKey {
  readonly name: string;
  /** Its maker's unless told. */
  readonly environment?: 'live' | 'test' | undefined;
  /** All of its maker's but `admin` unless told. */
  readonly permissions?: readonly PermissionName[] | undefined;
  readonly restrictions?: Restrictions | undefined;
}

/** What a key is to be, complete. */
export interface KeyGrant {
  readonly tenant: string;
  readonly name: string;
  readonly environment: 'live' | 'test';
  readonly permissions: readonly Permission[];
  readonly restrictions: Restrictions;
  /** The key that makes it; null: the operator or a sign-up. */
  readonly created_by: string | null;
}

export interface NewKey {
  readonly row: ApiKeyRow;
  /** Known to nobody from here on but to whom it is shown. */
  readonly value: string;
  /** Keeps the key and tells of it. */
  readonly unit: readonly Statement[];
}

/** What a full key holds. */
export const FULL: readonly Permission[] = PERMISSIONS.filter((permission) => permission !== 'admin');

/** What a key that this principal makes may be. */
export function grantKey(maker: Principal, wanted: WantedKey): KeyGrant | TooMuch {
  const { environment = maker.environment, name } = wanted;
  if (maker.environment === 'test' && environment !== 'test') return tooMuch('A test key makes only test keys.');
  const permissions =
    wanted.permissions === undefined
      ? FULL.filter((permission) => maker.permissions.has(permission))
      : expandPermissions(wanted.permissions);
  const missing = permissions.filter((permission) => !maker.permissions.has(permission));
  if (missing.length > 0) {
    return tooMuch(`A key makes keys that hold no more than itself. This one does not hold ${missing.join(', ')}.`);
  }
  const restrictions = narrowRestrictions(maker, wanted.restrictions ?? {});
  if ('kind' in restrictions) return restrictions;
  const created_by = maker.key?.id ?? null;
  return { tenant: accountIdOf(maker), name, environment, permissions, restrictions, created_by };
}

function tooMuch(message: string): TooMuch {
  return { kind: 'too much', message };
}

/** Makes the key that was granted; it works once its unit is committed. */
export function makeKey(grant: KeyGrant, now: number): NewKey {
  const { tenant, name, environment, permissions, created_by } = grant;
  const restrictions = normalRestrictions(grant.restrictions);
  const prefix = prefixOf(grant);
  const value = newKeyValue(prefix);
  const row: ApiKeyRow = {
    id: newId('key', now),
    tenant,
    name,
    environment,
    prefix,
    hash: hashOfKey(value),
    last4: value.slice(-4),
    permissions: JSON.stringify(permissions),
    restrictions: JSON.stringify(restrictions),
    created_by,
    created_at: now,
    expires_at: restrictions.expires_at === undefined ? null : Date.parse(restrictions.expires_at),
    revoked_at: null,
    last_used_at: null,
  };
  const data = { key: row.id, name, environment, permissions, restrictions, by: created_by };
  return { row, value, unit: [insertKey(row), recordEvent({ type: 'key.created', tenant, at: now, data })] };
}

function normalRestrictions({ expires_at, ...rest }: Restrictions): Restrictions {
  return { ...rest, ...(expires_at !== undefined && { expires_at: isoTime(Date.parse(expires_at)) }) };
}

function prefixOf({ permissions, environment }: KeyGrant): KeyPrefix {
  const full = FULL.every((permission) => permissions.includes(permission));
  return full ? `svc_sk_${environment}_` : 'svc_rk_';
}

/** The keys among these that `id` made, directly or not, and are active: what is left to whoever stole it. */
export function activeChildrenOf(id: string, keys: readonly ApiKeyRow[], now: number): ApiKeyRow[] {
  const made = Map.groupBy(keys, ({ created_by }) => created_by);
  const found: ApiKeyRow[] = [];
  const seen = new Set([id]);
  for (const maker of seen) {
    for (const key of made.get(maker) ?? []) {
      seen.add(key.id);
      if (isActive(key, now)) found.push(key);
    }
  }
  return found;
}

/** Whether the key opens anything at this time. */
export function isActive({ revoked_at, expires_at }: ApiKeyRow, now: number): boolean {
  return revoked_at === null && (expires_at === null || expires_at > now);
}

/** The unit that ends a key, for a row that is not revoked yet; it fails with UnmetError where another was faster. */
export function endKey({ id, tenant, name }: ApiKeyRow, by: Principal, now: number): readonly Statement[] {
  const data = { key: id, name, by: by.key?.id ?? null };
  return [revokeKey({ id, tenant, at: now }, 1), recordEvent({ type: 'key.revoked', tenant, at: now, data })];
}

// * The values of API keys: `svc_sk_live_`, `svc_sk_test_` or `svc_rk_`, 28 random characters of base62 (166 bits), and
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

/** What a new key is refused for: it would be more than its maker. */
export interface TooMuch {
  readonly kind: 'too much';
  /** A sentence that names what. */
  readonly message: string;
}

/**
 * The restrictions of a key that this principal makes: those that are asked for, which must be at least as tight as its
 * own; its own where none are asked for.
 */
function narrowRestrictions(maker: Principal, wanted: Restrictions): Restrictions | TooMuch {
  const held = maker.restrictions;
  const fault =
    outsideNetworks(held, wanted) ??
    outsideDomains(maker, wanted) ??
    above('rate_limit', held, wanted) ??
    above('burst_limit', held, wanted) ??
    outlives(held, wanted);
  return fault === undefined ? { ...held, ...wanted } : { kind: 'too much', message: fault };
}

function outsideNetworks({ ip_whitelist: own }: Restrictions, { ip_whitelist: wanted = [] }: Restrictions) {
  const outside = own && wanted.find((network) => !networkWithin(network, own));
  return outside && `This key may not be used from all of ${outside}, and a key that it makes may not either.`;
}

function outsideDomains(maker: Principal, { domain_restrictions: wanted = [] }: Restrictions) {
  const outside = wanted.find((domain) => !mayTouch(maker, domain));
  return outside && `This key may not be used for ${outside}, and a key that it makes may not either.`;
}

function above(name: 'rate_limit' | 'burst_limit', held: Restrictions, wanted: Restrictions) {
  const own = held[name];
  return own !== undefined && (wanted[name] ?? own) > own
    ? `The ${name} of this key is ${own}; a key that it makes may have no more.`
    : undefined;
}

function outlives({ expires_at: own }: Restrictions, { expires_at: wanted = own }: Restrictions) {
  return own !== undefined && wanted !== undefined && Date.parse(wanted) > Date.parse(own)
    ? `This key expires at ${own}; a key that it makes may not outlive it.`
    : undefined;
}

/** The permissions that these names stand for, each once, in the order of `PERMISSIONS`. */
export function expandPermissions(names: Iterable<PermissionName>): Permission[] {
  const wanted = withContained(names);
  return PERMISSIONS.filter((permission) => {
    const kind = permission.slice(0, Math.max(0, permission.indexOf('.')));
    return wanted.has(permission) || wanted.has(kind);
  });
}

function withContained(names: Iterable<string>): Set<string> {
  const all = [...names];
  return new Set([...all, ...all.flatMap((name) => CONTAINED[name] ?? [])]);
}

const stored = z.array(z.enum(PERMISSIONS));

/** The permissions as a key's row has them. */
export function permissionsOf(json: string): ReadonlySet<Permission> {
  const names = stored.parse(JSON.parse(json));
  return new Set([...names, ...names.flatMap((name) => CONTAINED[name] ?? [])]);
}
