/**
 * Which hosts take a domain's mail (RFC 5321 §5.1, RFC 7505), in the order in which to try them. DNS that does not answer
 * is always temporary and never read as "there is no MX"; a name that a stranger controls leads neither back to us nor
 * into a private network. And by which keys those hosts prove themselves (DANE).
 */
import { createPublicKey, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { Answer as ResourceRecord, TlsaData } from 'dns-packet';
import { withDeadline } from '../lib/clock.ts';
import type { CheckedAnswer, Dnssec } from './dnssec.ts';
import { isHostAddress, isPublicAddress } from './networks.ts';
import { hostName, type MxRecord, type Resolver } from './resolver.ts';

export interface MailHost {
  readonly name: string;
  readonly preference: number;
  /** In the order in which to try them, families in turn. */
  readonly addresses: readonly string[];
}

type MailHosts =
  | { readonly kind: 'hosts'; readonly hosts: readonly MailHost[] }
  /** `status` and `code` are what an SMTP server would have said: `550 5.1.2`. */
  | {
      readonly kind: 'permanent';
      readonly status: 550 | 556;
      readonly code: string;
      readonly reason: string;
      /** Its mail hosts are we. */
      readonly isOwn?: true;
    }
  | { readonly kind: 'temporary'; readonly reason: string }
  /** The policy lets none of its mail hosts take mail. */
  | { readonly kind: 'forbidden'; readonly hosts: readonly string[] };

export interface MailHostOptions {
  readonly resolver: Pick<Resolver, 'mx' | 'addresses' | 'lookup'>;
  /** Our own host name: mail for it never goes out again. */
  readonly hostname: string;
  /** Whether connecting there would reach ourselves. */
  readonly ownAddresses: (ip: string) => boolean;
  readonly allowPrivate: boolean;
  /** Whether a policy of the domain lets this host take its mail; default: any. */
  readonly mayTake?: ((host: string) => boolean) | undefined;
  /** 0 ≤ number < 1, for the order among equals; default: Math.random. */
  readonly random?: () => number;
}

const MAX_HOSTS = 10;
const MAX_ADDRESSES = 5;
/** With more than one host, so that a large but dead first host leaves room for the second. */
const MAX_ADDRESSES_OF_ONE = 3;
const MAX_CNAMES = 8;

/** The hosts to try for mail to `domain` (A-labels): at most 5 addresses in all. */
export async function findMailHosts(domain: string, options: MailHostOptions): Promise<MailHosts> {
  const { resolver } = options;
  const answer = await resolver.mx(domain);
  switch (answer.kind) {
    case 'found':
      // RFC 7505 §3: a null MX stands alone; beside others it means nothing.
      if (answer.records.every(({ exchange }) => exchange === '')) {
        return { kind: 'permanent', status: 556, code: '5.1.10', reason: `${domain} accepts no mail (null MX)` };
      }
      return choose(domain, { records: answer.records.filter(({ exchange }) => exchange !== ''), options });
    case 'nodata':
      // RFC 5321 §5.1: without an MX record the domain's own address is its MX, with preference 0.
      return choose(domain, { records: [{ preference: 0, exchange: domain }], implicit: true, options });
    case 'nxdomain':
      return permanent('5.1.2', `${domain} does not exist`);
    case 'failed':
      // Resolvers answer SERVFAIL to a loop of CNAMEs; that error is the domain's own, and waiting does not help.
      if (await isCnameLoop(domain, resolver)) return permanent('5.4.4', `the CNAME records of ${domain} form a loop`);
      return { kind: 'temporary', reason: answer.reason };
  }
}

/** `implicit`: the domain has no MX record, and its own address is one. */
async function choose(
  domain: string,
  { records, implicit, options }: { records: readonly MxRecord[]; implicit?: boolean; options: MailHostOptions },
): Promise<MailHosts> {
  const { random = Math.random, mayTake = () => true } = options;
  const ordered = shuffled(records, random).sort((a, b) => a.preference - b.preference);
  const ownByName = ordered.find(({ exchange }) => exchange === options.hostname.toLowerCase());
  const nearer = before(ownByName, ordered);
  const candidates = nearer.filter(({ exchange }) => mayTake(exchange)).slice(0, MAX_HOSTS);
  if (candidates.length === 0 && nearer.length > 0) {
    return { kind: 'forbidden', hosts: nearer.slice(0, MAX_HOSTS).map(({ exchange }) => exchange) };
  }
  const targets = await Promise.all(candidates.map((record) => resolveTarget(record, options)));

  const ownByAddress = targets.find(({ kind }) => kind === 'own');
  const left = before(ownByAddress, targets);
  const hosts = left.flatMap((target) => (target.kind === 'host' ? [target] : []));
  if (hosts.length > 0) return { kind: 'hosts', hosts: withinLimits(hosts, random) };

  const failed = left.find((target) => target.kind === 'failed');
  if (failed !== undefined) return { kind: 'temporary', reason: failed.reason };
  if (ownByName !== undefined || ownByAddress !== undefined) {
    const reason = `mail for ${domain} loops back to this server (${options.hostname})`;
    return { kind: 'permanent', status: 550, code: '5.4.6', reason, isOwn: true };
  }
  // A domain without MX and without an address takes no mail; RFC 3463's X.1.2 says exactly that.
  if (implicit === true && left.every(({ kind }) => kind === 'missing')) {
    return permanent('5.1.2', `${domain} has neither an MX record nor an address`);
  }
  // X.4.4, "unable to route": DNS answered, but names no place to which mail can go. It is not X.1.2 (the domain exists
  // and means to take mail) nor X.7.x (the refusal is about where the name points, not about who sends).
  const reasons = left.flatMap((target) =>
    target.kind === 'refused' || target.kind === 'missing' ? [target.reason] : [],
  );
  return permanent('5.4.4', `no MX host of ${domain} can be used: ${reasons.join('; ')}`);
}

type Target = MxRecord &
  (
    | { readonly kind: 'host'; readonly addresses: readonly string[] }
    | { readonly kind: 'own' }
    | { readonly kind: 'failed'; readonly reason: string }
    | { readonly kind: 'missing' | 'refused'; readonly reason: string }
  );

async function resolveTarget(record: MxRecord, options: MailHostOptions): Promise<Target> {
  const { exchange } = record;
  if (isIP(exchange) !== 0 || /^\[.*\]$/.test(exchange)) {
    return { ...record, kind: 'refused', reason: `${exchange} is an IP address, but RFC 5321 requires a host name` };
  }
  const answer = await options.resolver.addresses(exchange);
  if (answer.kind === 'failed') return { ...record, kind: 'failed', reason: answer.reason };
  if (answer.kind !== 'found') return { ...record, kind: 'missing', reason: `${exchange} has no address` };
  if (answer.records.some((ip) => options.ownAddresses(ip))) return { ...record, kind: 'own' };
  const addresses = answer.records.filter(options.allowPrivate ? isHostAddress : isPublicAddress);
  if (addresses.length > 0) return { ...record, kind: 'host', addresses };
  if (answer.partial !== undefined) return { ...record, kind: 'failed', reason: answer.partial };
  return {
    ...record,
    kind: 'refused',
    reason: `${exchange} (${answer.records.join(', ')}) is not on a public network`,
  };
}

/** RFC 5321 §5.1: what is as far away as ourselves, or farther, would send the mail in a circle. */
function before<T extends { preference: number }>(own: MxRecord | undefined, list: readonly T[]): readonly T[] {
  return own === undefined ? list : list.filter(({ preference }) => preference < own.preference);
}

function withinLimits(hosts: readonly Extract<Target, { kind: 'host' }>[], random: () => number): MailHost[] {
  let room = MAX_ADDRESSES;
  return hosts.flatMap(({ exchange, preference, addresses }) => {
    const most = Math.min(room, hosts.length > 1 ? MAX_ADDRESSES_OF_ONE : MAX_ADDRESSES);
    const chosen = interleaved(shuffled(addresses, random)).slice(0, most);
    room -= chosen.length;
    return chosen.length === 0 ? [] : [{ name: exchange, preference, addresses: chosen }];
  });
}

/** IPv4 first: a machine whose IPv6 leads nowhere, the commoner fault, would else wait for it at every message. */
function interleaved(addresses: readonly string[]): string[] {
  const v4 = addresses.filter((ip) => isIP(ip) === 4);
  const v6 = addresses.filter((ip) => isIP(ip) === 6);
  const turns = Array.from({ length: Math.max(v4.length, v6.length) }, (_, i) => [v4[i], v6[i]]);
  return turns.flat().filter((ip) => ip !== undefined);
}

async function isCnameLoop(domain: string, resolver: Pick<Resolver, 'lookup'>): Promise<boolean> {
  let name = domain;
  for (let step = 0; step < MAX_CNAMES; step++) {
    const answer = await resolver.lookup(name, 'CNAME');
    const next = answer.kind === 'found' ? answer.records[0] : undefined;
    if (next === undefined) return false;
    if (next === domain) return true;
    name = next;
  }
  return true; // longer than any resolver follows
}

function permanent(code: string, reason: string): MailHosts {
  return { kind: 'permanent', status: 550, code, reason };
}

/** Fisher and Yates. */
function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const rest = [...items];
  const result: T[] = [];
  while (rest.length > 0) result.push(...rest.splice(Math.floor(random() * rest.length), 1));
  return result;
}

const DEADLINE_MS = 1500;

/**
 * True where the domain (A-labels) has a null MX (RFC 7505), does not exist, or has neither MX nor address (RFC 5321 §5.1).
 * Never rejects; what DNS cannot say, or not in time, is false.
 */
export async function refusesMail(domain: string, resolver: Pick<Resolver, 'mx' | 'addresses'>): Promise<boolean> {
  try {
    return await withDeadline(DEADLINE_MS, `MX ${domain}`, ask(domain, resolver));
  } catch {
    return false;
  }
}

async function ask(domain: string, resolver: Pick<Resolver, 'mx' | 'addresses'>): Promise<boolean> {
  const answer = await resolver.mx(domain);
  switch (answer.kind) {
    case 'found':
      return answer.records.every(({ exchange }) => exchange === '');
    case 'nxdomain':
      return true;
    case 'nodata': {
      const { kind } = await resolver.addresses(domain);
      return kind === 'nodata' || kind === 'nxdomain';
    }
    case 'failed':
      return false;
  }
}

// DANE for SMTP (RFC 7672): which mail hosts of a domain say by DNSSEC what they prove themselves with under TLS. Nothing of it
// counts where any step from the domain to the record is not proven; what cannot be told is never read as "there is none".

/** One that can be used (RFC 7672 §3.1). */
export interface TlsaRecord {
  /** 2: an authority of the host's (DANE-TA). 3: the host's own certificate (DANE-EE). */
  readonly usage: 2 | 3;
  /** 0: the certificate. 1: its public key. */
  readonly selector: 0 | 1;
  /** 0: as it is. 1: SHA-256. 2: SHA-512. */
  readonly matching: 0 | 1 | 2;
  readonly data: Buffer;
}

/** What a host proves itself with. */
export interface HostTlsa {
  /** Where the records are: the host, or the name that it is an alias of. */
  readonly base: string;
  /** Where there is none that can be used, TLS is demanded and its certificate is not looked at (RFC 7672 §2.2). */
  readonly records: readonly TlsaRecord[];
  /** All of them, as zone files have them. */
  readonly published: readonly string[];
}

type TlsaAnswer =
  | { readonly kind: 'found'; readonly tlsa: HostTlsa }
  | { readonly kind: 'none' }
  /** The host must not get mail now. */
  | { readonly kind: 'failed'; readonly reason: string };

export type DaneHosts =
  /** DANE does not apply. */
  | { readonly kind: 'insecure' }
  | { readonly kind: 'failed'; readonly reason: string }
  | {
      readonly kind: 'secure';
      /** Empty: the domain itself is its mail host. */
      readonly mx: readonly MxRecord[];
      /** By name; a host that is not among them must not get mail. */
      readonly hosts: ReadonlyMap<string, TlsaAnswer>;
    };

const MAX_TLSA_HOSTS = 30;
const MAX_RECORDS = 50;

/** The mail hosts of a domain (A-labels), for the port that mail is delivered to. Never rejects. */
export async function findDaneHosts(domain: string, port: number, dnssec: Dnssec): Promise<DaneHosts> {
  if (!(await dnssec.isValidating())) return { kind: 'insecure' };
  const answer = await dnssec.ask('MX', domain);
  if (answer.kind === 'failed') return answer;
  if (!answer.isSecure) return { kind: 'insecure' };
  const mx = answer.records.flatMap((record): MxRecord[] => {
    if (record.type !== 'MX') return [];
    return [{ preference: record.data.preference ?? 0, exchange: hostName(record.data.exchange) }];
  });
  const nearest = mx.toSorted((a, b) => a.preference - b.preference).map(({ exchange }) => exchange);
  const names = new Set(mx.length === 0 ? [domain] : nearest.filter((name) => name !== '').slice(0, MAX_TLSA_HOSTS));
  const found = [...names].map(async (host) => [host, await findTlsa(host, port, dnssec)] as const);
  return { kind: 'secure', mx, hosts: new Map(await Promise.all(found)) };
}

/** RFC 7672 §2.2.2: only where the host's addresses are proven, for there are name servers that choke on the question. */
async function findTlsa(host: string, port: number, dnssec: Dnssec): Promise<TlsaAnswer> {
  const answers = await Promise.all([dnssec.ask('A', host), dnssec.ask('AAAA', host)]);
  const bases = await basesOf(host, answers, dnssec);
  if ('kind' in bases) return bases;
  for (const base of bases) {
    const answer = await dnssec.ask('TLSA', `_${port}._tcp.${base}`);
    if (answer.kind === 'failed') return answer;
    if (!answer.isSecure) continue;
    const all = answer.records.flatMap((record) => (record.type === 'TLSA' ? [record.data] : []));
    const some = all.slice(0, MAX_RECORDS);
    if (some.length > 0)
      return { kind: 'found', tlsa: { base, records: usable(some), published: some.map(recordText).sort() } };
  }
  return { kind: 'none' };
}

/** The names at which the host's records may be, the likeliest first. */
async function basesOf(
  host: string,
  answers: readonly CheckedAnswer[],
  dnssec: Dnssec,
): Promise<readonly string[] | Exclude<TlsaAnswer, { kind: 'found' }>> {
  const answered = answers.filter((answer) => answer.kind === 'answered');
  const secure = answered.find(({ isSecure }) => isSecure);
  if (secure !== undefined) return [...new Set([endOf(host, secure.records), host])];
  const failed = answers.find((answer) => answer.kind === 'failed');
  if (answered.length === 0 && failed !== undefined) return failed;
  // An alias that is proven, of a name that is not.
  if (!answered.some(({ records }) => records.some(({ type }) => type === 'CNAME'))) return { kind: 'none' };
  const alias = await dnssec.ask('CNAME', host);
  if (alias.kind === 'failed') return alias;
  return alias.isSecure ? [host] : { kind: 'none' };
}

function endOf(host: string, records: readonly ResourceRecord[]): string {
  let name = host;
  for (let step = 0; step < MAX_CNAMES; step++) {
    const alias = records.find((record) => record.type === 'CNAME' && hostName(record.name) === name);
    if (alias?.type !== 'CNAME') break;
    name = hostName(alias.data);
  }
  return name;
}

/** Of several digests of the same, only the strongest counts (RFC 7671 §9). */
function usable(all: readonly TlsaData[]): TlsaRecord[] {
  const records = all.flatMap((data) => readRecord(data) ?? []);
  return records.filter(
    ({ usage, selector, matching }) =>
      matching !== 1 ||
      !records.some((other) => other.matching === 2 && other.usage === usage && other.selector === selector),
  );
}

/** Usages 0 and 1 mean authorities that both sides trust, and between mail servers there are none (RFC 7672 §3.1.3). */
function readRecord({ usage, selector, matchingType: matching, certificate }: TlsaData): TlsaRecord | undefined {
  if (usage !== 2 && usage !== 3) return undefined;
  if (selector !== 0 && selector !== 1) return undefined;
  if (matching !== 0 && matching !== 1 && matching !== 2) return undefined;
  const data = Buffer.from(certificate);
  const isWhole = matching === 0 ? isReadable(data, selector) : data.length === 32 * matching;
  return isWhole ? { usage, selector, matching, data } : undefined;
}

function isReadable(data: Buffer, selector: 0 | 1): boolean {
  try {
    if (selector === 0) void new X509Certificate(data);
    else createPublicKey({ key: data, format: 'der', type: 'spki' });
    return true;
  } catch {
    return false;
  }
}

/** `3 1 1 0123…`, as zone files have it. */
function recordText({ usage, selector, matchingType, certificate }: TlsaData): string {
  return `${usage} ${selector} ${matchingType} ${certificate.toString('hex')}`;
}
