/**
 * Names of collections are unique on a server, so that to choose one tells whether somebody has it. It tells no more: of a
 * name that is not available nobody learns why, of several only the first is named, and an account that finds many such
 * names has to wait.
 */
import type { Snapshot } from '../config/snapshot.ts';
import { accountOf } from '../lib/ids.ts';
import { findCollectionRow } from '../store/forms.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Store } from '../store/store.ts';
import type { Limits, Verdict } from './rate-limits.ts';

export type Names =
  | { readonly kind: 'free' }
  | Unavailable
  /** The account has asked for too many names that were not available. */
  | { readonly kind: 'too-often'; readonly verdict: Verdict };

export interface Unavailable {
  readonly kind: 'unavailable';
  readonly name: string;
  /** Without a full stop. */
  readonly message: string;
}

export interface Claimant {
  readonly tenant: string;
  /** The project whose configuration names them, which may have them already. */
  readonly slug?: string;
}

export interface CollectionNames {
  /** Whether the tenant may have collections of these names. */
  ask(names: readonly string[], claimant: Claimant): Promise<Names>;
  /** The answer where somebody else took the name meanwhile. */
  taken(name: string, tenant: string): Promise<Unavailable>;
}

export interface CollectionNamesOptions {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take' | 'peek'>;
  readonly snapshot: () => Snapshot;
}

const MISSES = { count: 20, windowMs: 3_600_000 };

export function createCollectionNames({ store, limits, snapshot }: CollectionNamesOptions): CollectionNames {
  function isItsOwn(name: string, { tenant, slug }: Claimant): boolean {
    const known = snapshot().collections.get(name);
    return slug !== undefined && known?.tenant === tenant && known.project?.slug === slug;
  }

  async function isFree(name: string): Promise<boolean> {
    const { collections, unavailable } = snapshot();
    if (collections.has(name) || unavailable.has(`c/${name}`)) return false;
    return (await findCollectionRow(store, name)) === undefined;
  }

  async function taken(name: string, tenant: string): Promise<Unavailable> {
    if (accountOf(tenant) !== OPERATOR) await limits.take(bucketOf(tenant), MISSES);
    return { kind: 'unavailable', name, message: `the name ${name} is not available; choose another one` };
  }

  return {
    async ask(all, claimant) {
      const { tenant } = claimant;
      const names = all.filter((name) => !isItsOwn(name, claimant));
      if (names.length > 0 && accountOf(tenant) !== OPERATOR) {
        const verdict = await limits.peek({ name: bucketOf(tenant), limit: MISSES });
        if (!verdict.allowed) return { kind: 'too-often', verdict };
      }
      for (const name of names) if (!(await isFree(name))) return taken(name, tenant);
      return { kind: 'free' };
    },
    taken,
  };
}

function bucketOf(tenant: string): string {
  return `collection-names:${accountOf(tenant)}`;
}
