/** The DKIM keys that sign for domains, and where each is in its rotation. */
import { sql } from 'kysely';
import { unsettled } from './messages.ts';
import { deleteFrom, insertInto, lister, query, reader, update, type Statement } from './statement.ts';
import type { Store } from './store.ts';
import type { DkimKeyRow } from './tables.ts';

/** What tells keys apart without the keys themselves. */
export type DkimKeyName = Pick<DkimKeyRow, 'domain' | 'selector' | 'tenant' | 'algorithm' | 'base' | 'state'>;
export type NewDkimKey = Omit<DkimKeyRow, 'since' | 'keep_until'>;
type One = Pick<DkimKeyRow, 'domain' | 'selector'>;

const insert = insertInto('dkim_keys', sql`on conflict do nothing`);

/**
 * The statement that keeps a new key. It touches no row where the selector is taken, or where the tenant has another key
 * of this algorithm in the same state.
 */
export function insertDkimKey(key: NewDkimKey, expect?: number): Statement {
  return insert({ ...key, since: key.created_at }, expect);
}

/** The statement that lets a next key sign; touches no row where it is that no more. Retire the one before it first. */
export const activateKey = query<One & { now: number }>(
  (value) => sql`update dkim_keys set state = 'active', since = ${value('now')}
    where domain = ${value('domain')} and selector = ${value('selector')} and state = 'next'`,
);

/** The statement that lets an active key sign no more; its record is needed until `keep_until` at least. */
export const relieveKey = query<One & { now: number; keep_until: number }>(
  (value) => sql`update dkim_keys set state = 'retiring', since = ${value('now')}, keep_until = ${value('keep_until')}
    where domain = ${value('domain')} and selector = ${value('selector')} and state = 'active'`,
);

/** The statement that says until when the record of a retiring key is needed now. */
export const keepKey = update('dkim_keys', ['keep_until'], ['domain', 'selector', sql`state = 'retiring'`]);

/** The statement that forgets the private half of a retiring key; its row says that its record may go. */
export const retireKey = query<One & { now: number }>(
  (value) => sql`update dkim_keys set state = 'retired', private_key = '', since = ${value('now')}, keep_until = null
    where domain = ${value('domain')} and selector = ${value('selector')} and state = 'retiring'`,
);

/** The statement that forgets a retired key, or a next one that nobody wants any more. */
export const forgetKey = deleteFrom('dkim_keys', 'domain', 'selector', 'state');

/**
 * The keys that sign the tenant's mail of the domain: none while DNS has never said that the domain is the tenant's. What
 * was accepted before a domain was taken out of service is signed, until another tenant has it.
 */
export const signingKeysOf = reader(
  (domain: string, tenant: string) => sql<DkimKeyRow>`select * from dkim_keys
    where domain = ${domain} and tenant = ${tenant} and state = 'active' and not exists (
      select 1 from domains where domains.name = dkim_keys.domain and domains.tenant = dkim_keys.tenant
        and domains.status = 'pending' and (domains.project <> '' or domains.verified_at is null))`,
);

/** The tenant's active keys for the domain, whatever the domain's state. */
export const activeKeysOf = lister('dkim_keys', ['domain', 'tenant'], sql`and state = 'active'`);

/** Which keys there are. */
export function dkimKeyNames(store: Store): Promise<DkimKeyName[]> {
  const columns = ['domain', 'selector', 'tenant', 'algorithm', 'base', 'state'] as const;
  return store.read.selectFrom('dkim_keys').select(columns).execute();
}

/** The keys of every tenant for the domain, in every state, oldest first. */
export const dkimKeysOf = lister('dkim_keys', ['domain'], sql`order by created_at, selector`);

const signed = reader(
  (domain: string, tenant: string, before: number) => sql`select deliveries.id
    from deliveries join messages on messages.id = deliveries.message
    where ${unsettled} and deliveries.state in ('queued', 'sending', 'deferred')
      and deliveries.created_at < ${before} and messages.body in ('stored', 'prefixed')
      and (${domain} = '' or messages.domain = ${domain} and messages.tenant = ${tenant})
    limit 1`,
);

/** Whether finished mail of the tenant's domain that was queued before this time (ms) is still to be delivered. */
export async function signedMailWaits(
  store: Store,
  { domain, tenant }: { readonly domain: string; readonly tenant: string },
  before: number,
): Promise<boolean> {
  return (await signed(store, domain, tenant, before)).length > 0;
}

/** The same for mail of whatever domain: the server's own key seals all that is forwarded. */
export function anySignedMailWaits(store: Store, before: number): Promise<boolean> {
  return signedMailWaits(store, { domain: '', tenant: '' }, before);
}
