/**
 * An SMTP session that is ready for mail: connected, greeted, with TLS where it can be had, authenticated at a smarthost,
 * known at our own SMTP port.
 * TLS is opportunistic (RFC 7435): any certificate is better than none, and where STARTTLS breaks, a fresh connection goes
 * on in clear text, unless a policy of the recipients' domain demands TLS (tls-policy.ts). Credentials are said only under
 * TLS with a certificate that verifies, or within this machine.
 */
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { isThisMachine } from '../config/scalars.ts';
import { messageOf } from '../lib/errors.ts';
import type { AppliedPolicy, Peer, TlsResult } from '../queue/transport.ts';
import { classify, happeningText, type Happening, type Reply, type ReplyClass, type Step } from './reply.ts';
import { tlsPolicy, type NextHop } from './route.ts';
import { brokenPolicyText, policyAt, type HostPolicy } from './tls-policy.ts';
import { Transcript, Wire, WireFault, type WireOptions } from './wire.ts';

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

export interface SessionOptions extends WireOptions {
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
    super('the session has to be opened again');
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
      transcript.note(`STARTTLS does not work: ${error.message}`);
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
