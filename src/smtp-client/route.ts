/**
 * Where mail for a destination goes: the operator's route, else the smarthost, else the domain's MX hosts; where those are
 * we, our own SMTP port, which knows what becomes of it. What shares its hosts shares connections and their limits: that is
 * a `pool`, whatever domain names lead there.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isThisMachine } from '../config/scalars.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Dnssec } from '../dns/dnssec.ts';
import {
  announcedId,
  namesHost,
  policyUrl,
  readPolicy,
  type FetchedPolicy,
  type MtaStsPolicy,
} from '../dns/mta-sts.ts';
import { findDaneHosts, findMailHosts, type DaneHosts, type HostTlsa, type MailHost } from '../dns/mx.ts';
import { addressInRanges } from '../dns/networks.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { parseListenAddress, type ListenAddress } from '../lib/sockets.ts';
import type { AppliedPolicy, Random } from '../queue/transport.ts';
import {
  deferMtaStsRefresh,
  findMtaStsPolicy,
  forgetMtaStsPolicies,
  mtaStsPoliciesToRefresh,
  noteMtaStsUse,
  saveMtaStsPolicy,
  type MtaStsPolicyRow,
} from '../store/mta-sts-policies.ts';
import type { Store } from '../store/store.ts';

/** A host that takes mail. */
interface NextHopHost extends Pick<MailHost, 'name' | 'addresses'> {
  /** What it proves itself with by DNSSEC (RFC 7672); then no other policy applies there. */
  readonly tlsa?: HostTlsa | undefined;
}

export interface NextHop {
  /** Equal for destinations with the same hosts and port. */
  readonly pool: string;
  /** In the order in which to try them. */
  readonly hosts: readonly NextHopHost[];
  readonly port: number;
  /** `implicit`: TLS from the first byte. `opportunistic`: STARTTLS where it is offered and works. */
  readonly tls: 'opportunistic' | 'implicit';
  /** Whether the MX records of the domain name it, and not the operator. */
  readonly isMx?: true;
  /** Whose mail it is, where it was found by MX records that DNSSEC proves: a name that certificates may be for. */
  readonly provenDomain?: string | undefined;
  /** What the recipients' domain demands (RFC 8461). */
  readonly mtaSts?: MtaStsPolicy | undefined;
  /** For the smarthost alone: what TLS to it must be like. */
  readonly relay?: RelayTls | undefined;
  readonly credentials?: Relay['credentials'];
  /** For our own SMTP port alone. */
  readonly mark?: string | undefined;
}

export type Route =
  | { readonly kind: 'nextHop'; readonly nextHop: NextHop }
  | {
      readonly kind: 'permanent' | 'temporary';
      readonly reply: string;
      readonly policy?: AppliedPolicy;
      /** The policy that keeps mail from the domain's hosts. */
      readonly brokenPolicy?: AppliedTlsPolicy;
    };

export interface RouteOptions {
  readonly resolver: Resolver;
  readonly config: ServerConfig;
  /** Whether connecting to this address and the delivery port would reach ourselves. */
  readonly ownAddresses: (ip: string) => boolean;
  readonly random: Random;
  /** Without it no domain has an MTA-STS policy. */
  readonly mtaSts?: Pick<MtaSts, 'policyOf'> | undefined;
  /** Without it no host has DANE. */
  readonly dnssec?: Dnssec | undefined;
  /** Without it mail for a domain whose mail hosts are we goes nowhere. */
  readonly loopback?: LoopbackSmtp | undefined;
}

/** Our own SMTP port, through which our own mail goes in where it is for an address that is forwarded here. */
export interface LoopbackSmtp {
  /** Whether it may know what becomes of mail for the domain. */
  takes(domain: string): Promise<boolean>;
  /** Where it is; undefined where this daemon has none, or not yet. */
  place(): LoopbackAddress | undefined;
}

export interface LoopbackAddress extends ListenAddress {
  /** A secret by which it knows that a client is this very daemon. */
  readonly mark: string;
}

const MAX_ADDRESSES = 5;

/** What decides where mail for a destination goes, and what it says where it is the operator. */
type RouteRule =
  | { readonly by: 'routes'; readonly value: string }
  | { readonly by: 'relay'; readonly relay: Relay }
  | { readonly by: 'mx' };

/** The operator's route, else the smarthost, else the domain's MX hosts. */
export function routeRule(destination: string, { delivery }: Pick<ServerConfig, 'delivery'>): RouteRule {
  const fixed = delivery.routes[destination];
  if (fixed !== undefined) return { by: 'routes', value: fixed };
  return delivery.relay === null ? { by: 'mx' } : { by: 'relay', relay: readRelay(delivery.relay) };
}

/** The next hop of a destination (A-labels). */
export async function findRoute(destination: string, options: RouteOptions): Promise<Route> {
  const { resolver, config } = options;
  const { port, allow_private_networks: allowPrivate } = config.delivery;
  const rule = routeRule(destination, config);
  if (rule.by === 'routes') return fixedRoute({ ...parseListenAddress(rule.value), tls: 'opportunistic' }, resolver);
  if (rule.by === 'relay') return fixedRoute({ ...rule.relay, relay: await relayTls(rule.relay) }, resolver);
  const [known, dane] = await Promise.all([
    options.mtaSts?.policyOf(destination),
    options.dnssec === undefined ? ({ kind: 'insecure' } as const) : findDaneHosts(destination, port, options.dnssec),
  ]);
  if (dane.kind === 'failed') return { kind: 'temporary', reply: `451 4.4.3 ${dane.reason}` };
  const mtaSts = known?.mode === 'none' ? undefined : known;
  const { hostname } = config.server;
  const found = await findMailHosts(destination, {
    ...options,
    resolver: provenMx(resolver, dane),
    hostname,
    allowPrivate,
    mayTake: (host) => mayTake(host, dane, mtaSts),
  });
  switch (found.kind) {
    case 'permanent':
      if (found.isOwn === true && (await options.loopback?.takes(destination)) === true)
        return routeToOurselves(options);
      return { kind: 'permanent', reply: `${found.status} ${found.code} ${found.reason}` };
    case 'temporary':
      return { kind: 'temporary', reply: `451 4.4.3 ${found.reason}` };
    case 'forbidden':
      return forbidden({ destination, hosts: found.hosts }, dane, mtaSts);
    case 'hosts': {
      const names = await namesOfHosts(destination, provenMx(resolver, dane));
      const hosts = found.hosts.map((host) => ({ ...host, tlsa: tlsaOf(host.name, dane) }));
      const pool = `${poolName(names, mtaSts)}${danePart(destination, names, dane)}:${port}`;
      const provenDomain = dane.kind === 'secure' ? destination : undefined;
      return {
        kind: 'nextHop',
        nextHop: { pool, hosts, port, tls: 'opportunistic', isMx: true, mtaSts, provenDomain },
      };
    }
  }
}

type DaneState = Exclude<DaneHosts, { kind: 'failed' }>;

/** The hosts whose records were looked at, and no others that another answer may name. */
function provenMx(resolver: Resolver, dane: DaneState): Resolver {
  if (dane.kind === 'insecure' || dane.mx.length === 0) return resolver;
  return { ...resolver, mx: () => Promise.resolve({ kind: 'found', records: dane.mx }) };
}

/** DANE goes first (RFC 8461 §2): MTA-STS says who else may take mail. */
function mayTake(host: string, dane: DaneState, mtaSts: NextHop['mtaSts']): boolean {
  const answer = dane.kind === 'insecure' ? ({ kind: 'none' } as const) : dane.hosts.get(host);
  switch (answer?.kind) {
    case 'found':
      return true;
    case 'none':
      return mtaSts?.mode !== 'enforce' || namesHost(mtaSts, host);
    case 'failed':
    case undefined:
      return false;
  }
}

function forbidden(
  { destination, hosts }: { readonly destination: string; readonly hosts: readonly string[] },
  dane: DaneState,
  mtaSts: NextHop['mtaSts'],
): Route {
  for (const host of hosts) {
    const answer = dane.kind === 'insecure' ? undefined : dane.hosts.get(host);
    if (answer?.kind !== 'failed') continue;
    const reply = `451 4.7.5 DANE for ${destination} cannot be checked: ${answer.reason}`;
    const brokenPolicy = { type: 'tlsa', strings: [], domain: host, hosts: [host] } as const;
    return { kind: 'temporary', reply, policy: { name: 'dane', result: 'dnssec-invalid' }, brokenPolicy };
  }
  const reply = `451 4.7.5 the MTA-STS policy of ${destination} names none of its MX hosts (${hosts.join(', ')})`;
  const brokenPolicy = mtaSts && stsPolicy(mtaSts, destination);
  const policy = { name: 'mta-sts enforce', result: 'validation-failure' } as const;
  return { kind: 'temporary', reply, policy, ...(brokenPolicy && { brokenPolicy }) };
}

function tlsaOf(host: string, dane: DaneState): HostTlsa | undefined {
  const answer = dane.kind === 'insecure' ? undefined : dane.hosts.get(host);
  return answer?.kind === 'found' ? answer.tlsa : undefined;
}

/** Not where a proxy stands before it there, as whom we cannot speak. */
function routeToOurselves({ config, loopback, resolver }: RouteOptions): Promise<Route> {
  const place = loopback?.place();
  const isBare = place !== undefined && !addressInRanges(place.host, config.inbound.proxy_protocol);
  const to = isBare ? place : { host: config.server.hostname, port: config.delivery.port };
  return fixedRoute({ ...to, tls: 'opportunistic' }, resolver);
}

/** All MX names, because which of them are tried this time is chance. The resolver has just been asked and remembers. */
async function namesOfHosts(destination: string, resolver: Resolver): Promise<string[]> {
  const answer = await resolver.mx(destination);
  if (answer.kind !== 'found') return [destination];
  return answer.records.map(({ exchange }) => exchange).sort();
}

/** Sessions are shared by destinations whose policies say the same of the same hosts. */
function poolName(hosts: readonly string[], policy: NextHop['mtaSts']): string {
  if (policy === undefined) return hosts.join(',');
  return `${hosts.join(',')}:${policy.mode}:${hosts.filter((host) => namesHost(policy, host)).join(',')}`;
}

/** Sessions are shared where the hosts prove themselves alike; certificates of authorities may be for the domain itself. */
function danePart(destination: string, names: readonly string[], dane: DaneState): string {
  const all = names.flatMap((name) => {
    const tlsa = tlsaOf(name, dane);
    return tlsa === undefined ? [] : [{ name, ...tlsa }];
  });
  if (all.length === 0) return '';
  const hash = createHash('sha256');
  for (const { name, base, published } of all) hash.update([name, base, ...published, ''].join('\n'));
  const hasAuthority = all.some(({ records }) => records.some(({ usage }) => usage === 2));
  return `:dane:${hash.digest('hex').slice(0, 16)}${hasAuthority ? `:${destination}` : ''}`;
}

type Fixed = Pick<NextHop, 'port' | 'tls' | 'relay' | 'credentials' | 'mark'> & { readonly host: string };

/** The operator named the host: private networks are fine, and a name that DNS does not know is a mistake to correct, not a bounce. */
async function fixedRoute({ host, ...fixed }: Fixed, resolver: Resolver): Promise<Route> {
  const { port, tls, relay, credentials, mark } = fixed;
  // What is said to be safe for one is not done over a session that was opened for another.
  const kind =
    relay === undefined ? (mark === undefined ? tls : 'own') : `${tls}:${relay.security}:${credentials?.user}`;
  const nextHop = { pool: `${host}:${port}:${kind}`, port, tls, relay, credentials, mark };
  const answer = isIP(host) === 0 ? await resolver.addresses(host) : ({ kind: 'found', records: [host] } as const);
  // Name servers need not know it (RFC 6761 §6.3).
  const known = host === 'localhost' ? ['127.0.0.1', '::1'] : [];
  const addresses = answer.kind === 'found' ? answer.records : known;
  if (addresses.length > 0) {
    const hosts = [{ name: host, addresses: addresses.slice(0, MAX_ADDRESSES) }];
    return { kind: 'nextHop', nextHop: { ...nextHop, hosts } };
  }
  const reason = answer.kind === 'failed' ? answer.reason : `${host}, named in the configuration, has no IP address`;
  return { kind: 'temporary', reply: `451 4.4.3 ${reason}` };
}

/** What TLS to a host must be like. To an MX any certificate is better than none (RFC 7435 §3), unless a policy demands more. */
export function tlsPolicy(
  { relay, mtaSts, hosts }: Pick<NextHop, 'relay' | 'mtaSts' | 'hosts'>,
  host: string,
): {
  /** Nothing is said in clear text beyond EHLO. */
  readonly required: boolean;
  /** The certificate must be the smarthost's, from an authority that is trusted; of an MX host the policy judges it (tls-policy.ts). */
  readonly verified: boolean;
} {
  const isRelayRequired = relay?.security === 'required';
  const hasTlsa = hosts.some(({ name, tlsa }) => name === host && tlsa !== undefined);
  return { required: isRelayRequired || hasTlsa || mtaSts?.mode === 'enforce', verified: isRelayRequired };
}

/** A policy as reports tell of it (RFC 8460 §4.4). */
export interface AppliedTlsPolicy {
  readonly type: 'tlsa' | 'sts' | 'no-policy-found';
  readonly strings: readonly string[];
  /** Whose it is. */
  readonly domain: string;
  /** The mail hosts that it is about, or patterns of them. */
  readonly hosts: readonly string[];
}

/** What applies at a host of the destination. */
export function appliedTlsPolicy({ hosts, mtaSts }: NextHop, host: string, destination: string): AppliedTlsPolicy {
  const tlsa = hosts.find(({ name }) => name === host)?.tlsa;
  if (tlsa !== undefined) return { type: 'tlsa', strings: tlsa.published, domain: tlsa.base, hosts: [host] };
  if (mtaSts !== undefined) return stsPolicy(mtaSts, destination);
  return { type: 'no-policy-found', strings: [], domain: destination, hosts: [] };
}

function stsPolicy({ mode, mx, maxAge }: MtaStsPolicy, domain: string): AppliedTlsPolicy {
  const strings = ['version: STSv1', `mode: ${mode}`, ...mx.map((host) => `mx: ${host}`), `max_age: ${maxAge}`];
  return { type: 'sts', strings, domain, hosts: mx };
}

// The smarthost (`delivery.relay`), written as keys or as a URL: where it is, who we are there, and what its TLS must be like.

type RelayConfig = NonNullable<ServerConfig['delivery']['relay']>;

interface Relay {
  readonly host: string;
  readonly port: number;
  /** `implicit`: TLS from the first byte. */
  readonly tls: 'opportunistic' | 'implicit';
  readonly credentials?: { readonly user: string; readonly password: string } | undefined;
  /** `required`: with a certificate of the host that is trusted. */
  readonly security: 'required' | 'opportunistic' | 'off';
  /** PEM file of the only authorities that may have signed its certificate. */
  readonly ca?: string | undefined;
}

const IMPLICIT_TLS_PORT = 465;

/** Both forms come to the same. Without a password a URL asks for no TLS, and neither within this machine. */
export function readRelay(relay: RelayConfig): Relay {
  if (typeof relay === 'string') return fromUrl(new URL(relay));
  const { host, port, user, password, tls: security, ca } = relay;
  const isImplicit = port === IMPLICIT_TLS_PORT && security !== 'off';
  return { host, port, tls: isImplicit ? 'implicit' : 'opportunistic', security, ca, ...credentialsOf(user, password) };
}

function fromUrl({ protocol, hostname, port, username, password }: URL): Relay {
  const isImplicit = protocol === 'smtps:';
  const usual = isImplicit ? IMPLICIT_TLS_PORT : username === '' ? 25 : 587;
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const isOpen = isThisMachine(host) || (username === '' && !isImplicit);
  return {
    host,
    port: port === '' ? usual : Number(port),
    tls: isImplicit ? 'implicit' : 'opportunistic',
    security: isOpen ? 'opportunistic' : 'required',
    ...(username === '' ? {} : credentialsOf(decodeURIComponent(username), decodeURIComponent(password))),
  };
}

function credentialsOf(user: string | undefined, password: string | undefined): Pick<Relay, 'credentials'> {
  return user === undefined || password === undefined ? {} : { credentials: { user, password } };
}

interface RelayTls extends Pick<Relay, 'security'> {
  /** Text of the file. */
  readonly ca?: string;
}

/** What TLS to it must be like, with the authorities as the file has them now. */
async function relayTls({ security, ca: file }: Relay): Promise<RelayTls> {
  if (file === undefined) return { security };
  try {
    return { security, ca: await readFile(file, 'utf8') };
  } catch (error) {
    throw new Error(`delivery.relay.ca cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

// MTA-STS policies of the domains to which mail is sent (RFC 8461 §5): found, kept in the database for their `max_age`, and
// fetched again every day while mail is sent there. A policy that was fetched once stays active until it ends, whatever
// DNS or the policy's server say meanwhile: an attacker who blocks both must not be able to switch it off.

export interface MtaStsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Pick<Resolver, 'txt'>;
  /** Never rejects. */
  readonly fetchPolicy: (url: string) => Promise<FetchedPolicy>;
  /** Told of a policy that could not be had, in the words of RFC 8460 §4.3.2.2; default: nobody. */
  readonly onFailure?: (failure: PolicyFailure) => void;
}

export interface PolicyFailure {
  readonly domain: string;
  readonly result: 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid';
  readonly reason: string;
}

/** an active policy. */
interface KnownPolicy extends MtaStsPolicy {
  readonly id: string;
  /** ms */
  readonly until: number;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** How long a policy that could not be fetched is not asked for again (§3.3). */
const RETRY_MS = 300_000;
const MAX_FAILURES = 10_000;
const MAX_POLICIES = 10_000;
/** After so long without mail, a policy is no longer refreshed. */
const UNUSED_MS = 14 * DAY_MS;
const REFRESHES_AT_ONCE = 20;

export class MtaSts {
  readonly #options: MtaStsOptions;
  /** Domains whose policy could not be fetched: its id, and until when it is not tried again, on the monotonic clock. */
  readonly #failed = new LruMap<{ readonly id: string; readonly until: number }>(MAX_FAILURES);
  /** When to look for policies that have ended, on the monotonic clock. */
  #forgetAt = -Infinity;
  readonly #fetching = new Map<string, Promise<MtaStsPolicyRow | undefined>>();

  constructor(options: MtaStsOptions) {
    this.#options = options;
  }

  /** The active policy of a domain (A-labels). Rejects where the store cannot be read. */
  async policyOf(domain: string): Promise<KnownPolicy | undefined> {
    const { store, clock, resolver } = this.#options;
    const [row, answer] = await Promise.all([findMtaStsPolicy(store, domain), resolver.txt(`_mta-sts.${domain}`)]);
    const now = clock.now();
    const kept = row !== undefined && row.expires_at > now ? row : undefined;
    const id = answer.kind === 'found' ? announcedId(answer.records) : undefined;
    const isNew = id !== undefined && id !== kept?.id && !this.#failedLately(domain, id);
    const policy = (isNew ? await this.#fetch(domain, id) : undefined) ?? kept;
    if (policy === undefined) return undefined;
    if (policy.used_at < now - DAY_MS) await store.write([noteMtaStsUse({ domain, used_at: now })]);
    const { mode, max_age: maxAge, expires_at: until } = policy;
    return { id: policy.id, mode, mx: policy.mx.split(' '), maxAge, until };
  }

  /** Fetches policies again before they end, and forgets those that have ended. */
  async refresh(): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    for (const { domain, id } of await mtaStsPoliciesToRefresh(store, now, now - UNUSED_MS, REFRESHES_AT_ONCE)) {
      if ((await this.#fetch(domain, id)) !== undefined) continue;
      await store.write([deferMtaStsRefresh({ domain, refresh_at: clock.now() + HOUR_MS })]);
    }
    if (clock.monotonic() < this.#forgetAt) return;
    await store.write([forgetMtaStsPolicies({ now, max: MAX_POLICIES })]);
    this.#forgetAt = clock.monotonic() + HOUR_MS;
  }

  #failedLately(domain: string, id: string): boolean {
    const failure = this.#failed.get(domain);
    return failure?.id === id && failure.until > this.#options.clock.monotonic();
  }

  /** All who need it wait for the one request. */
  async #fetch(domain: string, id: string): Promise<MtaStsPolicyRow | undefined> {
    const fetching = this.#fetching.get(domain) ?? this.#fetchAndKeep(domain, id);
    this.#fetching.set(domain, fetching);
    try {
      return await fetching;
    } finally {
      this.#fetching.delete(domain);
    }
  }

  async #fetchAndKeep(domain: string, id: string): Promise<MtaStsPolicyRow | undefined> {
    const { store, clock, log, fetchPolicy, onFailure } = this.#options;
    const fetched = await fetchPolicy(policyUrl(domain));
    const policy = await readPolicy(fetched);
    if (typeof policy === 'string') {
      onFailure?.({ domain, result: resultOf(fetched), reason: policy });
      this.#failed.set(domain, { id, until: clock.monotonic() + RETRY_MS });
      log.info('mta_sts.not_fetched', { domain, id, reason: policy });
      return undefined;
    }
    const now = clock.now();
    const life = policy.maxAge * 1000;
    const row = {
      domain,
      id,
      mode: policy.mode,
      mx: policy.mx.join(' '),
      max_age: policy.maxAge,
      expires_at: now + life,
      refresh_at: now + Math.min(DAY_MS, life / 2),
      used_at: now,
    };
    await store.write([saveMtaStsPolicy(row)]);
    return row;
  }
}

/** Why there is no policy, in the words of RFC 8460 §4.3.2.2. */
function resultOf(fetched: FetchedPolicy): PolicyFailure['result'] {
  if (fetched.kind === 'answered') return fetched.status === 200 ? 'sts-policy-invalid' : 'sts-policy-fetch-error';
  return fetched.isUntrusted === true ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
}
