/** Links of owners that work once, and were used. */
import { sql } from 'kysely';
import { finder, insertInto, query } from './statement.ts';
import type { Store } from './store.ts';

/** The statement that notes that a link was used; it touches no row where that is known. */
export const useLink = insertInto('used_links', sql`on conflict do nothing`);

const byHash = finder('used_links', 'hash');

/** Whether the link with this hash was used. */
export async function isLinkUsed(store: Store, hash: string): Promise<boolean> {
  return (await byHash(store, hash)) !== undefined;
}

/** The statement that forgets links which have expired. */
export const forgetUsedLinks = query<{ before: number }>(
  (value) => sql`delete from used_links where expires_at <= ${value('before')}`,
);
