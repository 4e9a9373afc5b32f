/**
 * The plans of server.yml by their names, what they mean for a tenant, and the requests that count against them and are
 * counted for its owner to see.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type Store, writeBehind } from '../store/store.ts';
import type { TenantRow, UsageRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import { addUsage } from '../store/usage.ts';
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

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export interface AccountRequestsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Pick<Limits, 'takeAll' | 'peek'>;
  readonly config: () => Pick<ServerConfig, 'plans'>;
}

/**
 * The requests of accounts and their keys: what their limits leave, and how many each key made per UTC day. Those are counted
 * in memory, so that no request waits for it, and added to the store within seconds and at the end. Daemons that share a store
 * add to the same rows. A crash forgets those seconds.
 */
export class AccountRequests {
  readonly #parts: AccountRequestsParts;
  #counts = new Map<string, UsageRow>();
  #flushing = Promise.resolve();

  constructor(parts: AccountRequestsParts) {
    this.#parts = parts;
  }

  /**
   * Takes a request from what the limits of account and key leave. The verdict is the one with the least left; of several that
   * refuse, the one that does so longest. Undefined where nothing limits them.
   */
  async take(principal: Principal): Promise<Verdict | undefined> {
    if (principal.key === undefined && principal.session === undefined) return undefined;
    const buckets = bucketsOf(principal, this.#parts.config());
    return buckets.length === 0 ? undefined : tightest(await this.#parts.limits.takeAll(buckets));
  }

  /** What is left of a window, of the tighter of account and key; counts nothing. Undefined where nothing limits it. */
  async left(principal: Principal, window: 'hour' | 'minute'): Promise<Verdict | undefined> {
    const { limits, config } = this.#parts;
    const windowMs = window === 'hour' ? HOUR_MS : MINUTE_MS;
    const buckets = bucketsOf(principal, config()).filter(({ limit }) => limit.windowMs === windowMs);
    return tightest(await Promise.all(buckets.map(async (bucket) => limits.peek(bucket))));
  }

  /** Counts what became of a request with a key, as an HTTP status. */
  count(principal: Principal, status: number): void {
    const { key } = principal;
    if (key === undefined) return;
    const now = this.#parts.clock.now();
    this.#add({
      tenant: accountIdOf(principal),
      key: key.id,
      day: now - (now % DAY_MS),
      requests: 1,
      errors: status >= 400 && status !== 429 ? 1 : 0,
      rate_limited: status === 429 ? 1 : 0,
    });
  }

  /**
   * Adds to the store what was counted before the call, one flush at a time. What the store does not take is logged and kept
   * for the next time.
   */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#save());
    return this.#flushing;
  }

  #add(row: UsageRow): void {
    const name = `${row.key} ${row.day}`;
    const { requests, errors, rate_limited } = this.#counts.get(name) ?? { requests: 0, errors: 0, rate_limited: 0 };
    this.#counts.set(name, {
      ...row,
      requests: requests + row.requests,
      errors: errors + row.errors,
      rate_limited: rate_limited + row.rate_limited,
    });
  }

  async #save(): Promise<void> {
    // In one order everywhere: daemons that share a store lock the same rows.
    const rows = [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#counts = new Map();
    for (const row of await writeBehind(rows, addUsage, { ...this.#parts, failure: 'usage.not_saved' })) this.#add(row);
  }
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
    ...bucket(`account:${id}`, tenant.requests_per_hour ?? requests_per_hour, HOUR_MS),
    ...bucket(`account:${id}`, requests_per_minute, MINUTE_MS),
  ];
  const ofSessions = [
    ...bucket(`sessions:${id}`, SESSIONS_PER_HOUR, HOUR_MS),
    ...bucket(`sessions:${id}`, SESSIONS_PER_MINUTE, MINUTE_MS),
  ];
  return [
    ...(id === OPERATOR ? [] : principal.session === undefined ? ofAccount : ofSessions),
    ...keys.flatMap(({ id, restrictions: { rate_limit, burst_limit } }) => [
      ...bucket(`key:${id}`, rate_limit, HOUR_MS),
      ...bucket(`key:${id}`, burst_limit, MINUTE_MS),
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
