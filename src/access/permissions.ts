/** The permissions of a key: as somebody names them, and as its row keeps them. */
import { z } from 'zod';
import { CONTAINED, PERMISSIONS, type Permission, type PermissionName } from '../lib/permission-names.ts';

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
