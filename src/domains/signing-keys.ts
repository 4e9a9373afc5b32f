/** The keys that sign for a domain, as key objects: parsing one costs more than half a signature. */
import { createPrivateKey } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import { accountOf, environmentOf } from '../lib/ids.ts';
import type { SigningKey } from '../mail/dkim.ts';
import { activeKeysOf, signingKeysOf } from '../store/dkim-keys.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import { Recent } from '../lib/lru.ts';

/** A key that was made or rotated signs within this time, in every daemon. */
export const KEYS_FRESH_MS = 60_000;
const DOMAINS = 1000;

/**
 * The keys that sign a tenant's mail of a domain; none where it has none, or DNS never said that the domain is its own.
 * Whoever's mail is from the server's host name, the server signs it.
 */
export type KeysOf = (domain: string, tenant: string) => Promise<readonly SigningKey[]>;

export interface KeyringOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** `server.hostname` */
  readonly hostname: () => string;
}

/** Keys from the store. */
export function createKeyring({ store, clock, hostname }: KeyringOptions): KeysOf {
  const known = new Recent<{ readonly until: number; readonly keys: Promise<readonly SigningKey[]> }>(DOMAINS);

  async function load(domain: string, tenant: string): Promise<readonly SigningKey[]> {
    const rows = await (domain === hostname() ? activeKeysOf : signingKeysOf)(store, domain, accountOf(tenant));
    // DNS is not asked about a domain that only a test key added, and what it signs does not leave.
    if (rows.length === 0 && environmentOf(tenant) === 'test')
      rows.push(...(await activeKeysOf(store, domain, tenant)));
    return rows.map(({ selector, algorithm, private_key }) => ({
      domain,
      selector,
      algorithm,
      key: createPrivateKey(private_key),
    }));
  }

  return async (domain, tenant) => {
    const owner = domain === hostname() ? OPERATOR : tenant;
    const name = `${owner} ${domain}`;
    const kept = known.get(name);
    const now = clock.monotonic();
    if (kept !== undefined && now < kept.until) return kept.keys;
    const keys = load(domain, owner);
    known.set(name, { until: now + KEYS_FRESH_MS, keys });
    try {
      const found = await keys;
      // A domain that has none yet is asked about again.
      if (found.length === 0) known.delete(name);
      return found;
    } catch (error) {
      known.delete(name);
      throw error;
    }
  };
}
