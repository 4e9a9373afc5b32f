/**
 * The SMTP listener (port 25): who may come in, and how it ends. The dialogue is in session.ts. It never asks who a client
 * is by its name, offers STARTTLS only with a certificate of the operator's, never AUTH in clear text, and no
 * CHUNKING.
 */
import type { Socket } from 'node:net';
import {
  SMTPServer,
  type SMTPServerAuthentication,
  type SMTPServerAuthenticationResponse,
  type SMTPServerSession,
} from 'smtp-server';
import type { SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js';
import { addressInRanges } from '../dns/networks.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { listenOn, type Bind, type ListenAddress } from '../lib/sockets.ts';
import type { Log } from '../lib/log.ts';
import { createDoorLimits, type Limits } from './connection-limits.ts';
import {
  Visitor,
  type Credentials,
  type Deadlines,
  type Login,
  type SessionParts,
  type SmtpDoor,
} from './session-parts.ts';
import type { SmtpTallies } from './counters.ts';
import { Session } from './session.ts';

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
  /** Opens sockets of its own unless told. */
  readonly bind?: Bind;
  readonly door: SmtpDoor;
  /** By which the door knows this very daemon; nobody unless told. */
  readonly mark?: string;
  /** Offers AUTH, within TLS alone. */
  readonly login?: Login;
  /** Speaks TLS from the first byte on. */
  readonly secure?: boolean;
  readonly tallies?: SmtpTallies;
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
  const { clock, log, settings, certificate, bind = listenOn } = options;
  const servers: Door[] = [];
  const limits = createDoorLimits(() => settings().limits, clock);
  const { usual, crowded } = options.deadlines ?? DEADLINES;
  const parts: SessionParts = {
    clock,
    log,
    limits,
    smtp: options.door,
    mark: options.mark,
    deadlines: () => (limits.isCrowded() ? crowded : usual),
  };
  const stop = new AbortController();
  let ticking: Promise<void> | undefined;

  async function tick(): Promise<void> {
    while (!stop.signal.aborted) {
      await clock.sleep(TICK_MS, stop.signal);
      for (const server of servers) server.hurry();
    }
  }

  function sessions(): number {
    return servers.reduce((sum, { connections }) => sum + connections.size, 0);
  }

  return {
    async listen(places) {
      const bound: ListenAddress[] = [];
      for (const place of places) {
        const door = new Door({ ...options, parts });
        door.on('error', (error) => log.debug('inbound.connection', errorFields(error)));
        bound.push(
          await bind(door.server, place).catch(async (error: unknown) => {
            // Where one is taken none listens.
            await Promise.all(servers.map((other) => other.shut()));
            throw error;
          }),
        );
        certificate?.onRenewal((renewed) => door.updateSecureContext({ ...renewed }));
        servers.push(door);
      }
      ticking ??= tick();
      return bound;
    },
    async close(graceMs) {
      const until = clock.monotonic() + graceMs;
      const closed = servers.map((server) => server.shut());
      for (const server of servers) server.windUp();
      while (sessions() > 0 && clock.monotonic() < until) await clock.sleep(STOP_TICK_MS);
      stop.abort();
      for (const server of servers) server.cut();
      await Promise.all([...closed, ticking]);
    },
  };
}

interface DoorOptions extends Pick<ListenerOptions, 'settings' | 'certificate' | 'login' | 'secure' | 'tallies'> {
  readonly parts: SessionParts;
}

const NEVER = ['WIZ', 'SHELL', 'KILL', 'XCLIENT', 'XFORWARD'];

class Door extends SMTPServer {
  readonly #parts: SessionParts;
  readonly #login: Login | undefined;
  readonly #settings: () => ListenerSettings;
  readonly #tallies: SmtpTallies | undefined;

  constructor({ parts, settings, certificate, login, tallies, secure = false }: DoorOptions) {
    const { hostname, message } = settings();
    super({
      ...certificate?.current(),
      name: hostname,
      size: message,
      minVersion: 'TLSv1.2',
      logger: false,
      noDelay: true,
      // A client may end its side before it has its last reply.
      allowHalfOpen: true,
      hideENHANCEDSTATUSCODES: false,
      secure,
      authMethods: ['PLAIN', 'LOGIN'],
      disabledCommands: [...NEVER, ...(login ? [] : ['AUTH']), ...(certificate ? [] : ['STARTTLS'])],
      disableReverseLookup: true,
      heloResponse: '%s',
      // Of silence alone; the deadlines are ours.
      socketTimeout: 2 * 60 * MINUTE,
    });
    this.#parts = parts;
    this.#settings = settings;
    this.#login = login;
    this.#tallies = tallies;
  }

  override onAuth(
    { username: user = '', password }: SMTPServerAuthentication,
    { remoteAddress: ip, hostNameAppearsAs: helo }: SMTPServerSession,
    done: (error: null, response: SMTPServerAuthenticationResponse) => void,
  ): void {
    const answered = this.#letIn({ user, password: password ?? '', ip, helo: helo || '' });
    void answered.then(done.bind(undefined, null));
  }

  /** Never rejects. */
  async #letIn(credentials: Credentials): Promise<SMTPServerAuthenticationResponse> {
    try {
      const entry = (await this.#login?.(credentials)) ?? { reply: '535 5.7.8 nobody logs in here' };
      return 'reply' in entry ? answerOf(entry.reply) : { user: new Visitor(entry) };
    } catch (error) {
      this.#parts.log.error('submission.login_failed', errorFields(error));
      return answerOf('454 4.7.0 try again later');
    }
  }

  override connect(socket: Socket, options?: SMTPConnectionOptions | null): void {
    const { hostname, message } = this.#settings();
    this.options.name = hostname;
    this.options.size = message;
    const ip = options?.remoteAddress ?? socket.remoteAddress ?? '';
    const entry = this.#parts.limits.enter(ip);
    this.#tallies?.connections.count('refusal' in entry ? 'turned_away' : 'let_in');
    if ('refusal' in entry) return this.#turnAway(socket, ip, entry.refusal);
    const session = new Session(this, { socket, options }, { parts: this.#parts, leave: entry.leave });
    this.connections.add(session);
    session.on('error', (error: Error) => this._onError(error));
    session.init();
  }

  #turnAway(socket: Socket, ip: string, reply: string): void {
    this.#parts.log.warn('inbound.turned_away', { ip, reply });
    socket.on('error', () => socket.destroy());
    socket.setTimeout(LINGER_MS, () => socket.destroy());
    socket.end(`${reply}\r\n`);
    socket.resume();
  }

  /** Only a listed peer is believed about the client behind it, and it must say who that is. */
  override _expectsProxyHeader(socket: Socket): boolean {
    return addressInRanges(socket.remoteAddress ?? '', this.#settings().proxies);
  }

  /** Draws no name for a log that nobody keeps: that takes longer than to let a client in. */
  override _handleProxy(socket: Socket, done: Parameters<SMTPServer['_handleProxy']>[1]): void {
    if (this._expectsProxyHeader(socket)) super._handleProxy(socket, done);
    else setImmediate(() => done(null, { id: '-' }));
  }

  hurry(): void {
    for (const connection of this.connections) if (connection instanceof Session) connection.hurry();
  }

  windUp(): void {
    for (const connection of this.connections) if (connection instanceof Session) connection.windUp();
  }

  /** Accepts nothing more; resolves when the last connection is gone. */
  shut(): Promise<void> {
    for (const socket of this._pendingSockets.values()) socket.destroy();
    return new Promise((resolve) => this.server.close(() => resolve()));
  }

  cut(): void {
    for (const connection of this.connections) connection._socket.destroy();
  }
}

function answerOf(reply: string): SMTPServerAuthenticationResponse {
  return { responseCode: Number(reply.slice(0, 3)), message: reply.slice(4) };
}
