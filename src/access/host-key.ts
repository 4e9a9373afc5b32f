/**
 * The server's own DKIM key: mail of forms without a domain, and mail of the server itself, is from `@<server.hostname>`.
 * It is made once and committed before anything is signed with it; `<selector>._domainkey.<hostname>` publishes it.
 */
import type { Clock } from '../lib/clock.ts';
import { generateDkimKey } from '../mail/dkim.ts';
import { insertDkimKey, ownKeysOf } from '../store/domains.ts';
import { OPERATOR } from '../store/revisions.ts';
import type { Store } from '../store/store.ts';

const SELECTOR = 'postern';

/** Makes the key of this host name where it has none. Several daemons at once: the first one's stays. */
export async function adoptHostKey(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  hostname: string,
): Promise<void> {
  if ((await ownKeysOf(store, hostname, OPERATOR)).length > 0) return;
  const { privateKey: private_key, publicKey: public_key } = await generateDkimKey('rsa');
  const key = {
    domain: hostname,
    tenant: OPERATOR,
    selector: SELECTOR,
    algorithm: 'rsa',
    private_key,
    public_key,
  } as const;
  await store.write([insertDkimKey({ ...key, created_at: clock.now() })]);
}
