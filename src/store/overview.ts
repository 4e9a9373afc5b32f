/** What an account, or the operator, has to look at: short lists out of indexes that hold nothing else. */
import { sql } from 'kysely';
import { unsettled } from './messages.ts';
import { RELAY } from './destinations.ts';
import { isIndexed } from './message-list.ts';
import { listed, reader } from './statement.ts';
import type { Store } from './store.ts';
import type { DestinationRow, DomainRow, FormOverflowRow, WebhookRow } from './tables.ts';

/** So many deliveries that wait for their first try are looked through for those of one tenant. */
const MAX_LOOKED_AT = 1000;

const deferred = reader(
  (tenant: string) => sql<{ at: number }>`select created_at as at from deliveries
    where tenant = ${tenant} and state = 'deferred' and ${isIndexed} order by message limit 1`,
);
const queued = reader(
  (tenant: string) => sql<{ at: number | null }>`select min(created_at) as at from (
      select tenant, created_at from deliveries where state = 'queued' and ${unsettled}
      order by id limit ${sql.lit(MAX_LOOKED_AT)}) as oldest
    where tenant = ${tenant}`,
);
const oldest = reader(
  (state: string) => sql<{ at: number }>`select created_at as at from deliveries
    where state = ${state} and ${unsettled} order by id limit 1`,
);

/** When the oldest mail that waits was accepted, of one tenant or of all; null where none waits. What is queued behind 1,000 others counts as new. */
export async function oldestWaiting(store: Store, tenant?: string): Promise<number | null> {
  const rows =
    tenant === undefined
      ? [await oldest(store, 'deferred'), await oldest(store, 'queued')]
      : [await deferred(store, tenant), await queued(store, tenant)];
  const times = rows.flat().flatMap(({ at }) => at ?? []);
  return times.length === 0 ? null : Math.min(...times);
}

export type TroubledDomain = Pick<DomainRow, 'name' | 'tenant' | 'status' | 'broken_at' | 'created_at'>;

const columns = sql`select name, tenant, status, broken_at, created_at from domains`;

/** The tenant's domains that are not verified. */
export const troubledDomains = reader(
  (tenant: string, limit: number) => sql<TroubledDomain>`${columns}
    where tenant = ${tenant} and project <> '' and status <> 'verified'
    order by case status when 'failed' then 0 when 'degraded' then 1 else 2 end, name limit ${limit}`,
);

/** Domains of all tenants that were verified and are not in order. */
export const brokenDomains = reader(
  (limit: number) => sql<TroubledDomain>`${columns}
    where status <> 'verified' and status in ('degraded', 'failed') and project <> ''
    order by status desc, name limit ${limit}`,
);

/** The tenant's webhooks that are disabled, or whose tries all fail. */
export const troubledWebhooks = reader(
  (tenant: string, limit: number) => sql<WebhookRow>`select * from webhooks
    where tenant = ${tenant} and (failing_since is not null or (status = 'disabled' and reason is not null))
    order by id limit ${limit}`,
);

/** Forms of the tenant that keep back posts, because they had too many. */
export const overflowsOf = reader(
  (tenant: string, limit: number) => sql<FormOverflowRow>`select * from form_overflows
    where tenant = ${tenant} and count > 0 order by form limit ${limit}`,
);

/** How many addresses were asked by the tenant and have not agreed, up to `limit`, and since when the first of these waits. */
export const unconfirmedOf = reader(
  (tenant: string, limit: number) => sql<{ count: number; since: number | null }>`
    select count(*) as count, min(asked_at) as since from (
      select asked_at from consents where tenant = ${tenant} and confirmed_at is null and asked_at is not null
      limit ${limit}) as asked`,
);

/** Destinations that fail, the worst first. */
export const failingDestinations = reader(
  (limit: number) => sql<DestinationRow>`select * from destinations
    where failures > 0 and name <> ${sql.lit(RELAY)} order by failures desc, name desc limit ${limit}`,
);

/** Destinations that the operator holds. */
export const heldByOperator = reader(
  (limit: number) => sql<DestinationRow>`select * from destinations where held = 1 order by name limit ${limit}`,
);

const steps = reader(
  (tenants: readonly string[]) => sql<{ domain: number; verified: number; form: number; submission: number }>`select
    (select count(*) from (select 1 as one from domains where tenant in ${listed(tenants)} and project <> '' limit 1) as d)
      as domain,
    (select count(*) from (select 1 as one from domains
      where tenant in ${listed(tenants)} and project <> '' and verified_at is not null limit 1) as v) as verified,
    (select count(*) from (select 1 as one from forms where tenant in ${listed(tenants)} limit 1) as f) as form,
    (select count(*) from (select 1 as one from submissions where tenant in ${listed(tenants)} limit 1) as s)
      as submission`,
);

/** What these tenants have already: 1, or 0. */
export async function firstSteps(
  store: Store,
  tenants: readonly string[],
): Promise<{ domain: number; verified: number; form: number; submission: number }> {
  const [row] = await steps(store, tenants);
  return row ?? { domain: 0, verified: 0, form: 0, submission: 0 };
}
