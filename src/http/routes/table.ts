/**
 * The one table of routes. Authenticated and administrative routes answer at three spellings, and no handler knows which
 * was used; what is for machines that watch the daemon has one.
 */
import { Router, type RouterContext, type RouterMiddleware } from '@koa/router';
import type Koa from 'koa';
import { page, refusedA, send, type Answer } from '../answer.ts';
import { apiCors } from '../api/cors.ts';
import type { Route } from '../api/route.ts';
import { createServe, type ServeParts } from '../api/serve.ts';
import { apiRoutes, type ApiParts } from '../api/table.ts';
import { refuse, statusOf, type Refusal } from '../errors.ts';
import type { Context, Exchange, Handler, State } from '../exchange.ts';
import { errorPage } from '../pages/error.ts';
import { rateLimited } from '../rate.ts';
import { frontPage } from '../pages/front.ts';
import { createConfirm, type ConfirmParts } from './confirm.ts';
import { createReference } from './reference.ts';
import { healthz, readyz, type HealthParts } from './health.ts';
import { metrics, type MetricsRouteParts } from './metrics.ts';
import { mtaSts } from './mta-sts.ts';
import { securityTxt } from './security-txt.ts';
import { createUnsubscribe, type UnsubscribeParts } from './unsubscribe.ts';

export interface TableParts
  extends ApiParts, ServeParts, ConfirmParts, HealthParts, MetricsRouteParts, UnsubscribeParts {
  /** Of this program, for the reference. */
  readonly version: string;
}

/** Of the other spellings of the API's routes. */
const PREFIXES = ['/api', '/v1'] as const;

/** Mounts all routes but the forms' addresses. What they do not know is 404, what they know otherwise 405. */
export function mountRoutes(app: Koa<State>, parts: TableParts): void {
  const table = new Router<State>({ strict: true, sensitive: true });
  table.get('/', answering(front));
  table.get('/healthz', answering(healthz));
  table.get('/readyz', answering(readyz(parts)));
  table.get('/metrics', answering(metrics(parts)));
  table.get('/.well-known/security.txt', answering(securityTxt));
  table.get('/.well-known/mta-sts.txt', answering(mtaSts));
  const confirm = createConfirm(parts);
  table.register('/confirm/:token', ['GET', 'POST'], async (ctx) => {
    send(ctx, await confirm(ctx.state.exchange, ctx.params['token'] ?? ''));
  });
  const unsubscribe = createUnsubscribe(parts);
  table.register('/unsubscribe/:token', ['GET', 'POST'], async (ctx) => {
    send(ctx, await unsubscribe(ctx.state.exchange, ctx.params['token'] ?? ''));
  });
  const routes = apiRoutes(parts);
  const serve = createServe(parts, routes);
  const reference = createReference(routes, parts.version);
  table.get('/openapi.json', answering(reference.document));
  table.get('/docs', answering(reference.page));
  // Each spelling has a table of its own: what stands in it is tried one by one.
  const spelled = PREFIXES.map((prefix) => ({
    prefix: `${prefix}/`,
    table: new Router<State>({ strict: true, sensitive: true }),
  }));
  for (const route of routes) {
    table.register(route.path, [route.method], serving(route, serve));
    for (const [i, prefix] of PREFIXES.entries()) {
      spelled[i]?.table.register(prefix + route.path, [route.method], serving(route, serve));
    }
  }
  // Those whose path is written out, and no other's, need not be looked for.
  const alone = routes.filter(
    ({ path, method }) => !/[:*]/.test(path) && table.match(path, method).pathAndMethod.length === 1,
  );
  const known = new Map(
    alone.flatMap((route) => ['', ...PREFIXES].map((prefix) => [`${route.method} ${prefix}${route.path}`, route])),
  );
  const tables = [...spelled, { prefix: '/', table }].map((each) => ({ ...each, middleware: each.table.routes() }));
  function tableOf(path: string) {
    return tables.find(({ prefix }) => path.startsWith(prefix));
  }
  app.use(apiCors());
  app.use(limited);
  app.use(async (ctx, next) => {
    const { exchange } = ctx.state;
    const route = known.get(`${exchange.method} ${exchange.path}`);
    if (route !== undefined) return send(ctx, await serve(route, exchange, {}));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it wants of the context it adds itself
    await (tableOf(ctx.path)?.middleware(ctx as RouterContext<State>, next) ?? next());
  });
  app.use((ctx) => {
    const { exchange } = ctx.state;
    const layers = tableOf(exchange.path)?.table.match(exchange.path, exchange.method).path ?? [];
    send(ctx, refused(exchange, unknown(layers.flatMap(({ methods }) => methods))));
  });
}

/** What somebody sees who opens the server's own address. */
function front({ snapshot }: Exchange): Answer {
  return page(frontPage(snapshot.server.server));
}

async function limited(ctx: Context, next: Koa.Next): Promise<void> {
  const { exchange } = ctx.state;
  if (exchange.limit.allowed || exchange.local) await next();
  else send(ctx, refused(exchange, rateLimited(exchange.limit, exchange.at)));
}

function unknown(methods: readonly string[]): Refusal {
  if (methods.length === 0) return refuse('NOT_FOUND');
  return refuse('METHOD_NOT_ALLOWED', { headers: { Allow: [...new Set(methods)].join(', ') } });
}

/** A route's handler as middleware. */
function answering(handler: Handler): RouterMiddleware<State> {
  return async (ctx) => {
    const { exchange } = ctx.state;
    send(ctx, await handler(exchange));
  };
}

function serving(route: Route, serve: ReturnType<typeof createServe>): RouterMiddleware<State> {
  return async (ctx) => {
    const { exchange } = ctx.state;
    send(ctx, await serve(route, exchange, ctx.params));
  };
}

/** API clients get JSON; somebody who typed the address gets a page. */
export function refused(exchange: Exchange, refusal: Refusal): Answer {
  if (exchange.request.headers['sec-fetch-mode'] !== 'navigate') return refusedA(refusal, exchange.id);
  return page(errorPage({ refusal, requestId: exchange.id }), statusOf(refusal), refusal.headers);
}
