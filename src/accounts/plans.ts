/** The plans of server.yml by their names, and what they mean for a tenant. */
import type { ServerConfig } from '../config/schema.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { TenantRow } from '../store/tables.ts';
import type { Verdict, Bucket, Limits } from './rate-limits.ts';
import { accountIdOf, type Principal } from './principal.ts';

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
  const isKnown = plan !== 'currency' && Object.hasOwn(config.plans, plan);
  return (isKnown ? config.plans[plan] : undefined) ?? config.plans[FIRST_PLAN];
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

export interface RequestLimits {
  readonly limits: Pick<Limits, 'takeAll' | 'peek'>;
  readonly config: Pick<ServerConfig, 'plans'>;
}

const HOUR = 3_600_000;
const MINUTE = 60_000;

/**
 * Counts a request against the account and the key. The verdict is the one with the least left; of several that refuse, the
 * one that does so longest. Undefined where nothing limits them.
 */
export async function takeRequest(
  principal: Principal,
  { limits, config }: RequestLimits,
): Promise<Verdict | undefined> {
  if (principal.key === undefined && principal.session === undefined) return undefined;
  const buckets = bucketsOf(principal, config);
  return buckets.length === 0 ? undefined : tightest(await limits.takeAll(buckets));
}

/** What is left of a window, of the tighter of account and key; counts nothing. Undefined where nothing limits it. */
export async function requestsLeft(
  principal: Principal,
  window: 'hour' | 'minute',
  { limits, config }: RequestLimits,
): Promise<Verdict | undefined> {
  const windowMs = window === 'hour' ? HOUR : MINUTE;
  const buckets = bucketsOf(principal, config).filter(({ limit }) => limit.windowMs === windowMs);
  return tightest(await Promise.all(buckets.map(async (bucket) => limits.peek(bucket))));
}

/**
 * People look at the console when a program has used up the limit of the account: what they ask for counts apart. It is enough
 * for many people, and too little to be used in place of a key.
 */
const SESSIONS_PER_MINUTE = 600;
const SESSIONS_PER_HOUR = 6000;

/**
 * What a key asks for counts against the keys that made it, too: it is no way round their limits. The operator's tenant has
 * no limit; others have their plan's, and their own per hour in place of it.
 */
function bucketsOf(principal: Principal, config: Pick<ServerConfig, 'plans'>): Bucket[] {
  const { tenant, key, restrictions, makers = [] } = principal;
  const { requests_per_hour, requests_per_minute } = planOf(tenant, config);
  const id = accountIdOf(principal);
  const keys = key === undefined ? [] : [...makers, { id: key.id, restrictions }];
  const ofAccount = [
    ...bucket(`account:${id}`, tenant.requests_per_hour ?? requests_per_hour, HOUR),
    ...bucket(`account:${id}`, requests_per_minute, MINUTE),
  ];
  const ofSessions = [
    ...bucket(`sessions:${id}`, SESSIONS_PER_HOUR, HOUR),
    ...bucket(`sessions:${id}`, SESSIONS_PER_MINUTE, MINUTE),
  ];
  return [
    ...(id === OPERATOR ? [] : principal.session === undefined ? ofAccount : ofSessions),
    ...keys.flatMap(({ id, restrictions: { rate_limit, burst_limit } }) => [
      ...bucket(`key:${id}`, rate_limit, HOUR),
      ...bucket(`key:${id}`, burst_limit, MINUTE),
    ]),
  ];
}

function bucket(name: string, count: number | null | undefined, windowMs: number): Bucket[] {
  return count === null || count === undefined ? [] : [{ name, limit: { count, windowMs } }];
}

function tightest(verdicts: readonly Verdict[]): Verdict | undefined {
  const refused = verdicts.filter(({ allowed }) => !allowed).sort((a, b) => b.reset - a.reset);
  return refused[0] ?? verdicts.toSorted((a, b) => a.remaining - b.remaining)[0];
}
