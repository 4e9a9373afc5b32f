/** The DKIM keys that sign for domains, and where each stands in its rotation. */
import { unsettled } from './deliveries.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { DkimKeyRow } from './tables.ts';

/** What tells keys apart without the keys themselves. */
export type DkimKeyName = Pick<DkimKeyRow, 'domain' | 'selector' | 'tenant' | 'algorithm' | 'base' | 'state'>;
export type NewDkimKey = Omit<DkimKeyRow, 'since' | 'keep_until'>;
type One = Pick<DkimKeyRow, 'domain' | 'selector'>;

const NAME = ['domain', 'selector', 'tenant', 'algorithm', 'base', 'state'] as const;

/**
 * The statement that keeps a new key. It touches no row where the selector is taken, or where the tenant has another key
 * of this algorithm in the same state.
 */
export const insertDkimKey = define<NewDkimKey>()((db, value) =>
  db
    .insertInto('dkim_keys')
    .values({
      domain: value('domain'),
      selector: value('selector'),
      tenant: value('tenant'),
      algorithm: value('algorithm'),
      base: value('base'),
      state: value('state'),
      private_key: value('private_key'),
      public_key: value('public_key'),
      since: value('created_at'),
      keep_until: null,
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.doNothing()),
);

/** The statement that lets a next key sign; touches no row where it is that no more. Retire the one before it first. */
export const activateKey = define<One & { now: number }>()((db, value) =>
  db
    .updateTable('dkim_keys')
    .set({ state: 'active', since: value('now') })
    .where('domain', '=', value('domain'))
    .where('selector', '=', value('selector'))
    .where('state', '=', 'next'),
);

/** The statement that lets an active key sign no more; its record is needed until `keep_until` at least. */
export const relieveKey = define<One & { now: number; keep_until: number }>()((db, value) =>
  db
    .updateTable('dkim_keys')
    .set({ state: 'retiring', since: value('now'), keep_until: value('keep_until') })
    .where('domain', '=', value('domain'))
    .where('selector', '=', value('selector'))
    .where('state', '=', 'active'),
);

/** The statement that says until when the record of a retiring key is needed now. */
export const keepKey = define<One & { keep_until: number }>()((db, value) =>
  db
    .updateTable('dkim_keys')
    .set({ keep_until: value('keep_until') })
    .where('domain', '=', value('domain'))
    .where('selector', '=', value('selector'))
    .where('state', '=', 'retiring'),
);

/** The statement that forgets the private half of a retiring key; its row says that its record may go. */
export const retireKey = define<One & { now: number }>()((db, value) =>
  db
    .updateTable('dkim_keys')
    .set({ state: 'retired', private_key: '', since: value('now'), keep_until: null })
    .where('domain', '=', value('domain'))
    .where('selector', '=', value('selector'))
    .where('state', '=', 'retiring'),
);

/** The statement that forgets a retired key, or a next one that nobody wants any more. */
export const forgetKey = define<One & { state: 'next' | 'retired' }>()((db, value) =>
  db
    .deleteFrom('dkim_keys')
    .where('domain', '=', value('domain'))
    .where('selector', '=', value('selector'))
    .where('state', '=', value('state')),
);

const keysOf = define<{ domain: string }>()((db, value) =>
  db
    .selectFrom('dkim_keys')
    .selectAll()
    .where('domain', '=', value('domain'))
    .orderBy('created_at')
    .orderBy('selector'),
);
const keyNames = define<object>()((db) => db.selectFrom('dkim_keys').select(NAME));
const activeKeys = define<{ domain: string; tenant: string }>()((db, value) =>
  db
    .selectFrom('dkim_keys')
    .selectAll()
    .where('domain', '=', value('domain'))
    .where('tenant', '=', value('tenant'))
    .where('state', '=', 'active'),
);
const keysToSign = define<{ domain: string; tenant: string }>()((db, value) =>
  db
    .selectFrom('dkim_keys')
    .selectAll()
    .where('domain', '=', value('domain'))
    .where('tenant', '=', value('tenant'))
    .where('state', '=', 'active')
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('domains')
            .select('domains.name')
            .whereRef('domains.name', '=', 'dkim_keys.domain')
            .whereRef('domains.tenant', '=', 'dkim_keys.tenant')
            .where('domains.status', '=', 'pending')
            .where((claim) => claim.or([claim('domains.project', '<>', ''), claim('domains.verified_at', 'is', null)])),
        ),
      ),
    ),
);

/**
 * The keys that sign the tenant's mail of the domain: none while DNS has never said that the domain is the tenant's. What
 * was accepted before a domain was taken out of service is signed, until another tenant has it.
 */
export function signingKeysOf(store: Store, domain: string, tenant: string): Promise<DkimKeyRow[]> {
  return store.select(keysToSign({ domain, tenant }));
}

/** The tenant's active keys for the domain, whatever the domain's state. */
export function activeKeysOf(store: Store, domain: string, tenant: string): Promise<DkimKeyRow[]> {
  return store.select(activeKeys({ domain, tenant }));
}

/** Which keys there are. */
export function dkimKeyNames(store: Store): Promise<DkimKeyName[]> {
  return store.select(keyNames({}));
}

/** The keys of every tenant for the domain, in every state, oldest first. */
export function dkimKeysOf(store: Store, domain: string): Promise<DkimKeyRow[]> {
  return store.select(keysOf({ domain }));
}

const signedOfDomain = define<{ domain: string; tenant: string; before: number }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .innerJoin('messages', 'messages.id', 'deliveries.message')
    .select('deliveries.id')
    .where(unsettled)
    .where('deliveries.state', 'in', ['queued', 'sending', 'deferred'])
    .where('deliveries.created_at', '<', value('before'))
    .where('messages.body', 'in', ['stored', 'prefixed'])
    .where('messages.domain', '=', value('domain'))
    .where('messages.tenant', '=', value('tenant'))
    .limit(1),
);
const signedAtAll = define<{ before: number }>()((db, value) =>
  db
    .selectFrom('deliveries')
    .innerJoin('messages', 'messages.id', 'deliveries.message')
    .select('deliveries.id')
    .where(unsettled)
    .where('deliveries.state', 'in', ['queued', 'sending', 'deferred'])
    .where('deliveries.created_at', '<', value('before'))
    .where('messages.body', 'in', ['stored', 'prefixed'])
    .limit(1),
);

/** Whether finished mail of the tenant's domain that was queued before this time (ms) is still to be delivered. */
export async function signedMailWaits(
  store: Store,
  { domain, tenant }: { readonly domain: string; readonly tenant: string },
  before: number,
): Promise<boolean> {
  return (await store.select(signedOfDomain({ domain, tenant, before }))).length > 0;
}

/** The same for mail of whatever domain: the server's own key seals all that is forwarded. */
export async function anySignedMailWaits(store: Store, before: number): Promise<boolean> {
  return (await store.select(signedAtAll({ before }))).length > 0;
}
