/**
 * The server's own DKIM key: mail of forms without a domain, and mail of the server itself, is from `@<server.hostname>`.
 * It is made once and committed before anything is signed with it; `<selector>._domainkey.<hostname>` publishes it. It is
 * rotated as the keys of domains are, unless the host name is a domain of the operator's, whose keys it then has.
 */
import { claimKey, type Snapshot } from '../config/snapshot.ts';
import { dkimRecord, type DomainRecord } from '../dns/records.ts';
import type { Resolver } from '../dns/resolver.ts';
import { UnmetError, type Store } from '../store/store.ts';
import { OPERATOR } from '../store/tenants.ts';
import { hostOwner, keysOfOwner, makeKey, publishedKeys } from './dkim-keys.ts';
import { whenPublished } from './states.ts';
import { advanceKeys, rotateKeys, type RotationParts } from './rotation.ts';

/**
 * Makes the key of this host name where it has none, and logs what is to be published. Several daemons at once: the first
 * one's stays.
 */
export async function adoptHostKey({ store, clock, log }: RotationParts, hostname: string): Promise<void> {
  const owner = hostOwner(hostname);
  if ((await keysOfOwner(store, owner)).length === 0) {
    const unmade = owner.wanted.map((wanted) => ({ ...wanted, selector: wanted.base, state: 'active' }) as const);
    const made = await Promise.all(unmade.map((key) => makeKey(owner, key, clock.now())));
    await store.write(made).catch((error: unknown) => {
      if (!(error instanceof UnmetError)) throw error;
    });
  }
  for (const { name, type, value } of await hostRecords(store, hostname))
    log.info('host_key.record', { name, type, value });
}

/** What DNS has to hold for the server's own mail. */
export async function hostRecords(store: Store, hostname: string): Promise<DomainRecord[]> {
  return (await publishedKeys(store, hostOwner(hostname))).map((key) => dkimRecord(hostname, key));
}

export interface HostKeysParts extends RotationParts {
  readonly resolver: Resolver;
  readonly snapshot: () => Snapshot;
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
export function createHostKeys(parts: HostKeysParts): HostKeys {
  const { clock, resolver, snapshot } = parts;
  /** On the monotonic clock: one that was ahead and is put right delays nothing. */
  let due = 0;

  function owner() {
    const { claims, server } = snapshot();
    const { hostname } = server.server;
    return claims.has(claimKey(OPERATOR, hostname)) ? undefined : hostOwner(hostname);
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
