/** Domains and what DNS last said of them. */
import { sql } from 'kysely';
import { listed } from './rows.ts';
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
      conflict.columns(['name', 'tenant']).doUpdateSet((eb) => ({
        project: value('project'),
        next_check_at: value('next_check_at'),
        created_at: eb
          .case()
          .when('domains.project', '=', '')
          .then(value('created_at'))
          .else(eb.ref('domains.created_at'))
          .end(),
      })),
    ),
);
const all = define<object>()((db) => db.selectFrom('domains').selectAll());
const ownersOf = define<{ names: string }>()((db, value, dialect) =>
  db
    .selectFrom('domains')
    .select(['name', 'tenant', 'status', 'broken_at'])
    .where('name', 'in', listed(value('names'), dialect))
    .where('project', '<>', '')
    .where('status', '<>', 'pending'),
);
/** The statement that makes the domain, pending; one that exists keeps its state, and its age unless it was released. */
export const insertDomain = insert;

export interface Was {
  readonly was: DomainStatus;
  /** When the check was due: where somebody has asked for another one since, it comes then at the latest. */
  readonly due: number;
}

/** The statement that writes what a check found; touches no row where the state is no longer `was`, or the claim is gone. */
export const updateDomain = define<Checked & Was>()((db, value) =>
  db
    .updateTable('domains')
    .set((eb) => ({
      status: value('status'),
      records: value('records'),
      checked_at: value('checked_at'),
      verified_at: value('verified_at'),
      broken_at: value('broken_at'),
      next_check_at: eb
        .case()
        .when(eb.and([eb('next_check_at', '<>', value('due')), eb('next_check_at', '<', value('next_check_at'))]))
        .then(eb.ref('next_check_at'))
        .else(value('next_check_at'))
        .end(),
    }))
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name'))
    .where('project', '<>', '')
    .where('status', '=', value('was')),
);

const byName = define<{ tenant: string; name: string }>()((db, value) =>
  db.selectFrom('domains').selectAll().where('name', '=', value('name')).where('tenant', '=', value('tenant')),
);

/** What a claim has when no project makes it any more; when it was verified is kept: mail from before is still signed. */
const RELEASED = { project: '', status: 'pending', broken_at: null } as const;

/**
 * The statement that notes that no project claims the domain any more. Its token is kept; whoever claims it again waits for
 * DNS to say that it is still his.
 */
export const releaseDomain = define<{ tenant: string; name: string; project: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set(RELEASED)
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name'))
    .where('project', '=', value('project')),
);

/** The same for all domains of a project. */
export const releaseDomainsOf = define<{ tenant: string; project: string }>()((db, value) =>
  db.updateTable('domains').set(RELEASED).where('tenant', '=', value('tenant')).where('project', '=', value('project')),
);

/**
 * The statement that begins a change of ownership: it locks the claims of all tenants, so that one unit at a time decides,
 * and ends what others had, released claims included: nothing is signed for them any more.
 */
export const lockDomain = define<{ tenant: string; name: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set((eb) => ({
      verified_at: eb.case().when('tenant', '=', value('tenant')).then(eb.ref('verified_at')).else(null).end(),
    }))
    .where('name', '=', value('name')),
);

/** The statement that ends the ownership of other tenants whose records have been broken since `before` (ms) or longer. */
export const endLapsedOwnership = define<{ tenant: string; name: string; before: number }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ status: 'pending', verified_at: null, broken_at: null })
    .where('name', '=', value('name'))
    .where('tenant', '<>', value('tenant'))
    .where('status', '=', 'failed')
    .where('broken_at', '<=', value('before'))
    .returning('tenant'),
);

/** The statement that changes nothing and, with `expect` 0, fails its unit where another tenant owns the domain. */
export const touchOtherOwners = define<{ tenant: string; name: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set((eb) => ({ status: eb.ref('status') }))
    .where('name', '=', value('name'))
    .where('tenant', '<>', value('tenant'))
    .where('status', '<>', 'pending'),
);

/** The statement that ends the ownership of all other tenants. */
export const endOtherOwnership = define<{ tenant: string; name: string }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ status: 'pending', broken_at: null })
    .where('name', '=', value('name'))
    .where('tenant', '<>', value('tenant'))
    .where('status', '<>', 'pending'),
);

/** The statement that makes a pending claim the owner before its records are checked: its mail is held until they are found. */
export const ownDomain = define<{ tenant: string; name: string; at: number }>()((db, value) =>
  db
    .updateTable('domains')
    .set({ status: 'failed', broken_at: value('at'), next_check_at: value('at') })
    .where('name', '=', value('name'))
    .where('tenant', '=', value('tenant'))
    .where('project', '<>', '')
    .where('status', '=', 'pending'),
);

/** The statement that has the domain checked at this time (ms) at the latest, whatever a check that runs says of the next one. */
export const hastenCheck = define<{ tenant: string; name: string; at: number }>()((db, value) =>
  db
    .updateTable('domains')
    .set((eb) => ({
      next_check_at: eb
        .case()
        .when('next_check_at', '>', value('at'))
        .then(value('at'))
        .else(eb('next_check_at', '-', 1))
        .end(),
    }))
    .where('tenant', '=', value('tenant'))
    .where('name', '=', value('name')),
);

/** The tenant's row of this domain, or undefined. */
export async function findDomain(store: Store, tenant: string, name: string): Promise<DomainRow | undefined> {
  const [row] = await store.select(byName({ tenant, name }));
  return row;
}

/** By domain, the tenant that owns it; without those whose records have been broken since `before` (ms) or longer. */
export async function domainOwners(
  store: Store,
  names: readonly string[],
  before = Number.NEGATIVE_INFINITY,
): Promise<Map<string, string>> {
  if (names.length === 0) return new Map();
  const rows = await store.select(ownersOf({ names: JSON.stringify(names) }));
  const owners = rows.filter(({ status, broken_at: since }) => status !== 'failed' || (since ?? Infinity) > before);
  return new Map(owners.map(({ name, tenant }) => [name, tenant]));
}

/** Every domain of every tenant. */
export function allDomains(store: Store): Promise<DomainRow[]> {
  return store.select(all({}));
}

const statusOf = define<{ tenant: string; name: string }>()((db, value) =>
  db
    .selectFrom('domains')
    .select('status')
    .where('name', '=', value('name'))
    .where('tenant', '=', value('tenant'))
    .where('project', '<>', ''),
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
  db
    .selectFrom('domains')
    .select('tenant')
    .where('name', '=', value('name'))
    .where('project', '<>', '')
    .limit(sql.lit(1)),
);

/** Whether any tenant has a domain of this name. */
export async function isDomainKnown(store: Store, name: string): Promise<boolean> {
  return (await store.select(claimOn({ name }))).length > 0;
}

const ownedOf = define<{ name: string }>()((db, value) =>
  db
    .selectFrom('domains')
    .select('tenant')
    .where('name', '=', value('name'))
    .where('project', '<>', '')
    .where('status', 'in', ['verified', 'degraded'])
    .limit(sql.lit(1)),
);

/** Whether the domain is served, as far as the database knows: a verified one of some project. */
export async function isDomainServed(store: Store, name: string): Promise<boolean> {
  return (await store.select(ownedOf({ name }))).length > 0;
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
