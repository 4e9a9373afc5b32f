/**
 * The life of API keys. A key is no more than who made it: its permissions are a subset, its restrictions at least as
 * tight. Its value leaves here once, and only a hash of it is kept; its revocation counts from the commit on.
 */
import { isoTime } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { insertKey, revokeKey } from '../store/api-keys.ts';
import { recordEvent } from '../store/events.ts';
import { dropSessionsOfKey } from '../store/sessions.ts';
import type { Statement } from '../store/statement.ts';
import type { ApiKeyRow } from '../store/tables.ts';
import { PERMISSIONS, type Permission, type PermissionName } from '../lib/permission-names.ts';
import { networkWithin } from '../dns/networks.ts';
import { hashOfKey, isActive, newKeyValue } from './authenticate.ts';
import { accountIdOf, expandPermissions, type Principal, type Restrictions, mayTouch } from './principal.ts';

export interface WantedKey {
  readonly name: string;
  /** Default: its maker's. */
  readonly environment?: 'live' | 'test' | undefined;
  /** Default: all of its maker's but `admin`. */
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
  if (maker.environment === 'test' && environment !== 'test')
    return { kind: 'too much', message: 'A test key can create only test keys.' };
  const permissions =
    wanted.permissions === undefined
      ? FULL.filter((permission) => maker.permissions.has(permission))
      : expandPermissions(wanted.permissions);
  const missing = permissions.filter((permission) => !maker.permissions.has(permission));
  if (missing.length > 0) {
    const message = `A key can create only keys with permissions that it has itself. This one does not have ${missing.join(', ')}.`;
    return { kind: 'too much', message };
  }
  const message = looserThan(maker, wanted.restrictions ?? {});
  if (message !== undefined) return { kind: 'too much', message };
  const restrictions = { ...maker.restrictions, ...wanted.restrictions };
  const created_by = maker.key?.id ?? null;
  return { tenant: accountIdOf(maker), name, environment, permissions, restrictions, created_by };
}

/** Makes the key that was granted; it works once its unit is committed. */
export function makeKey(grant: KeyGrant, now: number): NewKey {
  const { tenant, name, environment, permissions, created_by } = grant;
  const end = grant.restrictions.expires_at === undefined ? null : Date.parse(grant.restrictions.expires_at);
  const restrictions = { ...grant.restrictions, ...(end !== null && { expires_at: isoTime(end) }) };
  const isFull = FULL.every((permission) => permissions.includes(permission));
  const prefix = isFull ? (`svc_sk_${environment}_` as const) : 'svc_rk_';
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
    expires_at: end,
    revoked_at: null,
    last_used_at: null,
  };
  const data = { key: row.id, name, environment, permissions, restrictions, by: created_by };
  return { row, value, unit: [insertKey(row), recordEvent({ type: 'key.created', tenant, at: now, data })] };
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

/** The unit that ends a key and the sessions that it made, for a row that is not revoked yet; it fails with UnmetError where another was faster. */
export function endKey({ id, tenant, name }: ApiKeyRow, by: Principal, now: number): readonly Statement[] {
  const data = { key: id, name, by: by.key?.id ?? null };
  return [
    revokeKey({ id, tenant, at: now }, 1),
    dropSessionsOfKey({ key: id }),
    recordEvent({ type: 'key.revoked', tenant, at: now, data }),
  ];
}

/** What a new key is refused for: it would be more than its maker. */
export interface TooMuch {
  readonly kind: 'too much';
  /** A sentence that names what. */
  readonly message: string;
}

/** Why a key that this principal makes may not have these restrictions, which must be at least as tight as its own. */
function looserThan(maker: Principal, wanted: Restrictions): string | undefined {
  const { ip_whitelist: networks, expires_at: end, ...held } = maker.restrictions;
  const network = networks && wanted.ip_whitelist?.find((each) => !networkWithin(each, networks));
  if (network !== undefined)
    return `This key may not be used from all of ${network}, so a key that it creates may not either.`;
  const domain = wanted.domain_restrictions?.find((each) => !mayTouch(maker, each));
  if (domain !== undefined) return `This key may not be used for ${domain}, so a key that it creates may not either.`;
  for (const name of ['rate_limit', 'burst_limit'] as const) {
    const most = held[name];
    if (most !== undefined && (wanted[name] ?? most) > most)
      return `The ${name} of this key is ${most}; a key that it creates may not have more.`;
  }
  return end !== undefined && wanted.expires_at !== undefined && Date.parse(wanted.expires_at) > Date.parse(end)
    ? `This key expires at ${end}; a key that it creates must not expire later.`
    : undefined;
}
