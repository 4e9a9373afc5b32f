/**
 * The SMTP listeners (port 25 and the submission ports): who may connect, TLS, AUTH, and the end. The dialogue is in
 * session.ts. No reverse look-up of clients, STARTTLS only with a certificate of the operator's, no AUTH in clear text, no
 * CHUNKING.
 */
import type { Socket } from 'node:net';
import type { SMTPServerAuthenticationResponse } from 'smtp-server';
import { clientBucket } from '../accounts/rate-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import { addressInRanges } from '../dns/networks.ts';
import { MIN_TLS, secureOptions, type CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Refusal } from '../mail/auth-results.ts';
import { listenOn, type Bind, type ListenAddress } from '../lib/sockets.ts';
import type { SmtpCounters } from './receive.ts';
import { Session, SmtpUser, type Deadlines, type SessionParts, type SmtpPolicy } from './session.ts';
import { Server } from './smtp-server.ts';

export interface Credentials {
  readonly user: string;
  readonly password: string;
  readonly ip: string;
  readonly helo: string;
}

/** What the client may do once it has authenticated, or why it cannot. */
export type Login = (credentials: Credentials) => Promise<SmtpPolicy | Refusal>;

export interface ListenerOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** As of now: sessions that begin later follow a reload. */
  readonly config: () => Pick<ServerConfig, 'server' | 'limits' | 'inbound'>;
  /** Undefined: STARTTLS is not offered. */
  readonly certificate: CertificateKeeper | undefined;
  /** Default: opens a socket. */
  readonly bind?: Bind;
  /** Until a client has authenticated. */
  readonly policy: SmtpPolicy;
  /** With this the daemon's own SMTP client authenticates; without it nobody can. */
  readonly loopbackSecret?: string;
  /** Offers AUTH, within TLS alone. */
  readonly login?: Login;
  /** Speaks TLS from the first byte on. */
  readonly secure?: boolean;
  readonly counters?: SmtpCounters;
  readonly deadlines?: { readonly usual: Deadlines; readonly crowded: Deadlines };
}

const MINUTE = 60_000;
/** RFC 5321 §4.5.3.2 has clients wait 5 minutes for most replies; where it is crowded that is a luxury. */
const DEADLINES = {
  usual: { command: 5 * MINUTE, transaction: 20 * MINUTE, connection: 60 * MINUTE },
  crowded: { command: 10_000, transaction: 2 * MINUTE, connection: 5 * MINUTE },
};
const TICK_MS = 1000;
const STOP_TICK_MS = 20;
const LINGER_MS = 2000;

export class SmtpListener {
  readonly #options: ListenerOptions;
  readonly #session: SessionParts;
  readonly #limits: ConnectionLimits;
  readonly #servers: Server<Session>[] = [];
  readonly #stop = new AbortController();
  #ticking: Promise<void> | undefined;

  constructor(options: ListenerOptions) {
    const { clock, log, config, policy, loopbackSecret } = options;
    const { usual, crowded } = options.deadlines ?? DEADLINES;
    const limits = new ConnectionLimits(() => config().limits.smtp, clock);
    this.#options = options;
    this.#limits = limits;
    this.#session = {
      clock,
      log,
      limits,
      policy,
      loopbackSecret,
      deadlines: () => (limits.isCrowded() ? crowded : usual),
    };
  }

  /** `[::]:25`, `127.0.0.1:2525`; port 0 takes a free one. Answers where it listens. Throws UserError where it cannot. */
  async listen(places: readonly ListenAddress[]): Promise<ListenAddress[]> {
    const { bind = listenOn } = this.#options;
    const bound: ListenAddress[] = [];
    for (const place of places) {
      const server = createServer(this.#options, this.#limits, this.#session);
      bound.push(
        await bind(server.server, place).catch(async (error: unknown) => {
          // Where one address is taken none is listened on.
          await Promise.all(this.#servers.map(stopListening));
          throw error;
        }),
      );
      this.#servers.push(server);
    }
    this.#ticking ??= this.#tick();
    return bound;
  }

  /** Takes no more connections, lets transactions end for `graceMs`, then hangs up. */
  async close(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    const until = clock.monotonic() + graceMs;
    const closed = this.#servers.map(stopListening);
    while (this.#sessions().length > 0 && clock.monotonic() < until) {
      for (const each of this.#sessions()) each.windUp();
      await clock.sleep(STOP_TICK_MS);
    }
    this.#stop.abort();
    for (const each of this.#sessions()) each.destroy();
    // Whoever has not got as far as a session.
    for (const server of this.#servers) server.close();
    await Promise.all([...closed, this.#ticking]);
  }

  async #tick(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#options.clock.sleep(TICK_MS, this.#stop.signal);
      for (const each of this.#sessions()) each.enforceDeadlines();
    }
  }

  #sessions(): Session[] {
    const connections = this.#servers.flatMap((server) => [...server.connections]);
    return connections.filter((connection) => connection instanceof Session);
  }
}

/** Resolves when its last connection is gone. smtp-server's own `close` would end transactions that are under way. */
function stopListening({ server }: Server<Session>): Promise<void> {
  return new Promise((resolve) => void server.close(() => resolve()));
}

const DISABLED = ['WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

function createServer(options: ListenerOptions, limits: ConnectionLimits, session: SessionParts): Server<Session> {
  const { log, config, certificate, login, counters, secure = false } = options;
  const server: Server<Session> = new Server(
    {
      minVersion: MIN_TLS,
      ...(certificate && secureOptions(certificate)),
      name: config().server.hostname,
      size: config().limits.message,
      logger: false,
      noDelay: true,
      // A client may end its side before it has its last reply.
      allowHalfOpen: true,
      hideENHANCEDSTATUSCODES: false,
      secure,
      authMethods: ['PLAIN', 'LOGIN'],
      disabledCommands: [...DISABLED, ...(login ? [] : ['AUTH']), ...(certificate ? [] : ['STARTTLS'])],
      disableReverseLookup: true,
      heloResponse: '%s',
      // Of silence alone; the deadlines are ours.
      socketTimeout: 2 * 60 * MINUTE,
      onConnect(connected, done) {
        // A client that offers its key in clear text has lost it, whatever we reply.
        if (!connected.secure) connected.disabledCommands = [...server.options.disabledCommands, 'AUTH'];
        done();
      },
      onAuth({ username: user = '', password }, connected, done) {
        const { remoteAddress: ip, hostNameAppearsAs: helo } = connected;
        const answer = authenticate({ user, password: password ?? '', ip, helo: helo || '' });
        void (server.connectionOf(connected)?.busy(answer) ?? answer).then(done.bind(undefined, null));
      },
      onMailFrom(_address, connected, done) {
        const reply = server.connectionOf(connected)?.begin();
        done(reply === undefined ? null : new ReplyError(reply));
      },
      onClose(connected) {
        server.connectionOf(connected)?.ended();
      },
    },
    (socket, details) => {
      server.options.name = config().server.hostname;
      server.options.size = config().limits.message;
      const ip = details.remoteAddress ?? socket.remoteAddress ?? '';
      const entry = limits.enter(ip);
      if (counters !== undefined) counters.connections['refusal' in entry ? 'rejected' : 'accepted']++;
      if (!('refusal' in entry))
        return new Session(server, { socket, details }, { parts: session, leave: entry.leave });
      log.warn('inbound.connection_rejected', { ip, reply: entry.refusal });
      reject(socket, entry.refusal);
      return undefined;
    },
  );

  /** Never rejects. */
  async function authenticate(credentials: Credentials): Promise<SMTPServerAuthenticationResponse> {
    try {
      const result = (await login?.(credentials)) ?? { reply: '535 5.7.8 AUTH is not available' };
      return 'reply' in result ? answerOf(result.reply) : { user: new SmtpUser(result) };
    } catch (error) {
      log.error('submission.login_failed', errorFields(error));
      return answerOf('454 4.7.0 try again later');
    }
  }

  // Only a listed peer is believed about the client behind it, and it must say who that is. smtp-server looks at its option
  // once for each connection, behind this.
  server.server.prependListener('connection', (socket: Socket) => {
    const { proxy_protocol: proxies } = config().inbound;
    server.options.useProxy = proxies.length > 0 && addressInRanges(socket.remoteAddress ?? '', proxies);
  });
  server.on('error', (error) => log.debug('inbound.connection', errorFields(error)));
  certificate?.onRenewal((renewed) => server.updateSecureContext({ ...renewed }));
  return server;
}

/** Refuses MAIL with this reply, as smtp-server takes it. */
class ReplyError extends Error {
  readonly responseCode: number;

  constructor(reply: string) {
    super(reply.slice(4));
    this.responseCode = Number(reply.slice(0, 3));
  }
}

function reject(socket: Socket, reply: string): void {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(LINGER_MS, () => socket.destroy());
  socket.end(`${reply}\r\n`);
  socket.resume();
}

function answerOf(reply: string): SMTPServerAuthenticationResponse {
  return { responseCode: Number(reply.slice(0, 3)), message: reply.slice(4) };
}

interface Client {
  connections: number;
  errors: number;
  /** When its errors are forgiven, on the monotonic clock. */
  until: number;
  /** Until when its errors shut nobody else out, on the monotonic clock. */
  trustedUntil: number;
}

const WINDOW_MS = 60_000;
/** For so long a message that was taken speaks for the address. */
const TRUST_MS = 3_600_000;
/** From this share of all connections on it is crowded. */
const CROWD = 0.7;

/**
 * Limits of a client (an IP address or IPv6 /64): connections at a time, errors in each of them, and errors a minute over all
 * of them while no mail was taken from it: many senders share the address of a large provider. An IPv6 /64 is one client.
 */
export class ConnectionLimits {
  readonly #limits: () => ServerConfig['limits']['smtp'];
  readonly #clock: Clock;
  readonly #clients = new Map<string, Client>();
  #connections = 0;
  /** When it was last looked who can be forgotten. */
  #forgotAt = -Infinity;

  constructor(limits: () => ServerConfig['limits']['smtp'], clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** The reply to a connection that is one too many, or the function that ends one that may come in. */
  enter(ip: string): { readonly refusal: string } | { readonly leave: () => void } {
    const most = this.#limits();
    const bucket = clientBucket(ip);
    if (this.#clients.size > 4 * most.connections) this.#forget();
    const client = this.#clientOf(ip);
    if (this.#isShutOut(client)) return { refusal: '421 4.7.0 too many errors, try again in a minute' };
    if (client.connections >= most.per_address)
      return { refusal: '421 4.7.0 too many connections from your IP address' };
    if (this.#connections >= most.connections) return { refusal: '421 4.3.2 too many connections, try again later' };
    client.connections++;
    this.#connections++;
    let here = true;
    return {
      leave: () => {
        if (!here) return;
        here = false;
        client.connections--;
        this.#connections--;
        if (client.errors === 0 && isForgettable(client, this.#clock.monotonic())) this.#clients.delete(bucket);
      },
    };
  }

  /** Counts an error, the session's `count`th; false: that was one too many. */
  addError(ip: string, count: number): boolean {
    const client = this.#clientOf(ip);
    client.errors++;
    return count < this.#limits().errors && !this.#isShutOut(client);
  }

  /** A message was taken. */
  addMessage(ip: string): void {
    this.#clientOf(ip).trustedUntil = this.#clock.monotonic() + TRUST_MS;
  }

  /** Whether it is crowded: then nobody may dawdle. */
  isCrowded(): boolean {
    return this.#connections > this.#limits().connections * CROWD;
  }

  #clientOf(ip: string): Client {
    const now = this.#clock.monotonic();
    const bucket = clientBucket(ip);
    const client = this.#clients.get(bucket) ?? { connections: 0, errors: 0, until: now, trustedUntil: now };
    this.#clients.set(bucket, client);
    if (client.until <= now) Object.assign(client, { errors: 0, until: now + WINDOW_MS });
    return client;
  }

  /** Of those who are not here only they are remembered who have erred lately, or brought mail. */
  #forget(): void {
    const now = this.#clock.monotonic();
    if (now - this.#forgotAt < WINDOW_MS) return;
    this.#forgotAt = now;
    for (const [bucket, client] of this.#clients) if (isForgettable(client, now)) this.#clients.delete(bucket);
  }

  #isShutOut({ errors, trustedUntil }: Client): boolean {
    return errors >= this.#limits().errors && trustedUntil <= this.#clock.monotonic();
  }
}

function isForgettable({ connections, errors, until, trustedUntil }: Client, now: number): boolean {
  return connections === 0 && (errors === 0 || until <= now) && trustedUntil <= now;
}
