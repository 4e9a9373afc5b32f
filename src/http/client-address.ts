/**
 * Who sends a request. Only a proxy in `trusted_proxies` is believed about the client behind it: `X-Forwarded-For` is read
 * from the right, past trusted hops alone, because everything left of the first stranger is the stranger's own words.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { addressInRanges } from '../dns/networks.ts';

/** What stands for the peer of a Unix socket. */
export const LOCAL = 'local';

/** The client's IP address; an IPv4-mapped one as IPv4. */
export function clientAddress(request: IncomingMessage, trusted: readonly string[]): string {
  let address = plainAddress(request.socket.remoteAddress ?? '');
  if (trusted.length === 0 || !addressInRanges(address, trusted)) return address;
  const header = request.headers['x-forwarded-for'];
  const hops = (Array.isArray(header) ? header.join(',') : (header ?? '')).split(',');
  for (const hop of hops.reverse()) {
    const next = plainAddress(hop.trim());
    if (isIP(next) === 0) break;
    address = next;
    if (!addressInRanges(address, trusted)) break;
  }
  return address;
}

/** The address; an IPv4-mapped one as IPv4. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
