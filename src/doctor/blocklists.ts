/** Whether the addresses that mail leaves from stand on DNS block lists (RFC 5782), those that the operator names. */
import { recordsOf } from '../dns/answers.ts';
import { reversedAddress } from '../dns/networks.ts';
import { check, unanswered, type Check } from './check.ts';
import { addressesOf, unknownAddresses, type Host } from './host.ts';

/** One check for each address and list. */
export async function checkBlocklists(host: Host, zones: readonly string[]): Promise<Check[]> {
  if (zones.length === 0) return [];
  const answer = await addressesOf(host);
  const checks = await Promise.all(zones.flatMap((zone) => recordsOf(answer).map((ip) => checkOn(zone, ip, host))));
  return [...checks, ...unknownAddresses('block_list', answer)];
}

async function checkOn(zone: string, ip: string, { resolver }: Host): Promise<Check> {
  const name = `${reversedAddress(ip)}.${zone}`;
  const answer = await resolver.lookup(name, 'A');
  switch (answer.kind) {
    case 'failed':
      return unanswered('block_list', answer.reason);
    case 'nxdomain':
    case 'nodata':
      return check('block_list', { status: 'ok', found: `${ip} is not on ${zone}` });
    case 'found':
      break;
  }
  const codes = answer.records.join(', ');
  // The lists' own errors: asked through a public resolver, too often, or without a key.
  if (answer.records.some((code) => code.startsWith('127.255.255.'))) {
    const advice = `Ask through a resolver of your own (dns.servers): ${zone} refuses public ones.`;
    return check('block_list', { status: 'unknown', found: `${zone} refuses to answer (${codes})`, advice });
  }
  if (!answer.records.every((code) => code.startsWith('127.'))) {
    const advice = `That is no answer of a block list: look whether ${zone} is still one.`;
    return check('block_list', { status: 'unknown', found: `${zone} answers ${codes}`, advice });
  }
  const texts = await resolver.txt(name);
  const reason = texts.kind === 'found' ? `: ${texts.records.join(' ')}` : '';
  const advice = `Find out why, mend it, and ask ${zone} to take the address off.`;
  return check('block_list', { status: 'failed', found: `${ip} is on ${zone} (${codes})${reason}`, advice });
}
