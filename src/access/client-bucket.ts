/** Which bucket a client's requests count in. */
import ipaddr from 'ipaddr.js';

/**
 * An IPv4 address is a client, and so is an IPv6 /64: that is what one household or server is given (RFC 6177). An
 * IPv4-mapped address is the IPv4 address. What is no address at all, such as the peer of a Unix socket, is itself.
 */
export function clientBucket(ip: string): string {
  if (!ip.includes(':')) return ip;
  if (!ipaddr.IPv6.isValid(ip)) return ip;
  const address = ipaddr.IPv6.parse(ip);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  const network = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
