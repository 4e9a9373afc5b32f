/**
 * The visitor's address as a form keeps it (`ip`). Limits and the spam filter have used the whole address before; what is
 * stored, shown, exported, mailed and logged of a submission is this.
 */
import { createHmac, type KeyObject } from 'node:crypto';
import ipaddr from 'ipaddr.js';
import { clientBucket } from '../accounts/rate-limits.ts';
import type { FormConfig } from '../config/schema.ts';

/** An IPv4 network of 256 addresses, and the part of an IPv6 address that a provider gives to a site. */
const KEPT_BITS = { ipv4: 24, ipv6: 48 } as const;
const HASH_CHARACTERS = 16;

/** Whose key makes the hashes, and for whom: two accounts must not find that they have the same visitor. */
export interface HashContext {
  readonly key: KeyObject;
  readonly tenant: string;
}

/** What is kept of the address; empty where that is nothing. */
export function keptAddress(ip: string, keep: FormConfig['ip'], context: HashContext): string {
  switch (keep) {
    case 'full':
      return ip;
    case 'truncated':
      return networkOf(ip);
    case 'hashed':
      return hashedClient(ip, context);
    case 'none':
      return '';
  }
}

/** The same for the same client of the same account: of IPv6 that is a network of /64. */
export function hashedClient(ip: string, { key, tenant }: HashContext): string {
  const hash = createHmac('sha256', key)
    .update(`${tenant} ${clientBucket(ip)}`)
    .digest('hex');
  return `hash:${hash.slice(0, HASH_CHARACTERS)}`;
}

/** The address with zeros behind its network; empty for what is no address (a Unix socket). */
function networkOf(ip: string): string {
  if (!ipaddr.isValid(ip)) return '';
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv6
    ? ipaddr.IPv6.networkAddressFromCIDR(`${address.toString()}/${KEPT_BITS.ipv6}`).toString()
    : ipaddr.IPv4.networkAddressFromCIDR(`${address.toString()}/${KEPT_BITS.ipv4}`).toString();
}
