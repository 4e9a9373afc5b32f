/** The plans of server.yml by their names, and what they mean for a tenant. */
import type { ServerConfig } from '../config/schema.ts';
import { accountOf } from '../lib/ids.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { TenantRow } from '../store/tables-accounts.ts';

export type Plan = ServerConfig['plans']['free'];

/** What new tenants are on. */
export const FIRST_PLAN = 'free';

/** The plans by name, in the order of the configuration. */
export function plansOf({ plans }: Pick<ServerConfig, 'plans'>): ReadonlyMap<string, Plan> {
  const { currency: _, ...named } = plans;
  return new Map(Object.entries(named));
}

/** The tenant's plan; where it was taken out of the configuration, the first one: nobody is unlimited by mistake. */
export function planOf({ plan }: Pick<TenantRow, 'plan'>, config: Pick<ServerConfig, 'plans'>): Plan {
  return plansOf(config).get(plan) ?? config.plans[FIRST_PLAN];
}

/** What an account may ask for; null: no limit of its own. */
export interface Allowance {
  readonly requests_per_hour: number | null;
  readonly requests_per_minute: number | null;
}

/** The operator's tenant has no limit; others have their plan's, and their own per hour in place of it. */
export function allowanceOf(
  tenant: Pick<TenantRow, 'id' | 'plan' | 'requests_per_hour'>,
  config: Pick<ServerConfig, 'plans'>,
): Allowance {
  if (accountOf(tenant.id) === OPERATOR) return { requests_per_hour: null, requests_per_minute: null };
  const { requests_per_hour, requests_per_minute } = planOf(tenant, config);
  return { requests_per_hour: tenant.requests_per_hour ?? requests_per_hour, requests_per_minute };
}
