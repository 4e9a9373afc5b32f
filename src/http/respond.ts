/**
 * Writes answers: all headers as one list and the body behind them, in one piece. Koa's way, header by header and then
 * finding out what the body is, costs a tenth of a form post; what Koa's own middleware answers still goes it.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Answer } from './answer.ts';
import { readableHeaders } from './cors.ts';
import type { Context } from './context.ts';
import { rateHeaders } from './rate.ts';

const JSON_POLICY = "default-src 'none'; frame-ancestors 'none'";
const NO_CONTENT = 204;

/** Writes the answer that the state holds, else sets on Koa's what every response carries; `last`: then hang up. */
export function respond(ctx: Context, last: boolean): void {
  const { res, state } = ctx;
  const headers = commonHeaders(ctx, last);
  if (state.answer === undefined) setHeaders(res, headers);
  else if (state.answer.stream === undefined) write(ctx, state.answer, headers);
  else {
    ctx.status = state.answer.status;
    setHeaders(res, ownHeaders(state.answer, headers));
    ctx.body = Readable.from(state.answer.stream);
  }
}

/** Throws, and has written nothing, where a header cannot be written. */
function write(ctx: Context, answer: Answer, headers: string[]): void {
  const { status, body } = answer;
  const length = Buffer.byteLength(body);
  ownHeaders(answer, headers);
  if (status !== NO_CONTENT) headers.push('Content-Length', String(length));
  ctx.respond = false;
  ctx.res.writeHead(status, headers);
  // ASCII, which nearly all answers are, is written faster as what it is.
  ctx.res.end(body, length === body.length ? 'latin1' : 'utf8');
}

/** What Koa's middleware has set by itself stays. */
function setHeaders(response: ServerResponse, headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) {
    const [name = '', value = ''] = headers.slice(i, i + 2);
    if (!response.hasHeader(name)) response.setHeader(name, value);
  }
}

/** Adds the answer's own headers to the common ones; of two of one name the answer's stays. */
function ownHeaders({ status, type, headers: own }: Answer, headers: string[]): string[] {
  if (!type.startsWith('text/html')) headers.push('Content-Security-Policy', JSON_POLICY);
  for (const name in own) put(headers, name, own[name] ?? '');
  if (status !== NO_CONTENT) headers.push('Content-Type', type);
  return headers;
}

/** Names and values in turn. */
function commonHeaders({ state: { exchange, readableFor } }: Context, last: boolean): string[] {
  const headers = [
    'X-Request-Id',
    exchange.id,
    'X-Content-Type-Options',
    'nosniff',
    // Not `no-referrer`: then a form sent again from our own page would come from nowhere.
    'Referrer-Policy',
    'same-origin',
    'Cache-Control',
    'no-store',
    ...rateHeaders(exchange.limit),
  ];
  if (readableFor !== undefined) headers.push(...readableHeaders(readableFor));
  if (last) headers.push('Connection', 'close');
  return headers;
}

function put(headers: string[], name: string, value: string): void {
  const at = headers.indexOf(name);
  if (at === -1) headers.push(name, value);
  else headers[at + 1] = value;
}
