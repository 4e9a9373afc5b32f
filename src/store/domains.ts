/** Domains and what DNS last said of them. */
import { sql } from 'kysely';
import { listed } from './listed.ts';
import { define } from './statement.ts';
import type { Store } from './store.ts';
import type { DomainRow, DomainStatus } from './tables.ts';

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
    .onConflict((conflict) =>
      conflict
        .columns(['name', 'tenant'])
        .doUpdateSet({ project: value('project'), next_check_at: value('next_check_at') }),
    ),
);
const all = define<object>()((db) => db.selectFrom('domains').selectAll());
const ofNames = define<{ names: string }>()((db, value, dialect) =>
  db
    .selectFrom('domains')
    .select(['tenant', 'name', 'status', 'verified_at', 'created_at'])
    .where('name', 'in', listed(value('names'), dialect)),
);
const due = define<{ now: number }>()((db, value) =>
  db.selectFrom('domains').selectAll().where('next_check_at', '<=', value('now')).orderBy('next_check_at').limit(50),
);
/** The statement that makes the domain, pending; one that exists keeps its state. */
export const insertDomain = insert;

/** The statement that writes what a check found; touches no row where the state is no longer `was`. */
export const updateDomain = define<Checked & { readonly was: DomainStatus }>()((db, value) =>
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
    .where('name', '=', value('name'))
    .where('status', '=', value('was')),
);

const byName = define<{ tenant: string; name: string }>()((db, value) =>
  db.selectFrom('domains').selectAll().where('name', '=', value('name')).where('tenant', '=', value('tenant')),
);

/** The statement that ends a claim. */
export const deleteDomain = define<{ tenant: string; name: string }>()((db, value) =>
  db.deleteFrom('domains').where('tenant', '=', value('tenant')).where('name', '=', value('name')),
);

/** The statement that ends the claims of a project. */
export const deleteDomainsOf = define<{ tenant: string; project: string }>()((db, value) =>
  db.deleteFrom('domains').where('tenant', '=', value('tenant')).where('project', '=', value('project')),
);

/**
 * The statement that notes that no project claims the domain any more. Its token is kept; whoever claims it again waits for
 * DNS to say that it is still his.
 */
export const releaseDomain = define<{ tenant: string; name: string; project: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ project: '', status: 'pending', broken_at: null })
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name'))
    .where('project', '=', value('project')),
);

/** The statement that ends what other tenants' claims to the domain had, because DNS has said whose it is. */
export const demoteRivals = define<{ tenant: string; name: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ status: 'pending', broken_at: null })
    .where('name', '=', value('name'))
    .where('tenant', '<>', value('tenant'))
    .where('status', '<>', 'pending'),
);

/** The statement that lets the check of a domain that nobody claims wait, ms. */
export const postponeCheck = define<{ tenant: string; name: string; until: number }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ next_check_at: value('until') })
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name')),
);

/** The tenant's row of this domain, or undefined. */
export async function findDomain(store: Store, tenant: string, name: string): Promise<DomainRow | undefined> {
  const [row] = await store.select(byName({ tenant, name }));
  return row;
}

/** How every tenant's claim to these domains stands. */
export function standingsOf(
  store: Store,
  names: readonly string[],
): Promise<Pick<DomainRow, 'tenant' | 'name' | 'status' | 'verified_at' | 'created_at'>[]> {
  return store.select(ofNames({ names: JSON.stringify(names) }));
}

/** Every domain of every tenant. */
export function allDomains(store: Store): Promise<DomainRow[]> {
  return store.select(all({}));
}

/** Up to 50 domains whose check is due, longest overdue first. */
export function domainsDue(store: Store, now: number): Promise<DomainRow[]> {
  return store.select(due({ now }));
}

const statusOf = define<{ tenant: string; name: string }>()((db, value) =>
  db.selectFrom('domains').select('status').where('name', '=', value('name')).where('tenant', '=', value('tenant')),
);
const sendable = define<{ tenant: string }>()((db, value) =>
  db
    .selectFrom('domains')
    .select('name')
    .where('tenant', '=', value('tenant'))
    .where('project', '<>', '')
    .where('status', 'in', ['verified', 'degraded'])
    .orderBy('verified_at')
    .orderBy('name'),
);

const claimOn = define<{ name: string }>()((db, value) =>
  db.selectFrom('domains').select('tenant').where('name', '=', value('name')).limit(sql.lit(1)),
);

/** Whether any tenant has a domain of this name. */
export async function isDomainKnown(store: Store, name: string): Promise<boolean> {
  return (await store.select(claimOn({ name }))).length > 0;
}

/** The state of the tenant's domain of this name; undefined where it has none. */
export async function domainStatus(store: Store, tenant: string, name: string): Promise<DomainStatus | undefined> {
  const [row] = await store.select(statusOf({ tenant, name }));
  return row?.status;
}

/** The tenant's domains that mail may be sent from, the longest verified first. */
export async function sendingDomains(store: Store, tenant: string): Promise<string[]> {
  return (await store.select(sendable({ tenant }))).map(({ name }) => name);
}
