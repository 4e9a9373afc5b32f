/**
 * Which hosts take a domain's mail (RFC 5321 §5.1, RFC 7505), in the order in which to try them. DNS that does not answer
 * is always temporary and never read as "there is no MX"; a name that a stranger controls leads neither back to us nor
 * into a private network.
 */
import { isIP } from 'node:net';
import type { MxRecord, Resolver } from './resolver.ts';
import { isHostAddress, isPublicAddress } from './networks.ts';
import { withDeadline } from '../lib/clock.ts';

export interface MailHost {
  readonly name: string;
  readonly preference: number;
  /** In the order in which to try them, families in turn. */
  readonly addresses: readonly string[];
}

export type MailHosts =
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
  return permanent('5.4.4', `no mail host of ${domain} can be used: ${reasons.join('; ')}`);
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
    return { ...record, kind: 'refused', reason: `${exchange} is an address, where RFC 5321 wants a host name` };
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
