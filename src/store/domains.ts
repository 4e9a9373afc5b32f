/** Domains and what DNS last said of them, and the DKIM keys that sign for them. */
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { DkimKeyRow, DomainRow } from './tables.ts';

type Checked = Pick<
  DomainRow,
  'tenant' | 'name' | 'status' | 'records' | 'checked_at' | 'verified_at' | 'broken_at' | 'next_check_at'
>;

const insert = define<Omit<DomainRow, 'records' | 'checked_at' | 'verified_at' | 'broken_at'>>()((db, value) =>
  db
    .insertInto('domains')
    .values({
      name: value('name'),
      tenant: value('tenant'),
      project: value('project'),
      token: value('token'),
      status: value('status'),
      next_check_at: value('next_check_at'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.columns(['name', 'tenant']).doUpdateSet({ project: value('project') })),
);
const all = define<object>()((db) => db.selectFrom('domains').selectAll());
const due = define<{ now: number }>()((db, value) =>
  db.selectFrom('domains').selectAll().where('next_check_at', '<=', value('now')).orderBy('next_check_at').limit(50),
);
/** The statement that makes the domain, pending; one that exists keeps its state. */
export const insertDomain = insert;

/** The statement that writes what a check found. */
export const updateDomain = define<Checked>()((db, value) =>
  db
    .updateTable('domains')
    .set({
      status: value('status'),
      records: value('records'),
      checked_at: value('checked_at'),
      verified_at: value('verified_at'),
      broken_at: value('broken_at'),
      next_check_at: value('next_check_at'),
    })
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name')),
);

/** Every domain of every tenant. */
export function allDomains(store: Store): Promise<DomainRow[]> {
  return store.select(all({}));
}

/** Up to 50 domains whose check is due, longest overdue first. */
export function domainsDue(store: Store, now: number): Promise<DomainRow[]> {
  return store.select(due({ now }));
}

/** The statement that keeps a new key; a key that exists for this selector stays. */
export const insertDkimKey = define<DkimKeyRow>()((db, value) =>
  db
    .insertInto('dkim_keys')
    .values({
      domain: value('domain'),
      selector: value('selector'),
      tenant: value('tenant'),
      algorithm: value('algorithm'),
      private_key: value('private_key'),
      public_key: value('public_key'),
      created_at: value('created_at'),
    })
    .onConflict((conflict) => conflict.doNothing()),
);
const keysOf = define<{ domain: string }>()((db, value) =>
  db.selectFrom('dkim_keys').selectAll().where('domain', '=', value('domain')),
);

const ownKeys = define<{ domain: string; tenant: string }>()((db, value) =>
  db.selectFrom('dkim_keys').selectAll().where('domain', '=', value('domain')).where('tenant', '=', value('tenant')),
);
const keysToSign = define<{ domain: string; tenant: string }>()((db, value) =>
  db
    .selectFrom('dkim_keys')
    .selectAll()
    .where('domain', '=', value('domain'))
    .where('tenant', '=', value('tenant'))
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('domains')
            .select('domains.name')
            .whereRef('domains.name', '=', 'dkim_keys.domain')
            .whereRef('domains.tenant', '=', 'dkim_keys.tenant')
            .where('domains.status', '=', 'pending'),
        ),
      ),
    ),
);

/** The keys that sign the tenant's mail of the domain: none while DNS has never said that the domain is the tenant's. */
export function signingKeysOf(store: Store, domain: string, tenant: string): Promise<DkimKeyRow[]> {
  return store.select(keysToSign({ domain, tenant }));
}

/** The tenant's keys for the domain, whatever its state. */
export function ownKeysOf(store: Store, domain: string, tenant: string): Promise<DkimKeyRow[]> {
  return store.select(ownKeys({ domain, tenant }));
}

/** The keys of every tenant for the domain. */
export function dkimKeysOf(store: Store, domain: string): Promise<DkimKeyRow[]> {
  return store.select(keysOf({ domain }));
}
