/**
 * The cookie of a session in the console, and the requests in which it counts: those that a page of this server made by
 * script. A browser says so in `Sec-Fetch-Site`, which no page can set, and for whatever changes something in `Origin`;
 * a page elsewhere, a subdomain, a sandboxed frame, a form post and a typed address are none. Forms' addresses never look
 * at it, and with an API key it counts for nothing.
 */
import { accountIdOf, inEnvironment, type Principal } from '../accounts/principal.ts';
import { consoleOriginOf, isLoopbackName, MAX_SESSION_MS, type Sessions, type SignedIn } from '../accounts/sessions.ts';
import type { Authenticator } from '../accounts/authenticate.ts';
import { addressInRanges } from '../dns/networks.ts';
import { baseUrlOf } from '../config/schema-server.ts';
import type { TenantRow } from '../store/tables.ts';
import { type Refusal, refuse } from './answer.ts';
import { type RequestContext, header } from './context.ts';

/** With the prefix a browser takes the cookie from this very host alone, over TLS (RFC 6265bis §4.1.3.2). */
const SECURE_NAMES = { session: '__Host-postern', browser: '__Host-postern-browser' } as const;
/** Browsers disagree on secure cookies over plain HTTP on the machine itself. */
const LOOPBACK_NAMES = { session: 'postern', browser: 'postern-browser' } as const;

type CookieKind = keyof typeof SECURE_NAMES;

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

type Requested = Pick<RequestContext, 'request' | 'method' | 'query' | 'local' | 'ip' | 'snapshot'>;

/** Whether the client named the machine itself as the host, and is on it or told to name it so. */
export function isOnLoopback({ request, local, ip, snapshot }: Requested): boolean {
  const host = URL.parse(`http://${request.headers.host ?? ''}`);
  if (local || host === null || !isLoopbackName(host.hostname)) return false;
  return addressInRanges(ip, LOOPBACK) || new URL(baseUrlOf(snapshot.server)).host === host.host;
}

/** The server's own origin, where the request names it as its own. */
function ownOrigin(requested: Requested): string | undefined {
  const { request, snapshot } = requested;
  const { origin, host = '' } = request.headers;
  if (origin === undefined) return undefined;
  if (origin === new URL(baseUrlOf(snapshot.server)).origin) return origin;
  return isOnLoopback(requested) && origin === `http://${host}` ? origin : undefined;
}

/** Whether a page of this server made the request by script. */
function isOwnScript(requested: Requested): boolean {
  const { request, method, local } = requested;
  const { headers } = request;
  if (local || headers['sec-fetch-site'] !== 'same-origin') return false;
  if (method === 'GET' || method === 'HEAD') return headers.origin === undefined || ownOrigin(requested) !== undefined;
  return headers['sec-fetch-mode'] !== 'navigate' && ownOrigin(requested) !== undefined;
}

/** The origin in which a page of this server signs in or out, or why that is not possible. */
export function signInOrigin(requested: Requested): string | Refusal {
  const origin = isOwnScript(requested) ? ownOrigin(requested) : undefined;
  const isSafe = origin !== undefined && (origin.startsWith('https:') || isLoopbackName(new URL(origin).hostname));
  if (isSafe) return origin;
  const place = `${consoleOriginOf(requested.snapshot.server)}/console/`;
  const message = `You can sign in only on the page ${place}, over HTTPS unless you are on the server itself.`;
  return refuse('ORIGIN_NOT_ALLOWED', { message });
}

/** The value of the cookie of this kind, whoever made the request. */
export function cookieOf(requested: Requested, kind: CookieKind): string | undefined {
  const cookies = new Map(
    (header(requested.request, 'cookie') ?? '').split(';').map((pair): [string, string] => {
      const equals = pair.indexOf('=');
      return [pair.slice(0, equals).trim(), pair.slice(equals + 1).trim()];
    }),
  );
  const secure = cookies.get(SECURE_NAMES[kind]);
  return secure ?? (isOnLoopback(requested) ? cookies.get(LOOPBACK_NAMES[kind]) : undefined);
}

/** The header that has a browser keep a value for so many seconds, for pages of this origin; 0 forgets it. */
export function setCookie(
  origin: string,
  { kind, value, seconds }: { readonly kind: CookieKind; readonly value: string; readonly seconds: number },
): Record<string, string> {
  const isSecure = origin.startsWith('https:');
  const name = (isSecure ? SECURE_NAMES : LOOPBACK_NAMES)[kind];
  const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  return { 'Set-Cookie': `${name}=${value}; ${attributes}` };
}

/** The header that has the browser keep the token of a session. */
export function sessionCookie(origin: string, token: string): Record<string, string> {
  return setCookie(origin, { kind: 'session', value: token, seconds: Math.floor(MAX_SESSION_MS / 1000) });
}

const TENANT = 'x-postern-tenant';
const ENVIRONMENT = 'x-postern-environment';

/** Parameters of the query that name what headers name elsewhere: links, images and event streams have no headers of ours. */
export const VIEW_PARAMETERS: ReadonlySet<string> = new Set([TENANT, ENVIRONMENT]);

/** Which account or environment a request in a session is for, if it names one. */
function viewed({ request, method, query }: Requested, name: string): string | undefined {
  const named = header(request, name);
  if (named !== undefined || method !== 'GET') return named;
  return new URLSearchParams(query).get(name) ?? undefined;
}

/** A session, with what the request names. */
export interface RequestSession extends SignedIn {
  /** The account that the operator acts for. */
  readonly actingFor: TenantRow | undefined;
}

interface SessionServices {
  readonly sessions: Sessions;
  readonly authenticator: Authenticator;
  /** Whether it is somebody's use of the session, which then lasts longer; it is by default. */
  readonly isUse?: boolean;
}

/** The session that counts for this request, for the account and the environment that it names; undefined where there is none. */
export async function sessionOf(
  requested: Requested,
  parts: SessionServices,
  token = cookieOf(requested, 'session'),
): Promise<RequestSession | Refusal | undefined> {
  if (!requested.snapshot.server.server.console.enabled || !isOwnScript(requested)) return undefined;
  const { sessions, authenticator, isUse = true } = parts;
  const client = isUse ? clientOf(requested) : undefined;
  const found = token === undefined ? undefined : await sessions.find(token, client);
  if (found === undefined) return undefined;
  const acting = await actingPrincipal(found, requested, authenticator);
  if ('kind' in acting) return acting;
  const environment = viewed(requested, ENVIRONMENT) ?? acting.environment;
  if (environment !== 'live' && environment !== 'test') {
    return refuse('AUTH_FORBIDDEN', { message: 'X-Postern-Environment must be live or test.' });
  }
  // What a test key made is a test key's session.
  const isTestKey = found.principal.environment === 'test';
  const principal = inEnvironment(acting, isTestKey ? 'test' : environment);
  const account = accountIdOf(principal);
  const actingFor = account === found.account.id ? undefined : { ...principal.tenant, id: account };
  return { ...found, principal, actingFor };
}

/** Who asks in a session, where no key says it. */
export async function sessionPrincipal(
  context: RequestContext,
  parts: SessionServices,
): Promise<Principal | Refusal | undefined> {
  const session = await sessionOf(context, parts);
  return session === undefined || 'kind' in session ? session : session.principal;
}

/** The operator's session may act for any account, which `X-Postern-Tenant` names. */
async function actingPrincipal(
  { account, isOperator, principal }: SignedIn,
  requested: Requested,
  authenticator: Pick<Authenticator, 'operator'>,
): Promise<Principal | Refusal> {
  const wanted = viewed(requested, TENANT);
  if (wanted === undefined || wanted === account.id) return principal;
  if (!isOperator) return refuse('AUTH_FORBIDDEN', { message: 'Only the operator may act for another account.' });
  const acting = await authenticator.operator(wanted);
  if (acting === undefined) return refuse('AUTH_FORBIDDEN', { message: `There is no account ${wanted.slice(0, 60)}.` });
  return { ...acting, session: principal.session && { ...principal.session, isActing: true } };
}

/** What the browser shows of itself. */
export function clientOf({ request, ip }: Requested): { ip: string; userAgent: string } {
  return { ip, userAgent: header(request, 'user-agent') ?? '' };
}
