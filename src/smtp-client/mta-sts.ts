/**
 * MTA-STS policies of the domains to which mail is sent (RFC 8461 §5): found, kept in the database for their `max_age`, and
 * fetched again every day while mail is sent there. A policy that was fetched once stays active until it ends, whatever
 * DNS or the policy's server say meanwhile: an attacker who blocks both must not be able to switch it off.
 */
import { announcedId, policyUrl, readPolicy, type FetchedPolicy, type MtaStsPolicy } from '../dns/mta-sts.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { Recent } from '../lib/lru.ts';
import {
  deferMtaStsRefresh,
  findMtaStsPolicy,
  forgetMtaStsPolicies,
  mtaStsPoliciesToRefresh,
  noteMtaStsUse,
  saveMtaStsPolicy,
  type MtaStsPolicyRow,
} from '../store/mta-sts-policies.ts';
import type { Store } from '../store/store.ts';

export interface MtaStsOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Pick<Resolver, 'txt'>;
  /** Never rejects. */
  readonly fetchPolicy: (url: string) => Promise<FetchedPolicy>;
  /** Told of a policy that could not be had, in the words of RFC 8460 §4.3.2.2; default: nobody. */
  readonly onFailure?: (failure: PolicyFailure) => void;
}

export interface PolicyFailure {
  readonly domain: string;
  readonly result: 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid';
  readonly reason: string;
}

/** an active policy. */
export interface KnownPolicy extends MtaStsPolicy {
  readonly id: string;
  /** ms */
  readonly until: number;
}

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** How long a policy that could not be fetched is not asked for again (§3.3). */
const RETRY_MS = 300_000;
const MAX_FAILURES = 10_000;
const MAX_POLICIES = 10_000;
/** After so long without mail, a policy is no longer refreshed. */
const UNUSED_MS = 14 * DAY_MS;
const REFRESHES_AT_ONCE = 20;

export class MtaSts {
  readonly #options: MtaStsOptions;
  /** Domains whose policy could not be fetched: its id, and until when it is not tried again, on the monotonic clock. */
  readonly #failed = new Recent<{ readonly id: string; readonly until: number }>(MAX_FAILURES);
  /** When to look for policies that have ended, on the monotonic clock. */
  #forgetAt = -Infinity;
  readonly #fetching = new Map<string, Promise<MtaStsPolicyRow | undefined>>();

  constructor(options: MtaStsOptions) {
    this.#options = options;
  }

  /** The active policy of a domain (A-labels). Rejects where the store cannot be read. */
  async policyOf(domain: string): Promise<KnownPolicy | undefined> {
    const { store, clock, resolver } = this.#options;
    const [row, answer] = await Promise.all([findMtaStsPolicy(store, domain), resolver.txt(`_mta-sts.${domain}`)]);
    const now = clock.now();
    const kept = row !== undefined && row.expires_at > now ? row : undefined;
    const id = answer.kind === 'found' ? announcedId(answer.records) : undefined;
    const isNew = id !== undefined && id !== kept?.id && !this.#failedLately(domain, id);
    const policy = (isNew ? await this.#fetch(domain, id) : undefined) ?? kept;
    if (policy === undefined) return undefined;
    if (policy.used_at < now - DAY_MS) await store.write([noteMtaStsUse({ domain, used_at: now })]);
    const { mode, max_age: maxAge, expires_at: until } = policy;
    return { id: policy.id, mode, mx: policy.mx.split(' '), maxAge, until };
  }

  /** Fetches policies again before they end, and forgets those that have ended. */
  async refresh(): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    for (const { domain, id } of await mtaStsPoliciesToRefresh(store, now, now - UNUSED_MS, REFRESHES_AT_ONCE)) {
      if ((await this.#fetch(domain, id)) !== undefined) continue;
      await store.write([deferMtaStsRefresh({ domain, refresh_at: clock.now() + HOUR_MS })]);
    }
    if (clock.monotonic() < this.#forgetAt) return;
    await store.write([forgetMtaStsPolicies({ now, max: MAX_POLICIES })]);
    this.#forgetAt = clock.monotonic() + HOUR_MS;
  }

  #failedLately(domain: string, id: string): boolean {
    const failure = this.#failed.get(domain);
    return failure?.id === id && failure.until > this.#options.clock.monotonic();
  }

  /** All who need it wait for the one request. */
  async #fetch(domain: string, id: string): Promise<MtaStsPolicyRow | undefined> {
    const fetching = this.#fetching.get(domain) ?? this.#fetchAndKeep(domain, id);
    this.#fetching.set(domain, fetching);
    try {
      return await fetching;
    } finally {
      this.#fetching.delete(domain);
    }
  }

  async #fetchAndKeep(domain: string, id: string): Promise<MtaStsPolicyRow | undefined> {
    const { store, clock, log, fetchPolicy, onFailure } = this.#options;
    const fetched = await fetchPolicy(policyUrl(domain));
    const policy = await readPolicy(fetched);
    if (typeof policy === 'string') {
      onFailure?.({ domain, result: resultOf(fetched), reason: policy });
      this.#failed.set(domain, { id, until: clock.monotonic() + RETRY_MS });
      log.info('mta_sts.not_fetched', { domain, id, reason: policy });
      return undefined;
    }
    const now = clock.now();
    const life = policy.maxAge * 1000;
    const row = {
      domain,
      id,
      mode: policy.mode,
      mx: policy.mx.join(' '),
      max_age: policy.maxAge,
      expires_at: now + life,
      refresh_at: now + Math.min(DAY_MS, life / 2),
      used_at: now,
    };
    await store.write([saveMtaStsPolicy(row)]);
    return row;
  }
}

/** Why there is no policy, in the words of RFC 8460 §4.3.2.2. */
function resultOf(fetched: FetchedPolicy): PolicyFailure['result'] {
  if (fetched.kind === 'answered') return fetched.status === 200 ? 'sts-policy-invalid' : 'sts-policy-fetch-error';
  return fetched.isUntrusted === true ? 'sts-webpki-invalid' : 'sts-policy-fetch-error';
}
