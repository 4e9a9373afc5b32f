/** What a key may do, by name. */
import { z } from 'zod';

export const PERMISSIONS = [
  'forms.read',
  'forms.write',
  'domains.read',
  'domains.write',
  'collections.read',
  'collections.write',
  'analytics.read',
  'projects.read',
  'projects.write',
  'email.send',
  'keys.read',
  'keys.write',
  'admin',
] as const;

export type Permission = (typeof PERMISSIONS)[number];

/** Names that stand for all of their kind. */
export const COARSE = ['forms', 'domains', 'collections', 'analytics', 'projects', 'keys'] as const;

export type PermissionName = Permission | (typeof COARSE)[number];

/** The permissions that these names stand for, each once, in the order of `PERMISSIONS`. */
export function expandPermissions(names: Iterable<PermissionName>): Permission[] {
  const wanted = new Set<string>(names);
  return PERMISSIONS.filter((permission) => {
    const kind = permission.slice(0, Math.max(0, permission.indexOf('.')));
    return wanted.has(permission) || wanted.has(kind);
  });
}

const stored = z.array(z.enum(PERMISSIONS));

/** The permissions as a key's row has them. */
export function permissionsOf(json: string): ReadonlySet<Permission> {
  return new Set(stored.parse(JSON.parse(json)));
}
