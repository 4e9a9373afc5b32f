/**
 * A request and what every route needs of it: its client, configuration and limits, the API key, the Idempotency-Key, the page
 * that it comes from, and what errors and limits answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import cors from '@koa/cors';
import type Koa from 'koa';
import type { Authenticator, AuthFault } from '../accounts/authenticate.ts';
import type { Idempotency } from '../accounts/idempotency.ts';
import type { QuotaCheck } from '../accounts/message-limits.ts';
import type { OverLimit } from '../accounts/object-limits.ts';
import type { Principal } from '../accounts/principal.ts';
import type { Verdict } from '../accounts/rate-limits.ts';
import { baseUrlOf, httpPlaces } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import type { Audience, Form, Snapshot } from '../config/snapshot.ts';
import { addressInRanges } from '../dns/networks.ts';
import { acceptedLanguage, translationOf, type Translation } from '../languages/languages.ts';
import { BusyError, errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Statement } from '../store/statement.ts';
import { StoreError, UnmetError } from '../store/store.ts';
import { parseAnswer, refusalOf, refuse, type Answer, type Refusal } from './answer.ts';
import { ClientGone } from './entries.ts';

export interface RequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** `req_…`, in the answer and in every log line of this request. */
  readonly id: string;
  /** When it came, ms. */
  readonly at: number;
  readonly method: string;
  /** As sent, without the query. */
  readonly path: string;
  /** The query without its `?`. */
  readonly query: string;
  /** The configuration that this request is answered under, whatever is reloaded meanwhile. */
  readonly snapshot: Snapshot;
  /** The client's IP address; `local` over the Unix socket. */
  readonly ip: string;
  /** Whether it came over the Unix socket: the operator's. */
  readonly local: boolean;
  /** What the limit of the address leaves, in which every request stands. */
  readonly address: Verdict;
  /** Of the limits that this request stands in, the one with the least left. */
  limit: Verdict;
}

/** What the middleware of one request share. */
export interface State {
  context: RequestContext;
  /** The `Origin` that the answer is readable for, or nothing. */
  readableFor?: string;
  /** As the metrics tell requests apart. */
  handler?: 'form';
  /** What is answered, unless Koa's own means have done it; it is written once everything about the request is known. */
  answer?: Answer | undefined;
}

export type Context = Koa.ParameterizedContext<State>;

/** The limit of the two that leaves less. */
export function tighter(a: Verdict, b: Verdict): Verdict {
  return b.remaining < a.remaining || !b.allowed ? b : a;
}

/** Path and query of a request target; an absolute one (RFC 9112 §3.2.2) counts as its path. */
export function splitTarget(target: string): { path: string; query: string } {
  const [, local = ''] = /^[a-z][a-z0-9+.-]*:\/\/[^/?]*(.*)$/is.exec(target) ?? ['', target];
  const mark = local.indexOf('?');
  const path = mark === -1 ? local : local.slice(0, mark);
  return { path: path === '' ? '/' : path, query: mark === -1 ? '' : local.slice(mark + 1) };
}

/** The path for the log: without the token of a mailed link, which would open it to whoever reads the log. */
export function loggedPath(path: string): string {
  return path.replace(/^\/(confirm|unsubscribe|s)\/.+/, '/$1/…');
}

/** One header as text; several of one name are joined as HTTP has it. */
export function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** What stands for the peer of a Unix socket. */
export const LOCAL = 'local';

/**
 * The client's IP address; an IPv4-mapped one as IPv4. `peer` is who connected, or the client that a proxy named by the PROXY
 * protocol. `X-Forwarded-For` is read from the right, past trusted proxies alone: everything left of the first other address is
 * the client's own claim.
 */
export function clientAddress(request: IncomingMessage, peer: string, trusted: readonly string[]): string {
  let address = plainAddress(peer);
  if (trusted.length === 0 || !addressInRanges(address, trusted)) return address;
  const header = request.headers['x-forwarded-for'];
  const hops = (Array.isArray(header) ? header.join(',') : (header ?? '')).split(',');
  for (const hop of hops.reverse()) {
    const next = plainAddress(hop.trim());
    if (isIP(next) === 0) break;
    address = next;
    if (!addressInRanges(address, trusted)) break;
  }
  return address;
}

/** The address; an IPv4-mapped one as IPv4. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** The refusal of a request that exceeds a limit. */
export function rateLimited({ reset }: Verdict, now: number): Refusal {
  const seconds = Math.max(1, reset - Math.floor(now / 1000));
  return refuse('RATE_LIMITED', { headers: { 'Retry-After': String(seconds) } });
}

/**
 * Counts this limit, where there is one, among those of the request, which the headers of the answer show; the refusal where
 * it leaves nothing. The operator on the machine itself is never refused.
 */
export function refuseOver(verdict: Verdict | undefined, context: RequestContext): Refusal | undefined {
  if (verdict === undefined) return undefined;
  context.limit = tighter(context.limit, verdict);
  return verdict.allowed || context.local ? undefined : rateLimited(verdict, context.at);
}

/** The refusal of mail beyond the quota of the account's plan. */
export function overPlan({ message, ...quota }: Exclude<QuotaCheck, { kind: 'allowed' }>, now: number): Refusal {
  if (quota.kind === 'never') return refuse('PLAN_LIMIT', { message });
  const seconds = Math.max(1, Math.ceil((quota.at - now) / 1000));
  return refuse('RATE_LIMITED', { message, headers: { 'Retry-After': String(seconds) } });
}

/** The refusal of something that the plan of the account does not allow; it says who can. */
export function overLimit(
  { plan, object, limit, used, added }: OverLimit,
  { server }: Pick<ServerConfig, 'server'>,
): Refusal {
  const name = object === 'keys' ? 'active API keys' : object;
  const message = `The plan ${plan} allows ${limit} ${name}; the account has ${used}, and this would add ${added}. The operator of this server (${server.operator}) can raise the limit.`;
  return refuse('PLAN_LIMIT', { message, members: { plan_limit: { plan, object, limit, used } } });
}

/** Logs an exception and answers what the client may know of it. Throws it on where the client is gone. */
export function faultRefusal(error: unknown, { id, method, path, ip }: RequestContext, log: Log): Refusal {
  if (error instanceof ClientGone) throw error;
  const event = error instanceof StoreError || error instanceof BusyError ? 'http.unavailable' : 'http.failed';
  log.error(event, { request: id, method, path: loggedPath(path), ip, ...errorFields(error) });
  return refusalOf(error);
}

/** In which language a visitor is answered: the form's, else the first that the browser asks for. */
export function translationFor({ request }: RequestContext, form?: Pick<Form, 'config'>): Translation {
  return translationOf(form?.config.theme?.language ?? acceptedLanguage(request.headers['accept-language']));
}

/** Whether it came by TLS. */
export function isSecure({ socket }: IncomingMessage): boolean {
  return socket instanceof TLSSocket;
}

/**
 * Redirects a browser from a page in clear text to the same page by TLS. A form or an API call is never redirected: its body
 * would be lost.
 */
export function pageByTls({ request, method, path, query, local, snapshot }: RequestContext): Answer | undefined {
  if (local || isSecure(request) || (method !== 'GET' && method !== 'HEAD')) return undefined;
  if (request.headers.accept?.includes('text/html') !== true) return undefined;
  // A proxy that speaks TLS in our place would come back in clear text for ever. Whoever pretends to be one stays here.
  if (request.headers['x-forwarded-proto'] === 'https') return undefined;
  const base = baseUrlOf(snapshot.server);
  if (!base.startsWith('https:') || !httpPlaces(snapshot.server).some(({ secure }) => secure)) return undefined;
  // For now: a browser must not remember it when TLS is turned off.
  const headers = { Location: `${base}${path}${query === '' ? '' : `?${query}`}` };
  return { status: 307, type: 'text/html; charset=utf-8', body: '', headers };
}

/** `https://mail.example.net/example.com/contact`, `…/c/partners/signup`, `…/f/frm_…`, `…/example.com/frm_…` */
export function endpointOf(
  context: RequestContext,
  { id, kind, audience }: Pick<Form, 'id' | 'kind' | 'audience'>,
): string {
  const own = kind === 'api' || kind === 'instant';
  return `${baseOf(context)}/${own ? `${audience.domain ?? 'f'}/` : ''}${encodeURI(id)}`;
}

/** Where none is configured, the address that the client itself used. */
function baseOf({ snapshot, request, local }: RequestContext): string {
  const { host } = request.headers;
  if (local || host === undefined || snapshot.server.server.http.base_url !== null) return baseUrlOf(snapshot.server);
  return `${isSecure(request) ? 'https' : 'http'}://${host}`;
}

// API keys: a key comes in exactly one of three headers. Over the Unix socket the operator needs none, because the file's
// permissions have decided already.

const BEARER = 'authorization';
const HEADERS = [BEARER, 'x-api-key', 'service-api-key'];

/** The keys that the request shows; `Authorization` counts only with the Bearer scheme (RFC 6750 §2.1). One header twice is two. */
function keysOf(request: IncomingMessage): string[] {
  if (!HEADERS.some((name) => name in request.headers)) return [];
  const { headersDistinct } = request;
  return HEADERS.flatMap((name) =>
    (headersDistinct[name] ?? []).map((value) =>
      name === BEARER ? (/^Bearer +(\S+) *$/i.exec(value)?.[1] ?? '') : value,
    ),
  );
}

/**
 * Who asks: by its key, else the operator over the Unix socket (for the tenant that `X-Postern-Tenant` names), else
 * nobody (undefined). A key that is shown and is not valid is refused, wherever it is shown.
 */
export async function principalOf(
  { request, local, ip }: Pick<RequestContext, 'request' | 'local' | 'ip'>,
  authenticator: Authenticator,
): Promise<Principal | Refusal | undefined> {
  const [key, another] = keysOf(request);
  if (another !== undefined) return refuse('AUTH_AMBIGUOUS');
  if (key !== undefined) {
    const known = await authenticator.byKey(key, ip);
    return typeof known === 'string' ? refusalOfKey(known) : known;
  }
  if (!local) return undefined;
  const tenant = header(request, 'x-postern-tenant');
  const operator = await authenticator.operator(tenant);
  return operator ?? refuse('NOT_FOUND', { message: `There is no account ${(tenant ?? '').slice(0, 60)}.` });
}

/** The refusal where a key is needed and none is shown. */
export function refuseMissingKey(): Refusal {
  return refuse('AUTH_MISSING_KEY', { headers: CHALLENGE });
}

/** The refusal of a key that opens nothing. */
export function refusalOfKey(fault: AuthFault): Refusal {
  switch (fault) {
    case 'TENANT_SUSPENDED':
      return refuse('AUTH_FORBIDDEN', { message: 'The account of this API key is suspended.' });
    case 'TENANT_UNCONFIRMED':
      return refuse('AUTH_FORBIDDEN', {
        message: 'The account of this API key is not confirmed yet. Open the link that was mailed to its owner.',
      });
    default:
      return refuse(fault, { headers: CHALLENGE });
  }
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' };

// `Idempotency-Key`, for forms and the API alike: the same request twice has one effect and one answer.

/** The statements that store the answer with what it tells of; none where the request has no key. */
export type Stored = (answer: Answer) => readonly Statement[];

const MAX_KEY_LENGTH = 256;

const CONFLICTS = {
  'other body': 'This Idempotency-Key was used with another body.',
  'in progress': 'The first request with this Idempotency-Key is still in progress.',
} as const;

/**
 * Does the work unless a request with this key has done it, and answers what that one was answered. An answer that the work
 * did not commit itself is stored afterwards, and where it fails the key is given back.
 */
export async function answerOnce(
  { idempotency, log }: { readonly idempotency: Idempotency; readonly log: Log },
  request: {
    readonly context: RequestContext;
    /** What the key is unique in: the form, or the API key and the route. */
    readonly scope: string;
    /** The hash of the body. */
    readonly hash: () => string;
  },
  work: (stored: Stored) => Promise<Answer>,
): Promise<Answer | Refusal> {
  const { context, scope, hash } = request;
  const key = header(context.request, 'idempotency-key');
  if (key === undefined) return work(() => []);
  if (key === '' || key.length > MAX_KEY_LENGTH) {
    return refuse('VALIDATION_FAILED', { message: `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters.` });
  }
  const began = await idempotency.begin(scope, key, hash());
  if (began.kind === 'conflict') return refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS[began.reason] });
  if (began.kind === 'replay') {
    const answer = parseAnswer(began.response);
    return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } };
  }
  const { claim } = began;
  let committed: string | undefined;
  try {
    const answer = await work((made) => {
      committed = JSON.stringify(made);
      return [idempotency.answer(claim, { status: made.status, response: committed })];
    });
    const response = JSON.stringify(answer);
    if (response !== committed) await idempotency.finish(claim, { status: answer.status, response });
    return answer;
  } catch (error) {
    if (error instanceof UnmetError) return refuse('IDEMPOTENCY_CONFLICT', { message: CONFLICTS['in progress'] });
    await idempotency.release(claim).catch((cause: unknown) => {
      log.warn('idempotency.not_released', { request: context.id, ...errorFields(cause) });
    });
    throw error;
  }
}

// Origins. Pages of these may use a form: its domain and the domain's subdomains, the form's `allowed_origins`, localhost where
// it says `allow_localhost`, and this server itself, because our error page sends the form again. Scheme and port of the
// domain's pages are free. A form without a domain that lists no origins may be used from everywhere.

const DAY = '86400';
/** A scheme, a name of DNS and a port. */
const MAX_ORIGIN_LENGTH = 300;

/** Answers preflights for the origin in the state's `readableFor`; with these headers, else with whichever it asks for. */
export function preflights(allowMethods = 'POST', allowHeaders?: string): Koa.Middleware {
  return cors({ origin: ({ state }) => String(state['readableFor'] ?? ''), allowMethods, allowHeaders, maxAge: DAY });
}

/**
 * The `Origin` header where it is one (RFC 6454 §7), `null` among them, else nothing: no other text is sent back in a header.
 */
export function validOrigin(header: string | undefined): string {
  if (header === undefined || header.length > MAX_ORIGIN_LENGTH) return '';
  if (header === 'null') return header;
  const [, port] = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i.exec(header) ?? [
    '',
    '-1',
  ];
  return port === undefined || (Number(port) >= 0 && Number(port) <= 65_535) ? header : '';
}

/** The origin (`https://www.example.com`) of an `Origin` header or of a URL; undefined where it has none that we take. */
export function originOf(url: string): string | undefined {
  const parsed = URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === '' ? parsed.origin : undefined;
}

/** The host of an origin, without its port. */
export function hostOf(origin: string): string {
  return URL.parse(origin)?.hostname ?? '';
}

/** Whether the page is on the computer that shows it (RFC 6761 §6.3): a developer's. */
export function isLocalhost(origin: string): boolean {
  return /^(?:(?:.+\.)?localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostOf(origin));
}

/** Whether a page of this origin is one of these. */
export function originAllowed(origin: string, { domain, origins, anyone, localhost }: Audience): boolean {
  if (anyone || (localhost && isLocalhost(origin))) return true;
  if (domain !== undefined) {
    const host = hostOf(origin);
    if (host === domain || host.endsWith(`.${domain}`)) return true;
  }
  return origins.some((allowed) => originOf(allowed) === origin);
}

/**
 * Whether the origin is this server's own: `base_url`'s, or the host name's. Where neither is set up (on a laptop, say)
 * the address that the browser itself named, but only an IP address or `localhost`: any other name may be made to point
 * here by whoever owns it (DNS rebinding).
 */
export function isOwnOrigin(origin: string, server: ServerConfig['server'], host: string | undefined): boolean {
  const { base_url: base } = server.http;
  if (base !== null && originOf(base) === origin) return true;
  const name = hostOf(origin);
  if (name === server.hostname) return true;
  return (
    origin.slice(origin.indexOf('://') + 3) === host && /^(localhost|\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\])$/.test(name)
  );
}

/** The same pages as CSP source expressions. */
export function pageSources({ domain, origins, anyone, localhost }: Audience): string[] {
  if (anyone) return ['https:', 'http:'];
  // The policy's grammar has no IPv6 addresses.
  const near = localhost ? ['http://localhost:*', 'http://127.0.0.1:*'] : [];
  const own =
    domain === undefined
      ? []
      : ['https:', 'http:'].flatMap((scheme) => [`${scheme}//${domain}:*`, `${scheme}//*.${domain}:*`]);
  return [...own, ...origins.map(originOf).filter((origin) => origin !== undefined), ...near];
}
