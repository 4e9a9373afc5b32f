/**
 * The server's own DKIM key: mail of forms without a domain, and mail of the server itself, is from `@<server.hostname>`.
 * It is made once and committed before anything is signed with it; `<selector>._domainkey.<hostname>` publishes it.
 */
import { dkimRecordValue } from '../dns/records.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { generateDkimKey } from '../mail/dkim.ts';
import { insertDkimKey, ownKeysOf } from '../store/domains.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';

const SELECTOR = 'postern';

export interface HostKeyParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Makes the key of this host name where it has none, and logs what is to be published. Several daemons at once: the first
 * one's stays.
 */
export async function adoptHostKey({ store, clock, log }: HostKeyParts, hostname: string): Promise<void> {
  if ((await ownKeysOf(store, hostname, OPERATOR)).length === 0) await makeKey(store, hostname, clock.now());
  for (const record of await hostRecords(store, hostname)) log.info('host_key.record', { ...record });
}

/** What DNS has to hold for the server's own mail. */
export async function hostRecords(
  store: Store,
  hostname: string,
): Promise<{ readonly name: string; readonly type: 'TXT'; readonly value: string }[]> {
  const keys = await ownKeysOf(store, hostname, OPERATOR);
  return keys.map(({ selector, algorithm, public_key: key }) => ({
    name: `${selector}._domainkey.${hostname}`,
    type: 'TXT',
    value: dkimRecordValue(algorithm, key),
  }));
}

async function makeKey(store: Store, hostname: string, now: number): Promise<void> {
  const { privateKey: private_key, publicKey: public_key } = await generateDkimKey('rsa');
  const key = {
    domain: hostname,
    tenant: OPERATOR,
    selector: SELECTOR,
    algorithm: 'rsa',
    private_key,
    public_key,
  } as const;
  await store.write([insertDkimKey({ ...key, created_at: now })]);
}
