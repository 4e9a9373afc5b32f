/**
 * A request to the API, from its route to its answer. The order of the checks is part of the contract: who asks, what it
 * may, how often, whether it was answered before, and only then what it says.
 */
import { hash } from 'node:crypto';
import type { z } from 'zod';
import type { Authenticator } from '../../accounts/authenticate.ts';
import type { Idempotency } from '../../accounts/idempotency.ts';
import { accountIdOf, decide, type Principal } from '../../accounts/principal.ts';
import type { Sessions } from '../../accounts/sessions.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import type { Log } from '../../lib/log.ts';
import {
  type Answer,
  json,
  refusedA,
  shapeA,
  lacksPermission,
  type Refusal,
  refuse,
  statusOf,
  unavailable,
  wordsOf,
} from '../answer.ts';
import { principalOf, refuseMissingKey, type Exchange, refuseOver, answerOnce, type Stored } from '../context.ts';
import { collect, discardRest, isJson, malformed, parametersOf, refuseBody, textOf } from '../entries.ts';
import { parseJsonValue } from '../json-entries.ts';
import { sessionPrincipal, VIEW_PARAMETERS } from '../session-cookie.ts';
import { invalid, type Route, type Services } from './route.ts';

export interface ServeParts extends Pick<Services, 'requests'> {
  readonly idempotency: Idempotency;
  readonly log: Log;
  readonly authenticator: Authenticator;
  readonly sessions: Sessions;
}

const DEFAULT_MAX_BODY_BYTES = 1024 * 1024;

/** The function that serves all these routes of the API. Rejects with StoreError, ClientGone or a fault of ours. */
export function createServe(parts: ServeParts, routes: readonly Route[]) {
  const { authenticator, requests } = parts;
  const room = new Room();

  return async (route: Route, exchange: Exchange, params: Readonly<Record<string, string>>): Promise<Answer> => {
    // Whoever shows a key is its holder, whatever cookie comes with it.
    const principal =
      route.permission === 'none'
        ? undefined
        : ((await principalOf(exchange, authenticator)) ?? (await sessionPrincipal(exchange, parts)));
    if (principal !== undefined && 'kind' in principal) return refusedApi(route, principal, exchange);
    const denied = deny(route, principal, exchange);
    const outcome = await (denied ??
      attempt({ route, exchange, params, principal }).catch((error: unknown) => {
        if (principal !== undefined) requests.count(principal, 500);
        throw error;
      }));
    const answer = 'kind' in outcome ? refusedApi(route, outcome, exchange) : outcome;
    if (principal !== undefined) requests.count(principal, answer.status);
    return answer;
  };

  async function attempt(asked: Asked): Promise<Answer | Refusal> {
    const { exchange, principal } = asked;
    const over = refuseOver(principal && (await requests.take(principal)), exchange);
    if (over !== undefined) return over;
    const leave = room.enter(principal?.tenant.id ?? '', sizeOf(asked));
    if (leave === undefined) return unavailable('Too many large requests are in progress.');
    try {
      return await begin(asked);
    } finally {
      leave();
    }
  }

  async function begin(asked: Asked): Promise<Answer | Refusal> {
    const { route, exchange, principal } = asked;
    const text = route.body === undefined ? '' : await readText(exchange, route);
    if (typeof text === 'object') return text;
    if (route.idempotent !== true || principal === undefined) return settle(asked, text, () => []);
    const scope = `api:${principal.key?.id ?? principal.tenant.id}:${route.method} ${route.path}`;
    return answerOnce(parts, { exchange, scope, hash: () => hash('sha256', text) }, async (stored) => {
      const outcome = await settle(asked, text, stored);
      return 'kind' in outcome ? refusedApi(route, outcome, exchange) : outcome;
    });
  }

  async function settle(asked: Asked, text: string, stored: Stored): Promise<Answer | Refusal> {
    const { route, exchange, params, principal } = asked;
    if (holdsNul(params)) return refuse('NOT_FOUND');
    const query = route.query === undefined ? { ok: undefined } : parseQuery(route.query, exchange, principal);
    if ('kind' in query) return query;
    const body = route.body === undefined ? { ok: undefined } : parseBody(route.body, text);
    if ('kind' in body) return body;
    const call = { exchange, params, query: query.ok, body: body.ok, stored };
    const outcome = await route.handle({ ...call, principal });
    if (principal?.environment !== 'test' || !('kind' in outcome) || statusOf(outcome) !== 404) return outcome;
    return (await lookAmongLive(route, { ...call, principal, stored: () => [] })) ?? outcome;
  }

  /** What a test key is told of a thing that its partition has not; undefined where the live account has none either. */
  async function lookAmongLive(
    route: Route,
    { principal, ...call }: Parameters<Route['handle']>[0] & { principal: Principal },
  ): Promise<Answer | Refusal | undefined> {
    const tenant = { ...principal.tenant, id: accountIdOf(principal) };
    if (route.readsLive === true) return route.handle({ ...call, principal: { ...principal, tenant } });
    const look = lookAt(route, routes);
    if (look === undefined) return undefined;
    const query = look === route || look.query === undefined ? { ok: call.query } : parse(look.query, {});
    if ('kind' in query) return undefined;
    const live = { ...principal, tenant, environment: 'live' } as const;
    const found = await look.handle({ ...call, query: query.ok, principal: live });
    return 'kind' in found ? undefined : refuse('AUTH_TEST_KEY');
  }
}

/** The route that shows the thing which this one is about: `GET /submissions/:id` for `POST /submissions/:id/spam`. */
function lookAt({ path }: Route, routes: readonly Route[]): Route | undefined {
  return routes
    .filter((one) => one.method === 'GET' && /[:*]/.test(one.path) && `${path}/`.startsWith(`${one.path}/`))
    .sort((a, b) => b.path.length - a.path.length)[0];
}

function deny(
  { path, permission, domains }: Route,
  principal: Principal | undefined,
  { ip }: Exchange,
): Refusal | undefined {
  if (permission === 'none') return undefined;
  if (principal === undefined) return refuseMissingKey();
  if (principal.session?.mustSetUpTotp === true && !path.startsWith('/auth/')) {
    return refuse('AUTH_FORBIDDEN', { message: 'Set up one-time codes first: this server requires them.' });
  }
  const denial = decide(principal, { permission, domain: domains === 'refuse' ? 'none' : 'narrowed', ip });
  if (denial !== 'AUTH_FORBIDDEN') return denial && refuse(denial);
  return lacksPermission(permission);
}

interface Asked {
  readonly route: Route;
  readonly exchange: Exchange;
  readonly params: Readonly<Record<string, string>>;
  /** Nobody where the route needs no key. */
  readonly principal: Principal | undefined;
}

/** Bytes of the body at most, as far as they are known before it comes. */
function sizeOf({ route, exchange }: Asked): number {
  if (route.body === undefined) return 0;
  const { 'content-length': length, 'transfer-encoding': coding } = exchange.request.headers;
  const most = maxBody(route, exchange);
  return Math.min(most, coding === undefined ? Number(length ?? 0) : most);
}

function maxBody({ maxBody: most = DEFAULT_MAX_BODY_BYTES }: Route, { snapshot }: Exchange): number {
  return most === 'limits.body' ? snapshot.server.limits.body : most;
}

/** The body as text, or why it cannot be read. */
async function readText(exchange: Exchange, route: Route): Promise<string | Refusal> {
  const { request } = exchange;
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = request.headers;
  const most = maxBody(route, exchange);
  const isEmpty = length === '0' || (length === undefined && coding === undefined);
  const refusal =
    refuseBody(request, most) ?? (isJson(type) || (isEmpty && type === undefined) ? undefined : notJson());
  const bytes = refusal ?? (await collect(exchange, most));
  if (Buffer.isBuffer(bytes)) return textOf(bytes, parametersOf(type ?? '').get('charset'));
  if (!request.complete) discardRest(request);
  return bytes;
}

function notJson(): Refusal {
  return refuse('UNSUPPORTED_MEDIA_TYPE', {
    message: 'Send application/json.',
    headers: { Accept: 'application/json' },
  });
}

/** No body at all counts as `{}`: many routes need nothing. */
function parseBody(schema: z.ZodType, text: string): { readonly ok: unknown } | Refusal {
  if (text.trim() === '') return parse(schema, {});
  const parsed = parseJsonValue(text);
  if ('kind' in parsed) return parsed;
  if (text.includes(String.raw`\u0000`) && holdsNul(parsed.value)) return malformed('Text must not hold U+0000.');
  return parse(schema, parsed.value);
}

/** Whether a text in it holds the one character that not every database can keep. The reader has bounded its depth. */
function holdsNul(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0');
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, member]) => name.includes('\0') || holdsNul(member));
}

function parse(schema: z.ZodType, value: unknown): { readonly ok: unknown } | Refusal {
  const result = schema.safeParse(value, { reportInput: true });
  return result.success ? { ok: result.data } : invalid(result.error, schema);
}

function parseQuery(
  schema: z.ZodType,
  { query: text }: Exchange,
  principal: Principal | undefined,
): { readonly ok: unknown } | Refusal {
  const all = queryOf(text);
  const query = principal?.session === undefined ? all : withoutView(all);
  return holdsNul(query) ? malformed('The query must not hold U+0000.') : parse(schema, query);
}

/** What a session is asked for was read before. */
function withoutView(query: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([name]) => !VIEW_PARAMETERS.has(name)));
}

/** Parameters of the query; one that is repeated is a list. */
function queryOf(text: string): Record<string, unknown> {
  const parameters = new URLSearchParams(text);
  return Object.fromEntries(
    [...new Set(parameters.keys())].map((name) => {
      const values = parameters.getAll(name);
      return [name, values.length === 1 ? values[0] : values];
    }),
  );
}

// The answer of a request to the API that is not done.

/** Names of errors as Resend's clients know them. */
const RESEND: Partial<Record<ErrorCode, string>> = {
  AUTH_MISSING_KEY: 'missing_api_key',
  AUTH_INVALID_KEY: 'invalid_api_key',
  AUTH_EXPIRED_KEY: 'invalid_api_key',
  AUTH_REVOKED_KEY: 'invalid_api_key',
  AUTH_FORBIDDEN: 'restricted_api_key',
  AUTH_IP_NOT_ALLOWED: 'restricted_api_key',
  AUTH_DOMAIN_NOT_ALLOWED: 'restricted_api_key',
  PLAN_LIMIT: 'restricted_api_key',
  DOMAIN_NOT_VERIFIED: 'invalid_from_address',
  VALIDATION_FAILED: 'validation_error',
  BODY_MALFORMED: 'validation_error',
  NOT_FOUND: 'not_found',
  TEMPLATE_NOT_FOUND: 'not_found',
  METHOD_NOT_ALLOWED: 'method_not_allowed',
  IDEMPOTENCY_CONFLICT: 'invalid_idempotent_request',
  RATE_LIMITED: 'rate_limit_exceeded',
  INTERNAL: 'internal_server_error',
  OUTCOME_UNKNOWN: 'internal_server_error',
  UNAVAILABLE: 'internal_server_error',
};

/** Shape A; with Resend's members beside it where the route is Resend's. */
function refusedApi({ resend }: Pick<Route, 'resend'>, refusal: Refusal, { id }: Pick<Exchange, 'id'>): Answer {
  if (resend !== true) return refusedA(refusal, id);
  const status = statusOf(refusal);
  const name = RESEND[refusal.code] ?? 'application_error';
  return json({ statusCode: status, name, message: wordsOf(refusal), ...shapeA(refusal, id) }, status, refusal.headers);
}

// Large bodies are in memory as a whole: so many of them at a time, in all and of one tenant. Small ones do not count.

const LARGE = 1024 * 1024;
const MOST = 128 * LARGE;
const MOST_OF_ONE = MOST / 2;

export class Room {
  readonly #taken = new Map<string, number>();
  #all = 0;

  /** Takes room for a body; answers how to give it back, or undefined where there is none now. */
  enter(tenant: string, bytes: number): (() => void) | undefined {
    if (bytes <= LARGE) return () => undefined;
    const own = this.#taken.get(tenant) ?? 0;
    if (this.#all + bytes > MOST || own + bytes > MOST_OF_ONE) return undefined;
    this.#move(tenant, bytes);
    return () => this.#move(tenant, -bytes);
  }

  #move(tenant: string, bytes: number): void {
    const own = (this.#taken.get(tenant) ?? 0) + bytes;
    this.#all += bytes;
    if (own === 0) this.#taken.delete(tenant);
    else this.#taken.set(tenant, own);
  }
}
