/**
 * The one function that decides whether somebody may. Every door asks it: the API, submissions with a key, SMTP with one.
 */
import { addressInRanges } from '../dns/networks.ts';
import type { Permission } from '../lib/permission-names.ts';
import { mayTouch, type Principal } from './principal.ts';

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
