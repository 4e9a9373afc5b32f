/**
 * What becomes of mail for an address, decided at RCPT from the frozen snapshot alone: whatever is not accepted here is
 * never taken, so that nothing has to be bounced later. Nothing here forwards for a stranger: an address is either in the
 * forwarding map of a domain that DNS has said is its owner's, one that we made ourselves, or refused.
 */
import { createSecretKey } from 'node:crypto';
import { isServed } from '../accounts/tenants.ts';
import { responsible, type Snapshot } from '../config/snapshot.ts';
import { followForwarding, MAX_DELIVERIES, routeOf } from '../config/forwarding.ts';
import { parseAddress, type Address } from '../lib/addresses.ts';
import { REPORTS, reportAddress } from '../dns/records.ts';
import type { Domains } from '../domains/domains.ts';
import type { Clock } from '../lib/clock.ts';
import { openReplyAddress, openReturnPath, openSrs, type ReplyTicket } from '../mail/own-addresses.ts';
import { OPERATOR } from '../store/tenants.ts';
import { isDomainServed } from '../store/domains.ts';
import { obtainSecret } from '../store/secrets.ts';
import type { Store } from '../store/store.ts';
import type { DomainStatus } from '../store/tables.ts';
import type { SrsKeys } from './srs-keys.ts';

/** What the decision is made from. */
export interface Directory {
  readonly snapshot: Snapshot;
  /** What DNS has said of a domain of the snapshot. */
  status(domain: string): DomainStatus | undefined;
  /** The message (`msg_…`) that this address is the return path of; undefined where we did not make it. */
  openReturnPath(address: string): string | undefined;
  /** The sender that this SRS address stands for; undefined where we did not make it, or too long ago. */
  openSrs(address: string): string | undefined;
  /** What the reply address stands for; undefined where we did not make it. */
  openReply(address: Address): ReplyTicket | undefined;
}

interface DirectoryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  readonly domains: Pick<Domains, 'status'>;
}

/** Opens the directory, which is as of each call. Rejects where the store cannot be used. */
export async function openDirectory(
  { store, clock, snapshot, domains }: DirectoryParts,
  srs: Pick<SrsKeys, 'secrets'>,
): Promise<() => Directory> {
  const secret = createSecretKey(await obtainSecret(store, 'return-path', clock.now()));
  return () => {
    const { hostname } = snapshot().server.server;
    return {
      snapshot: snapshot(),
      status: (domain) => domains.status(domain),
      openReturnPath: (address) => openReturnPath(address, secret),
      openSrs: (address) => openSrs(address, { secrets: srs.secrets(), hostname, now: clock.now() }),
      openReply: (address) => openReplyAddress(address, secret),
    };
  };
}

interface Ours {
  /** As it is known here: `postmaster` is `postmaster@<hostname>`. */
  readonly original: string;
  readonly domain: string;
  readonly tenant: string;
}

export type Accepted =
  /** It goes on to these addresses, at least one. */
  | ({ readonly kind: 'forward'; readonly targets: readonly string[] } & Ours)
  /** It is taken, and forgotten. */
  | ({ readonly kind: 'discard' } & Ours)
  /** A bounce of a message of ours. */
  | ({ readonly kind: 'bounce'; readonly message: string } & Ours)
  /** A bounce of what we forwarded: it goes on to the one who sent that. */
  | ({ readonly kind: 'srs'; readonly sender: string } & Ours)
  | ({ readonly kind: 'reply'; readonly ticket: ReplyTicket } & Ours)
  /** An aggregate report on DMARC or TLS, to be read. */
  | ({ readonly kind: 'report' } & Ours);

export interface Refused {
  readonly kind: 'refuse';
  /** `550 5.1.1 …` */
  readonly reply: string;
  /** A stable name, for the log and whoever filters it. */
  readonly reason: string;
  /** Whose address it is; null where it is nobody's. */
  readonly domain: string | null;
  readonly tenant: string | null;
}

export type Decision = Accepted | Refused;

/** What becomes of mail from `sender` (empty: the null sender) for the address as it stood in RCPT. */
export function decideRecipient(text: string, sender: string, directory: Directory): Decision {
  const { server } = directory.snapshot.server;
  if (text.toLowerCase() === 'postmaster') return toOperator(`postmaster@${server.hostname}`, directory);
  const address = parseAddress(text);
  // Quoted locals, literals, lists, dots at the end: whatever we do not read in one way alone.
  if (address === undefined) return relayDenied();
  if (address.domain === server.hostname) {
    const decision = atHostname(address, sender, directory);
    if (decision !== undefined) return decision;
  }
  return atDomain(address, directory);
}

/** What becomes of mail for the address as given in RCPT: by the directory, and by whether its account is served. */
export async function decideServed(
  { address, sender }: { readonly address: string; readonly sender: string },
  directory: Directory,
  store: Store,
): Promise<Decision> {
  const decision = decideRecipient(address, sender, directory);
  if (decision.kind === 'refuse' && decision.reason === 'relay_denied') {
    const domain = parseAddress(address)?.domain;
    // One that the database knows and this daemon cannot serve: its configuration lacks it as yet.
    const isKnown = domain !== undefined && !directory.snapshot.domains.has(domain);
    if (!isKnown || !(await isDomainServed(store, domain))) return decision;
    const reply = '451 4.3.5 the configuration of this domain is not loaded yet, try again later';
    return { ...decision, reply, reason: 'domain_not_loaded' };
  }
  if (decision.kind === 'refuse' || (await isServed(store, decision.tenant))) return decision;
  return refuse('451 4.7.1 mail for this address is not accepted at the moment', 'tenant_suspended', decision);
}

/** Addresses that this server made itself, its postmaster's, and that of reports. */
function atHostname(address: Address, sender: string, directory: Directory): Decision | undefined {
  const local = address.local.toLowerCase();
  const ours = { original: address.address, domain: address.domain, tenant: OPERATOR };
  if (local === 'postmaster') return toOperator(address.address, directory);
  if (local.startsWith('b+')) {
    const message = directory.openReturnPath(address.address);
    return message === undefined ? notIssued('return_path', ours) : { kind: 'bounce', message, ...ours };
  }
  if (/^srs[01][=+-]/.test(local)) {
    // Whoever is not bouncing has no business with it, and would have found a way to mail strangers through us.
    const original = sender === '' ? directory.openSrs(address.address) : undefined;
    return original === undefined ? notIssued('srs', ours) : { kind: 'srs', sender: original, ...ours };
  }
  const domain = directory.snapshot.domains.get(address.domain);
  // A rule of the owner's stands before what we make of the name.
  if (local === REPORTS && domain?.config.forwarding[reportAddress(address.domain)] === undefined)
    return { kind: 'report', ...ours };
  return domain === undefined ? unknown(ours) : undefined;
}

function atDomain(address: Address, directory: Directory): Decision {
  const { snapshot } = directory;
  const { domain: name } = address;
  const domain = snapshot.domains.get(name);
  if (domain === undefined) {
    if (!snapshot.unavailable.has(name)) return relayDenied();
    const reply = `451 4.3.5 the configuration of ${name} is temporarily unavailable`;
    return refuse(reply, 'domain_unavailable', { domain: name });
  }
  const ours = { original: address.address, domain: name, tenant: domain.project.tenant };
  if (!isVerified(name, directory)) {
    const reply = `451 4.7.1 ${name} is not verified yet: its owner has to publish its DNS records`;
    return refuse(reply, 'domain_not_verified', ours);
  }
  const local = address.local.toLowerCase();
  const { forwarding } = domain.config;
  const isNamed = Object.hasOwn(forwarding, `${local}@${name}`);
  const ticket = local.startsWith('reply+') && !isNamed ? directory.openReply(address) : undefined;
  if (ticket !== undefined) return { kind: 'reply', ticket, ...ours };
  // Some servers read a route in these; a catch-all must not make us pass one on.
  if (/[%!]/.test(local) && !isNamed) return relayDenied(ours);
  const route = routeOf(forwarding, name, address.local);
  if (typeof route === 'object') return follow(address, ours, directory);
  // RFC 5321 §4.5.1, RFC 2142: somebody must be there.
  if (local === 'postmaster' || local === 'abuse') {
    return toPerson(responsible(domain.project, snapshot.server).address, ours, directory);
  }
  if (route === 'discard') return { kind: 'discard', ...ours };
  return unknown(ours, route === 'reject' ? 'rejected' : 'unknown_recipient');
}

/**
 * Follows the forwarding to where it ends, through the account's own domains on the way. An address of another account
 * stays: its mail comes in here once more, and goes only to whom agreed to mail of that account. One that leads nowhere
 * stays, too, and bounces.
 */
function follow(start: Address, ours: Ours, directory: Directory): Decision {
  const { targets, discarded } = followForwarding([start], ({ local, domain: name }) => {
    const domain = directory.snapshot.domains.get(name);
    return domain?.project.tenant === ours.tenant && isVerified(name, directory)
      ? routeOf(domain.config.forwarding, name, local)
      : undefined;
  });
  if (targets.length > MAX_DELIVERIES) {
    // Each project by itself is within the bound; several together need not be.
    const reply = `554 5.4.6 forwarding of this address leads to more than ${MAX_DELIVERIES} addresses`;
    return refuse(reply, 'too_many_targets', ours);
  }
  if (targets.length > 0) return { kind: 'forward', targets, ...ours };
  if (discarded) return { kind: 'discard', ...ours };
  return refuse('554 5.4.6 mail loop: this address forwards to itself', 'loop', ours);
}

/** How many deliveries taking a message for it causes. */
export function deliveriesFor(decision: Accepted): number {
  if (decision.kind === 'forward') return decision.targets.length;
  return decision.kind === 'srs' || decision.kind === 'reply' ? 1 : 0;
}

function isVerified(domain: string, { status }: Directory): boolean {
  const known = status(domain);
  return known === 'verified' || known === 'degraded';
}

function toOperator(original: string, directory: Directory): Accepted {
  const { hostname: domain, operator } = directory.snapshot.server.server;
  return toPerson(operator, { original, domain, tenant: OPERATOR }, directory);
}

/** Whoever is responsible may well live at a domain that is forwarded here. */
function toPerson(address: string, ours: Ours, directory: Directory): Accepted {
  const start = parseAddress(address);
  const decision = start && follow(start, ours, directory);
  return decision?.kind === 'forward' ? decision : { kind: 'forward', targets: [address], ...ours };
}

type Whose = Partial<Pick<Refused, 'domain' | 'tenant'>>;

function refuse(reply: string, reason: string, { domain = null, tenant = null }: Whose): Refused {
  return { kind: 'refuse', reply, reason, domain, tenant };
}

function relayDenied(whose: Whose = {}): Refused {
  return refuse('550 5.7.1 relaying denied', 'relay_denied', whose);
}

function unknown(ours: Ours, reason = 'unknown_recipient'): Refused {
  return refuse('550 5.1.1 no such address here', reason, ours);
}

function notIssued(token: 'return_path' | 'srs', ours: Ours): Refused {
  return refuse('550 5.1.1 this address was not issued by this server', `invalid_${token}`, ours);
}
