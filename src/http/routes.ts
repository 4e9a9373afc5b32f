/**
 * The one table of routes. Authenticated and administrative routes answer at three spellings, and no handler knows which
 * was used; what is for machines that watch the daemon has one.
 */
import type { KeyObject } from 'node:crypto';
import { Router, type RouterContext, type RouterMiddleware } from '@koa/router';
import type Koa from 'koa';
import { page, refusedA, send, type Answer, json } from './answer.ts';
import { apiCors } from './api/cors.ts';
import type { Route } from './api/route.ts';
import { createServe, type ServeParts } from './api/serve.ts';
import { apiRoutes, type ApiParts } from './api/table.ts';
import { refuse, statusOf, type Refusal } from './errors.ts';
import { type Context, type Exchange, type Handler, type State, rateLimited } from './context.ts';
import { errorPage } from './pages/error.ts';
import { frontPage } from './pages/front.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { type Clock, isoTime } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { isDamaged } from '../store/database.ts';
import { probeStore } from '../store/probe.ts';
import type { Store } from '../store/store.ts';
import type { FreeSpace } from '../store/free-space.ts';
import { findToken, type Confirmable, type ConfirmKinds } from '../accounts/tokens.ts';
import { confirmPage, confirmedPage, linkOverPage, NEVER } from './pages/confirm.ts';
import { type Page, layout, mark } from './pages/layout.ts';
import { openApi } from './openapi/document.ts';
import { referencePage } from './pages/reference.ts';
import { suppress } from '../store/suppressions.ts';
import { openUnsubscribeToken } from '../transactional/unsubscribe.ts';
import { html } from './pages/html.ts';
import type { Metrics } from './metrics.ts';
import { takesMail } from '../config/forwarding.ts';
import { policyText } from '../dns/mta-sts.ts';

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

// * Whether the daemon is up (`/healthz`), and whether it can do its work (`/readyz`): the database takes a real write, the
// disk has room, the queue moves. Details of the configuration are the operator's alone: they name files.

export interface HealthParts {
  readonly store: Store;
  readonly freeSpace: FreeSpace;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  readonly queueProblem: () => string | undefined;
}

type Check = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const OK: Check = { ok: true };
/** So often at most is the database written to. */
const PROBE_MS = 1000;

function healthz(): Answer {
  return json({ status: 'ok' });
}

/** The handler of `/readyz`: 200, or 503 with the reasons. */
function readyz({ store, freeSpace, clock, log, snapshot, queueProblem }: HealthParts): Handler {
  let probed = { at: -Infinity, check: Promise.resolve(OK) };

  async function probe(): Promise<Check> {
    try {
      await probeStore(store);
      return OK;
    } catch (error) {
      log.error('readyz.database_failed', errorFields(error));
      return {
        ok: false,
        reason: isDamaged(error) ? 'the database is damaged: restore a backup' : 'the database cannot be written',
      };
    }
  }

  function database(): Promise<Check> {
    const now = clock.monotonic();
    if (now - probed.at >= PROBE_MS) probed = { at: now, check: probe() };
    return probed.check;
  }

  function disk(): Check {
    const { free_disk: least } = snapshot().server.limits;
    return freeSpace.below(least) ? { ok: false, reason: 'the disk has less room than limits.free_disk' } : OK;
  }

  function queue(): Check {
    const reason = queueProblem();
    return reason === undefined ? OK : { ok: false, reason };
  }

  return async (exchange) => {
    const checks = { database: await database(), disk: disk(), queue: queue() };
    const ready = Object.values(checks).every(({ ok }) => ok);
    const body = { status: ready ? 'ready' : 'not ready', checks, configuration: configuration(exchange) };
    return json(body, ready ? 200 : 503, ready ? undefined : { 'Retry-After': '5' });
  };
}

/** Problems of the configuration stop nothing: the last good version runs on. */
function configuration({ snapshot, local }: Exchange): object {
  const { problems } = snapshot;
  if (local) return { problems };
  return { problems: problems.length, ...(problems.length > 0 ? { hint: 'postern config check names them' } : {}) };
}

// * `/confirm/{token}`: GET shows what the link would do, POST does it (`?answer=never`: refuses, for good). Following a link
// alone changes nothing: mail scanners do.

export interface ConfirmParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
}

function createConfirm(parts: ConfirmParts): (exchange: Exchange, token: string) => Promise<Answer> {
  return async ({ method, id, query }, value) => {
    const token = await findToken(parts, value);
    if (token === undefined) return page(linkOverPage(id), 404);
    const kind = parts.confirmations[token.kind];
    const found = await kind(token);
    if (found === undefined) return page(linkOverPage(id), 404);
    if (method !== 'POST') return page(stateOf(found));
    if (new URLSearchParams(query).get('answer') === NEVER) await found.refuse();
    else if (!found.isRefused) await found.confirm();
    return page(stateOf((await kind(token)) ?? found));
  };
}

function stateOf(found: Confirmable): Page {
  if (found.isRefused) return confirmedPage(found.refused);
  return found.isDone
    ? confirmedPage(found.done, { refusable: true })
    : confirmPage(found.question, { refusable: true });
}

// The API about itself: its OpenAPI document, and the same as a page. Made once, when somebody first asks.

const KEPT = { 'Cache-Control': 'public, max-age=300' };

export interface Reference {
  /** `/openapi.json` */
  document(): Answer;
  /** `/docs` */
  page(): Answer;
}

function createReference(routes: readonly Route[], version: string): Reference {
  let made: { document: Answer; page: Answer } | undefined;
  function both(): { document: Answer; page: Answer } {
    if (made !== undefined) return made;
    const document = openApi(routes, version);
    // Anybody's page or tool may read it: there is nothing in it that is not published.
    made = {
      document: json(document, 200, { ...KEPT, 'Access-Control-Allow-Origin': '*' }),
      page: page(referencePage(document), 200, KEPT),
    };
    return made;
  }
  return { document: () => both().document, page: () => both().page };
}

// * `/unsubscribe/{token}`: GET shows a button, POST ends the tenant's mail to the address, without asking anything more and
// without sending anybody elsewhere, as mail programs expect it (RFC 8058 §3.2).

export interface UnsubscribeParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Signs the links. */
  readonly unsubscribeKey: KeyObject;
}

function createUnsubscribe(parts: UnsubscribeParts): (exchange: Exchange, token: string) => Promise<Answer> {
  const { store, clock, unsubscribeKey } = parts;
  return async ({ method, id }, token) => {
    const subscription = openUnsubscribeToken(token, unsubscribeKey);
    if (subscription === undefined) return page(brokenLinkPage(id), 404);
    const { tenant, address } = subscription;
    if (method !== 'POST') {
      const heading = 'Unsubscribe?';
      return page(
        confirmPage({ heading, text: [`No more mail of this sender to ${address}?`], button: 'Unsubscribe' }),
      );
    }
    await store.write([suppress({ tenant, address, reason: 'unsubscribe', created_at: clock.now() })]);
    return page(confirmedPage({ heading: 'Unsubscribed', text: [`${address} gets no more mail of this sender.`] }));
  };
}

function brokenLinkPage(requestId: string) {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>It was not copied whole from the mail. Please open it there once more.</p>`,
  });
}

// Whom to tell of a weakness (RFC 9116).

const DAY = 86_400_000;
const VALID = 90 * DAY;

function securityTxt({ at, snapshot }: Exchange): Answer {
  const { operator, http } = snapshot.server.server;
  const lines = [
    `Contact: mailto:${encodeURI(operator)}`,
    // The same all day, so that it may be kept.
    `Expires: ${isoTime(Math.floor(at / DAY) * DAY + VALID)}`,
    'Preferred-Languages: en',
    ...(http.base_url === null ? [] : [`Canonical: ${http.base_url}/.well-known/security.txt`]),
  ];
  return { status: 200, type: 'text/plain; charset=utf-8', body: `${lines.join('\n')}\n` };
}

// `GET /metrics` on the Unix socket; on the public side there is no such address.

export interface MetricsRouteParts {
  readonly metrics: Pick<Metrics, 'answer' | 'answered'>;
}

function metrics(parts: MetricsRouteParts): Handler {
  return ({ local, id }) => (local ? parts.metrics.answer() : refusedA(refuse('NOT_FOUND'), id));
}

// The MTA-STS policy of each domain whose mail comes here encrypted, at `mta-sts.<domain>` (RFC 8461 §3.3).

const HOST = /^mta-sts\.(.+?)\.?(?::\d+)?$/;

function mtaSts({ request, snapshot, id }: Exchange): Answer {
  const [, name = ''] = HOST.exec((request.headers.host ?? '').toLowerCase()) ?? [];
  const domain = snapshot.domains.get(name);
  const { server, tls } = snapshot.server;
  if (domain === undefined || tls.mode === 'off' || !takesMail(domain.config)) {
    return refusedA(refuse('NOT_FOUND', { message: 'There is no MTA-STS policy for this host.' }), id);
  }
  return { status: 200, type: 'text/plain; charset=utf-8', body: policyText(server.hostname) };
}
