/**
 * The SMTP listeners (port 25 and the submission ports): who may connect, TLS, AUTH, and the end. The dialogue is in
 * session.ts. No reverse look-up of clients, STARTTLS only with a certificate of the operator's, no AUTH in clear text, no
 * CHUNKING.
 */
import type { Socket } from 'node:net';
import type { SMTPServerAuthenticationResponse } from 'smtp-server';
import { addressInRanges } from '../dns/networks.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Refusal } from '../mail/auth-results.ts';
import { listenOn, type Bind, type ListenAddress } from '../lib/sockets.ts';
import { createConnectionLimits, type Limits } from './connection-limits.ts';
import type { SmtpCounters } from './record.ts';
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

export interface ListenerSettings {
  /** Our name in the greeting and to EHLO. */
  readonly hostname: string;
  /** The largest message, bytes. */
  readonly message: number;
  readonly limits: Limits;
  /** Peers that begin with a PROXY header. */
  readonly proxies: readonly string[];
}

export interface ListenerOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** As of now: sessions that begin later follow a reload. */
  readonly settings: () => ListenerSettings;
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

export interface SmtpListener {
  /** `[::]:25`, `127.0.0.1:2525`; port 0 takes a free one. Answers where it listens. Throws UserError where it cannot. */
  listen(addresses: readonly ListenAddress[]): Promise<ListenAddress[]>;
  /** Takes no more connections, lets transactions end for `graceMs`, then hangs up. */
  close(graceMs: number): Promise<void>;
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

export function createListener(options: ListenerOptions): SmtpListener {
  const { clock, log, settings, policy, loopbackSecret, bind = listenOn } = options;
  const servers: SmtpServer[] = [];
  const limits = createConnectionLimits(() => settings().limits, clock);
  const { usual, crowded } = options.deadlines ?? DEADLINES;
  const session: SessionParts = {
    clock,
    log,
    limits,
    policy,
    loopbackSecret,
    deadlines: () => (limits.isCrowded() ? crowded : usual),
  };
  const stop = new AbortController();
  let ticking: Promise<void> | undefined;

  async function tick(): Promise<void> {
    while (!stop.signal.aborted) {
      await clock.sleep(TICK_MS, stop.signal);
      for (const each of sessions()) each.enforceDeadlines();
    }
  }

  function sessions(): Session[] {
    return servers.flatMap(sessionsOf);
  }

  return {
    async listen(places) {
      const bound: ListenAddress[] = [];
      for (const place of places) {
        const server = createServer({ ...options, isSecure: options.secure === true, session });
        bound.push(
          await bind(server.server, place).catch(async (error: unknown) => {
            // Where one address is taken none is listened on.
            await Promise.all(servers.map(stopListening));
            throw error;
          }),
        );
        servers.push(server);
      }
      ticking ??= tick();
      return bound;
    },
    async close(graceMs) {
      const until = clock.monotonic() + graceMs;
      const closed = servers.map(stopListening);
      while (sessions().length > 0 && clock.monotonic() < until) {
        for (const each of sessions()) each.windUp();
        await clock.sleep(STOP_TICK_MS);
      }
      stop.abort();
      for (const each of sessions()) each.destroy();
      // Whoever has not got as far as a session.
      for (const server of servers) server.close();
      await Promise.all([...closed, ticking]);
    },
  };
}

/** Resolves when its last connection is gone. smtp-server's own `close` would end transactions that are under way. */
function stopListening({ server }: SmtpServer): Promise<void> {
  return new Promise((resolve) => void server.close(() => resolve()));
}

const DISABLED = ['WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

interface ServerParts extends Pick<ListenerOptions, 'log' | 'settings' | 'certificate' | 'login' | 'counters'> {
  readonly isSecure: boolean;
  readonly session: SessionParts;
}

type SmtpServer = Server<Session>;

function createServer({ log, settings, certificate, login, counters, isSecure, session }: ServerParts): SmtpServer {
  const { limits } = session;
  const { hostname, message } = settings();
  const server: SmtpServer = new Server(
    {
      ...certificate?.current(),
      name: hostname,
      size: message,
      minVersion: 'TLSv1.2',
      logger: false,
      noDelay: true,
      // A client may end its side before it has its last reply.
      allowHalfOpen: true,
      hideENHANCEDSTATUSCODES: false,
      secure: isSecure,
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
      const { hostname, message } = settings();
      server.options.name = hostname;
      server.options.size = message;
      const ip = details.remoteAddress ?? socket.remoteAddress ?? '';
      const entry = limits.enter(ip);
      counters?.connections.count('refusal' in entry ? 'rejected' : 'accepted');
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
    server.options.useProxy = addressInRanges(socket.remoteAddress ?? '', settings().proxies);
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

function sessionsOf(server: SmtpServer): Session[] {
  return [...server.connections].filter((connection) => connection instanceof Session);
}

function answerOf(reply: string): SMTPServerAuthenticationResponse {
  return { responseCode: Number(reply.slice(0, 3)), message: reply.slice(4) };
}
