/**
 * An SMTP session that is ready for mail: connected, greeted, with TLS where it can be had, authenticated at a smarthost,
 * known at our own door.
 * TLS is opportunistic (RFC 7435): any certificate is better than none, and where STARTTLS breaks, a fresh connection goes
 * on in clear text. Credentials are said only under TLS with a certificate that verifies; private networks may have any.
 */
import { isIP } from 'node:net';
import { messageOf } from '../lib/errors.ts';
import { classify, happeningText, type Happening, type Step, type ReplyClass, replyText, type Reply } from './reply.ts';
import type { Peer } from '../queue/transport.ts';
import { tlsPolicy, type NextHop, type Credentials } from './route.ts';
import type { Timeouts } from './timeouts.ts';
import { Wire, WireFault, type Limit } from './wire.ts';

export interface Target {
  readonly host: string;
  readonly address: string;
}

export interface Session {
  readonly wire: Wire;
  readonly target: Target;
  readonly peer: Peer;
  readonly features: Features;
  /** When it began, on the monotonic clock. */
  readonly since: number;
  /** Messages so far. */
  used: number;
  /** The last transaction ended badly: RSET comes before the next. */
  dirty: boolean;
}

export interface SessionOptions {
  readonly nextHop: NextHop;
  /** Our name in EHLO. */
  readonly hostname: string;
  readonly timeouts: Timeouts;
  /** Whether others wait for a connection. */
  readonly pressed: () => boolean;
  readonly monotonic: () => number;
  /** Certificates to trust beside Node's own, PEM. */
  readonly ca?: string | undefined;
  /** Addresses whose STARTTLS was found broken. */
  readonly brokenTls: Set<string>;
  /** Told of the wire as soon as there is one, so that a stop can cut it. */
  readonly onWire: (wire: Wire) => void;
}

export type Opened =
  | { readonly kind: 'open'; readonly session: Session }
  | { readonly kind: 'failed'; readonly verdict: ReplyClass; readonly reply: string; readonly peer: Peer };

/** The server, or a rule of ours, ends it before there was mail. */
class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly happening: Happening;
  constructor(happening: Happening) {
    super(happeningText(happening));
    this.happening = happening;
  }
}

/** STARTTLS was offered and does not work. */
class BrokenTls extends Error {
  override readonly name = 'BrokenTls';
}

/** Opens a session at one address. */
export async function openSession(target: Target, options: SessionOptions): Promise<Opened> {
  try {
    return { kind: 'open', session: await openOnce(target, options) };
  } catch (error) {
    if (!(error instanceof BrokenTls)) return failed(target, error);
  }
  // Once more in clear text; the next messages need not find out again.
  options.brokenTls.add(target.address);
  try {
    return { kind: 'open', session: await openOnce(target, options) };
  } catch (error) {
    return failed(target, error);
  }
}

function failed({ host, address }: Target, error: unknown): Opened {
  const happening = error instanceof Refusal ? error.happening : faultOf(error);
  return {
    kind: 'failed',
    verdict: classify(happening),
    reply: happeningText(happening),
    peer: { host, address, tls: null },
  };
}

/** The happening that a WireFault is; anything else is no doing of the other side and thrown on. */
export function faultOf(error: unknown): Happening {
  if (!(error instanceof WireFault)) throw error;
  return { step: error.step, fault: error.fault, words: error.message };
}

interface Stage {
  readonly wire: Wire;
  readonly target: Target;
  readonly options: SessionOptions;
}

async function openOnce(target: Target, options: SessionOptions): Promise<Session> {
  const { nextHop, timeouts, hostname } = options;
  const wire = new Wire({ address: target.address, port: nextHop.port }, options);
  options.onWire(wire);
  const stage = { wire, target, options };
  try {
    await wire.connected({ ms: timeouts.connect, pressedMs: timeouts.pressedConnect });
    if (nextHop.tls === 'implicit') await startTls(stage);
    expect('greeting', await wire.read('greeting', { ms: timeouts.greeting, pressedMs: timeouts.pressed }));
    let hello = await sayHello(wire, hostname, commandLimit(options));
    expect('ehlo', hello.reply);
    if (hello.features.startTls && wire.tls === null && wantsTls(stage)) {
      await upgrade(stage);
      hello = await sayHello(wire, hostname, commandLimit(options));
      expect('ehlo', hello.reply);
    }
    const { features } = hello;
    await logIn(stage, features);
    const peer = { host: target.host, address: target.address, tls: wire.tls };
    return { wire, target, peer, features, since: options.monotonic(), used: 0, dirty: false };
  } catch (error) {
    if (error instanceof Refusal) wire.quit();
    else wire.close();
    throw error;
  }
}

function commandLimit({ timeouts }: SessionOptions): Limit {
  return { ms: timeouts.command, pressedMs: timeouts.pressed };
}

function wantsTls({ target, options }: Stage): boolean {
  return tlsPolicy(options.nextHop, target.address).required || !options.brokenTls.has(target.address);
}

async function upgrade(stage: Stage): Promise<void> {
  const { wire, target, options } = stage;
  const mustHave = tlsPolicy(options.nextHop, target.address).required;
  wire.send('STARTTLS\r\n');
  try {
    const reply = await wire.read('starttls', commandLimit(options));
    if (reply.code !== 220) throw mustHave ? new Refusal({ step: 'starttls', reply }) : new BrokenTls(replyText(reply));
    await startTls(stage);
  } catch (error) {
    throw mustHave || error instanceof BrokenTls ? error : new BrokenTls(messageOf(error), { cause: error });
  }
}

async function startTls({ wire, target, options }: Stage): Promise<void> {
  const { nextHop, timeouts, ca } = options;
  const tls = {
    host: target.host,
    ...(isIP(target.host) === 0 ? { servername: target.host } : {}),
    rejectUnauthorized: tlsPolicy(nextHop, target.address).verified,
    ...(ca === undefined ? {} : { ca }),
  };
  await wire.startTls(tls, { ms: timeouts.tls, pressedMs: timeouts.pressed });
}

async function logIn({ wire, target, options }: Stage, features: Features): Promise<void> {
  const { credentials, mark } = options.nextHop;
  if (mark !== undefined) expect('auth', await showMark(wire, mark, commandLimit(options)));
  if (credentials === undefined) return;
  if (wire.tls === null && tlsPolicy(options.nextHop, target.address).required) {
    throw unsuitable('the smarthost offers no TLS, and a password is never sent in clear text');
  }
  const mechanisms = features.auth;
  const reply = await authenticate(wire, credentials, { mechanisms, limit: commandLimit(options) });
  if (reply === undefined) throw unsuitable('the smarthost offers neither AUTH PLAIN nor AUTH LOGIN');
  expect('auth', reply);
}

function expect(step: Step, reply: Reply): void {
  if (classify({ step, reply }).kind !== 'ok') throw new Refusal({ step, reply });
}

function unsuitable(words: string): Refusal {
  return new Refusal({ step: 'auth', fault: 'unsuitable', words });
}

/**
 * Authenticates at the smarthost (RFC 4954), only ever where the credentials may be said aloud. Answers the server's last
 * reply, or undefined where it offers neither PLAIN nor LOGIN. Rejects with WireFault.
 */
async function authenticate(
  wire: Wire,
  { user, password }: Credentials,
  { mechanisms, limit }: { mechanisms: readonly string[]; limit: Limit },
): Promise<Reply | undefined> {
  function say(line: string): Promise<Reply> {
    wire.send(`${line}\r\n`);
    return wire.read('auth', limit);
  }

  if (mechanisms.includes('PLAIN')) return say(`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`);
  if (!mechanisms.includes('LOGIN')) return undefined;
  let reply = await say('AUTH LOGIN');
  if (reply.code === 334) reply = await say(base64(user));
  if (reply.code === 334) reply = await say(base64(password));
  return reply;
}

/** Shows our own SMTP port the mark that it gave this daemon, in a command of our own (RFC 5321 §4.1.5). Rejects with WireFault. */
function showMark(wire: Wire, mark: string, limit: Limit): Promise<Reply> {
  wire.send(`XOWN ${mark}\r\n`);
  return wire.read('auth', limit);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** What the server says that it can do. */
export interface Features {
  readonly pipelining: boolean;
  readonly eightBit: boolean;
  readonly smtpUtf8: boolean;
  readonly startTls: boolean;
  /** The largest message; 0 where there is no fixed limit, undefined where SIZE is unknown (RFC 1870). */
  readonly size: number | undefined;
  /** Mechanisms of AUTH. */
  readonly auth: readonly string[];
}

/** Says EHLO, or HELO where the server knows no extensions (RFC 5321 §3.2). Rejects with WireFault. */
async function sayHello(wire: Wire, hostname: string, limit: Limit): Promise<{ reply: Reply; features: Features }> {
  wire.send(`EHLO ${hostname}\r\n`);
  const reply = await wire.read('ehlo', limit);
  if (reply.code < 500 || reply.code >= 600) return { reply, features: readFeatures(reply.lines.slice(1)) };
  wire.send(`HELO ${hostname}\r\n`);
  return { reply: await wire.read('ehlo', limit), features: readFeatures([]) };
}

function readFeatures(lines: readonly string[]): Features {
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
    size: offered.has('SIZE') ? (/^\d{1,15}$/.test(size) ? Number(size) : 0) : undefined,
    auth: offered.get('AUTH') ?? [],
  };
}
