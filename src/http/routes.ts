/**
 * The one table of routes. Authenticated and administrative routes answer at three spellings, and no handler knows which
 * was used; what is for machines that watch the daemon has one.
 */
import { Router, type RouterContext, type RouterMiddleware } from '@koa/router';
import type Koa from 'koa';
import type { Snapshot } from '../config/snapshot.ts';
import { tlsModeOf } from '../config/schema-server.ts';
import { policyText } from '../dns/mta-sts.ts';
import type { CertificateKeeper, CertificateState } from '../lib/certificate.ts';
import { type Clock, isoTime, withDeadline } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { html } from '../lib/html.ts';
import type { Log } from '../lib/log.ts';
import { isDamaged } from '../store/faults.ts';
import { relayPause } from '../store/destinations.ts';
import type { FreeSpace } from '../store/sqlite.ts';
import { refuse, statusOf, type Refusal, type Answer, json, page, refusedA } from './answer.ts';
import { findChallenge } from '../store/certificates.ts';
import type { Store } from '../store/store.ts';
import { probeStore } from '../store/tenants.ts';
import { createServe, type Route, type ServeParts, type Services } from './api/route.ts';
import { apiRoutes } from './api/table.ts';
import {
  originOf,
  preflights,
  refuseOver,
  translationFor,
  validOrigin,
  type Context,
  type RequestContext,
  type State,
} from './context.ts';
import { createOwnerPages, type OwnerPageParts } from './owner-pages.ts';
import { createConsole } from './console.ts';
import { createConfirm, createUnsubscribe, type LinkParts } from './links.ts';
import { errorPage } from './pages/error.ts';
import { layout } from './pages/layout.ts';
import { openApi } from './openapi/document.ts';
import { referencePage } from './pages/reference.ts';
import { createChallengeHandler, createKit, type ChallengeParts, type KitFile } from './kit/kit.ts';
import type { Metrics } from './metrics.ts';

export interface TableParts extends Services, ServeParts, LinkParts, OwnerPageParts, ChallengeParts {
  readonly freeSpace: FreeSpace;
  /** TLS is spoken nowhere without one. */
  readonly certificate?: CertificateKeeper | undefined;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly snapshot: () => Snapshot;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  readonly queueProblem: () => string | undefined;
  readonly metrics: Pick<Metrics, 'answer'>;
}

type Handler = (context: RequestContext, params: Readonly<Record<string, string>>) => Answer | Promise<Answer>;

/** The API's routes answer with and without these. */
const PREFIX = /^\/(?:api|v1)(?=\/)/;
const KIT: readonly KitFile[] = ['/postern.js', '/postern.mjs', '/postern.d.mts'];
const EXACT = { strict: true, sensitive: true };

/** Mounts all routes; `forms` answers at the forms' addresses. Unknown paths are 404, known ones with another method 405. */
export function mountRoutes(app: Koa<State>, parts: TableParts, forms: Koa.Middleware<State>): void {
  const routes = apiRoutes(parts);
  const reference = createReference(routes, parts.version);
  const pages = new Router<State>(EXACT);
  pages.get('/', answering(front));
  pages.get(
    '/healthz',
    answering(() => json({ status: 'ok' })),
  );
  pages.get('/readyz', answering(readyz(parts)));
  // On the Unix socket alone; on the public side there is no such address.
  pages.get(
    '/metrics',
    answering(({ local, id }) => (local ? parts.metrics.answer() : refusedA(refuse('NOT_FOUND'), id))),
  );
  pages.get('/.well-known/security.txt', answering(securityTxt));
  pages.get('/.well-known/mta-sts.txt', answering(mtaSts));
  pages.get('/.well-known/acme-challenge/:token', answering(acmeChallenge(parts)));
  pages.get(
    '/openapi.json',
    answering(() => reference().document),
  );
  pages.get(
    '/docs',
    answering(() => reference().page),
  );
  const kit = createKit(parts.version);
  for (const path of KIT)
    pages.get(
      path,
      answering((context) => kit(context, path)),
    );
  pages.get('/challenge', answering(createChallengeHandler(parts)));
  pages.register('/confirm/:token', ['GET', 'POST'], answering(createConfirm(parts)));
  pages.register('/unsubscribe/:token', ['GET', 'POST'], answering(createUnsubscribe(parts)));
  const webConsole = createConsole();
  pages.get('/console', answering(webConsole));
  pages.get('/console/{*rest}', answering(webConsole));
  const owner = createOwnerPages(parts);
  pages.register('/s/:token', ['GET', 'POST'], answering(owner.page));
  pages.get('/s/:token/files/:file', answering(owner.file));
  const api = apiRouters(routes, createServe(parts, routes));

  const cors = apiCors();

  app.use(async (ctx, next) => {
    const path = ctx.path.replace(PREFIX, '');
    const found = api.get(firstSegment(path));
    if (found === undefined) return void (await next());
    Object.assign(ctx, { newRouterPath: path });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it wants of the context it adds itself
    const own = ctx as RouterContext<State>;
    await cors(ctx, () => limited(ctx, async () => void (await found.middleware(own, next))));
  });
  app.use(forms);
  app.use(cors);
  app.use(limited);
  app.use(pages.routes());
  app.use((ctx) => {
    const path = ctx.path.replace(PREFIX, '');
    const known = [pages.match(ctx.path, ''), api.get(firstSegment(path))?.router.match(path, '')];
    const methods = known.flatMap((match) => match?.path ?? []).flatMap((layer) => layer.methods);
    const headers = { Allow: [...new Set(methods)].join(', ') };
    const refusal = methods.length === 0 ? refuse('NOT_FOUND') : refuse('METHOD_NOT_ALLOWED', { headers });
    ctx.state.answer = refused(ctx.state.context, refusal);
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
      answering((context, params) => serve(route, context, params)),
    );
    routers.set(segment, router);
  }
  return new Map([...routers].map(([segment, router]) => [segment, { router, middleware: router.routes() }]));
}

function firstSegment(path: string): string {
  return path.split('/', 2)[1] ?? '';
}

/** The page of the server's own address: what it is, and where to go on. */
function front({ snapshot }: RequestContext): Answer {
  const { hostname, operator, console: webConsole } = snapshot.server.server;
  const content = html`<h1>${hostname}</h1>
<p>This server receives web form submissions, and sends and forwards email. It runs Postern.</p>
<ul>
${webConsole.enabled ? html`<li><a href="/console">Console</a></li>` : ''}
<li><a href="/docs">API reference</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/.well-known/security.txt">Report a security problem</a></li>
</ul>
<p class="soft">To report abuse, write to <a href="mailto:${encodeURI(operator)}">${operator}</a>.</p>`;
  return page(layout({ title: hostname, content }));
}

async function limited(ctx: Context, next: Koa.Next): Promise<void> {
  const { context } = ctx.state;
  const refusal = refuseOver(context.limit, context);
  if (refusal === undefined) await next();
  else ctx.state.answer = refused(context, refusal);
}

/** A route's handler as middleware; it gets the parts of the path, percent-decoded. */
function answering(handler: Handler): RouterMiddleware<State> {
  return async ({ state, params }) => {
    state.answer = await handler(state.context, params);
  };
}

const API_HEADERS =
  'content-type, accept, authorization, x-api-key, service-api-key, idempotency-key, x-requested-with, user-agent';

/** Pages of `server.http.cors_origins` alone may call the API from a browser. A key in a page is its owner's risk. */
function apiCors(): Koa.Middleware<State> {
  const preflight = preflights('GET, POST, PUT, PATCH, DELETE', API_HEADERS);
  return async (ctx, next) => {
    const { method, request, snapshot } = ctx.state.context;
    const { origin = '' } = request.headers;
    const asking = origin === '' ? undefined : originOf(validOrigin(origin));
    const { cors_origins: origins } = snapshot.server.server.http;
    const mayCall = asking !== undefined && origins.some((one) => originOf(one) === asking);
    ctx.state.readableFor = mayCall ? origin : '';
    await (method === 'OPTIONS' ? preflight(ctx, next) : next());
  };
}

/** API clients get JSON; somebody who typed the address gets a page. */
export function refused(context: RequestContext, refusal: Refusal): Answer {
  if (context.request.headers['sec-fetch-mode'] !== 'navigate') return refusedA(refusal, context.id);
  const translation = translationFor(context);
  return page(errorPage({ refusal, translation, requestId: context.id }), statusOf(refusal), refusal.headers);
}

/** So often at most is the database written to, and the bucket, whose requests cost. */
const PROBE_MS = 1000;
const BUCKET_PROBE_MS = 10_000;
/** Whoever asks does not wait for longer. */
const MAX_BUCKET_PROBE_MS = 5000;

/**
 * `/readyz`: 200, or 503 with the reasons. The database must take a write, the bucket of `storage.url` as well, the
 * disk have space, the queue move. Details of
 * the configuration are shown to the operator alone, because they name files.
 */
function readyz({ store, freeSpace, clock, log, snapshot, queueProblem, certificate }: TableParts): Handler {
  const { bucket } = store.blobs;
  let probed = { at: -Infinity, problem: Promise.resolve<string | undefined>(undefined) };
  let probedBucket = { at: -Infinity, problem: Promise.resolve<string | undefined>(undefined) };

  async function probe(): Promise<string | undefined> {
    try {
      await probeStore(store);
      return undefined;
    } catch (error) {
      log.error('readyz.database_failed', errorFields(error));
      return isDamaged(error) ? 'the database is damaged: restore a backup' : 'the database cannot be written';
    }
  }

  async function probeBucket(): Promise<string | undefined> {
    if (bucket === undefined) return undefined;
    try {
      await withDeadline(MAX_BUCKET_PROBE_MS, bucket.name, bucket.probe());
      return undefined;
    } catch (error) {
      log.error('readyz.storage_failed', errorFields(error));
      return 'the storage.url bucket cannot be read or written';
    }
  }

  return async (context) => {
    const now = clock.monotonic();
    if (now - probed.at >= PROBE_MS) probed = { at: now, problem: probe() };
    if (now - probedBucket.at >= BUCKET_PROBE_MS) probedBucket = { at: now, problem: probeBucket() };
    const isFull = freeSpace.below(snapshot().server.limits.free_disk);
    const checks = {
      database: check(await probed.problem),
      disk: check(isFull ? 'the disk has less free space than limits.free_disk' : undefined),
      queue: check(queueProblem()),
      ...(bucket === undefined ? {} : { storage: check(await probedBucket.problem) }),
    };
    const ready = Object.values(checks).every(({ ok }) => ok);
    const body = {
      status: ready ? 'ready' : 'not ready',
      checks,
      relay: await relayState(store, clock.now()),
      configuration: configuration(context),
      ...(context.local ? { certificates: certificate?.states().map(certificateOf) ?? [] } : {}),
    };
    return json(body, ready ? 200 : 503, ready ? undefined : { 'Retry-After': '5' });
  };
}

function check(reason: string | undefined) {
  return { ok: reason === undefined, reason };
}

/** A smarthost that fails stops nothing that is accepted here. Why it is paused is the operator's business. */
async function relayState(store: Store, now: number): Promise<object | undefined> {
  // The check of the database says what is wrong with it.
  const paused = await relayPause(store, now).catch(() => undefined);
  if (paused === undefined) return undefined;
  return { paused_until: isoTime(paused.until), hint: 'postern queue list shows why' };
}

/** Problems of the configuration stop nothing: the last good version runs on. */
function configuration({ snapshot, local }: RequestContext): object {
  const { problems, waiting } = snapshot;
  if (local) return { problems, waiting };
  return { problems: problems.length, ...(problems.length > 0 ? { hint: 'postern config check shows them' } : {}) };
}

function certificateOf({ name, expiresAt, failure }: CertificateState): object {
  const tried = failure && { at: isoTime(failure.at), reason: failure.reason, next: isoTime(failure.nextAt) };
  return { name, expires_at: expiresAt === undefined ? null : isoTime(expiresAt), failure: tried ?? null };
}

const CACHED = { 'Cache-Control': 'public, max-age=300' };

/** The OpenAPI document and the reference page, made when they are first requested. */
function createReference(routes: readonly Route[], version: string) {
  let made: { document: Answer; page: Answer } | undefined;
  return () => {
    if (made !== undefined) return made;
    const document = openApi(routes, version);
    // Anybody's page or tool may read it: there is nothing in it that is not published.
    made = {
      document: json(document, 200, { ...CACHED, 'Access-Control-Allow-Origin': '*' }),
      page: page(referencePage(document), 200, CACHED),
    };
    return made;
  };
}

const DAY = 86_400_000;
const VALID = 90 * DAY;

/** RFC 9116. */
function securityTxt({ at, snapshot }: RequestContext): Answer {
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

/** The proof that a certificate authority asks for (RFC 8555 §8.3). */
function acmeChallenge({ store }: TableParts): Handler {
  return async ({ id }, { token = '' }) => {
    const found = await findChallenge(store, token);
    if (found === undefined) return refusedA(refuse('NOT_FOUND'), id);
    return { status: 200, type: 'application/octet-stream', body: found.response };
  };
}

const HOST = /^mta-sts\.(.+?)\.?(?::\d+)?$/;

/** The MTA-STS policy of a domain, at `mta-sts.<domain>` (RFC 8461 §3.3). */
function mtaSts({ request, snapshot, id }: RequestContext): Answer {
  const [, name = ''] = HOST.exec((request.headers.host ?? '').toLowerCase()) ?? [];
  const domain = snapshot.domains.get(name);
  const { server, tls } = snapshot.server;
  if (domain === undefined || tlsModeOf({ server, tls }) === 'off' || !domain.takesMail) {
    return refusedA(refuse('NOT_FOUND', { message: 'There is no MTA-STS policy for this host.' }), id);
  }
  return { status: 200, type: 'text/plain; charset=utf-8', body: policyText(server.hostname) };
}
