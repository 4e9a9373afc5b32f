/** A request and what is known of it before any route looks: who asks, under which configuration, within which limits. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type Koa from 'koa';

import type { Verdict } from '../accounts/sliding-window.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Answer } from './answer.ts';

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
