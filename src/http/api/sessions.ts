/**
 * Signing in to the console and out of it, the sessions of an account, and its one-time codes. Whatever a stranger can try
 * here is limited by address, and by the account or mailbox that it is about.
 */
import { hash } from 'node:crypto';
import { accountIdOf, type Principal } from '../../accounts/principal.ts';
import { clientBucket, type Limit, type Verdict } from '../../accounts/rate-limits.ts';
import { MAILED_LINK_MS, type SignIn } from '../../accounts/sessions.ts';
import { totpUri } from '../../accounts/totp.ts';
import * as contract from '../../contract/sessions.ts';
import { canonicalMailbox } from '../../lib/addresses.ts';
import type { SessionRow } from '../../store/tables.ts';
import { type Refusal, refuse } from '../answer.ts';
import { type RequestContext, rateLimited, refuseOver, refusalOfKey } from '../context.ts';
import {
  clientOf,
  cookieOf,
  isOnLoopback,
  type RequestSession,
  sessionCookie,
  sessionOf,
  setCookie,
  signInOrigin,
} from '../session-cookie.ts';
import {
  type DataOf,
  implement,
  invalidAt,
  success,
  notFound,
  type Outcome,
  pageOf,
  type Route,
  type Services,
} from './route.ts';

const MINUTE_MS = 60_000;
const PER_CLIENT: Limit = { count: 30, windowMs: 10 * MINUTE_MS };
const MAIL_PER_CLIENT: Limit = { count: 10, windowMs: 60 * MINUTE_MS };
const MAIL_PER_MAILBOX: Limit = { count: 5, windowMs: 60 * MINUTE_MS };
const MAIL_PER_SERVER: Limit = { count: 300, windowMs: 60 * MINUTE_MS };

/** In the place of a token: whoever signed out in the local environment is not signed in again at once. */
const SIGNED_OUT = 'signed-out';
const SIGNED_OUT_SECONDS = 60;

/** Of cookies over plain HTTP. */
const LOOPBACK_ORIGIN = 'http://localhost';

type Shown = DataOf<typeof contract.sessions.show>;

/** `/auth/session`, `/auth/sessions…`, `/auth/totp…` */
export function sessionsRoutes(services: Services): Route[] {
  const { sessions, limits, authenticator } = services;
  const { totp } = sessions;

  async function capped(
    context: RequestContext,
    caps: readonly (readonly [string, Limit])[],
  ): Promise<Refusal | undefined> {
    for (const [bucket, limit] of caps) {
      const refusal = refuseOver(await limits.take(`sign-in:${bucket}`, limit), context);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  }

  /** The answer to a key or a link. */
  function answerTo(
    done: SignIn,
    origin: string,
    context: RequestContext,
  ): Outcome<{ state: 'signed_in' | 'code_needed' }> {
    switch (done.kind) {
      case 'signed in':
        return success({ state: 'signed_in' }, sessionCookie(origin, done.token));
      case 'code needed':
        return success({ state: 'code_needed' });
      case 'wrong key':
        return done.fault === 'AUTH_IP_NOT_ALLOWED' ? refuse(done.fault) : refusalOfKey(done.fault);
      case 'wrong link':
        return refuse('AUTH_INVALID_LINK', {
          message: done.isOtherBrowser
            ? 'This link works only in the browser in which you requested it. Open it there, or request a new one here.'
            : undefined,
        });
      case 'wrong code':
        return refuse('AUTH_INVALID_CODE');
      case 'limited':
        return tooManyCodes(done.verdict, context);
    }
  }

  async function requestMail(
    context: RequestContext,
    email: string,
    origin: string,
  ): Promise<Outcome<{ state: 'mail_sent' }>> {
    const over = await capped(context, [
      [`mail:client:${clientBucket(context.ip)}`, MAIL_PER_CLIENT],
      [`mail:to:${hash('sha256', canonicalMailbox(email))}`, MAIL_PER_MAILBOX],
      ['mail:server', MAIL_PER_SERVER],
    ]);
    if (over !== undefined) return over;
    const browser = await sessions.requestLink(email, origin);
    return success(
      { state: 'mail_sent' },
      setCookie(origin, { kind: 'browser', value: browser, seconds: MAILED_LINK_MS / 1000 }),
    );
  }

  /** The token of a new session, where this is the local environment: for whoever opens the console on the machine itself. */
  async function beginDev(context: RequestContext): Promise<string | undefined> {
    const isOwn = context.request.headers['sec-fetch-site'] === 'same-origin';
    if (!sessions.isDev || !isOwn || !isOnLoopback(context)) return undefined;
    return cookieOf(context, 'session') === SIGNED_OUT ? undefined : sessions.beginDev(clientOf(context));
  }

  async function shown(found: RequestSession, { snapshot }: RequestContext): Promise<NonNullable<Shown['session']>> {
    const { row, account, isOperator: operator, actingFor, principal } = found;
    const { permissions, environment, session } = principal;
    return {
      ...row,
      tenant: account,
      operator,
      acting_for: actingFor,
      environment,
      permissions: session?.mustSetUpTotp === true ? [] : [...permissions],
      totp: {
        enabled: await totp.isEnabled(account.id),
        required: snapshot.server.server.console.require_totp,
      },
    };
  }

  return [
    ...implement(contract.sessions, {
      async show({ context }) {
        const off = refuseWhereOff(context);
        if (off !== undefined) return off;
        const { isDev: dev } = sessions;
        const known = await sessionOf(context, services);
        const token = known === undefined ? await beginDev(context) : undefined;
        const found = token === undefined ? known : await sessionOf(context, services, token);
        if (found === undefined) return success({ session: null, dev });
        if ('kind' in found) return found;
        const headers = token === undefined ? undefined : sessionCookie(LOOPBACK_ORIGIN, token);
        return success({ session: await shown(found, context), dev }, headers);
      },
      async signIn({ context, body: { key, email, token, code } }) {
        const off = refuseWhereOff(context);
        if (off !== undefined) return off;
        const origin = signInOrigin(context);
        if (typeof origin !== 'string') return origin;
        const over = await capped(context, [[`client:${clientBucket(context.ip)}`, PER_CLIENT]]);
        if (over !== undefined) return over;
        if (email !== undefined) return requestMail(context, email, origin);
        const client = clientOf(context);
        if (key !== undefined) return answerTo(await sessions.byKey(key, code, client), origin, context);
        const browser = cookieOf(context, 'browser');
        return answerTo(await sessions.byLink(token ?? '', code, { ...client, browser }), origin, context);
      },
      async signOut({ context }) {
        const off = refuseWhereOff(context);
        if (off !== undefined) return off;
        const origin = signInOrigin(context);
        if (typeof origin !== 'string') return origin;
        const token = cookieOf(context, 'session');
        const found = token === undefined ? undefined : await sessions.find(token, clientOf(context));
        if (found !== undefined) await sessions.end(found.account.id, found.row.id);
        const gone = sessions.isDev
          ? setCookie(origin, { kind: 'session', value: SIGNED_OUT, seconds: SIGNED_OUT_SECONDS })
          : setCookie(origin, { kind: 'session', value: '', seconds: 0 });
        return success({ state: 'signed_out' }, gone);
      },
      async list({ principal, query: { limit, cursor } }) {
        if (isTestKey(principal)) return refuse('AUTH_TEST_KEY');
        const all = await sessions.list(accountIdOf(principal));
        const rest = cursor === undefined ? all : all.filter(({ id }) => id < cursor);
        const { page, next_cursor } = pageOf(rest, limit, ({ id }) => id);
        return success({ sessions: page.map((row) => listed(row, principal)), count: all.length, next_cursor });
      },
      async end({ principal, params: { id } }) {
        if (isTestKey(principal)) return refuse('AUTH_TEST_KEY');
        const account = accountIdOf(principal);
        const row = (await sessions.list(account)).find((one) => one.id === id);
        const isEnded = row !== undefined && (await sessions.end(account, id));
        return isEnded ? success(listed(row, principal)) : notFound('session', id);
      },
    }),
    ...implement(contract.totp, {
      async start({ principal, context }) {
        if (isTestKey(principal)) return refuse('AUTH_TEST_KEY');
        const secret = await totp.start(accountIdOf(principal));
        if (secret === undefined) {
          return refuse('CONFLICT', { message: 'One-time codes are already set up. Turn them off first.' });
        }
        const { hostname } = context.snapshot.server.server;
        return success({ secret, uri: totpUri({ secret, hostname, email: principal.tenant.email }) });
      },
      async confirm({ principal, context, body: { code } }) {
        if (isTestKey(principal)) return refuse('AUTH_TEST_KEY');
        const done = await totp.confirm(accountIdOf(principal), code);
        switch (done.kind) {
          case 'confirmed':
            return success({ recovery_codes: done.recoveryCodes });
          case 'wrong':
            return wrongCode(principal, context);
          case 'not started':
            return refuse('CONFLICT', { message: 'There is no secret to confirm. Start with POST /auth/totp.' });
          case 'limited':
            return tooManyCodes(done.verdict, context);
        }
      },
      async remove({ principal, context, body: { code } }) {
        if (isTestKey(principal)) return refuse('AUTH_TEST_KEY');
        const account = accountIdOf(principal);
        if (!(await totp.isEnabled(account))) return notSetUp();
        if (code === undefined) {
          if (!mayRemoveWithoutCode(principal, context)) return invalidAt('code', 'is missing');
          return (await totp.remove(account)) ? success({ enabled: false }) : notSetUp();
        }
        const check = await totp.check(account, code);
        if (check.kind === 'limited') return tooManyCodes(check.verdict, context);
        const isDone = check.kind === 'right' && (await totp.remove(account, check.unit));
        return isDone ? success({ enabled: false }) : wrongCode(principal, context);
      },
    }),
  ];

  async function wrongCode(principal: Principal, { ip }: RequestContext): Promise<Refusal> {
    const tenant = accountIdOf(principal);
    await authenticator.failed({ address: ip, last4: '', reason: 'AUTH_INVALID_CODE', tenant });
    return refuse('AUTH_INVALID_CODE');
  }
}

function refuseWhereOff({ snapshot }: RequestContext): Refusal | undefined {
  if (snapshot.server.server.console.enabled) return undefined;
  return refuse('NOT_FOUND', { message: 'This server has no console (server.console.enabled).' });
}

function notSetUp(): Refusal {
  return refuse('CONFLICT', { message: 'One-time codes are not set up.' });
}

/** Guessing at a code is refused on every way in, the Unix socket too. */
function tooManyCodes(verdict: Verdict, { at }: RequestContext): Refusal {
  const refusal = rateLimited(verdict, at);
  return { ...refusal, message: 'Too many incorrect codes. Please try again later.' };
}

/** On the machine itself, and for an account whose owner has lost the device. */
function mayRemoveWithoutCode({ session }: Principal, { local }: RequestContext): boolean {
  return local || session?.isActing === true;
}

/** Sessions are the account's, and not of its test partition; in the test view of a session they are the same. */
function isTestKey({ key, environment, session }: Principal): boolean {
  return key?.environment === 'test' || (environment === 'test' && session === undefined);
}

function listed({ id, created_at, used_at, ip, user_agent }: SessionRow, { session }: Principal) {
  return { id, created_at, used_at, ip, user_agent, current: session?.id === id };
}

/** `/admin/console-link` */
export function consoleLinkRoutes({ sessions }: Services): Route[] {
  return implement(contract.consoleLink, {
    async create({ context }) {
      if (!context.local) {
        const message = 'Only over the Unix socket. Run postern console on the server itself.';
        return refuse('CONFLICT', { message });
      }
      const off = refuseWhereOff(context);
      if (off !== undefined) return off;
      const { url, expiresAt } = await sessions.operatorLink();
      return success({ url, expires_at: expiresAt });
    },
  });
}
