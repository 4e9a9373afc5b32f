/** Who asks: a tenant by one of its keys or in a session of the console, or the operator, who has neither. */
import { z } from 'zod';
import { accountOf, testPartitionOf, type Environment } from '../lib/ids.ts';
import type { ApiKeyRow, TenantRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import { CONTAINED, PERMISSIONS, type Permission, type PermissionName } from '../lib/permission-names.ts';
import { addressInRanges } from '../dns/networks.ts';

const restrictions = z.object({
  ip_whitelist: z.array(z.string()).optional(),
  domain_restrictions: z.array(z.string()).optional(),
  rate_limit: z.int().optional(),
  burst_limit: z.int().optional(),
  expires_at: z.string().optional(),
});

/** Networks (CIDR) and addresses, domain names (lower case, A-labels), requests per hour and per minute, ISO 8601. */
export type Restrictions = Readonly<z.output<typeof restrictions>>;

export interface Principal {
  /**
   * Whose things are meant; the operator may name another than its own. Of a test key the id is that of the account's test
   * partition: what such a key makes and sees is apart from what is live, in every table.
   */
  readonly tenant: TenantRow;
  /** Undefined for the operator over the Unix socket, and in a session that no key made. */
  readonly key: ApiKeyRow | undefined;
  readonly permissions: ReadonlySet<Permission>;
  readonly environment: Environment;
  readonly restrictions: Restrictions;
  /** The keys that made this one, directly or not, and are still active, the first of them first. */
  readonly makers?: readonly Maker[];
  /** The session of the console in which it is asked. */
  readonly session?: PrincipalSession | undefined;
}

export interface PrincipalSession {
  readonly id: string;
  /** Until then it may do nothing else. */
  readonly mustSetUpTotp: boolean;
  /** Whether it is the operator's, acting for another account. */
  readonly isActing: boolean;
}

export interface Maker {
  readonly id: string;
  readonly restrictions: Restrictions;
}

/** The id of the account, whose limits, keys and usage both partitions share. */
export function accountIdOf({ tenant }: Principal): string {
  return accountOf(tenant.id);
}

/** The tenant as keys of this environment have it. */
export function partitionOf(tenant: TenantRow, environment: Environment): TenantRow {
  const id = environment === 'test' ? testPartitionOf(tenant.id) : tenant.id;
  return { ...tenant, id };
}

/** The same principal, working in the live account or in its test partition. */
export function inEnvironment(principal: Principal, environment: Environment): Principal {
  const account = { ...principal.tenant, id: accountIdOf(principal) };
  return { ...principal, tenant: partitionOf(account, environment), environment };
}

/** The tenants whose projects, domains and forms the principal may read: a test key also the live ones. */
export function readableTenants({ tenant }: Principal): string[] {
  return [...new Set([tenant.id, accountOf(tenant.id)])];
}

/** Whether the principal may touch what belongs to this domain; `undefined` belongs to none. */
export function mayTouch({ restrictions }: Principal, domain: string | undefined): boolean {
  const { domain_restrictions: only } = restrictions;
  return only === undefined || (domain !== undefined && only.includes(domain));
}

/** The restrictions as a key's row has them. */
export function restrictionsOf(json: string): Restrictions {
  return restrictions.parse(JSON.parse(json));
}

/** The permissions that these names stand for, each once, in the order of `PERMISSIONS`. */
export function expandPermissions(names: Iterable<PermissionName>): Permission[] {
  const wanted = withContained<string>(names);
  return PERMISSIONS.filter((permission) => wanted.has(permission) || wanted.has(permission.replace(/\..*/, '')));
}

function withContained<Name extends string>(names: Iterable<Name>): Set<Name | Permission> {
  const all = [...names];
  return new Set([...all, ...all.flatMap((name) => CONTAINED[name] ?? [])]);
}

const stored = z.array(z.enum(PERMISSIONS));

/** The permissions as a key's row has them. */
export function permissionsOf(json: string): ReadonlySet<Permission> {
  return withContained(stored.parse(JSON.parse(json)));
}

export interface Need {
  /** `any`: whoever is known. */
  readonly permission: Permission | 'any';
  /** What it is done to: one domain; nothing that belongs to a domain (`none`); or it is for the handler to narrow. */
  readonly domain: { readonly name: string } | 'none' | 'narrowed';
  /** The client's address; `local` over the Unix socket. */
  readonly ip: string;
}

export type Denial = 'AUTH_IP_NOT_ALLOWED' | 'AUTH_FORBIDDEN' | 'AUTH_TEST_KEY' | 'AUTH_DOMAIN_NOT_ALLOWED';

/** Undefined where the principal may; else the code of the refusal. */
export function decide(principal: Principal, { permission, domain, ip }: Need): Denial | undefined {
  const { ip_whitelist: networks } = principal.restrictions;
  if (networks !== undefined && !addressInRanges(ip, networks)) return 'AUTH_IP_NOT_ALLOWED';
  if (permission !== 'any' && !principal.permissions.has(permission)) return 'AUTH_FORBIDDEN';
  // What `admin` is about has no test partition.
  if (permission === 'admin' && principal.key?.environment === 'test') return 'AUTH_TEST_KEY';
  if (domain === 'narrowed') return undefined;
  return mayTouch(principal, domain === 'none' ? undefined : domain.name) ? undefined : 'AUTH_DOMAIN_NOT_ALLOWED';
}

/** The operator looks after the server; acting for an account, after that. */
export function isOfServer({ tenant, permissions, restrictions, environment }: Principal): boolean {
  const isFree = restrictions.domain_restrictions === undefined;
  return tenant.id === OPERATOR && environment === 'live' && isFree && permissions.has('admin');
}
