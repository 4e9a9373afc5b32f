/**
 * Secrets that the daemon makes for itself; tokens of mailed links, of whose values there is only a SHA-256; and which tokens
 * of pages were used.
 */
import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { deleteFrom, finder, insertInto, query } from './statement.ts';
import type { Store } from './store.ts';

const insert = insertInto('secrets', sql`on conflict do nothing`);
const byName = finder('secrets', 'name');

/** The secret of this name, 32 bytes, made at its first use; several daemons on one database share it. */
export async function obtainSecret(store: Store, name: string, now: number): Promise<Buffer> {
  const known = await byName(store, name);
  if (known !== undefined) return Buffer.from(known.value, 'base64');
  await store.write([insert({ name, value: randomBytes(32).toString('base64'), created_at: now })]);
  return obtainSecret(store, name, now);
}

/** The statement that keeps a new token. */
export const insertToken = insertInto('tokens');

/** The statement that forgets tokens which ended before. */
export const forgetTokens = query<{ before: number }>(
  (value) => sql`delete from tokens where expires_at <= ${value('before')}`,
);

/** The statement that forgets the tokens of one thing: newer ones are on their way. */
export const forgetTokensOf = deleteFrom('tokens', 'subject', 'kind', 'tenant');

/** The token whose value has this SHA-256, ended or not, or undefined. */
export const findTokenByHash = finder('tokens', 'hash');

/** The statement that notes that a page's token was used; it touches no row where it was before. */
export const useToken = insertInto('used_tokens', sql`on conflict do nothing`);

/** The statement that forgets those that nobody takes any more. */
export const forgetUsedTokens = query<{ before: number }>(
  (value) => sql`delete from used_tokens where expires_at < ${value('before')}`,
);
