/**
 * The DKIM keys of a claim to a domain: made once, committed before anybody is told their public half. Tenants that claim
 * the same domain have keys of their own under selectors of their own, so that one can publish its records beside the
 * other's while a domain moves.
 */
import { createHash } from 'node:crypto';
import type { Domain } from '../config/snapshot.ts';
import { generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts';
import { dkimKeysOf, insertDkimKey } from '../store/domains.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { DkimKeyRow } from '../store/tables.ts';
import { selectorOf } from './domain-states.ts';

type Names = Pick<DkimKeyRow, 'tenant' | 'selector'>;

/** The selector of a claim's key: the one that stands, else the configured one, unless another tenant's key has it. */
function selectorFor<Key extends Names>(
  { tenant, base }: { readonly tenant: string; readonly base: string },
  keys: readonly Key[],
): { readonly selector: string; readonly key: Key | undefined } {
  const own = `${base.slice(0, 56)}-${createHash('sha256').update(tenant).digest('hex').slice(0, 6)}`;
  const key = [base, own].flatMap(
    (name) => keys.find((row) => row.tenant === tenant && row.selector === name) ?? [],
  )[0];
  const isFree = keys.every(({ selector }) => selector !== base);
  return { selector: key?.selector ?? (isFree ? base : own), key };
}

/** The keys that the claim publishes and signs with, as far as they are made. */
export async function keysOfClaim(store: Store, domain: Domain): Promise<DkimKeyRow[]> {
  const keys = await dkimKeysOf(store, domain.name);
  return wanted(domain, keys).flatMap(({ key }) => key ?? []);
}

/** Whether all keys of the claim are among these of its domain. */
export function hasKeys(domain: Domain, keys: readonly Names[]): boolean {
  return wanted(domain, keys).every(({ key }) => key !== undefined);
}

/** The statements that keep the keys that are missing; the unit fails with UnmetError where a selector was taken meanwhile. */
export async function missingKeys(store: Store, domain: Domain, now: number): Promise<Statement[]> {
  const keys = await dkimKeysOf(store, domain.name);
  const missing = wanted(domain, keys).filter(({ key }) => key === undefined);
  return Promise.all(
    missing.map(async ({ algorithm, selector }) => {
      const { privateKey: private_key, publicKey: public_key } = await generateDkimKey(algorithm);
      const names = { domain: domain.name, tenant: domain.project.tenant, selector, algorithm };
      return insertDkimKey({ ...names, private_key, public_key, created_at: now }, 1);
    }),
  );
}

interface Wanted<Key> {
  readonly algorithm: DkimAlgorithm;
  readonly selector: string;
  readonly key: Key | undefined;
}

function wanted<Key extends Names>({ project, config }: Domain, keys: readonly Key[]): Wanted<Key>[] {
  return config.dkim.algorithms.map((algorithm) => {
    const base = selectorOf(config.dkim.selector, algorithm);
    return { algorithm, ...selectorFor({ tenant: project.tenant, base }, keys) };
  });
}
