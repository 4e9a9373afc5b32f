/**
 * The life of API keys. A key is no more than who made it: its permissions are a subset, its restrictions at least as
 * tight. Its value leaves here once, and only a hash of it is kept; its revocation counts from the commit on.
 */
import { isoTime } from '../lib/clock.ts';
import { newId } from '../lib/ids.ts';
import { insertKey, revokeKey } from '../store/api-keys.ts';
import { recordEvent } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import type { ApiKeyRow } from '../store/tables-accounts.ts';
import { hashOfKey, newKeyValue, type KeyPrefix } from './key-value.ts';
import { PERMISSIONS, type Permission, type PermissionName } from '../lib/permission-names.ts';
import { expandPermissions } from './permissions.ts';
import { accountIdOf, type Principal, type Restrictions } from './principal.ts';
import { narrowRestrictions, type TooMuch } from './restrictions.ts';

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
