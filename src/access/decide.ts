/**
 * The one function that decides whether somebody may. Every door asks it: the API, submissions with a key, SMTP with one.
 */
import ipaddr from 'ipaddr.js';
import type { Permission } from './permissions.ts';
import { mayTouch, type Principal } from './principal.ts';

export interface Need {
  /** `any`: whoever is known. */
  readonly permission: Permission | 'any';
  /** What it is done to: one domain; nothing that belongs to a domain (`none`); or it is for the handler to narrow. */
  readonly domain: { readonly name: string } | 'none' | 'narrowed';
  /** The client's address; `local` over the Unix socket. */
  readonly ip: string;
}

export type Denial = 'AUTH_IP_NOT_ALLOWED' | 'AUTH_FORBIDDEN' | 'AUTH_DOMAIN_NOT_ALLOWED';

/** Undefined where the principal may; else the code of the refusal. */
export function decide(principal: Principal, { permission, domain, ip }: Need): Denial | undefined {
  const { ip_whitelist: networks } = principal.restrictions;
  if (networks !== undefined && !inNetworks(ip, networks)) return 'AUTH_IP_NOT_ALLOWED';
  if (permission !== 'any' && !principal.permissions.has(permission)) return 'AUTH_FORBIDDEN';
  if (domain === 'narrowed') return undefined;
  return mayTouch(principal, domain === 'none' ? undefined : domain.name) ? undefined : 'AUTH_DOMAIN_NOT_ALLOWED';
}

/** Whether the address is one of these addresses and networks; an IPv4-mapped IPv6 address is its IPv4 one. */
function inNetworks(ip: string, networks: readonly string[]): boolean {
  if (!ipaddr.isValid(ip)) return false;
  const address = ipaddr.process(ip);
  return networks.some((network) => {
    const [base, bits] = parseNetwork(network);
    return base.kind() === address.kind() && address.match(base, bits);
  });
}

/** An address or network; mapped IPv4 counts as IPv4. Throws where it is neither. */
export function parseNetwork(text: string): readonly [base: ipaddr.IPv4 | ipaddr.IPv6, bits: number] {
  if (!text.includes('/')) {
    const address = ipaddr.process(text);
    return [address, address.kind() === 'ipv4' ? 32 : 128];
  }
  const [base, bits] = ipaddr.parseCIDR(text);
  if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress() && bits >= 96) return [base.toIPv4Address(), bits - 96];
  return [base, bits];
}
