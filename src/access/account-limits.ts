/**
 * How often an account and each of its keys may ask: per hour and per minute, as the plan, the tenant's own number and the
 * key's restrictions say. A refused request counts nowhere. The operator over the Unix socket stands in none of these.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Bucket, Limits, Verdict } from './limits.ts';
import { allowanceOf } from './plans.ts';
import { accountIdOf, type Principal } from './principal.ts';

export interface AccountLimits {
  /**
   * Counts the request against the account and the key. The verdict is the one with the least left; of several that refuse,
   * the one that does so longest. Undefined where nothing limits them.
   */
  take(principal: Principal): Promise<Verdict | undefined>;
  /** What is left per hour and per minute, each of the tighter of account and key; counts nothing. */
  look(principal: Principal): Promise<{ readonly hour: Verdict | undefined; readonly minute: Verdict | undefined }>;
}

export interface AccountLimitsOptions {
  readonly limits: Pick<Limits, 'takeAll' | 'peek'>;
  readonly config: () => Pick<ServerConfig, 'plans'>;
}

const HOUR = 3_600_000;
const MINUTE = 60_000;

/** The limits of accounts under the configuration as it is when they are asked. */
export function createAccountLimits({ limits, config }: AccountLimitsOptions): AccountLimits {
  return {
    async take(principal) {
      if (principal.key === undefined) return undefined;
      const buckets = bucketsOf(principal, config());
      return buckets.length === 0 ? undefined : tightest(await limits.takeAll(buckets));
    },
    async look(principal) {
      const buckets = bucketsOf(principal, config());
      const verdicts = await Promise.all(buckets.map(async (bucket) => limits.peek(bucket)));
      return { hour: tightest(within(HOUR)), minute: tightest(within(MINUTE)) };

      function within(window: number): Verdict[] {
        return verdicts.filter((_, i) => buckets[i]?.limit.windowMs === window);
      }
    },
  };
}

/** What a key asks for counts against the keys that made it, too: it is no way round their limits. */
function bucketsOf(principal: Principal, config: Pick<ServerConfig, 'plans'>): Bucket[] {
  const { tenant, key, restrictions, makers = [] } = principal;
  const { requests_per_hour, requests_per_minute } = allowanceOf(tenant, config);
  const account = `account:${accountIdOf(principal)}`;
  const keys = key === undefined ? [] : [...makers, { id: key.id, restrictions }];
  return [
    ...bucket(account, requests_per_hour, HOUR),
    ...bucket(account, requests_per_minute, MINUTE),
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
  const [first, ...others] = verdicts;
  return first && others.reduce(tighter, first);
}

function tighter(a: Verdict, b: Verdict): Verdict {
  if (a.allowed !== b.allowed) return a.allowed ? b : a;
  if (!a.allowed) return b.reset > a.reset ? b : a;
  return b.remaining < a.remaining ? b : a;
}
