/** The words, addresses, domains and networks that a form blocks (`spam_protection.blocklist`). */
import ipaddr from 'ipaddr.js';

type Network = ReturnType<typeof ipaddr.parseCIDR>;

/** The first entry that the text or the visitor's address matches, as the form has it. */
export function blockedBy(
  blocklist: readonly string[],
  { text, ip }: { text: string; ip: string },
): string | undefined {
  if (blocklist.length === 0) return undefined;
  const lower = text.toLowerCase();
  const address = ipaddr.isValid(ip) ? ipaddr.process(ip) : undefined;
  return blocklist.find((entry) => {
    const network = networkOf(entry);
    if (network !== undefined) return address !== undefined && isWithin(address, network);
    const wanted = entry.trim().toLowerCase();
    return wanted !== '' && holds(lower, wanted);
  });
}

/** `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`. */
function networkOf(entry: string): Network | undefined {
  if (!/^[0-9a-f.:]+(?:\/\d{1,3})?$/i.test(entry)) return undefined;
  if (ipaddr.isValidCIDR(entry)) return ipaddr.parseCIDR(entry);
  if (!ipaddr.IPv4.isValidFourPartDecimal(entry) && !ipaddr.IPv6.isValid(entry)) return undefined;
  const address = ipaddr.process(entry);
  return [address, address.kind() === 'ipv4' ? 32 : 128];
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

/** A host name or mail address as such, not as a part of another: `evil.com` also blocks `www.evil.com`, not `notevil.com`. */
const HOST = /^[^\s/]+\.[^\s./]+$/;
const WORD = /[\p{L}\p{N}]/u;
const HOST_CHARACTER = /[\p{L}\p{N}-]/u;
const LOCAL_CHARACTER = /[\p{L}\p{N}._%+-]/u;
/** These scripts put no space between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

function holds(text: string, wanted: string): boolean {
  const host = HOST.test(wanted);
  const before = wanted.includes('@') ? LOCAL_CHARACTER : host ? HOST_CHARACTER : WORD;
  for (let at = text.indexOf(wanted); at !== -1; at = text.indexOf(wanted, at + wanted.length)) {
    const end = at + wanted.length;
    const first = UNSPACED.test(wanted.charAt(0)) || !before.test(text.charAt(at - 1));
    if (first && endsThere(text, end, { host, last: wanted.charAt(wanted.length - 1) })) return true;
  }
  return false;
}

function endsThere(text: string, end: number, { host, last }: { host: boolean; last: string }): boolean {
  const next = text.charAt(end);
  if (!host) return UNSPACED.test(last) || !WORD.test(next);
  return !HOST_CHARACTER.test(next) && !(next === '.' && HOST_CHARACTER.test(text.charAt(end + 1)));
}
