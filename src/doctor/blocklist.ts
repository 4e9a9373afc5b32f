/** Whether an address is on a DNS block list (RFC 5782), and whether the list answers as one. */
import { reversedAddress } from '../dns/networks.ts';
import type { Resolver } from '../dns/resolver.ts';

export type Listing =
  | { readonly kind: 'clear' }
  | { readonly kind: 'listed'; readonly words: string }
  /** It does not answer, or not as a list. */
  | { readonly kind: 'unknown'; readonly words: string; readonly advice?: string };

/** RFC 5782 §5: no list has it. */
const NEVER_LISTED = '127.0.0.1';

export async function lookUpBlockList(zone: string, ip: string, resolver: Resolver): Promise<Listing> {
  const name = `${reversedAddress(ip)}.${zone}`;
  const answer = await resolver.lookup(name, 'A');
  if (answer.kind === 'failed') return { kind: 'unknown', words: `DNS did not answer: ${answer.reason}` };
  if (answer.kind !== 'found') return { kind: 'clear' };
  const codes = answer.records.join(', ');
  // The lists' own errors: asked through a public resolver, too often, or without a key.
  if (answer.records.some((code) => code.startsWith('127.255.255.'))) {
    const advice = `Use your own resolver (dns.servers): ${zone} refuses public resolvers.`;
    return { kind: 'unknown', words: `${zone} refuses to answer (${codes})`, advice };
  }
  const advice = `A DNS blocklist does not answer like this: check whether ${zone} still is one.`;
  if (!answer.records.every((code) => code.startsWith('127.'))) {
    return { kind: 'unknown', words: `${zone} answers ${codes}`, advice };
  }
  if (ip !== NEVER_LISTED) {
    const probe = await resolver.lookup(`${reversedAddress(NEVER_LISTED)}.${zone}`, 'A');
    if (probe.kind === 'found') return { kind: 'unknown', words: `${zone} lists every address`, advice };
  }
  const texts = await resolver.txt(name);
  const reason = texts.kind === 'found' ? `: ${texts.records.join(' ')}` : '';
  return { kind: 'listed', words: `${ip} is on ${zone} (${codes})${reason}` };
}
