/** A request and what every route needs of it: its client, configuration and limits, and what errors and limits answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import type Koa from 'koa';
import type { Verdict } from '../accounts/rate-limits.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Answer } from './answer.ts';
import { addressInRanges } from '../dns/networks.ts';
import type { Room } from '../accounts/message-limits.ts';
import type { OverLimit } from '../accounts/object-limits.ts';
import type { ServerConfig } from '../config/schema.ts';
import { refuse, type Refusal, refusalOf } from './errors.ts';
import { BusyError, errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { StoreError } from '../store/store.ts';
import { ClientGone } from './entries.ts';
import { baseUrlOf, httpPlaces } from '../config/http-address.ts';
import type { Form } from '../config/forms.ts';

export interface Exchange {
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
  exchange: Exchange;
  /** The `Origin` that the answer is readable for, or nothing. */
  readableFor?: string;
  /** What is answered, unless Koa's own means have done it. */
  answer?: Answer;
}

export type Context = Koa.ParameterizedContext<State>;

export type Handler = (exchange: Exchange) => Answer | Promise<Answer>;

/** The limit of the two that leaves less. */
export function tighter(a: Verdict, b: Verdict): Verdict {
  return b.remaining < a.remaining || !b.allowed ? b : a;
}

/** Path and query of a request target; an absolute one (RFC 9112 §3.2.2) counts as its path. */
export function splitTarget(target: string): { path: string; query: string } {
  let start = 0;
  if (!target.startsWith('/')) {
    const scheme = target.indexOf('://');
    const slash = scheme === -1 ? -1 : target.indexOf('/', scheme + 3);
    if (slash === -1) return { path: scheme === -1 ? target : '/', query: '' };
    start = slash;
  }
  const mark = target.indexOf('?', start);
  return mark === -1
    ? { path: start === 0 ? target : target.slice(start), query: '' }
    : { path: target.slice(start, mark), query: target.slice(mark + 1) };
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
 * The client's IP address; an IPv4-mapped one as IPv4. `X-Forwarded-For` is read from the right, past trusted proxies alone:
 * everything left of the first other address is the client's own claim.
 */
export function clientAddress(request: IncomingMessage, trusted: readonly string[]): string {
  let address = plainAddress(request.socket.remoteAddress ?? '');
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

/** The same where the limit is one of this request's own; the headers of the answer then show it. */
export function overCap(verdict: Verdict, exchange: Exchange): Refusal {
  exchange.limit = tighter(exchange.limit, verdict);
  return rateLimited(verdict, exchange.at);
}

/** The refusal of mail for which the plan of the account has no room. */
export function overPlan({ message, ...room }: Exclude<Room, { kind: 'room' }>, now: number): Refusal {
  if (room.kind === 'never') return refuse('PLAN_LIMIT', { message });
  const seconds = Math.max(1, Math.ceil((room.at - now) / 1000));
  return refuse('RATE_LIMITED', { message, headers: { 'Retry-After': String(seconds) } });
}

/** The refusal of something that the plan of the account does not allow; it says who can. */
export function overLimit(
  { plan, object, limit, used, added }: OverLimit,
  { server }: Pick<ServerConfig, 'server'>,
): Refusal {
  const name = object === 'keys' ? 'active API keys' : object;
  const message = `The plan ${plan} allows ${limit} ${name}; the account has ${used}, and this adds ${added}. The operator of this server (${server.operator}) can raise the limit.`;
  return refuse('PLAN_LIMIT', { message, members: { plan_limit: { plan, object, limit, used } } });
}

/** The headers that tell the limit in every response. */
export function rateHeaders({ limit, remaining, reset }: Verdict): Readonly<Record<string, string>> {
  return {
    'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': String(remaining),
    'X-RateLimit-Reset': String(reset),
  };
}

/** Logs an exception and answers what the client may know of it. Throws it on where the client is gone. */
export function faultRefusal(error: unknown, { id, method, path, ip }: Exchange, log: Log): Refusal {
  if (error instanceof ClientGone) throw error;
  const event = error instanceof StoreError || error instanceof BusyError ? 'http.unavailable' : 'http.failed';
  log.error(event, { request: id, method, path: loggedPath(path), ip, ...errorFields(error) });
  return refusalOf(error);
}

/** Whether it came by TLS. */
export function isSecure({ socket }: IncomingMessage): boolean {
  return socket instanceof TLSSocket;
}

/**
 * Redirects a browser from a page in clear text to the same page by TLS. A form or an API call is never redirected: its body
 * would be lost.
 */
export function pageByTls({ request, method, path, query, local, snapshot }: Exchange): Answer | undefined {
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
export function endpointOf(exchange: Exchange, { id, kind, audience }: Pick<Form, 'id' | 'kind' | 'audience'>): string {
  const own = kind === 'api' || kind === 'instant';
  return `${baseOf(exchange)}/${own ? `${audience.domain ?? 'f'}/` : ''}${encodeURI(id)}`;
}

/** Where none is configured, the address that the client itself used. */
function baseOf({ snapshot, request, local }: Exchange): string {
  const { host } = request.headers;
  if (local || host === undefined || snapshot.server.server.http.base_url !== null) return baseUrlOf(snapshot.server);
  return `${isSecure(request) ? 'https' : 'http'}://${host}`;
}
