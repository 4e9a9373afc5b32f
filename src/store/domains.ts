/** Domains and what DNS last said of them. */
import { sql } from 'kysely';
import { countOf, finder, insertInto, listed, lister, query, reader, update } from './statement.ts';
import type { Store } from './store.ts';
import type { DomainRow, DomainStatus } from './tables.ts';

/** The statement that makes the domain, pending; one that exists keeps its state, and its age unless it was released. */
export const insertDomain = insertInto(
  'domains',
  sql`on conflict (name, tenant) do update set project = excluded.project, next_check_at = excluded.next_check_at,
    created_at = case when domains.project = '' then excluded.created_at else domains.created_at end`,
);

type Checked = Pick<
  DomainRow,
  'tenant' | 'name' | 'status' | 'records' | 'checked_at' | 'verified_at' | 'broken_at' | 'next_check_at'
>;

export interface Was {
  readonly was: DomainStatus;
  /** When the check was due: where somebody has asked for another one since, it comes then at the latest. */
  readonly due: number;
}

/** The statement that writes what a check found; touches no row where the state is no longer `was`, or the claim is gone. */
export const updateDomain = query<Checked & Was>(
  (value) => sql`update domains set status = ${value('status')}, records = ${value('records')},
      checked_at = ${value('checked_at')}, verified_at = ${value('verified_at')}, broken_at = ${value('broken_at')},
      next_check_at = case
        when next_check_at <> ${value('due')} and next_check_at < ${value('next_check_at')} then next_check_at
        else ${value('next_check_at')} end
    where tenant = ${value('tenant')} and name = ${value('name')} and project <> '' and status = ${value('was')}`,
);

/** What a claim has when no project makes it any more; when it was verified is kept: mail from before is still signed. */
const released = sql`project = '', status = 'pending', broken_at = null`;

/**
 * The statement that notes that no project claims the domain any more. Its token is kept; whoever claims it again waits for
 * DNS to say that it is still his.
 */
export const releaseDomain = update('domains', [released], ['tenant', 'name', 'project']);

/** The same for all domains of a project. */
export const releaseDomainsOf = update('domains', [released], ['tenant', 'project']);

/**
 * The statement that begins a change of ownership: it locks the claims of all tenants, so that one unit at a time decides,
 * and ends what others had, released claims included: nothing is signed for them any more.
 */
export const lockDomain = query<{ tenant: string; name: string }>(
  (value) => sql`update domains set verified_at = case when tenant = ${value('tenant')} then verified_at end
    where name = ${value('name')}`,
);

/** The statement that ends the ownership of other tenants whose records have been broken since `before` (ms) or longer. */
export const endLapsedOwnership = query<{ tenant: string; name: string; before: number }, Pick<DomainRow, 'tenant'>>(
  (value) => sql`update domains set status = 'pending', verified_at = null, broken_at = null
    where name = ${value('name')} and tenant <> ${value('tenant')}
      and status = 'failed' and broken_at <= ${value('before')}
    returning tenant`,
);

/** The statement that changes nothing and, with `expect` 0, fails its unit where another tenant owns the domain. */
export const touchOtherOwners = query<{ tenant: string; name: string }>(
  (value) => sql`update domains set status = status
    where name = ${value('name')} and tenant <> ${value('tenant')} and status <> 'pending'`,
);

/** The statement that ends the ownership of all other tenants. */
export const endOtherOwnership = query<{ tenant: string; name: string }>(
  (value) => sql`update domains set status = 'pending', broken_at = null
    where name = ${value('name')} and tenant <> ${value('tenant')} and status <> 'pending'`,
);

/** The statement that makes a pending claim the owner before its records are checked: its mail is held until they are found. */
export const ownDomain = query<{ tenant: string; name: string; at: number }>(
  (value) => sql`update domains set status = 'failed', broken_at = ${value('at')}, next_check_at = ${value('at')}
    where name = ${value('name')} and tenant = ${value('tenant')} and project <> '' and status = 'pending'`,
);

/** The statement that has the domain checked at this time (ms) at the latest, whatever a check that runs says of the next one. */
export const hastenCheck = query<{ tenant: string; name: string; at: number }>(
  (value) => sql`update domains set next_check_at =
      case when next_check_at > ${value('at')} then ${value('at')} else next_check_at - 1 end
    where tenant = ${value('tenant')} and name = ${value('name')}`,
);

/** The tenant's row of this domain, or undefined. */
export const findDomain = finder('domains', 'tenant', 'name');

const ownersOf = reader(
  (names: readonly string[]) => sql<Pick<DomainRow, 'name' | 'tenant' | 'status' | 'broken_at'>>`
    select name, tenant, status, broken_at from domains
    where name in ${listed(names)} and project <> '' and status <> 'pending'`,
);

/** By domain, the tenant that owns it; without those whose records have been broken since `before` (ms) or longer. */
export async function domainOwners(
  store: Store,
  names: readonly string[],
  before = Number.NEGATIVE_INFINITY,
): Promise<Map<string, string>> {
  if (names.length === 0) return new Map();
  const rows = await ownersOf(store, names);
  const owners = rows.filter(({ status, broken_at: since }) => status !== 'failed' || (since ?? Infinity) > before);
  return new Map(owners.map(({ name, tenant }) => [name, tenant]));
}

/** Every domain of every tenant. */
export const allDomains = lister('domains', []);

/** As a condition: the domain is served. */
export const isServed = sql<boolean>`project <> '' and status in ('verified', 'degraded')`;

const claimsOn = reader(
  (name: string) => sql<{ is_served: 0 | 1 }>`select case when ${isServed} then 1 else 0 end as is_served from domains
    where name = ${name} and project <> ''`,
);

/** Whether any tenant has a domain of this name. */
export async function isDomainKnown(store: Store, name: string): Promise<boolean> {
  return (await claimsOn(store, name)).length > 0;
}

/** Whether the domain is served, as far as the database knows: a verified one of some project. */
export async function isDomainServed(store: Store, name: string): Promise<boolean> {
  return (await claimsOn(store, name)).some((claim) => claim.is_served === 1);
}

/** The state of the tenant's domain of this name; undefined where it has none. */
export async function domainStatus(store: Store, tenant: string, name: string): Promise<DomainStatus | undefined> {
  const row = await findDomain(store, tenant, name);
  return row === undefined || row.project === '' ? undefined : row.status;
}

/** The tenant's claims, by name. */
export const domainsOfTenant = reader(
  (tenant: string) => sql<Pick<DomainRow, 'name' | 'project' | 'status'>>`select name, project, status from domains
    where tenant = ${tenant} and project <> '' order by name`,
);

export interface ClaimFilter {
  readonly tenant?: string | undefined;
  readonly status?: DomainStatus | undefined;
}

/** Claims of all tenants, by name and tenant; of pages after the first what is behind `after`. */
export function listClaims(
  store: Store,
  filter: ClaimFilter,
  {
    after,
    limit,
  }: { readonly after?: { readonly name: string; readonly tenant: string } | undefined; readonly limit: number },
): Promise<DomainRow[]> {
  const rows = claims(store, filter).selectAll();
  const page = after === undefined ? rows : rows.where(sql<boolean>`(name, tenant) > (${after.name}, ${after.tenant})`);
  return page.orderBy('name').orderBy('tenant').limit(limit).execute();
}

/** How many there are. */
export function countClaims(store: Store, filter: ClaimFilter): Promise<number> {
  return countOf(claims(store, filter));
}

function claims(store: Store, { tenant, status }: ClaimFilter) {
  let rows = store.read.selectFrom('domains').where('project', '<>', '');
  if (tenant !== undefined) rows = rows.where('tenant', '=', tenant);
  if (status !== undefined) rows = rows.where('status', '=', status);
  return rows;
}

const sendable = reader(
  (tenant: string) => sql<Pick<DomainRow, 'name'>>`select name from domains where tenant = ${tenant} and ${isServed}
    order by verified_at, name`,
);

/** The tenant's domains that mail may be sent from, the longest verified first. */
export async function sendingDomains(store: Store, tenant: string): Promise<string[]> {
  return (await sendable(store, tenant)).map(({ name }) => name);
}
