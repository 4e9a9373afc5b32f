/** Who signed in to the console: sessions, links that sign in, requests for links, and one-time codes. Of tokens there is only a SHA-256. */
import { sql } from 'kysely';
import { deleteFrom, finder, insertInto, lister, query, reader } from './statement.ts';
import type { SignInRequestRow, TenantRow } from './tables.ts';

/** The statement that keeps a new session. */
export const insertSession = insertInto('sessions');

/** The session whose token has this SHA-256, ended or not, or undefined. */
export const findSessionByHash = finder('sessions', 'hash');

/** The sessions of an account, newest first. */
export const listSessions = lister('sessions', ['tenant'], sql`order by id desc`);

/** The statement that notes the use of a session; it touches no row where that was done after `since`. */
export const noteSessionUse = query<{ id: string; at: number; since: number; ip: string; user_agent: string }>(
  (value) => sql`update sessions set used_at = ${value('at')}, ip = ${value('ip')}, user_agent = ${value('user_agent')}
    where id = ${value('id')} and used_at <= ${value('since')}`,
);

/** The statement that ends a session of this account. */
export const dropSession = deleteFrom('sessions', 'tenant', 'id');

/** The statement that ends all sessions of an account. */
export const dropSessionsOf = deleteFrom('sessions', 'tenant');

/** The statement that ends the sessions that a key made. */
export const dropSessionsOfKey = query<{ key: string }>(
  (value) => sql`delete from sessions where api_key = ${value('key')}`,
);

/** The statement that ends the oldest sessions of an account, so that `most` are left. */
export const trimSessions = query<{ tenant: string; most: number }>(
  (value) => sql`delete from sessions where tenant = ${value('tenant')} and id not in (
    select id from sessions where tenant = ${value('tenant')} order by id desc limit ${value('most')})`,
);

/** The statement that forgets sessions which have expired, or were used last before `idle`. */
export const forgetSessions = query<{ now: number; idle: number }>(
  (value) => sql`delete from sessions where expires_at <= ${value('now')} or used_at <= ${value('idle')}`,
);

/** The statement that keeps a new link. */
export const insertLink = insertInto('sign_in_links');

/** The link whose token has this SHA-256, or undefined. */
export const findLink = finder('sign_in_links', 'hash');

/** The statement that counts a code which is tried with a link; it touches no row where `most` were tried. */
export const tryLink = query<{ hash: string; most: number }>(
  (value) => sql`update sign_in_links set tries = tries + 1
    where hash = ${value('hash')} and tries < ${value('most')}`,
);

/** The statement that uses up a link; it touches no row where another has done that. */
export const dropLink = deleteFrom('sign_in_links', 'hash');

/** The statement that forgets links which have expired. */
export const forgetLinks = query<{ before: number }>(
  (value) => sql`delete from sign_in_links where expires_at <= ${value('before')}`,
);

/** The statement that keeps a request for a link. */
export const insertRequest = insertInto('sign_in_requests');

/** The statement that forgets it. */
export const dropRequest = deleteFrom('sign_in_requests', 'id');

/** The oldest requests. */
export const firstRequests = reader(
  (limit: number) => sql<SignInRequestRow>`select * from sign_in_requests order by id limit ${limit}`,
);

/** The accounts with this address, which is in lower case; the oldest few of them. */
export const tenantsByEmail = reader(
  (email: string, limit: number) => sql<TenantRow>`select * from tenants where lower(email) = ${email}
    order by id limit ${limit}`,
);

/** The one-time codes of an account, confirmed or not, or undefined. */
export const findTotp = finder('totp', 'tenant');

/** The statement that keeps a new secret; it touches no row where the account has a confirmed one. */
export const saveTotp = query<{ tenant: string; secret: string; now: number }>(
  (value) => sql`insert into totp as known (tenant, secret, last_step, confirmed_at, created_at)
    values (${value('tenant')}, ${value('secret')}, 0, null, ${value('now')})
    on conflict (tenant) do update set secret = excluded.secret, last_step = 0, created_at = excluded.created_at
      where known.confirmed_at is null`,
);

/** The statement that confirms a secret; it touches no row where that was done, or another secret took its place. */
export const confirmTotp = query<{ tenant: string; secret: string; step: number; now: number }>(
  (value) => sql`update totp set confirmed_at = ${value('now')}, last_step = ${value('step')}
    where tenant = ${value('tenant')} and secret = ${value('secret')} and confirmed_at is null`,
);

/** The statement that uses up a code; it touches no row where it, or a later one, was used. */
export const useTotpStep = query<{ tenant: string; step: number }>(
  (value) => sql`update totp set last_step = ${value('step')}
    where tenant = ${value('tenant')} and confirmed_at is not null and last_step < ${value('step')}`,
);

/** The statement that ends the one-time codes of an account. */
export const dropTotp = deleteFrom('totp', 'tenant');

/** The statement that keeps a recovery code. */
export const insertRecoveryCode = insertInto('recovery_codes');

/** The statement that uses up a recovery code; it touches no row where there is none such. */
export const useRecoveryCode = deleteFrom('recovery_codes', 'tenant', 'hash');

/** The statement that forgets all recovery codes of an account. */
export const dropRecoveryCodes = deleteFrom('recovery_codes', 'tenant');
