/**
 * The HTTP server: Koa behind a socket for each address and one for the operator. Every response carries the request's id
 * and what its limits leave; every deadline is absolute, so that a client that drips bytes holds nothing for long; closing
 * finishes the requests that are in progress and takes no new ones.
 */
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { isIP, Server as NetServer, Socket } from 'node:net';
import { Readable, type Duplex } from 'node:stream';
import Koa from 'koa';
import { clientBucket, type Limits, type Verdict } from '../accounts/rate-limits.ts';
import { httpPlaces, tlsModeOf } from '../config/schema-server.ts';
import { addressInRanges } from '../dns/networks.ts';
import type { Domains } from '../domains/domains.ts';
import type { Challenges } from '../forms/challenges.ts';
import { MIN_TLS, secureOptions, type CertificateKeeper } from '../lib/certificate.ts';
import type { Clock } from '../lib/clock.ts';
import { codeOf, errorFields } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import {
  interceptConnections,
  listenOn,
  listenOnSocket,
  parseListenAddress,
  readBeginning,
  type Beginning,
  type Bind,
  type ListenAddress,
} from '../lib/sockets.ts';
import { refuse, refusedA, type Answer, type Refusal } from './answer.ts';
import {
  clientAddress,
  faultRefusal,
  isSecure,
  LOCAL,
  loggedPath,
  pageByTls,
  plainAddress,
  preflights,
  splitTarget,
  type Context,
  type RequestContext,
  type State,
} from './context.ts';
import { ClientGone } from './entries.ts';
import {
  findFormRequest,
  parseFormPath,
  readableFor,
  type FormRequest,
  type FormRequestParts,
} from './forms/request.ts';
import { createFormHandler, type SubmitParts } from './forms/submit.ts';
import type { Metrics } from './metrics.ts';
import { mountRoutes, refused, type TableParts } from './routes.ts';
import { answerTlsChallenges } from './tls-challenge.ts';

export interface HttpServerOptions extends SubmitParts, TableParts {
  readonly domains: Pick<Domains, 'status' | 'report' | 'check' | 'rotateKeys' | 'move'>;
  readonly limits: Limits;
  readonly metrics: Pick<Metrics, 'answer' | 'answered' | 'submitted'>;
  readonly challenges: Challenges;
  readonly forwarded: Pick<ForwardedWatch, 'note'>;
  /** Comes before all routes: what the dev world adds. */
  readonly extra?: Koa.Middleware;
  readonly deadlines?: Partial<Deadlines>;
  /** Opens the sockets; `listenOn` by default. */
  readonly bind?: Bind;
}

/** In milliseconds, from the first byte on. */
interface Deadlines {
  /** The headers of a request. */
  readonly headers: number;
  /** A whole request. */
  readonly request: number;
  /** A connection without a request. */
  readonly keepAlive: number;
  /** A connection on which nothing moves at all. */
  readonly idle: number;
}

export interface HttpAddresses {
  readonly tcp: readonly ListenAddress[];
  /** Of the Unix socket. */
  readonly socket: string;
}

interface HttpServer {
  /** Listens where the configuration says. Throws UserError where it cannot; then nothing is left listening. */
  listen(): Promise<HttpAddresses>;
  /** Takes nothing new, finishes what is in progress for at most `graceMs`, and hangs up. */
  close(graceMs: number): Promise<void>;
}

const DEADLINES: Deadlines = { headers: 15_000, request: 300_000, keepAlive: 65_000, idle: 120_000 };
const MAX_CONNECTIONS = 8192;
const MINUTE = 60_000;

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { clock, log, metrics, snapshot, extra, certificate, bind = listenOn } = options;
  const deadlines = { ...DEADLINES, ...options.deadlines };
  const local = new WeakSet<IncomingMessage>();
  const connections = new Connections(MAX_CONNECTIONS);
  const proxied = createProxiedClients({
    clock,
    headerMs: deadlines.headers,
    isProxy: (peer) => addressInRanges(peer, snapshot().server.server.http.proxy_protocol),
  });
  const servers: Server[] = [];
  let inProgress = 0;
  let closing = false;

  const app = new Koa<State>();
  app.on('error', (error: unknown) => log.debug('http.connection_failed', errorFields(error)));
  app.use(serve);
  if (extra !== undefined) app.use(extra);
  mountRoutes(app, options, forms(createFormHandler(options), options));
  const handle = app.callback();

  async function serve(ctx: Context, next: Koa.Next): Promise<void> {
    inProgress++;
    const began = clock.monotonic();
    ctx.res.once('close', () => {
      inProgress--;
      // A client that has hung up before has got none.
      if (!ctx.res.headersSent) return;
      const { handler = 'other', answer } = ctx.state;
      // How long somebody stays is not how long it took.
      const ms = answer?.type === EVENT_STREAM ? 0 : clock.monotonic() - began;
      metrics.answered({ status: ctx.res.statusCode, ms, handler });
    });
    const context = await begin(ctx);
    ctx.state.context = context;
    const hsts = isSecure(ctx.req) ? strictTransport(context, certificate) : undefined;
    if (hsts !== undefined) ctx.set('Strict-Transport-Security', hsts);
    try {
      const fault = hostFault(ctx.req);
      const refusal = fault === undefined ? undefined : refuse('REQUEST_MALFORMED', { message: fault });
      ctx.state.answer = refusal === undefined ? pageByTls(context) : refused(context, refusal);
      if (ctx.state.answer === undefined) await next();
      respond(ctx, closing);
    } catch (error) {
      if (error instanceof ClientGone) return;
      for (const name of ctx.res.getHeaderNames()) ctx.remove(name);
      ctx.state.answer = refused(context, faultRefusal(error, context, log));
      respond(ctx, closing);
    }
    const { id: request, method, path, ip } = context;
    const { statusCode: status } = ctx.res;
    if (status >= 400) log.debug('http.refused', { request, method, path: loggedPath(path), status, ip });
  }

  async function begin({ req: request, res: response }: Context): Promise<RequestContext> {
    const at = clock.now();
    const current = snapshot();
    const isLocal = local.has(request);
    const { trusted_proxies: trusted } = current.server.server.http;
    const peer = proxied.addressOf(request.socket);
    if (!isLocal && request.headers['x-forwarded-for'] !== undefined) noteForwarded(peer, trusted);
    const ip = isLocal ? LOCAL : clientAddress(request, peer, trusted);
    const limit = await takeAddress(options, ip);
    return {
      request,
      response,
      id: newId('req', at),
      at,
      method: request.method ?? 'GET',
      ...splitTarget(request.url ?? '/'),
      snapshot: current,
      ip,
      local: isLocal,
      address: limit,
      limit,
    };
  }

  function noteForwarded(peer: string, trusted: readonly string[]): void {
    if (!addressInRanges(peer, trusted)) options.forwarded.note(plainAddress(peer));
  }

  function open(listen: RequestListener, keeper?: CertificateKeeper): Server {
    const settings = {
      headersTimeout: deadlines.headers,
      requestTimeout: deadlines.request,
      keepAliveTimeout: deadlines.keepAlive,
      connectionsCheckingInterval: Math.min(1000, deadlines.headers),
      maxHeaderSize: 16 * 1024,
      // Answered by us, in the shape that all errors have.
      requireHostHeader: false,
      noDelay: true,
    };
    const server = keeper === undefined ? createServer(settings, listen) : openSecure(settings, listen, keeper);
    server.setTimeout(deadlines.idle);
    // The body is sent for when somebody wants to read it.
    server.on('checkContinue', listen);
    server.on('checkExpectation', listen);
    answerBrokenRequests(server, options, proxied);
    proxied.attach(server);
    servers.push(server);
    return server;
  }

  function openSecure(settings: ServerOptions, listen: RequestListener, keeper: CertificateKeeper): Server {
    const tls = { ...secureOptions(keeper), handshakeTimeout: deadlines.headers };
    const server = createSecureServer({ ...settings, ...tls }, listen);
    keeper.onRenewal((renewed) => server.setSecureContext({ ...renewed, minVersion: MIN_TLS }));
    if (tlsModeOf(snapshot().server) === 'acme')
      answerTlsChallenges(server, { ...options, helloMs: deadlines.headers });
    return server;
  }

  async function listen(): Promise<HttpAddresses> {
    const { admin_socket: socket } = snapshot().server.server;
    try {
      const tcp: ListenAddress[] = [];
      for (const { address, secure } of httpPlaces(snapshot().server)) {
        const server = open(listener, secure ? certificate : undefined);
        server.on('connection', (peer) => connections.add(peer));
        tcp.push(await bind(server, parseListenAddress(address)));
      }
      await listenOnSocket(open(operator), socket);
      return { tcp, socket };
    } catch (error) {
      await close(0);
      throw error;
    }
  }

  function listener(request: IncomingMessage, response: ServerResponse): void {
    // Koa catches whatever its middleware rejects with.
    void handle(request, response);
  }

  function operator(request: IncomingMessage, response: ServerResponse): void {
    local.add(request);
    listener(request, response);
  }

  async function close(graceMs: number): Promise<void> {
    closing = true;
    // Not http.Server's own close: it hangs up on idle connections at once, on which the next request may be on its way.
    const closed = servers
      .filter(({ listening }) => listening)
      .map((server) => new Promise((resolve) => NetServer.prototype.close.call(server, resolve)));
    const until = clock.monotonic() + graceMs;
    do {
      await clock.sleep(Math.min(SETTLE_MS, graceMs));
      for (const server of servers) server.closeIdleConnections();
    } while (inProgress > 0 && clock.monotonic() < until);
    for (const server of servers) server.closeAllConnections();
    // Those that never got to a request: TLS is still being agreed on.
    connections.destroy();
    await Promise.all(closed);
  }

  return { listen, close };
}

/** For so long a certificate has to have been there before browsers are told to come by TLS alone, ms. */
const HSTS_AFTER_MS = 7 * 86_400_000;

/** RFC 6797, where the certificate has proved to be there to stay. */
function strictTransport(
  { at, snapshot }: RequestContext,
  certificate: CertificateKeeper | undefined,
): string | undefined {
  const { hsts } = snapshot.server.tls;
  const [state] = certificate?.states() ?? [];
  if (hsts === null || state?.expiresAt === undefined || state.validSince === undefined) return undefined;
  const isProven = state.validSince <= at - HSTS_AFTER_MS && state.expiresAt > at;
  return isProven ? `max-age=${Math.floor(hsts / 1000)}` : undefined;
}

/** What is wrong with the header Host, of which there is exactly one (RFC 9112 §3.2); HTTP/1.0 needs none. */
function hostFault({ rawHeaders, httpVersion }: IncomingMessage): string | undefined {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (/^host$/i.test(rawHeaders[i] ?? '')) count++;
  if (count > 1) return 'The request has several Host headers.';
  return count === 0 && httpVersion === '1.1' ? 'The request has no Host header.' : undefined;
}

/** A request that is on its way when the server stops listening has this long to arrive. */
const SETTLE_MS = 25;

/** Requests to forms' addresses, whose every answer says which page may read it. */
function forms(handle: (formRequest: FormRequest) => Promise<Answer>, parts: FormRequestParts): Koa.Middleware<State> {
  const preflight = preflights();
  return async (ctx, next) => {
    const { context } = ctx.state;
    const path = parseFormPath(context.path);
    if (path === undefined) return void (await next());
    const formRequest = await findFormRequest(context, path, parts);
    ctx.state.handler = 'form';
    ctx.state.readableFor = readableFor(formRequest);
    async function answer(): Promise<void> {
      ctx.state.answer = await handle(formRequest);
    }
    await (context.method === 'OPTIONS' ? preflight(ctx, answer) : answer());
  };
}

/**
 * Open connections. Where there are too many, the client with the most of them loses its oldest, so that a flood from one
 * network costs others nothing.
 */
export class Connections {
  readonly #most: number;
  readonly #byClient = new Map<string, Set<Socket>>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get count(): number {
    return this.#count;
  }

  add(socket: Socket): void {
    const client = clientBucket(socket.remoteAddress ?? '');
    const sockets = this.#byClient.get(client) ?? new Set();
    this.#byClient.set(client, sockets.add(socket));
    this.#count++;
    socket.once('close', () => {
      this.#count--;
      sockets.delete(socket);
      if (sockets.size === 0 && this.#byClient.get(client) === sockets) this.#byClient.delete(client);
    });
    if (this.#count > this.#most) this.#dropOne();
  }

  /** Hangs up on all. */
  destroy(): void {
    for (const sockets of this.#byClient.values()) for (const socket of sockets) socket.destroy();
  }

  #dropOne(): void {
    let largest = new Set<Socket>();
    for (const sockets of this.#byClient.values()) if (sockets.size > largest.size) largest = sockets;
    const [oldest] = largest;
    oldest?.destroy();
  }
}

/** Counts a request against the limit of its address. */
async function takeAddress({ limits, snapshot }: HttpServerOptions, address: string): Promise<Verdict> {
  const { requests_per_minute_per_address: count } = snapshot().server.limits;
  return limits.take(`address:${clientBucket(address)}`, { count, windowMs: MINUTE });
}

/** Answers requests that Node's parser rejects, or that never end, in the shape of all errors. */
function answerBrokenRequests(server: Server, options: HttpServerOptions, proxied: ProxiedClients): void {
  const { clock, log } = options;
  const responses = new WeakMap<object, ServerResponse>();
  server.on('request', (_, response) => {
    if (response.socket !== null) responses.set(response.socket, response);
  });
  server.on('clientError', (error, socket) => {
    const refusal = refusalFor(codeOf(error));
    // A response that has begun cannot be taken back.
    if (refusal === undefined || !socket.writable || begun(responses.get(socket))) return void socket.destroy();
    void answer(refusal, socket);
  });

  async function answer(refusal: Refusal, socket: Duplex): Promise<void> {
    const address = socket instanceof Socket ? plainAddress(proxied.addressOf(socket)) : '';
    try {
      const limit = await takeAddress(options, address === '' ? LOCAL : address);
      socket.end(rawAnswer(refusal, limit, newId('req', clock.now())));
    } catch (error) {
      log.error('http.failed', errorFields(error));
      socket.destroy();
    }
  }
}

function begun(response: ServerResponse | undefined): boolean {
  return response !== undefined && response.headersSent && !response.writableFinished;
}

function refusalFor(code: string | undefined): Refusal | undefined {
  if (code === 'HPE_HEADER_OVERFLOW') return refuse('HEADERS_TOO_LARGE');
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return refuse('REQUEST_TIMEOUT');
  return code?.startsWith('HPE_') === true ? refuse('REQUEST_MALFORMED') : undefined;
}

function rawAnswer(refusal: Refusal, limit: Verdict, id: string): string {
  const { status, type, body } = refusedA(refusal, id);
  const headers = {
    ...commonHeaders(id, limit),
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n');
}

const EXPOSED_HEADERS =
  'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Idempotent-Replayed, HX-Redirect, HX-Reswap';

/** Headers by which pages of this origin may read the answer; none may where it is empty. */
function readableHeaders(origin: string): Readonly<Record<string, string>> {
  if (origin === '') return { Vary: 'Origin' };
  return {
    Vary: 'Origin',
    'Access-Control-Allow-Origin': origin,
    'Access-Control-Expose-Headers': EXPOSED_HEADERS,
  };
}

const EVENT_STREAM = 'text/event-stream';
const JSON_POLICY = "default-src 'none'; frame-ancestors 'none'";
/** No Content, Not Modified. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304]);

/** The headers that every response has. */
function commonHeaders(id: string, { limit, remaining, reset }: Verdict): Readonly<Record<string, string>> {
  return {
    'X-Request-Id': id,
    'X-Content-Type-Options': 'nosniff',
    // Not `no-referrer`: then a form that is sent again from our own page would come from nowhere.
    'Referrer-Policy': 'same-origin',
    'Cache-Control': 'no-store',
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  };
}

/**
 * Writes the answer with the headers that every response has; where Koa's own middleware has answered, adds these alone.
 * Header by header, as Koa does it, writing costs a tenth of a form post (bench row 1): a stream alone is left to it.
 */
function respond(ctx: Context, closing: boolean): void {
  const { answer, context, readableFor } = ctx.state;
  // Where the client still holds its body back, what comes next on the connection could not be told from it.
  const isLast = closing || (ctx.req.headers.expect !== undefined && !ctx.req.complete);
  const common = {
    ...commonHeaders(context.id, context.limit),
    ...(readableFor === undefined ? {} : readableHeaders(readableFor)),
    ...(isLast ? { Connection: 'close' } : {}),
  };
  if (answer === undefined) {
    for (const [name, value] of Object.entries(common)) if (!ctx.res.hasHeader(name)) ctx.set(name, value);
    return;
  }
  const { status, type, body, stream, headers } = answer;
  const all: Record<string, string> = {
    ...common,
    ...(type.startsWith('text/html') ? {} : { 'Content-Security-Policy': JSON_POLICY }),
    ...(WITHOUT_BODY.has(status) ? {} : { 'Content-Type': type }),
    ...headers,
  };
  // What it depends on beside the page that asks.
  if (readableFor !== undefined && headers?.['Vary'] !== undefined) all['Vary'] = `Origin, ${headers['Vary']}`;
  if (stream !== undefined) {
    ctx.status = status;
    ctx.set(all);
    ctx.body = Readable.from(stream);
    return;
  }
  ctx.respond = false;
  if (!WITHOUT_BODY.has(status)) all['Content-Length'] = String(Buffer.byteLength(body));
  ctx.res.writeHead(status, all).end(body);
}

// The client's address of connections that a proxy passes on as they are, TLS included (PROXY protocol, version 1). From the
// peers of `server.http.proxy_protocol` a connection has to begin with the header; from all others none is read, so that
// no other client can choose an address.

interface ProxyProtocolParts {
  readonly clock: Clock;
  /** Whether a peer with this address sends the header. */
  readonly isProxy: (address: string) => boolean;
  /** A proxy may take so long for it, ms. */
  readonly headerMs: number;
}

/** A connection, of whatever kind: TLS has a socket of its own, which shows the same peer. */
type Peer = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort'>;

interface ProxiedClients {
  /** Has the server read the header. To be called before it listens, and after whatever else intercepts its connections. */
  attach(server: Server): void;
  /** The address of the client that the proxy named, else that of the peer; empty where the connection is gone. */
  addressOf(socket: Peer): string;
}

/** "PROXY TCP6" with two addresses and ports, and the end of the line. */
const MAX_HEADER_BYTES = 107;
const LINE_FEED = 0x0a;
/** `UNKNOWN` is what a proxy sends of itself, to see whether we are there. */
const HEADER = /^PROXY (?:UNKNOWN(?: [ -~]*)?|TCP[46] (\S+) \S+ \d{1,5} \d{1,5})\r$/;

function createProxiedClients({ clock, isProxy, headerMs }: ProxyProtocolParts): ProxiedClients {
  const clients = new Map<string, string>();

  function attach(server: Server): void {
    interceptConnections(server, (socket, passOn) => {
      if (!isProxy(socket.remoteAddress ?? '')) return passOn();
      readBeginning(socket, { clock, timeoutMs: headerMs, read: (data) => readHeader(socket, data), passOn });
    });
  }

  function readHeader(socket: Socket, data: Buffer): Beginning {
    const end = data.subarray(0, MAX_HEADER_BYTES).indexOf(LINE_FEED);
    if (end < 0) return data.length < MAX_HEADER_BYTES ? 'incomplete' : 'invalid';
    const match = HEADER.exec(data.toString('latin1', 0, end));
    const [, client] = match ?? [];
    if (match === null || (client !== undefined && isIP(client) === 0)) return 'invalid';
    const key = keyOf(socket);
    if (client !== undefined) clients.set(key, client);
    socket.once('close', () => clients.delete(key));
    return { rest: data.subarray(end + 1) };
  }

  return { attach, addressOf: (socket) => clients.get(keyOf(socket)) ?? socket.remoteAddress ?? '' };
}

/** What tells a connection of a peer from its others. */
function keyOf({ remoteAddress, remotePort, localPort }: Peer): string {
  return `${remoteAddress} ${remotePort} ${localPort}`;
}

// Proxies that nobody trusts: `X-Forwarded-For` from an address that is not in `server.http.trusted_proxies` counts for
// nothing, so that all visitors behind it share one address and its limits. Anybody can send the header, too: what is
// remembered and logged is bounded.

interface ForwardedWatch {
  /** This address has sent the header, and is not trusted. */
  note(peer: string): void;
  /** Those of the last hour, as far as they are remembered. */
  peers(): readonly string[];
}

const HOUR_MS = 3_600_000;
const MAX_PEERS = 20;

/** Logs each of them once an hour. */
export function watchForwarded({ clock, log }: { readonly clock: Clock; readonly log: Log }): ForwardedWatch {
  const since = new Map<string, number>();

  function forgetOld(): void {
    const now = clock.monotonic();
    for (const [peer, at] of since) if (now - at >= HOUR_MS) since.delete(peer);
  }

  return {
    note(peer) {
      forgetOld();
      if (since.has(peer) || since.size >= MAX_PEERS) return;
      since.set(peer, clock.monotonic());
      log.warn('http.forwarded_untrusted', { ip: peer });
    },
    peers() {
      forgetOld();
      return [...since.keys()];
    },
  };
}
