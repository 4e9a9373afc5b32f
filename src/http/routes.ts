/**
 * The one table of routes. Authenticated and administrative routes answer at three spellings, and no handler knows which
 * was used; what is for machines that watch the daemon has one.
 */
import type { KeyObject } from 'node:crypto';
import { Router, type RouterContext, type RouterMiddleware } from '@koa/router';
import type Koa from 'koa';
import { page, refusedA, send, type Answer, json } from './answer.ts';
import { apiCors } from './cors.ts';
import type { Route, Services } from './api/route.ts';
import { createServe, type ServeParts } from './api/serve.ts';
import { apiRoutes } from './api/table.ts';
import { refuse, statusOf, type Refusal } from './errors.ts';
import { type Context, type Exchange, type Handler, type State, rateLimited } from './context.ts';
import { errorPage } from './pages/error.ts';
import { frontPage, confirmPage, confirmedPage, linkOverPage, NEVER } from './pages/confirm.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { type Clock, isoTime } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { isDamaged } from '../store/database.ts';
import type { FreeSpace } from '../store/sqlite.ts';
import { probeStore } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';

import { findToken, type Confirmable, type ConfirmKinds } from '../accounts/consent.ts';

import { type Page, layout, mark } from './pages/layout.ts';
import { openApi } from './openapi/document.ts';
import { referencePage } from './pages/reference.ts';
import { suppress } from '../store/suppressions.ts';
import { openUnsubscribeToken } from '../transactional/unsubscribe.ts';
import { html } from '../lib/html.ts';
import type { Metrics } from './metrics.ts';
import { takesMail } from '../config/forwarding.ts';
import { policyText } from '../dns/mta-sts.ts';

export interface TableParts
  extends Services, ServeParts, ConfirmParts, HealthParts, MetricsRouteParts, UnsubscribeParts {
  /** Of this program, for the reference. */
  readonly version: string;
}

/** The API's routes answer with and without these. */
const PREFIX = /^\/(?:api|v1)(?=\/)/;
const EXACT = { strict: true, sensitive: true };

/** Mounts all routes but the forms' addresses. Unknown paths are 404, known ones with another method 405. */
export function mountRoutes(app: Koa<State>, parts: TableParts): void {
  const routes = apiRoutes(parts);
  const reference = createReference(routes, parts.version);
  const pages = new Router<State>(EXACT);
  pages.get('/', answering(front));
  pages.get('/healthz', answering(healthz));
  pages.get('/readyz', answering(readyz(parts)));
  pages.get('/metrics', answering(metrics(parts)));
  pages.get('/.well-known/security.txt', answering(securityTxt));
  pages.get('/.well-known/mta-sts.txt', answering(mtaSts));
  pages.get('/openapi.json', answering(reference.document));
  pages.get('/docs', answering(reference.page));
  pages.register('/confirm/:token', ['GET', 'POST'], answering(createConfirm(parts)));
  pages.register('/unsubscribe/:token', ['GET', 'POST'], answering(createUnsubscribe(parts)));
  const api = apiRouters(routes, createServe(parts, routes));

  app.use(apiCors());
  app.use(limited);
  app.use(pages.routes());
  app.use(async (ctx, next) => {
    const path = ctx.path.replace(PREFIX, '');
    Object.assign(ctx, { newRouterPath: path });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it wants of the context it adds itself
    await (api.get(firstSegment(path))?.middleware(ctx as RouterContext<State>, next) ?? next());
  });
  app.use((ctx) => {
    const path = ctx.path.replace(PREFIX, '');
    const known = [pages.match(ctx.path, ''), api.get(firstSegment(path))?.router.match(path, '')];
    const methods = known.flatMap((match) => match?.path ?? []).flatMap((layer) => layer.methods);
    send(ctx, refused(ctx.state.exchange, unknown(methods)));
  });
}

/**
 * The API's routes, a router for each first segment of their paths: a router tries one route after the other, and trying all
 * of them takes up to half as much CPU again for the simplest request (bench row 13).
 */
function apiRouters(routes: readonly Route[], serve: ReturnType<typeof createServe>) {
  const routers = new Map<string, Router<State>>();
  for (const route of routes) {
    const segment = firstSegment(route.path);
    const router = routers.get(segment) ?? new Router<State>(EXACT);
    router.register(
      route.path,
      [route.method],
      answering((exchange, params) => serve(route, exchange, params)),
    );
    routers.set(segment, router);
  }
  return new Map([...routers].map(([segment, router]) => [segment, { router, middleware: router.routes() }]));
}

function firstSegment(path: string): string {
  return path.split('/', 2)[1] ?? '';
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

/** A route's handler as middleware; it gets the parts of the path, percent-decoded. */
function answering(
  handler: (exchange: Exchange, params: Readonly<Record<string, string>>) => Answer | Promise<Answer>,
): RouterMiddleware<State> {
  return async (ctx) => send(ctx, await handler(ctx.state.exchange, ctx.params));
}

type TokenHandler = (exchange: Exchange, params: Readonly<Record<string, string>>) => Promise<Answer>;

/** API clients get JSON; somebody who typed the address gets a page. */
export function refused(exchange: Exchange, refusal: Refusal): Answer {
  if (exchange.request.headers['sec-fetch-mode'] !== 'navigate') return refusedA(refusal, exchange.id);
  return page(errorPage({ refusal, requestId: exchange.id }), statusOf(refusal), refusal.headers);
}

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

/**
 * `/readyz`: 200, or 503 with the reasons. The database must take a write, the disk have space, the queue move. Details of
 * the configuration are shown to the operator alone, because they name files.
 */
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

export interface ConfirmParts {
  readonly store: Store;
  readonly clock: Clock;
  /** What each kind of link confirms. */
  readonly confirmations: ConfirmKinds;
}

/**
 * `/confirm/{token}`: GET shows what the link would do, because mail scanners follow links; POST does it (`?answer=never`:
 * refuses for good).
 */
function createConfirm(parts: ConfirmParts): TokenHandler {
  return async ({ method, id, query }, { token: value = '' }) => {
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

const CACHED = { 'Cache-Control': 'public, max-age=300' };

export interface Reference {
  /** `/openapi.json` */
  document(): Answer;
  /** `/docs` */
  page(): Answer;
}

/** The OpenAPI document and the reference page, made when they are first requested. */
function createReference(routes: readonly Route[], version: string): Reference {
  let made: { document: Answer; page: Answer } | undefined;
  function both(): { document: Answer; page: Answer } {
    if (made !== undefined) return made;
    const document = openApi(routes, version);
    // Anybody's page or tool may read it: there is nothing in it that is not published.
    made = {
      document: json(document, 200, { ...CACHED, 'Access-Control-Allow-Origin': '*' }),
      page: page(referencePage(document), 200, CACHED),
    };
    return made;
  }
  return { document: () => both().document, page: () => both().page };
}

export interface UnsubscribeParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Signs the links. */
  readonly unsubscribeKey: KeyObject;
}

/** `/unsubscribe/{token}`: GET shows a button, POST unsubscribes at once, without a redirect (RFC 8058 §3.2). */
function createUnsubscribe(parts: UnsubscribeParts): TokenHandler {
  const { store, clock, unsubscribeKey } = parts;
  return async ({ method, id }, { token = '' }) => {
    const subscription = openUnsubscribeToken(token, unsubscribeKey);
    if (subscription === undefined) return page(brokenLinkPage(id), 404);
    const { tenant, address } = subscription;
    if (method !== 'POST') {
      const heading = 'Unsubscribe?';
      return page(
        confirmPage({ heading, text: [`Stop all mail from this sender to ${address}?`], button: 'Unsubscribe' }),
      );
    }
    await store.write([suppress({ tenant, address, reason: 'unsubscribe', created_at: clock.now() })]);
    return page(
      confirmedPage({ heading: 'Unsubscribed', text: [`This sender will not send any more mail to ${address}.`] }),
    );
  };
}

function brokenLinkPage(requestId: string) {
  return layout({
    title: 'This link does not work',
    requestId,
    content: html`${mark('bad')}
<h1>This link does not work</h1>
<p>It was not copied completely. Please open the link in the email again.</p>`,
  });
}

const DAY = 86_400_000;
const VALID = 90 * DAY;

/** RFC 9116. */
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

export interface MetricsRouteParts {
  readonly metrics: Pick<Metrics, 'answer' | 'answered'>;
}

/** `/metrics` on the Unix socket; on the public side there is no such address. */
function metrics(parts: MetricsRouteParts): Handler {
  return ({ local, id }) => (local ? parts.metrics.answer() : refusedA(refuse('NOT_FOUND'), id));
}

const HOST = /^mta-sts\.(.+?)\.?(?::\d+)?$/;

/** The MTA-STS policy of a domain, at `mta-sts.<domain>` (RFC 8461 §3.3). */
function mtaSts({ request, snapshot, id }: Exchange): Answer {
  const [, name = ''] = HOST.exec((request.headers.host ?? '').toLowerCase()) ?? [];
  const domain = snapshot.domains.get(name);
  const { server, tls } = snapshot.server;
  if (domain === undefined || tls.mode === 'off' || !takesMail(domain.config)) {
    return refusedA(refuse('NOT_FOUND', { message: 'There is no MTA-STS policy for this host.' }), id);
  }
  return { status: 200, type: 'text/plain; charset=utf-8', body: policyText(server.hostname) };
}
