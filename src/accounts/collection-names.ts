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

export interface NameParts {
  readonly store: Store;
  readonly limits: Pick<Limits, 'take' | 'peek'>;
  readonly snapshot: () => Snapshot;
}

const MISSES = { count: 20, windowMs: 3_600_000 };

/** Whether the tenant may have collections of these names. */
export async function askNames(names: readonly string[], claimant: Claimant, parts: NameParts): Promise<Names> {
  const { tenant, slug } = claimant;
  const { collections, unavailable } = parts.snapshot();
  const otherNames = names.filter((name) => {
    const known = collections.get(name);
    return slug === undefined || known?.tenant !== tenant || known.project?.slug !== slug;
  });
  if (otherNames.length > 0 && accountOf(tenant) !== OPERATOR) {
    const verdict = await parts.limits.peek({ name: bucketOf(tenant), limit: MISSES });
    if (!verdict.allowed) return { kind: 'too-often', verdict };
  }
  for (const name of otherNames) {
    const isTaken = collections.has(name) || unavailable.has(`c/${name}`);
    if (isTaken || (await findCollectionRow(parts.store, name)) !== undefined) return nameTaken(name, tenant, parts);
  }
  return { kind: 'free' };
}

/** The answer where somebody else has the name; the account may ask for so many of them. */
export async function nameTaken(
  name: string,
  tenant: string,
  { limits }: Pick<NameParts, 'limits'>,
): Promise<Unavailable> {
  if (accountOf(tenant) !== OPERATOR) await limits.take(bucketOf(tenant), MISSES);
  return { kind: 'unavailable', name, message: `the name ${name} is not available; choose another one` };
}

function bucketOf(tenant: string): string {
  return `collection-names:${accountOf(tenant)}`;
}
