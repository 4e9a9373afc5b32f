/**
 * The DKIM keys of a domain: made and committed before anybody is told their public half. The first ones sign as soon as
 * DNS has said whose the domain is; each later one is published before it signs (key-rotation.ts). Tenants that claim the
 * same domain have keys of their own under selectors of their own, so that one can publish its records beside the other's
 * while a domain moves.
 */
import { createHash } from 'node:crypto';
import type { Domain } from '../config/snapshot.ts';
import type { RecordsWanted } from '../dns/records.ts';
import { generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts';
import { dkimKeysOf, forgetKey, insertDkimKey, type DkimKeyName } from '../store/dkim-keys.ts';
import { OPERATOR } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import type { Store } from '../store/store.ts';
import type { DkimKeyRow } from '../store/tables.ts';
import { environmentOf } from '../lib/ids.ts';
import { selectorOf } from './states.ts';

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

/** The selector of the server's own key. */
const HOST_SELECTOR = 'postern';

/** Who owns the keys of a claim. */
export function claimOwner({ name, project, config }: Domain): KeyOwner {
  const { selector, algorithms } = config.dkim;
  const wanted = algorithms.map((algorithm) => ({ algorithm, base: selectorOf(selector, algorithm) }));
  return { domain: name, tenant: project.tenant, wanted, isHost: false };
}

/** Who owns the keys of the server itself. */
export function hostOwner(hostname: string): KeyOwner {
  return {
    domain: hostname,
    tenant: OPERATOR,
    wanted: [{ algorithm: 'rsa', base: HOST_SELECTOR }],
    isHost: true,
  };
}

/** The owner's keys, in every state: what signs first, then by age. */
export async function keysOfOwner(store: Store, { domain, tenant }: KeyOwner): Promise<DkimKeyRow[]> {
  const keys = (await dkimKeysOf(store, domain)).filter((key) => key.tenant === tenant);
  return keys.sort((a, b) => Number(b.state === 'active') - Number(a.state === 'active'));
}

/** What the owner has to publish for its keys; the active ones are required. */
export async function publishedKeys(store: Store, owner: KeyOwner): Promise<RecordsWanted['dkim']> {
  const keys = await keysOfOwner(store, owner);
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
      return 'Publish this: the next key signs as soon as its record is seen in DNS. Leave the present one where it is.';
    case 'active':
      return 'Signs.';
    case 'retiring':
      return `Signs no more. Keep this record until ${dayOf(keep_until ?? 0)} at least: mail that it signed may be under way.`;
    case 'retired':
      return 'Nobody needs this record any more: you may remove it.';
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Whether the claim's keys are as it wants them, among these of its domain. */
export function hasKeys(domain: Domain, keys: readonly DkimKeyName[]): boolean {
  const owner = claimOwner(domain);
  const own = keys.filter(({ tenant }) => tenant === owner.tenant);
  return unwantedNext(owner, own).length === 0 && missing(owner, own).length === 0;
}

/**
 * The statements that make the claim's keys as it wants them. Where one signs already, a new one is the next. The unit
 * fails with UnmetError where a selector was taken meanwhile.
 */
export async function missingKeys(store: Store, domain: Domain, now: number): Promise<Statement[]> {
  const owner = claimOwner(domain);
  const all = await dkimKeysOf(store, domain.name);
  const own = all.filter(({ tenant }) => tenant === owner.tenant);
  const state = own.some((key) => key.state === 'active') ? 'next' : 'active';
  const made = await Promise.all(
    missing(owner, own).map((wanted) =>
      makeKey(owner, { ...wanted, selector: firstSelector(owner, wanted.base, all), state }, now),
    ),
  );
  const dropped = unwantedNext(owner, own).map(({ selector }) =>
    forgetKey({ domain: domain.name, selector, state: 'next' }),
  );
  return [...dropped, ...made];
}

function missing(owner: KeyOwner, own: readonly DkimKeyName[]): WantedKey[] {
  return owner.wanted.filter(
    (wanted) => !own.some((key) => isOf(key, wanted) && (key.state === 'next' || key.state === 'active')),
  );
}

/** Of another configuration than is in force. */
function unwantedNext<Key extends DkimKeyName>({ wanted }: KeyOwner, own: readonly Key[]): Key[] {
  return own.filter((key) => key.state === 'next' && !wanted.some((each) => isOf(key, each)));
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
function firstSelector({ tenant }: KeyOwner, base: string, keys: readonly DkimKeyName[]): string {
  const own = `${base.slice(0, 56)}-${createHash('sha256').update(tenant).digest('hex').slice(0, 6)}`;
  // The usual name is for the live domain, whenever that comes.
  const names = environmentOf(tenant) === 'test' ? [own] : [base, own];
  return free(names, keys) ?? numbered(own, keys);
}

/** The selector of a key that is made at `now` to follow another, such as `postern-20261122`. */
export function nextSelector(base: string, keys: readonly Selected[], now: number): string {
  const dated = `${base.slice(0, 48)}-${dayOf(now).replaceAll('-', '')}`;
  return free([dated], keys) ?? numbered(dated, keys);
}

type Selected = Pick<DkimKeyName, 'selector'>;

function free(selectors: readonly string[], keys: readonly Selected[]): string | undefined {
  return selectors.find((selector) => keys.every((key) => key.selector !== selector));
}

function numbered(selector: string, keys: readonly Selected[]): string {
  for (let number = 2; ; number++) {
    const found = free([`${selector.slice(0, 58)}-${number}`], keys);
    if (found !== undefined) return found;
  }
}
