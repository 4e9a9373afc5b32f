/** The keys that sign for a domain, as key objects: parsing one costs more than half a signature. */
import { createPrivateKey } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { SigningKey } from '../mail/dkim.ts';
import { dkimKeysOf } from '../store/domains.ts';
import type { Store } from '../store/store.ts';
import { Recent } from './recent.ts';

/** A key that was made or rotated signs within this time. */
const FRESH_MS = 60_000;
const DOMAINS = 1000;

/** All keys of a domain; none where it has none. */
export type KeysOf = (domain: string) => Promise<readonly SigningKey[]>;

/** Keys from the store. */
export function createKeyring({ store, clock }: { store: Store; clock: Clock }): KeysOf {
  const known = new Recent<{ readonly until: number; readonly keys: Promise<readonly SigningKey[]> }>(DOMAINS);

  async function load(domain: string): Promise<readonly SigningKey[]> {
    const rows = await dkimKeysOf(store, domain);
    return rows.map(({ selector, algorithm, private_key }) => ({
      domain,
      selector,
      algorithm,
      key: createPrivateKey(private_key),
    }));
  }

  return async (domain) => {
    const kept = known.get(domain);
    const now = clock.monotonic();
    if (kept !== undefined && now < kept.until) return kept.keys;
    const keys = load(domain);
    known.set(domain, { until: now + FRESH_MS, keys });
    try {
      const found = await keys;
      // A domain that has none yet is asked about again.
      if (found.length === 0) known.delete(domain);
      return found;
    } catch (error) {
      known.delete(domain);
      throw error;
    }
  };
}
