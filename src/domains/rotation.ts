/**
 * The rotation of DKIM keys: next → active → retiring → retired (docs/states.md). A key signs only after its record was
 * seen in DNS, and its record is needed until no mail that it signed is under way. Each step is one unit that names the
 * state which it leaves: of several daemons that look, one moves it and tells of it.
 */
import { checkDkim } from '../dns/check.ts';
import type { RecordStatus } from '../dns/finding.ts';
import { dkimRecord, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import {
  activateKey,
  anySignedMailWaits,
  dkimKeysOf,
  forgetKey,
  keepKey,
  relieveKey,
  retireKey,
  signedMailWaits,
} from '../store/dkim-keys.ts';
import { recordEvent, type EventType } from '../store/events.ts';
import type { Statement } from '../store/statement.ts';
import { type Store, writeIfMet } from '../store/store.ts';
import type { DkimKeyRow } from '../store/tables.ts';
import { OPERATOR } from '../store/tenants.ts';
import {
  KEYS_FRESH_MS,
  keysOfOwner,
  makeKey,
  nextSelector,
  type KeyOwner,
  type Unmade,
  hostOwner,
  publishedKeys,
} from './dkim-keys.ts';
import type { Snapshot } from '../config/snapshot.ts';
import { claimId } from '../lib/ids.ts';
import { whenPublished } from './states.ts';

export interface RotationParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** A receiver, or whoever it forwards to, may check a signature days after we delivered it. */
const MARGIN_MS = 7 * 86_400_000;

/** So often is the queue searched for mail that a key has signed. */
const SEARCH_MS = 3_600_000;

/** So often is a selector chosen anew that was taken meanwhile. */
const MAX_TRIES = 3;

/** Makes the next key of each algorithm that has none: asked twice, or by two daemons, the first one's stays. */
export async function rotateKeys({ store, clock, log }: RotationParts, owner: KeyOwner): Promise<void> {
  for (let tries = 1; ; tries++) {
    const now = clock.now();
    const all = await dkimKeysOf(store, owner.domain);
    const pending = new Set(
      all.filter(({ tenant, state }) => tenant === owner.tenant && state === 'next').map(({ algorithm }) => algorithm),
    );
    const made: Unmade[] = [];
    for (const wanted of owner.wanted.filter(({ algorithm }) => !pending.has(algorithm)))
      made.push({ ...wanted, state: 'next', selector: nextSelector(wanted.base, [...all, ...made], now) });
    if (made.length === 0) return;
    const keys = await Promise.all(made.map((key) => makeKey(owner, key, now)));
    const unit = [...keys, ...made.map((key) => told('domain.dkim_next', owner, { key, now }))];
    // The last time it fails as it does.
    if (tries === MAX_TRIES) await store.write(unit);
    else if ((await writeIfMet(store, unit)) === undefined) continue;
    for (const { selector } of made) log.info('dkim.next', { domain: owner.domain, selector });
    return;
  }
}

export interface AdvanceParts extends RotationParts {
  readonly resolver: Pick<Resolver, 'txt' | 'lookup'>;
}

/**
 * Moves every key of the owner as far as DNS and the queue let it. Answers since when the youngest next key waits for its
 * record, ms; undefined where none does.
 */
export async function advanceKeys(parts: AdvanceParts, owner: KeyOwner): Promise<number | undefined> {
  const { store } = parts;
  for (const key of await keysOfOwner(store, owner)) await advance(key, owner, parts);
  const keys = await keysOfOwner(store, owner);
  await relieveUnwanted(keys, owner, parts);
  const waiting = keys.flatMap(({ state, since }) => (state === 'next' ? [since] : []));
  return waiting.length === 0 ? undefined : Math.max(...waiting);
}

async function advance(key: DkimKeyRow, owner: KeyOwner, parts: AdvanceParts): Promise<void> {
  switch (key.state) {
    case 'active':
      return;
    case 'next':
      if ((await recordOf(key, parts)) === 'ok') await activate(key, owner, parts);
      return;
    case 'retiring':
      await retire(key, owner, parts);
      return;
    case 'retired':
      if ((await recordOf(key, parts)) === 'missing') await commit([forgetKey({ ...key, state: 'retired' }, 1)], parts);
  }
}

async function recordOf(key: DkimKeyRow, { resolver }: AdvanceParts): Promise<RecordStatus> {
  const { selector, algorithm, public_key: publicKey } = key;
  const { status } = await checkDkim(dkimRecord(key.domain, { selector, algorithm, publicKey }), resolver);
  return status;
}

/** It signs from now on, and what signed until now does not. */
async function activate(key: DkimKeyRow, owner: KeyOwner, parts: AdvanceParts): Promise<void> {
  const now = parts.clock.now();
  const { domain, selector, algorithm } = key;
  const signing = (await keysOfOwner(parts.store, owner)).filter(
    (other) => other.state === 'active' && other.algorithm === algorithm,
  );
  const unit = [
    ...signing.map((other) => relieve(other, now)),
    activateKey({ domain, selector, now }, 1),
    told('domain.dkim_active', owner, { key, now, replaces: signing.map((other) => other.selector) }),
  ];
  if (!(await commit(unit, parts))) return;
  parts.log.info('dkim.active', { domain, selector });
  for (const other of signing) parts.log.info('dkim.retiring', { domain, selector: other.selector });
}

/** Keys of algorithms that the configuration names no more, once those that it does name sign. */
async function relieveUnwanted(keys: readonly DkimKeyRow[], owner: KeyOwner, parts: AdvanceParts): Promise<void> {
  const active = keys.filter(({ state }) => state === 'active');
  const wanted = owner.wanted.map(({ algorithm }) => algorithm);
  if (!wanted.every((algorithm) => active.some((key) => key.algorithm === algorithm))) return;
  for (const key of active.filter(({ algorithm }) => !wanted.includes(algorithm))) {
    if (await commit([relieve(key, parts.clock.now())], parts))
      parts.log.info('dkim.retiring', { domain: key.domain, selector: key.selector });
  }
}

function relieve({ domain, selector }: DkimKeyRow, now: number): Statement {
  return relieveKey({ domain, selector, now, keep_until: now + MARGIN_MS }, 1);
}

/** Once its time is over; while mail that it signed waits, that is as long again from now on. */
async function retire(key: DkimKeyRow, owner: KeyOwner, parts: AdvanceParts): Promise<void> {
  const { store, clock, log } = parts;
  const { domain, selector } = key;
  const now = clock.now();
  const left = (key.keep_until ?? 0) - now;
  if (left > MARGIN_MS - SEARCH_MS) return;
  // Until every daemon had looked, one might have signed with it.
  const before = key.since + 2 * KEYS_FRESH_MS;
  if (owner.isHost ? await anySignedMailWaits(store, before) : await signedMailWaits(store, owner, before)) {
    await commit([keepKey({ domain, selector, keep_until: now + MARGIN_MS }, 1)], parts);
    return;
  }
  if (left > 0) return;
  const unit = [retireKey({ domain, selector, now }, 1), told('domain.dkim_retired', owner, { key, now })];
  if (await commit(unit, parts)) log.info('dkim.retired', { domain, selector });
}

/** Whether it was committed; another daemon may have been faster. */
async function commit(unit: readonly Statement[], { store }: AdvanceParts): Promise<boolean> {
  return (await writeIfMet(store, unit)) !== undefined;
}

/** The event of a step; `replaces` are the selectors of the keys that signed before. */
function told(
  type: EventType,
  { domain, tenant }: KeyOwner,
  step: { key: Pick<DkimKeyRow, 'selector' | 'algorithm'>; now: number; replaces?: readonly string[] },
): Statement {
  const { key, now, ...more } = step;
  const { selector, algorithm } = key;
  return recordEvent({ type, tenant, at: now, domain, data: { selector, algorithm, ...more } });
}

// The server's own DKIM key: mail of forms without a domain, and mail of the server itself, is from `@<server.hostname>`.
// It is made once and committed before anything is signed with it; `<selector>._domainkey.<hostname>` publishes it. It is
// rotated as the keys of domains are, unless the host name is a domain of the operator's, whose keys it then has.

/**
 * Makes the key of this host name where it has none, and logs what is to be published. Several daemons at once: the first
 * one's stays.
 */
export async function adoptHostKey({ store, clock, log }: RotationParts, hostname: string): Promise<void> {
  const owner = hostOwner(hostname);
  if ((await keysOfOwner(store, owner)).length === 0) {
    const made = owner.wanted.map((wanted) =>
      makeKey(owner, { ...wanted, selector: wanted.base, state: 'active' }, clock.now()),
    );
    await writeIfMet(store, await Promise.all(made));
  }
  for (const { name, type, value } of await hostRecords(store, hostname))
    log.info('host_key.record', { name, type, value });
}

/** What DNS has to hold for the server's own mail. */
export async function hostRecords(store: Store, hostname: string): Promise<DomainRecord[]> {
  return publishedKeys(await keysOfOwner(store, hostOwner(hostname))).map((key) => dkimRecord(hostname, key));
}

export interface HostKeys {
  /** Makes the next key; false where a domain of the operator's has the host name, and its keys are rotated as any domain's. */
  rotate(): Promise<boolean>;
  /** Asks DNS at once, and moves the keys as far as it says. */
  check(): Promise<void>;
  /** The same where it is due. */
  checkDue(): Promise<void>;
}

/** The rotation of the server's own keys; it does nothing where the operator's claim of the host name has them. */
export function createHostKeys(
  parts: RotationParts & { readonly resolver: Resolver; readonly snapshot: () => Snapshot },
): HostKeys {
  const { clock, resolver, snapshot } = parts;
  /** On the monotonic clock: one that was ahead and is put right delays nothing. */
  let due = 0;

  function owner() {
    const { claims, server } = snapshot();
    const { hostname } = server.server;
    return claims.has(claimId(OPERATOR, hostname)) ? undefined : hostOwner(hostname);
  }

  async function check(): Promise<void> {
    const keys = owner();
    if (keys === undefined) return;
    const since = await advanceKeys({ ...parts, resolver: resolver.fresh() }, keys);
    const { recheck } = snapshot().server.dns;
    const now = clock.now();
    const wait = since === undefined ? recheck : whenPublished(since, { now, recheck }) - now;
    due = clock.monotonic() + wait;
  }

  return {
    async rotate() {
      const keys = owner();
      if (keys === undefined) return false;
      await rotateKeys(parts, keys);
      due = 0;
      return true;
    },
    check,
    async checkDue() {
      if (clock.monotonic() >= due) await check();
    },
  };
}
