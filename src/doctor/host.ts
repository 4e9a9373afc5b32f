/**
 * The server's own name in DNS, by which receivers judge all its mail: name and addresses confirm each other (RFC 8601
 * §3, `iprev`), SPF and DKIM of the host name, and where bounces to it arrive.
 */
import { checkDkim } from '../dns/check-dkim.ts';
import { checkMx } from '../dns/check-mx.ts';
import type { Answer, Resolver } from '../dns/answers.ts';
import { isPublicAddress, reverseName } from '../dns/networks.ts';
import type { DomainRecord } from '../dns/records.ts';
import { adviseSpf } from '../dns/spf-advice.ts';
import { check, checkOfFinding, type Check } from './check.ts';

export interface Host {
  readonly hostname: string;
  /** As configured; empty: those of the host name. */
  readonly publicIps: readonly string[];
  readonly resolver: Resolver;
}

/** Where mail leaves from, as far as it is known. */
export async function addressesOf({ hostname, publicIps, resolver }: Host): Promise<Answer<string>> {
  return publicIps.length > 0 ? { kind: 'found', records: publicIps } : resolver.addresses(hostname);
}

/** The name has the addresses that mail leaves from. */
export async function checkName({ hostname, publicIps, resolver }: Host): Promise<Check[]> {
  const answer = await resolver.addresses(hostname);
  if (answer.kind === 'failed') return [check('host_name', { status: 'unknown', found: answer.reason })];
  if (answer.kind !== 'found') {
    const found = `${hostname} has no address`;
    return [
      check('host_name', { status: 'failed', found, advice: `Publish A ${hostname} with this server’s address.` }),
    ];
  }
  const absent = publicIps.filter((ip) => !answer.records.includes(ip));
  const found = `${hostname} is ${answer.records.join(', ')}`;
  if (absent.length > 0) {
    const advice = `Publish ${absent.join(', ')} as A or AAAA of ${hostname} too, or take it out of server.public_ips.`;
    return [check('host_name', { status: 'failed', found, advice })];
  }
  if ([...publicIps, ...answer.records].some(isPublicAddress)) return [check('host_name', { status: 'ok', found })];
  const advice = 'No receiver can reach that: behind NAT name the public address in server.public_ips and in DNS.';
  return [check('host_name', { status: 'warning', found: `${found}, a private address`, advice })];
}

/** Each address has the host name as its reverse name, which leads back to it. */
export async function checkReverse(host: Host): Promise<Check[]> {
  const addresses = await addressesOf(host);
  if (addresses.kind !== 'found') return [unknownAddresses('reverse_dns', addresses)];
  return Promise.all(addresses.records.map((ip) => checkReverseOf(ip, host)));
}

/** It is not known what there would be to look at. */
export function unknownAddresses(name: string, answer: Exclude<Answer<string>, { kind: 'found' }>): Check {
  const found = answer.kind === 'failed' ? answer.reason : 'the host name has no address';
  return check(name, {
    status: 'unknown',
    found,
    advice: 'Name the addresses that mail leaves from in server.public_ips.',
  });
}

async function checkReverseOf(ip: string, { hostname, resolver }: Host): Promise<Check> {
  const name = 'reverse_dns';
  const answer = await resolver.lookup(reverseName(ip), 'PTR');
  if (answer.kind === 'failed') return check(name, { status: 'unknown', found: answer.reason });
  const names = answer.kind === 'found' ? answer.records : [];
  const found = names.length === 0 ? `${ip} has no reverse name` : `${ip} is ${names.join(', ')}`;
  const advice = `Have whoever gave you the address set its reverse name to ${hostname}: many receivers refuse the mail else.`;
  const told = names.includes(hostname) ? [hostname] : names;
  const forward = await Promise.all(told.map((each) => resolver.addresses(each)));
  const isConfirmed = forward.some((each) => each.kind === 'found' && each.records.includes(ip));
  if (!isConfirmed) {
    const silent = forward.find((each) => each.kind === 'failed');
    if (silent !== undefined) return check(name, { status: 'unknown', found: silent.reason });
    if (names.includes(hostname)) {
      return check(name, { status: 'failed', found, advice: `Publish ${ip} as A or AAAA of ${hostname}.` });
    }
    return check(name, { status: 'failed', found, advice });
  }
  return check(name, { status: names.includes(hostname) ? 'ok' : 'warning', found, advice });
}

/** The envelope sender of our own mail is at the host name, so this SPF is the one that receivers evaluate. */
export async function checkHostSpf({ hostname, publicIps, resolver }: Host): Promise<Check[]> {
  const texts = await resolver.txt(hostname);
  if (texts.kind === 'failed') return [check('host_spf', { status: 'unknown', found: texts.reason })];
  const world = { resolver, hostname, publicIps, hostAddresses: await resolver.addresses(hostname) };
  const finding = await adviseSpf(hostname, texts.kind === 'found' ? texts.records : [], world);
  return [checkOfFinding('host_spf', finding, `TXT ${hostname}: ${finding.value ?? ''}`)];
}

/** What the server itself signs verifies; `records` are of its keys. */
export async function checkHostDkim({ resolver }: Host, records: readonly DomainRecord[]): Promise<Check[]> {
  const required = records.filter((record) => record.required);
  return Promise.all(
    required.map(async (record) => {
      const finding = await checkDkim(record, resolver);
      if (finding.status === 'ok') return check('host_dkim', { status: 'ok', found: `${record.name} is published` });
      return checkOfFinding('host_dkim', finding, `TXT ${record.name}: ${record.value}`);
    }),
  );
}

/** Bounces go to the host name: to its MX, else to its addresses (RFC 5321 §5.1). */
export async function checkBounces(host: Host): Promise<Check[]> {
  const { hostname, resolver } = host;
  const addresses = await addressesOf(host);
  const mx = await resolver.mx(hostname);
  if (mx.kind === 'nodata' && addresses.kind === 'found') {
    return [check('bounces', { status: 'ok', found: `${hostname} has no MX record, so its address takes them` })];
  }
  const known = addresses.kind === 'found' ? addresses.records : [];
  const finding = await checkMx(hostname, { hostname, addresses: known, resolver });
  return [checkOfFinding('bounces', finding, `MX ${hostname}: 10 ${hostname}.`)];
}
