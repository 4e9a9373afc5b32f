/** Which pages may call the API from a browser: those of `server.http.cors_origins` alone. A key in a page is its owner's risk. */
import cors from '@koa/cors';
import type Koa from 'koa';
import { originOf } from '../cors.ts';
import type { State } from '../exchange.ts';

const HEADERS =
  'content-type, accept, authorization, x-api-key, service-api-key, idempotency-key, x-requested-with, user-agent';
const EXPOSED =
  'X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, Idempotent-Replayed';

/** Answers preflights of those pages, and lets them read answers. */
export function apiCors(): Koa.Middleware<State> {
  return cors({
    origin(ctx) {
      const { exchange }: State = ctx.state;
      const origin = originOf(ctx.get('Origin'));
      const allowed = exchange.snapshot.server.server.http.cors_origins.some((one) => originOf(one) === origin);
      return allowed && origin !== undefined ? ctx.get('Origin') : '';
    },
    allowMethods: 'GET, POST, PUT, PATCH, DELETE',
    allowHeaders: HEADERS,
    exposeHeaders: EXPOSED,
    maxAge: '86400',
  });
}
