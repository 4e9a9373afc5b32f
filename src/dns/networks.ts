/**
 * Which network an IP address belongs to, asked wherever a name that a stranger controls decides where we connect, and
 * wherever a list of addresses and CIDRs decides whom we believe. Only the canonical forms are addresses here: `127.1`,
 * `0x7f000001` and the like are none, whatever a C library makes of them.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { recordsOf, silenceOf, together, type Answer, type Failed } from './resolver.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

const NAT64 = ipaddr.parseCIDR('64:ff9b::/96');
const GLOBAL_IPV6 = ipaddr.parseCIDR('2000::/3');

/**
 * Whether `ip` is a global unicast address. An IPv4 address inside an IPv6 one (v4-mapped, or NAT64's well-known prefix
 * of RFC 6052, which is how an IPv6-only machine reaches IPv4) is judged as itself; 6to4 and Teredo are never global,
 * because a tunnel's far end may be anything.
 */
export function isPublicAddress(ip: string): boolean {
  const address = parse(ip);
  if (address === undefined) return false;
  if (address.kind() === 'ipv4') return address.range() === 'unicast';
  if (address.match(NAT64)) return new ipaddr.IPv4(address.toByteArray().slice(12)).range() === 'unicast';
  return address.match(GLOBAL_IPV6) && address.range() === 'unicast';
}

/** Whether `ip` can be the address of one machine at all: not unspecified, multicast or broadcast. */
export function isHostAddress(ip: string): boolean {
  const range = parse(ip)?.range();
  return range !== undefined && range !== 'unspecified' && range !== 'multicast' && range !== 'broadcast';
}

/** Whether `ip` is in one of the addresses or CIDRs; a v4-mapped address compares as IPv4, on both sides. */
export function addressInRanges(ip: string, ranges: readonly string[]): boolean {
  // Most lists are empty, and each connection is compared with one.
  if (ranges.length === 0) return false;
  const address = parse(ip);
  if (address === undefined) return false;
  return ranges.some((range) => {
    const [network, bits] = parseRange(range);
    return network !== undefined && network.kind() === address.kind() && address.match([network, bits]);
  });
}

/** Whether all of the address or CIDR lies in one of these. */
export function networkWithin(range: string, ranges: readonly string[]): boolean {
  const [inner, bits] = parseRange(range);
  if (inner === undefined) return false;
  return ranges.some((text) => {
    const [outer, outerBits] = parseRange(text);
    return outer?.kind() === inner.kind() && outerBits <= bits && inner.match([outer, outerBits]);
  });
}

/** The address or CIDR as it is kept: without host bits, IPv4 where it is mapped; undefined where it is neither. */
export function normalNetwork(range: string): string | undefined {
  const [address, bits] = parseRange(range);
  if (address === undefined || range.includes('%')) return undefined;
  const full = address.kind() === 'ipv4' ? 32 : 128;
  if (bits === full) return address.toString();
  const kept = address.toByteArray().map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - i * 8))));
  return `${ipaddr.fromByteArray(kept).toString()}/${bits}`;
}

function parse(ip: string): Address | undefined {
  return isIP(ip) === 0 ? undefined : ipaddr.process(ip);
}

function parseRange(range: string): [Address | undefined, number] {
  const slash = range.indexOf('/');
  const text = slash === -1 ? range : range.slice(0, slash);
  const network = parse(text);
  const size = network?.kind() === 'ipv4' ? 32 : 128;
  if (slash === -1) return [network, size];
  const suffix = range.slice(slash + 1);
  const written = isIP(text) === 4 ? 32 : 128;
  if (!/^\d{1,3}$/.test(suffix) || Number(suffix) > written) return [undefined, 0];
  // ::ffff:10.0.0.0/104 is 10.0.0.0/8; a prefix shorter than the mapping itself names no IPv4 network.
  const bits = Number(suffix) - (written - size);
  return bits < 0 ? [undefined, 0] : [network, bits];
}

/** Under which name DNS keeps what is said of an address, without the zone: `1.2.0.192` (RFC 1035 §3.5), nibbles for IPv6. */
export function reversedAddress(ip: string): string {
  const address = parse(ip);
  const bytes = address?.toByteArray() ?? [];
  const digits = address?.kind() === 'ipv4' ? bytes : Array.from(Buffer.from(bytes).toString('hex'));
  return digits.toReversed().join('.');
}

/** The name whose PTR record names the host of an address (RFC 1035 §3.5, RFC 3596 §2.5). */
export function reverseName(ip: string): string {
  return `${reversedAddress(ip)}.${parse(ip)?.kind() === 'ipv4' ? 'in-addr' : 'ip6'}.arpa`;
}

// Which addresses are this server's, and whether a name leads to one of them.

/** Where it sends from (`publicIps`, as configured) and where its host name leads. */
export function ownAddresses(publicIps: readonly string[], hostAddresses: Answer<string>): Answer<string> {
  return together([publicIps.length === 0 ? { kind: 'nodata' } : { kind: 'found', records: publicIps }, hostAddresses]);
}

/** Where the addresses of a name lead. `elsewhere` is said only where all of them and all of `own` are known. */
export function placeOf(addresses: Answer<string>, own: Answer<string>): 'here' | 'elsewhere' | Failed {
  const ours = new Set(recordsOf(own));
  if (recordsOf(addresses).some((address) => ours.has(address))) return 'here';
  const reason = silenceOf(addresses) ?? silenceOf(own);
  return reason === undefined ? 'elsewhere' : { kind: 'failed', reason };
}
