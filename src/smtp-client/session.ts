/**
 * An SMTP session that is ready for mail: connected, greeted, with TLS where it can be had, authenticated at a smarthost,
 * known at our own SMTP port.
 * TLS is opportunistic (RFC 7435): any certificate is better than none, and where STARTTLS breaks, a fresh connection goes
 * on in clear text, unless a policy of the recipients' domain demands TLS (tls-policy.ts). Credentials are said only under
 * TLS with a certificate that verifies, or within this machine.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { isThisMachine } from '../config/scalars.ts';
import { namesHost } from '../dns/mta-sts.ts';
import type { HostTlsa, TlsaRecord } from '../dns/mx.ts';
import { messageOf } from '../lib/errors.ts';
import type { AppliedPolicy, Peer, PolicyName, TlsResult } from '../queue/transport.ts';
import { classify, happeningText, type Happening, type Reply, type ReplyClass, type Step } from './reply.ts';
import { tlsPolicy, type NextHop } from './route.ts';
import { Transcript, Wire, WireFault, type Proof, type WireOptions } from './wire.ts';

export interface Target {
  readonly host: string;
  readonly address: string;
}

export interface Session {
  readonly wire: Wire;
  readonly target: Target;
  readonly peer: Peer;
  readonly features: ReturnType<typeof readFeatures>;
  /** Whether the server is the smarthost, whose troubles are no recipient's. */
  readonly isRelay: boolean;
  /** When it began, on the monotonic clock. */
  readonly since: number;
  /** Messages so far. */
  used: number;
  /** The last transaction ended badly: RSET comes before the next. */
  dirty: boolean;
  /** What came of TLS, whatever was demanded. */
  readonly tlsResult: TlsResult;
  /** Why Node does not trust the certificate, as a code; empty where it does. */
  readonly distrust: string;
  /** The domains whose mail it has carried. */
  readonly domains: Set<string>;
}

interface SessionOptions extends WireOptions {
  readonly nextHop: NextHop;
  /** Our name in EHLO. */
  readonly hostname: string;
  readonly monotonic: () => number;
  /** Certificates to trust beside Node's own, PEM. */
  readonly ca?: string | undefined;
  /** Addresses whose STARTTLS was found broken. */
  readonly brokenTls: Set<string>;
  /** By host, the authorities that it sent and that DNSSEC names (tls-policy.ts), PEM. */
  readonly anchors: Map<string, readonly string[]>;
  /** Told of the wire as soon as there is one, so that a stop can cut it. */
  readonly onWire: (wire: Wire) => void;
}

export type Opened =
  | { readonly kind: 'open'; readonly session: Session }
  | {
      readonly kind: 'failed';
      readonly verdict: ReplyClass;
      readonly reply: string;
      readonly peer: Peer;
      /** Our address, where a TLS policy was broken. */
      readonly local: string | null;
    };

/** The server, or a rule of ours, ends it before there was mail. */
class Refusal extends Error {
  readonly happening: Happening;
  constructor(happening: Happening) {
    super(happeningText(happening));
    this.happening = happening;
  }
}

/** The session is not what the policy of the recipients' domain demands. */
class PolicyBroken extends Refusal {
  readonly result: TlsResult;
  readonly local: string | null;
  constructor(
    policy: HostPolicy,
    result: TlsResult,
    about: { readonly host: string; readonly cause: string; readonly local: string | null },
  ) {
    super({ step: 'starttls', fault: 'insecure', words: brokenPolicyText(policy, result, about) });
    this.result = result;
    this.local = about.local;
  }
}

/** STARTTLS was offered and does not work. */
class BrokenTls extends Error {}

/** The server sent an authority that is to be trusted. */
class UnknownAnchors extends Error {
  readonly anchors: readonly string[];
  constructor(anchors: readonly string[]) {
    super('the session must be reopened');
    this.anchors = anchors;
  }
}

/** Opens a session at one address; `mayReopen`: it was not opened again yet for the sake of an authority. */
export async function openSession(
  target: Target,
  { transcript = new Transcript(), ...given }: SessionOptions,
  mayReopen = true,
): Promise<Opened> {
  const options = { ...given, transcript };
  try {
    return { kind: 'open', session: await openOnce(target, options, mayReopen) };
  } catch (error) {
    if (error instanceof UnknownAnchors) {
      options.anchors.set(target.host, error.anchors);
      return openSession(target, options, false);
    }
    if (error instanceof BrokenTls) {
      transcript.note(`STARTTLS failed: ${error.message}`);
      // Once more in clear text; the next messages need not find out again.
      options.brokenTls.add(target.address);
      return openSession(target, options, mayReopen);
    }
    const policy = policyAt(options.nextHop, target.host);
    const happening = error instanceof Refusal ? error.happening : faultOf(error);
    if ('fault' in happening) transcript.note(happeningText(happening));
    const peer = {
      host: target.host,
      address: target.address,
      tls: null,
      policy: policy && { name: policy.name, result: error instanceof PolicyBroken ? error.result : null },
      dialogue: transcript.take(),
    };
    return {
      kind: 'failed',
      verdict: classify(happening, options.nextHop.relay !== undefined),
      reply: happeningText(happening),
      peer,
      local: error instanceof PolicyBroken ? error.local : null,
    };
  }
}

/** The happening that a WireFault is; anything else is no doing of the other side and thrown on. */
export function faultOf(error: unknown): Happening {
  if (!(error instanceof WireFault)) throw error;
  return { step: error.step, fault: error.fault, words: error.message };
}

async function openOnce(target: Target, options: SessionOptions, mayReopen: boolean): Promise<Session> {
  const { nextHop, hostname } = options;
  const demand = tlsPolicy(nextHop, target.host);
  const policy = policyAt(nextHop, target.host, options.anchors.get(target.host));
  const ca = policy?.trusted ?? nextHop.relay?.ca ?? options.ca;
  const servername = policy?.servername ?? target.host;
  const wire = new Wire({ address: target.address, port: nextHop.port }, options);
  options.onWire(wire);
  const tls = {
    host: target.host,
    ...(isIP(servername) === 0 ? { servername } : {}),
    rejectUnauthorized: demand.verified,
    ...(ca === undefined ? {} : { ca: [ca].flat() }),
    // An authority that DNSSEC names need not be a root.
    allowPartialTrustChain: policy?.trusted !== undefined,
  };
  try {
    await wire.connected();
    if (nextHop.tls === 'implicit') await wire.startTls(tls);
    expect('greeting', await wire.read('greeting'));
    let features = await sayHello(wire, hostname);
    const wantsTls = demand.required || (nextHop.relay?.security !== 'off' && !options.brokenTls.has(target.address));
    const isUpgraded = features.startTls && wire.tls === null && wantsTls;
    if (isUpgraded) await upgrade(wire, tls, { target, policy, isRequired: demand.required });
    const anchors = mayReopen && wire.proof !== undefined ? policy?.unknownAnchors?.(wire.proof) : undefined;
    if (anchors !== undefined && anchors.length > 0) throw new UnknownAnchors(anchors);
    const applied = policy && keepPolicy(wire, policy, { target, isTlsBroken: features.startTls && !isUpgraded });
    if (isUpgraded) features = await sayHello(wire, hostname);
    const isPrivate = wire.tls !== null || isThisMachine(target.address);
    if (!isPrivate && nextHop.credentials !== undefined) {
      throw unsuitable('the smarthost offers no TLS, and a password is never sent in clear text');
    }
    if (demand.required && wire.tls === null) {
      throw unsuitable('the smarthost offers no TLS, which delivery.relay requires');
    }
    await logIn(wire, { ...nextHop, mechanisms: features.auth });
    const peer = { host: target.host, address: target.address, tls: wire.tls, policy: applied };
    return {
      wire,
      target,
      peer,
      features,
      since: options.monotonic(),
      used: 0,
      dirty: false,
      tlsResult: applied?.result ?? plainResult(wire, features.startTls),
      distrust: wire.proof?.distrust ?? '',
      domains: new Set(),
      isRelay: nextHop.relay !== undefined,
    };
  } catch (error) {
    if (error instanceof Refusal || error instanceof UnknownAnchors) wire.quit();
    else wire.close();
    throw error;
  }
}

/** Where nothing is demanded any TLS will do. */
function plainResult({ tls }: Wire, isOffered: boolean): TlsResult {
  if (tls !== null) return 'success';
  return isOffered ? 'validation-failure' : 'starttls-not-supported';
}

interface Upgrade {
  readonly target: Target;
  readonly policy: HostPolicy | undefined;
  readonly isRequired: boolean;
}

async function upgrade(wire: Wire, tls: ConnectionOptions, { target, policy, isRequired }: Upgrade): Promise<void> {
  const { localAddress: local } = wire;
  try {
    const reply = await wire.ask('starttls', 'STARTTLS');
    if (reply.code !== 220) throw new Refusal({ step: 'starttls', reply });
    await wire.startTls(tls);
  } catch (error) {
    const cause = messageOf(error);
    if (policy?.isEnforced === true) {
      throw new PolicyBroken(policy, 'validation-failure', { host: target.host, cause, local });
    }
    throw isRequired ? error : new BrokenTls(cause, { cause: error });
  }
}

/** What came of the policy, where that is enough for it. */
function keepPolicy(
  { proof, localAddress: local }: Wire,
  policy: HostPolicy,
  { target, isTlsBroken }: { readonly target: Target; readonly isTlsBroken: boolean },
): AppliedPolicy {
  const result = isTlsBroken ? 'validation-failure' : policy.judge(proof);
  if (!policy.accepts(result)) {
    throw new PolicyBroken(policy, result, { host: target.host, cause: proof?.distrust ?? 'no TLS', local });
  }
  return { name: policy.name, result };
}

/** Shows our own SMTP port the mark that it gave this daemon (RFC 5321 §4.1.5), and authenticates at the smarthost (RFC 4954). */
async function logIn(
  wire: Wire,
  { credentials, mark, mechanisms }: NextHop & { mechanisms: readonly string[] },
): Promise<void> {
  if (mark !== undefined) expect('auth', await wire.ask('auth', `XOWN ${mark}`, 'XOWN …'));
  if (credentials === undefined) return;
  const { user, password } = credentials;
  if (mechanisms.includes('PLAIN')) {
    return expect('auth', await wire.ask('auth', `AUTH PLAIN ${base64(`\0${user}\0${password}`)}`, 'AUTH PLAIN …'));
  }
  if (!mechanisms.includes('LOGIN')) throw unsuitable('the smarthost offers neither AUTH PLAIN nor AUTH LOGIN');
  let reply = await wire.ask('auth', 'AUTH LOGIN');
  if (reply.code === 334) reply = await wire.ask('auth', base64(user), '…');
  if (reply.code === 334) reply = await wire.ask('auth', base64(password), '…');
  expect('auth', reply);
}

function expect(step: Step, reply: Reply): void {
  if (classify({ step, reply }).kind !== 'ok') throw new Refusal({ step, reply });
}

function unsuitable(words: string): Refusal {
  return new Refusal({ step: 'auth', fault: 'unsuitable', words });
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Says EHLO, or HELO where the server knows no extensions (RFC 5321 §3.2). */
async function sayHello(wire: Wire, hostname: string) {
  const reply = await wire.ask('ehlo', `EHLO ${hostname}`);
  const isOld = reply.code >= 500 && reply.code < 600;
  expect('ehlo', isOld ? await wire.ask('ehlo', `HELO ${hostname}`) : reply);
  return readFeatures(isOld ? [] : reply.lines.slice(1));
}

/** What the server says that it can do. */
function readFeatures(lines: readonly string[]) {
  const offered = new Map(
    lines.map((line) => {
      // Some old servers write AUTH=LOGIN.
      const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
      return [keyword, parameters] as const;
    }),
  );
  const size = offered.get('SIZE')?.[0] ?? '';
  return {
    pipelining: offered.has('PIPELINING'),
    eightBit: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    /** The largest message; 0 where there is no fixed limit, undefined where SIZE is unknown (RFC 1870). */
    size: offered.has('SIZE') ? (/^\d{1,15}$/.test(size) ? Number(size) : 0) : undefined,
    /** Mechanisms of AUTH. */
    auth: offered.get('AUTH') ?? [],
  };
}

// What the recipients' domain demands of a session with one of its mail hosts, and whether the session keeps it: DANE where the
// host has it (RFC 7672), else MTA-STS (RFC 8461 §4) with a certificate that is the host's, from an authority that Node trusts.

interface HostPolicy {
  readonly name: PolicyName;
  /** Whether mail waits rather than go to where there is no TLS that works. */
  readonly isEnforced: boolean;
  /** The name to ask the server for a certificate of; default: the host's own. */
  readonly servername?: string;
  /** PEM of the only authorities to trust; default: the usual ones. */
  readonly trusted?: readonly string[];
  /** What comes of it with these proofs; without TLS there are none. */
  readonly judge: (proof: Proof | undefined) => TlsResult;
  /** Whether mail may go where this came of it. */
  readonly accepts: (result: TlsResult) => boolean;
  /** PEM of authorities to trust that are only known now: the session is to be opened again with them. */
  readonly unknownAnchors?: (proof: Proof) => readonly string[];
}

/** The policy that applies at a mail host; undefined where there is none. `anchors` are those that were unknown before. */
function policyAt(
  { mtaSts, hosts, provenDomain }: Pick<NextHop, 'mtaSts' | 'hosts' | 'provenDomain'>,
  host: string,
  anchors: readonly string[] = [],
): HostPolicy | undefined {
  const tlsa = hosts.find(({ name }) => name === host)?.tlsa;
  if (tlsa !== undefined) {
    const names = [tlsa.base, host, ...(provenDomain === undefined ? [] : [provenDomain])];
    return danePolicy({ tlsa, names, anchors });
  }
  if (mtaSts === undefined || mtaSts.mode === 'none') return undefined;
  return {
    name: `mta-sts ${mtaSts.mode}`,
    isEnforced: mtaSts.mode === 'enforce',
    judge(proof) {
      if (proof === undefined) return 'starttls-not-supported';
      // RFC 8461 §4.1: names in the subject do not count.
      return namesHost(mtaSts, host) ? certificateResult([host], proof, 'never') : 'validation-failure';
    },
    accepts: (result) => result === 'success' || mtaSts.mode === 'testing',
  };
}

/** What a certificate of an authority proves; `subject`: whether a name in it counts where there is no other. */
function certificateResult(
  names: readonly string[],
  { certificate, distrust }: Proof,
  subject: 'default' | 'never',
): TlsResult {
  if (distrust === 'CERT_HAS_EXPIRED') return 'certificate-expired';
  if (distrust !== null && distrust !== 'ERR_TLS_CERT_ALTNAME_INVALID') return 'certificate-not-trusted';
  const isNamed = names.some((name) => certificate.checkHost(name, { subject, partialWildcards: false }) !== undefined);
  return isNamed ? 'success' : 'certificate-host-mismatch';
}

interface DaneHost {
  readonly tlsa: HostTlsa;
  /** For which names an authority's certificate may be (RFC 7672 §3.2.2). */
  readonly names: readonly string[];
  /** PEM of the authorities that the session trusts: those that records name, as far as they are known. */
  readonly anchors: readonly string[];
}

/**
 * What records demand of the host (RFC 7672 §3). Its own certificate only has to be the one that a record names: neither names
 * nor dates count. One of an authority that a record names is checked by OpenSSL, which gets that authority, out of what the
 * server sent, as the only one to trust: so it takes a second handshake.
 */
function danePolicy({ tlsa, names, anchors }: DaneHost): HostPolicy {
  const { base, records } = tlsa;
  const authorities = records.filter(({ usage }) => usage === 2);
  const published = authorities.flatMap(certificateIn);
  const trusted = [...published, ...anchors];

  function isNamed({ certificate }: Proof): boolean {
    return records.some((record) => record.usage === 3 && isMatch(record, certificate));
  }

  function judge(proof: Proof | undefined): TlsResult {
    if (proof === undefined) return 'starttls-not-supported';
    if (isNamed(proof)) return 'success';
    return trusted.length === 0 ? 'tlsa-invalid' : certificateResult(names, proof, 'default');
  }

  return {
    name: 'dane',
    isEnforced: true,
    servername: base,
    trusted,
    judge,
    // Records that nobody can use demand TLS alone.
    accepts: (result) => result === 'success' || (result === 'tlsa-invalid' && records.length === 0),
    unknownAnchors(proof) {
      if (authorities.length === 0 || isNamed(proof)) return [];
      const found = proof.chain().filter((each) => authorities.some((record) => isMatch(record, each)));
      const all = found.map(String);
      return all.every((pem) => trusted.includes(pem)) ? [] : all;
    },
  };
}

/** The authority itself, where the record holds all of it. */
function certificateIn({ selector, matching, data }: TlsaRecord): string[] {
  return selector === 0 && matching === 0 ? [String(new X509Certificate(data))] : [];
}

/** RFC 6698 §2.1 */
function isMatch({ selector, matching, data }: TlsaRecord, certificate: X509Certificate): boolean {
  const bytes = selector === 0 ? certificate.raw : publicKeyOf(certificate);
  if (bytes === undefined) return false;
  const digest = DIGESTS[matching];
  return data.equals(digest === undefined ? bytes : createHash(digest).update(bytes).digest());
}

const DIGESTS = [undefined, 'sha256', 'sha512'] as const;

/** Undefined where it is of a kind that Node does not know. */
function publicKeyOf(certificate: X509Certificate): Buffer | undefined {
  try {
    return certificate.publicKey.export({ type: 'spki', format: 'der' });
  } catch {
    return undefined;
  }
}

/** Why mail does not go there, for attempts and logs; `cause` is what was said where TLS broke. */
function brokenPolicyText(
  { name }: HostPolicy,
  result: TlsResult,
  { host, cause }: { readonly host: string; readonly cause: string },
): string {
  // "Policy" would be read as the receiver's word on the message (mail/bounce-class.ts).
  const by = name === 'dane' ? 'DANE' : 'MTA-STS';
  return `the domain requires verified TLS (${by}), but ${problemText(result, host, cause)}`;
}

function problemText(result: TlsResult, host: string, cause: string): string {
  switch (result) {
    case 'starttls-not-supported':
      return `${host} does not offer STARTTLS`;
    case 'certificate-host-mismatch':
      return `the certificate of ${host} is for another name`;
    case 'certificate-expired':
      return `the certificate of ${host} has expired`;
    case 'certificate-not-trusted':
      return `the certificate of ${host} is not from a trusted CA (${cause})`;
    case 'tlsa-invalid':
      return `the certificate of ${host} does not match its TLSA records`;
    case 'dnssec-invalid':
    case 'validation-failure':
    case 'success':
      return `TLS with ${host} failed: ${cause}`;
  }
}
