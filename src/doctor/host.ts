/**
 * The server's own name in DNS, by which receivers judge all its mail: name and addresses confirm each other (RFC 8601
 * §3, `iprev`), SPF and DKIM of the host name, and where bounces to it arrive.
 */
import { checkDkim, checkMx } from '../dns/check.ts';
import { recordsOf, silenceOf, type Answer, type Resolver } from '../dns/resolver.ts';
import { isPublicAddress, reverseName, placeOf } from '../dns/networks.ts';
import { reportConsent, type DomainRecord } from '../dns/records.ts';
import { adviseSpf } from '../dns/spf.ts';
import { resultOf, unanswered, type Result, type Results } from './check.ts';

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

/** The name is that of the machine itself, and has the addresses that mail leaves from. */
export async function checkName({ hostname, publicIps, resolver }: Host): Promise<Results> {
  const [answer, alias] = await Promise.all([resolver.addresses(hostname), resolver.lookup(hostname, 'CNAME')]);
  // RFC 5321 §2.3.5, RFC 2181 §10.3
  if (alias.kind === 'found') {
    const advice = `Publish an A or AAAA record for ${hostname} instead: neither EHLO nor an MX record may name an alias.`;
    return { status: 'failed', found: `${hostname} is a CNAME to ${alias.records.join(', ')}`, advice };
  }
  if (answer.kind === 'nxdomain' || answer.kind === 'nodata') {
    const advice = `Publish an A record for ${hostname} with this server’s IP address.`;
    return { status: 'failed', found: `${hostname} has no address`, advice };
  }
  const addresses = recordsOf(answer);
  const absent = publicIps.filter((ip) => !addresses.includes(ip));
  const found = `${hostname} resolves to ${addresses.join(', ')}`;
  if (absent.length > 0 && silenceOf(answer) === undefined) {
    const advice = `Add ${absent.join(', ')} to the A or AAAA records of ${hostname}, or remove it from server.public_ips.`;
    return { status: 'failed', found, advice };
  }
  const silence = silenceOf(answer) ?? silenceOf(alias);
  if (silence !== undefined) return unanswered(silence);
  if ([...publicIps, ...addresses].some(isPublicAddress)) return { status: 'ok', found };
  const advice = 'No receiver can reach it. Behind NAT, put the public IP address in server.public_ips and in DNS.';
  return { status: 'warning', found: `${found}, a private address`, advice };
}

/** Each address has the host name as its reverse name, which leads back to it. */
export async function checkReverse(host: Host): Promise<Results> {
  const answer = await addressesOf(host);
  const checks = await Promise.all(recordsOf(answer).map((ip) => checkReverseOf(ip, host)));
  return [...checks, ...unknownAddresses(answer)];
}

/** Where not all is known that there would be to look at. */
export function unknownAddresses(answer: Answer<string>): Result[] {
  const silence = silenceOf(answer);
  if (silence !== undefined) return [unanswered(silence)];
  if (answer.kind === 'found') return [];
  const advice = 'List the IP addresses that mail is sent from in server.public_ips.';
  return [{ status: 'unknown', found: 'the host name has no address', advice }];
}

async function checkReverseOf(ip: string, { hostname, resolver }: Host): Promise<Result> {
  const answer = await resolver.lookup(reverseName(ip), 'PTR');
  if (answer.kind === 'failed') return unanswered(answer.reason);
  const names = answer.kind === 'found' ? answer.records : [];
  const found = names.length === 0 ? `${ip} has no reverse name` : `${ip} has the reverse name ${names.join(', ')}`;
  const advice = `Ask the provider of the IP address to set its reverse name (PTR record) to ${hostname}. Otherwise, many receivers refuse the mail.`;
  const told = names.includes(hostname) ? [hostname] : names;
  const own: Answer<string> = { kind: 'found', records: [ip] };
  const places = await Promise.all(told.map(async (each) => placeOf(await resolver.addresses(each), own)));
  if (!places.includes('here')) {
    const silent = places.find((place) => place !== 'elsewhere' && place !== 'here');
    if (silent !== undefined) return unanswered(silent.reason);
    const publish = `Add ${ip} to the A or AAAA records of ${hostname}.`;
    return { status: 'failed', found, advice: names.includes(hostname) ? publish : advice };
  }
  return { status: names.includes(hostname) ? 'ok' : 'warning', found, advice };
}

/** The envelope sender of our own mail is at the host name, so this SPF is the one that receivers evaluate. */
export async function checkHostSpf(host: Host): Promise<Results> {
  const { hostname, resolver } = host;
  const texts = await resolver.txt(hostname);
  if (texts.kind === 'failed') return unanswered(texts.reason);
  const addresses = await addressesOf(host);
  if (addresses.kind !== 'found') return unknownAddresses(addresses);
  const world = { ...host, hostAddresses: await resolver.addresses(hostname) };
  const finding = await adviseSpf(hostname, recordsOf(texts), world);
  return resultOf(finding, `TXT ${hostname}: ${finding.value ?? ''}`);
}

/** What the server itself signs verifies; `records` are of its keys. */
export async function checkHostDkim({ resolver }: Host, records: readonly DomainRecord[]): Promise<Results> {
  const required = records.filter((record) => record.required);
  return Promise.all(
    required.map(async (record) => {
      const finding = await checkDkim(record, resolver);
      if (finding.status === 'ok') return { status: 'ok', found: `${record.name} is published` };
      return resultOf(finding, `TXT ${record.name}: ${record.value}`);
    }),
  );
}

/**
 * Whether receivers send the reports of other domains here: they ask the host name first (RFC 7489 §7.1, RFC 9990 §4).
 * `domains` have its address in their DMARC records.
 */
export async function checkReports({ hostname, resolver }: Host, domains: readonly string[]): Promise<Results> {
  const otherDomains = domains
    .filter((name) => name !== hostname && !hostname.endsWith(`.${name}`))
    .slice(0, MAX_REPORTING);
  const [first] = otherDomains;
  if (first === undefined) return [];
  const answers = await Promise.all(
    otherDomains.map(async (name) => ({ name, answer: await resolver.txt(`${name}._report._dmarc.${hostname}`) })),
  );
  const without = answers.filter(
    ({ answer }) =>
      answer.kind !== 'failed' && !recordsOf(answer).some((text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text)),
  );
  if (without.length > 0) {
    const { type, name, value } = reportConsent(hostname);
    const advice = `Publish ${type} ${name}: ${value} Until then, receivers do not send DMARC reports about these domains here.`;
    const found = `${hostname} does not accept DMARC reports about ${without.map((each) => each.name).join(', ')}`;
    return { status: 'warning', found, advice };
  }
  const silence = answers.map(({ answer }) => silenceOf(answer)).find((reason) => reason !== undefined);
  if (silence !== undefined) return unanswered(silence);
  return { status: 'ok', found: `${hostname} accepts DMARC reports about other domains` };
}

/** Domains that are asked for. */
const MAX_REPORTING = 5;

/** Bounces go to the host name: to its MX, else to its addresses (RFC 5321 §5.1). */
export async function checkBounces({ hostname, publicIps, resolver }: Host): Promise<Results> {
  const [mx, hostAddresses] = await Promise.all([resolver.mx(hostname), resolver.addresses(hostname)]);
  if (mx.kind === 'nodata' || mx.kind === 'nxdomain') {
    if (hostAddresses.kind === 'found')
      return { status: 'ok', found: `${hostname} has no MX record, so bounces go to its address` };
    if (hostAddresses.kind === 'failed') return unanswered(hostAddresses.reason);
    const found = `${hostname} has neither an MX record nor an address: bounces cannot be delivered`;
    return { status: 'failed', found, advice: `Publish an A record for ${hostname} with this server’s IP address.` };
  }
  const finding = await checkMx(hostname, { hostname, hostAddresses, publicIps, resolver });
  return resultOf(finding, `MX ${hostname}: 10 ${hostname}.`);
}
