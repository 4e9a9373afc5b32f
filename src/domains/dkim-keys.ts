/**
 * The DKIM keys of a domain: made and committed before anybody is told their public half. The first ones sign as soon as
 * DNS has said whose the domain is; each later one is published before it signs (rotation.ts). Tenants that claim the
 * same domain have keys of their own under selectors of their own, so that one can publish its records beside the other's
 * while a domain moves.
 */
import { createHash, createPrivateKey } from 'node:crypto';
import type { Domain } from '../config/snapshot.ts';
import type { RecordsWanted } from '../dns/records.ts';
import { generateDkimKey, type DkimAlgorithm, type KeysOf, type SigningKey } from '../mail/dkim.ts';
import {
  dkimKeysOf,
  forgetKey,
  insertDkimKey,
  type DkimKeyName,
  activeKeysOf,
  signingKeysOf,
} from '../store/dkim-keys.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { DkimKeyRow } from '../store/tables.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import { environmentOf, accountOf } from '../lib/ids.ts';
import type { Clock } from '../lib/clock.ts';
import { LruMap } from '../lib/lru.ts';

/** Whose keys they are. */
export interface KeyOwner {
  readonly domain: string;
  readonly tenant: string;
  readonly wanted: readonly WantedKey[];
  /** Whether they are the server's own, which seal all that is forwarded. */
  readonly isHost: boolean;
}

export interface WantedKey {
  readonly algorithm: DkimAlgorithm;
  /** The configured selector: the first key is called so, later ones have a date behind it. */
  readonly base: string;
}

/** Who owns the keys of a claim. */
export function claimOwner({ name, project, config }: Domain): KeyOwner {
  const { selector, algorithms } = config.dkim;
  const wanted = algorithms.map((algorithm) => ({ algorithm, base: selectorOf(selector, algorithm) }));
  return { domain: name, tenant: project.tenant, wanted, isHost: false };
}

/** Letters of a label at most (RFC 1035 §2.3.4). */
const LABEL = 63;

/** The selector of each algorithm's key: the configured one for RSA, a sibling for Ed25519. */
export function selectorOf(selector: string, algorithm: 'rsa' | 'ed25519'): string {
  return algorithm === 'rsa' ? selector : `${selector.slice(0, LABEL - 8)}-ed25519`;
}

/** Who owns the keys of the server itself. */
export function hostOwner(hostname: string): KeyOwner {
  return {
    domain: hostname,
    tenant: OPERATOR,
    wanted: [{ algorithm: 'rsa', base: 'postern' }],
    isHost: true,
  };
}

/** The owner's keys, in every state: what signs first, then by age. */
export async function keysOfOwner(store: Store, { domain, tenant }: KeyOwner): Promise<DkimKeyRow[]> {
  const keys = (await dkimKeysOf(store, domain)).filter((key) => key.tenant === tenant);
  return keys.sort((a, b) => Number(b.state === 'active') - Number(a.state === 'active'));
}

/** What an owner has to publish for its keys; the active ones are required. */
export function publishedKeys(keys: readonly DkimKeyRow[]): RecordsWanted['dkim'] {
  return keys
    .filter(({ state }) => state !== 'retired')
    .map((key) => ({
      selector: key.selector,
      algorithm: key.algorithm,
      publicKey: key.public_key,
      required: key.state === 'active',
      ...(key.state === 'active' ? {} : { note: adviceOn(key) }),
    }));
}

/** What its record is good for, in words for whoever edits the zone. */
export function adviceOn({ state, keep_until }: Pick<DkimKeyRow, 'state' | 'keep_until'>): string {
  switch (state) {
    case 'next':
      return 'Publish this record. The next key signs once it is found in DNS. Keep the record of the current key.';
    case 'active':
      return 'This key signs mail.';
    case 'retiring':
      return `This key no longer signs. Keep this record until at least ${dayOf(keep_until ?? 0)}: mail that it signed may be in transit.`;
    case 'retired':
      return 'This record is no longer needed: you can remove it.';
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Whether the claim's keys are as it wants them, among these of its domain. */
export function hasKeys(domain: Domain, keys: readonly DkimKeyName[]): boolean {
  const { missing, unwanted } = compareKeys(claimOwner(domain), keys);
  return missing.length + unwanted.length === 0;
}

/**
 * The statements that make the claim's keys as it wants them. Where one signs already, a new one is the next. The unit
 * fails with UnmetError where a selector was taken meanwhile.
 */
export async function missingKeys(store: Store, domain: Domain, now: number): Promise<Statement[]> {
  const owner = claimOwner(domain);
  const all = await dkimKeysOf(store, domain.name);
  const { missing, unwanted } = compareKeys(owner, all);
  const isSigning = all.some((key) => key.tenant === owner.tenant && key.state === 'active');
  const state = isSigning ? 'next' : 'active';
  const made = missing.map((wanted) =>
    makeKey(owner, { ...wanted, selector: firstSelector(owner, wanted.base, all), state }, now),
  );
  return [...unwanted.map((key) => forgetKey({ ...key, state: 'next' })), ...(await Promise.all(made))];
}

/** Which keys the owner lacks, and which of its next ones are of another configuration than is active. */
function compareKeys({ tenant, wanted }: KeyOwner, keys: readonly DkimKeyName[]) {
  const own = keys.filter((key) => key.tenant === tenant && (key.state === 'next' || key.state === 'active'));
  return {
    missing: wanted.filter((each) => !own.some((key) => isOf(key, each))),
    unwanted: own.filter((key) => key.state === 'next' && !wanted.some((each) => isOf(key, each))),
  };
}

function isOf(key: DkimKeyName, { algorithm, base }: WantedKey): boolean {
  return key.algorithm === algorithm && key.base === base;
}

/** A key that is to be made. */
export type Unmade = WantedKey & Pick<DkimKeyRow, 'selector' | 'state'>;

/** The statement that keeps a new key; its unit fails with UnmetError where the selector or the place is taken. */
export async function makeKey({ domain, tenant }: KeyOwner, unmade: Unmade, now: number): Promise<Statement> {
  const { algorithm, base, selector, state } = unmade;
  const { privateKey: private_key, publicKey: public_key } = await generateDkimKey(algorithm);
  const names = { domain, tenant, selector, algorithm, base, state };
  return insertDkimKey({ ...names, private_key, public_key, created_at: now }, 1);
}

/** The configured selector; one of the tenant's own where another key has it. */
function firstSelector({ tenant }: KeyOwner, base: string, keys: readonly Selected[]): string {
  const own = `${base.slice(0, 56)}-${createHash('sha256').update(tenant).digest('hex').slice(0, 6)}`;
  // The usual name is for the live domain, whenever that comes.
  return freeSelector(environmentOf(tenant) === 'test' ? [] : [base], own, keys);
}

/** The selector of a key that is made at `now` to follow another, such as `postern-20261122`. */
export function nextSelector(base: string, keys: readonly Selected[], now: number): string {
  return freeSelector([], `${base.slice(0, 48)}-${dayOf(now).replaceAll('-', '')}`, keys);
}

type Selected = Pick<DkimKeyName, 'selector'>;

/** The first of these and the last one that no key has, else the last with a number. */
function freeSelector(names: readonly string[], last: string, keys: readonly Selected[]): string {
  const taken = new Set(keys.map(({ selector }) => selector));
  const numbered = keys.map((_, i) => `${last.slice(0, 58)}-${i + 2}`);
  return [...names, last, ...numbered].find((name) => !taken.has(name)) ?? last;
}

/** A key that was made or rotated signs within this time, in every daemon. */
export const KEYS_FRESH_MS = 60_000;
const DOMAINS = 1000;

/**
 * Keys from the store: a domain has none where it made none, or DNS never said that it is the tenant's own. Whoever's mail is
 * from the server's host name, the server signs it.
 */
export function createKeyring({
  store,
  clock,
  hostname,
}: {
  readonly store: Store;
  readonly clock: Clock;
  /** `server.hostname` */
  readonly hostname: () => string;
}): KeysOf {
  const known = new LruMap<{ readonly until: number; readonly keys: readonly SigningKey[] }>(DOMAINS);

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
    const keys = await load(domain, owner);
    // A domain that has none yet is asked about again.
    if (keys.length > 0) known.set(name, { until: now + KEYS_FRESH_MS, keys });
    return keys;
  };
}
