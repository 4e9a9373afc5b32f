/**
 * Sessions of people in the console. Whoever shows an API key, or a link that works once, gets a new random token, of which
 * only the SHA-256 is kept; no token that a client brings along becomes a session. A session may do what its key may, or, by
 * a link, what an unrestricted key of the account may; it ends with its key, with the account, after twelve hours
 * without use, or after thirty days.
 *
 * To ask for a link by mail is to write a row, whoever has the address, and to be answered; only then is it looked up, so
 * that neither the answer nor its timing tells who has an account. A crash in between leaves the row to a job.
 */
import { hash, randomBytes } from 'node:crypto';
import { baseUrlOf, httpPlaces } from '../config/schema-server.ts';
import type { ServerConfig } from '../config/schema.ts';
import { addressInRanges } from '../dns/networks.ts';
import { type Clock, isoTime } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { PERMISSIONS, type Permission } from '../lib/permission-names.ts';
import { parseListenAddress } from '../lib/sockets.ts';
import { isRefused } from '../store/consents.ts';
import { recordEvent } from '../store/events.ts';
import {
  dropLink,
  dropRequest,
  dropSession,
  findLink,
  findSessionByHash,
  firstRequests,
  forgetLinks,
  forgetSessions,
  insertLink,
  insertRequest,
  insertSession,
  listSessions,
  noteSessionUse,
  tenantsByEmail,
  trimSessions,
  tryLink,
} from '../store/sessions.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { SessionRow, SignInRequestRow, TenantRow } from '../store/tables.ts';
import { findTenant, OPERATOR } from '../store/tenants.ts';
import { FULL } from './api-keys.ts';
import type { AuthFault, Authenticator } from './authenticate.ts';
import type { AccountMail } from './consent.ts';
import type { Principal } from './principal.ts';
import type { Verdict } from './rate-limits.ts';
import { isServed } from './tenants.ts';
import type { Totp } from './totp.ts';

const MINUTE_MS = 60_000;
const IDLE_MS = 12 * 60 * MINUTE_MS;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Whatever it is used for. */
export const MAX_SESSION_MS = 30 * DAY_MS;
/** How long a mailed link works, and the browser that asked for it is remembered. */
export const MAILED_LINK_MS = 15 * MINUTE_MS;
const OPERATOR_LINK_MS = 5 * MINUTE_MS;
const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43}$/;
/** Of an account; the oldest end. */
const MAX_SESSIONS = 100;
/** With one link. */
const MAX_CODES = 5;
/** Accounts of one address that a mail has links for. */
const MAX_ACCOUNTS = 5;
const MAX_REQUESTS_AT_ONCE = 50;
const MAX_NOTED = 10_000;
const MAX_USER_AGENT_LENGTH = 256;
const EVERYTHING: ReadonlySet<Permission> = new Set(PERMISSIONS);
const ALL_OF_ACCOUNT: ReadonlySet<Permission> = new Set(FULL);

/** What a browser shows of itself. */
export interface SessionClient {
  readonly ip: string;
  readonly userAgent: string;
}

/** Who signed in. */
export interface SignedIn {
  readonly row: SessionRow;
  /** The account. */
  readonly account: TenantRow;
  /** Whether it may do everything on this server, and act for any account. */
  readonly isOperator: boolean;
  readonly principal: Principal;
}

/** What became of a key or a link, and perhaps a code. */
export type SignIn =
  | { readonly kind: 'signed in'; readonly token: string; readonly row: SessionRow }
  | { readonly kind: 'code needed' }
  | { readonly kind: 'wrong key'; readonly fault: AuthFault | 'AUTH_IP_NOT_ALLOWED' }
  | { readonly kind: 'wrong link'; readonly isOtherBrowser: boolean }
  | { readonly kind: 'wrong code' }
  | { readonly kind: 'limited'; readonly verdict: Verdict };

/** A link with its token, which is known to nobody else. */
export interface SignInLink {
  readonly url: string;
  readonly expiresAt: number;
}

export interface SessionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly authenticator: Pick<Authenticator, 'byKey' | 'byId' | 'failed'>;
  readonly totp: Totp;
  /** The statements that mail it. */
  readonly accountMail: (mail: AccountMail) => Statement[];
  /** There is mail to send. */
  readonly wake: () => void;
  /** Whether whoever opens the console on this machine is the operator. The local environment sets it, in its own code. */
  readonly isDev?: boolean;
}

export class Sessions {
  readonly isDev: boolean;
  readonly totp: Totp;
  readonly #parts: SessionParts;
  /** When the use of a session was noted last. */
  readonly #noted = new LruMap<number>(MAX_NOTED);
  #mailing: Promise<void> = Promise.resolve();

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.totp = parts.totp;
    this.isDev = parts.isDev ?? false;
  }

  /** Signs in with an API key. */
  async byKey(value: string, code: string | undefined, client: SessionClient): Promise<SignIn> {
    const known = await this.#parts.authenticator.byKey(value, client.ip);
    if (typeof known === 'string') return { kind: 'wrong key', fault: known };
    const { tenant, key, restrictions } = known;
    const { ip_whitelist: networks } = restrictions;
    if (networks !== undefined && !addressInRanges(client.ip, networks))
      return { kind: 'wrong key', fault: 'AUTH_IP_NOT_ALLOWED' };
    const account = key?.tenant ?? tenant.id;
    return this.#signIn({ account, key: key?.id ?? null, code, client, method: 'key', unit: [] });
  }

  /** Signs in with the token of a link; `browser` is what the browser that asked for it keeps. */
  async byLink(
    token: string,
    code: string | undefined,
    client: SessionClient & { readonly browser: string | undefined },
  ): Promise<SignIn> {
    const { store, clock } = this.#parts;
    const shown = { token, client };
    const link = TOKEN.test(token) ? await findLink(store, hashOf(token)) : undefined;
    const isOpen = link !== undefined && link.expires_at > clock.now() && (await isServed(store, link.tenant));
    if (!isOpen) return this.#wrongLink(shown);
    const { hash: id, tenant, browser } = link;
    if (browser !== null && (client.browser === undefined || hashOf(client.browser) !== browser))
      return this.#wrongLink(shown, { tenant, isOtherBrowser: true });
    if (code !== undefined && (await writeIfMet(store, [tryLink({ hash: id, most: MAX_CODES }, 1)])) === undefined)
      return this.#wrongLink(shown, { tenant });
    const unit = [dropLink({ hash: id }, 1)];
    const method = browser === null ? 'operator_link' : 'mailed_link';
    return this.#signIn({ account: tenant, key: null, code, client, method, unit });
  }

  async #wrongLink(
    { token, client }: { readonly token: string; readonly client: SessionClient },
    { tenant, isOtherBrowser = false }: { readonly tenant?: string; readonly isOtherBrowser?: boolean } = {},
  ): Promise<SignIn> {
    const failure = { address: client.ip, last4: token.slice(-4), reason: 'AUTH_INVALID_LINK', tenant } as const;
    await this.#parts.authenticator.failed(failure);
    return { kind: 'wrong link', isOtherBrowser };
  }

  async #signIn(request: NewSession): Promise<SignIn> {
    const { account, code, client } = request;
    if (!(await this.totp.isEnabled(account))) {
      // Another use of the link was faster.
      return (await this.#begin(request)) ?? { kind: 'wrong link', isOtherBrowser: false };
    }
    if (code === undefined) return { kind: 'code needed' };
    const check = await this.totp.check(account, code);
    if (check.kind === 'limited') return check;
    const done = check.kind === 'right' ? await this.#begin(request, check.unit) : undefined;
    if (done !== undefined) return done;
    const failure = { address: client.ip, last4: '', reason: 'AUTH_INVALID_CODE', tenant: account } as const;
    await this.#parts.authenticator.failed(failure);
    return { kind: 'wrong code' };
  }

  /** A new session, with what it uses up; undefined where that was used meanwhile. */
  async #begin({ account, key, client, method, unit }: NewSession, used: readonly Statement[] = []) {
    const { store, clock, log } = this.#parts;
    const now = clock.now();
    const token = newToken();
    const { ip } = client;
    const row: SessionRow = {
      id: newId('ses', now),
      hash: hashOf(token),
      tenant: account,
      api_key: key,
      ip,
      user_agent: shortUserAgent(client),
      created_at: now,
      used_at: now,
      expires_at: now + MAX_SESSION_MS,
    };
    const data = { session: row.id, method, address: ip, ...(key === null ? {} : { key }) };
    const written = await writeIfMet(store, [
      ...unit,
      ...used,
      insertSession(row),
      trimSessions({ tenant: account, most: MAX_SESSIONS }),
      recordEvent({ type: 'auth.signed_in', tenant: account, at: now, data }),
    ]);
    if (written === undefined) return undefined;
    log.info('auth.signed_in', { ip, tenant: account, session: row.id, method });
    return { kind: 'signed in', token, row } as const;
  }

  /** The operator's session in the local environment. */
  async beginDev(client: SessionClient): Promise<string | undefined> {
    const done = await this.#begin({ account: OPERATOR, key: null, code: undefined, client, method: 'dev', unit: [] });
    return done?.token;
  }

  /** The session with this token, while it lasts; where a client uses it, that is noted at most once a minute. */
  async find(token: string, client?: SessionClient): Promise<SignedIn | undefined> {
    const { store, clock, authenticator, config } = this.#parts;
    const row = TOKEN.test(token) ? await findSessionByHash(store, hashOf(token)) : undefined;
    const now = clock.now();
    if (row === undefined || row.expires_at <= now || row.used_at <= now - IDLE_MS) return undefined;
    const account = await findTenant(store, row.tenant);
    if (account === undefined || account.suspended !== 0 || account.confirmed_at === null) return undefined;
    const own = row.api_key === null ? ownPrincipal(account) : await authenticator.byId(account, row.api_key);
    if (own === undefined) return undefined;
    if (client !== undefined) this.#noteUse(row, client, now);
    const mustSetUpTotp = config().server.console.require_totp && !(await this.totp.isEnabled(account.id));
    const isOperator =
      account.id === OPERATOR &&
      own.environment === 'live' &&
      PERMISSIONS.every((permission) => own.permissions.has(permission)) &&
      Object.keys(own.restrictions).length === 0;
    const session = { id: row.id, mustSetUpTotp, isActing: false };
    return { row, account, isOperator, principal: { ...own, session } };
  }

  /** The request does not wait for the disk. */
  #noteUse({ id, used_at }: SessionRow, client: SessionClient, now: number): void {
    const since = now - MINUTE_MS;
    if (used_at > since || (this.#noted.get(id) ?? 0) > since) return;
    this.#noted.set(id, now);
    const { store, log } = this.#parts;
    const use = { id, at: now, since, ip: client.ip, user_agent: shortUserAgent(client) };
    store
      .write([noteSessionUse(use)])
      .catch((error: unknown) => log.warn('auth.session_use_not_saved', errorFields(error)));
  }

  /** The sessions of an account that can be used, newest first. */
  async list(account: string): Promise<SessionRow[]> {
    const { store, clock } = this.#parts;
    const now = clock.now();
    const rows = await listSessions(store, account);
    return rows.filter(({ expires_at, used_at }) => expires_at > now && used_at > now - IDLE_MS);
  }

  /** Ends a session of the account; false where there is none such. */
  async end(account: string, id: string): Promise<boolean> {
    return (await writeIfMet(this.#parts.store, [dropSession({ tenant: account, id }, 1)])) !== undefined;
  }

  /** A link for the operator, for any browser. */
  async operatorLink(): Promise<SignInLink> {
    const { store, clock, config } = this.#parts;
    const now = clock.now();
    const expiresAt = now + OPERATOR_LINK_MS;
    const { token, statement } = newLink({ tenant: OPERATOR, browser: null, now, expiresAt });
    await store.write([statement]);
    return { url: linkUrl(consoleOriginOf(config()), token), expiresAt };
  }

  /** Notes that whoever has this address wants a link; answers what the browser is to keep. */
  async requestLink(email: string, origin: string): Promise<string> {
    const { store, clock, log } = this.#parts;
    const now = clock.now();
    const browser = newToken();
    const request = { id: newId('sgn', now), email: email.toLowerCase(), origin, created_at: now };
    await store.write([insertRequest({ ...request, browser: hashOf(browser) })]);
    // Not awaited: how long it takes would tell whether there is such an account. The job does what fails.
    this.mailLinks().catch((error: unknown) => log.warn('auth.links_not_mailed', errorFields(error)));
    return browser;
  }

  /** Mails the links that were asked for; one run at a time. */
  mailLinks(): Promise<void> {
    const run = this.#mailing.then(() => this.#mailRequested());
    this.#mailing = run.catch(() => undefined);
    return run;
  }

  async #mailRequested(): Promise<void> {
    const { store, clock, wake } = this.#parts;
    for (const request of await firstRequests(store, MAX_REQUESTS_AT_ONCE)) {
      const isLate = request.created_at + MAILED_LINK_MS <= clock.now();
      const mail = isLate ? [] : await this.#mailFor(request);
      // Unless another daemon has done it.
      const written = await writeIfMet(store, [dropRequest({ id: request.id }, 1), ...mail]);
      if (written !== undefined && mail.length > 0) wake();
    }
  }

  /** The statements that mail links for all accounts of the address, none where there is none. */
  async #mailFor({ email, browser, origin, created_at }: SignInRequestRow): Promise<Statement[]> {
    const { store, clock, config, accountMail } = this.#parts;
    const now = clock.now();
    const accounts: TenantRow[] = [];
    for (const row of await tenantsByEmail(store, email, MAX_ACCOUNTS)) {
      // The operator's own mail is not for others to forbid.
      const isSilent = row.id !== OPERATOR && (await isRefused(store, row.email));
      if (!isSilent && (await isServed(store, row.id))) accounts.push(row);
    }
    const [first] = accounts;
    if (first === undefined) return [];
    const { hostname } = config().server;
    const links = accounts.map((account) => {
      const { token, statement } = newLink({
        tenant: account.id,
        browser,
        now,
        expiresAt: created_at + MAILED_LINK_MS,
      });
      const heading =
        accounts.length === 1
          ? ''
          : `Account ${account.name} (${account.id}):
`;
      return { statement, text: `${heading}${linkUrl(origin, token)}` };
    });
    const text = `Someone, probably you, requested a link to sign in to the console of ${hostname}.

Open it by ${isoTime(created_at + MAILED_LINK_MS).slice(11, 16)} UTC, in the browser in which you requested it:

${links.map((link) => link.text).join('\n\n')}

It works once. If it was not you, ignore this email: the link does not work in any other browser.
`;
    const mail = accountMail({ tenant: OPERATOR, to: first.email, subject: `Sign in to ${hostname}`, text });
    return [...links.map(({ statement }) => statement), ...mail];
  }

  /** The job that mails what a crash has left, and forgets what has ended. */
  async sweep(): Promise<void> {
    const { store, clock } = this.#parts;
    await this.mailLinks();
    const now = clock.now();
    await store.write([forgetSessions({ now, idle: now - IDLE_MS }), forgetLinks({ before: now })]);
  }
}

interface NewSession {
  readonly account: string;
  readonly key: string | null;
  readonly code: string | undefined;
  readonly client: SessionClient;
  readonly method: 'key' | 'mailed_link' | 'operator_link' | 'dev';
  /** Uses up what was shown. */
  readonly unit: readonly Statement[];
}

/** What an unrestricted key of the account may do; the operator may do everything. */
function ownPrincipal(tenant: TenantRow): Principal {
  const permissions = tenant.id === OPERATOR ? EVERYTHING : ALL_OF_ACCOUNT;
  return { tenant, key: undefined, permissions, environment: 'live', restrictions: {} };
}

function newLink({
  now,
  expiresAt,
  ...of
}: {
  tenant: string;
  browser: string | null;
  now: number;
  expiresAt: number;
}) {
  const token = newToken();
  const statement = insertLink({ ...of, hash: hashOf(token), tries: 0, created_at: now, expires_at: expiresAt });
  return { token, statement };
}

/** The token is behind the number sign: no browser sends it, so that it is in no log. */
function linkUrl(origin: string, token: string): string {
  return `${origin}/console/sign-in#${token}`;
}

/** Where the console can be signed in to: browsers keep no secure cookie in clear text, except on the machine itself. */
export function consoleOriginOf(config: Pick<ServerConfig, 'server' | 'tls'>): string {
  const { origin, protocol, hostname } = new URL(baseUrlOf(config));
  if (protocol === 'https:' || isLoopbackName(hostname)) return origin;
  const [place] = httpPlaces(config);
  const port = place === undefined ? undefined : parseListenAddress(place.address).port;
  return port === undefined || port === 80 ? 'http://localhost' : `http://localhost:${port}`;
}

/** Whether a host name, as URLs have it, is the machine itself. */
export function isLoopbackName(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

function hashOf(token: string): string {
  return hash('sha256', token);
}

/** Headers are anybody's. */
function shortUserAgent({ userAgent }: SessionClient): string {
  return userAgent.replaceAll(/[^\x20-\x7e]/g, '').slice(0, MAX_USER_AGENT_LENGTH);
}
