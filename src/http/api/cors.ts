/** Which pages may call the API from a browser: those of `server.http.cors_origins` alone. A key in a page is its owner's risk. */
import cors from '@koa/cors';
import type Koa from 'koa';
import type { Exchange, State } from '../context.ts';
import { originOf, validOrigin } from '../cors.ts';

const HEADERS =
  'content-type, accept, authorization, x-api-key, service-api-key, idempotency-key, x-requested-with, user-agent';

/** Answers preflights of those pages, and lets them read answers. */
export function apiCors(): Koa.Middleware<State> {
  const preflight = cors({
    origin: ({ state }) => (state as State).readableFor ?? '',
    allowMethods: 'GET, POST, PUT, PATCH, DELETE',
    allowHeaders: HEADERS,
    maxAge: '86400',
  });
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    ctx.state.readableFor = readableFor(exchange);
    await (exchange.method === 'OPTIONS' ? preflight(ctx, next) : next());
  };
}

/** The `Origin` that the answer is readable for, or nothing. */
function readableFor({ request, snapshot }: Exchange): string {
  const { origin } = request.headers;
  const asking = originOf(validOrigin(origin));
  if (origin === undefined || asking === undefined) return '';
  return snapshot.server.server.http.cors_origins.some((one) => originOf(one) === asking) ? origin : '';
}
