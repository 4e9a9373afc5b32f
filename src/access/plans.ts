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

/** How many recipients an account may send to; null: no limit. */
export interface MessageAllowance {
  /** Its name, for people. */
  readonly plan: string;
  readonly per_hour: number | null;
  readonly per_day: number | null;
}

/** As the plan says, and the tenant's own numbers in its place. */
export function messagesOf(
  tenant: Pick<TenantRow, 'plan' | 'messages_per_hour' | 'messages_per_day'>,
  config: Pick<ServerConfig, 'plans'>,
): MessageAllowance {
  const { messages_per_hour, messages_per_day } = planOf(tenant, config);
  return {
    plan: tenant.plan,
    per_hour: tenant.messages_per_hour ?? messages_per_hour,
    per_day: tenant.messages_per_day ?? messages_per_day,
  };
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
