/** What explanations are made with: the very functions that decide when there is mail. */
import type { Domains } from '../access/domains.ts';
import type { KeysOf } from '../access/keyring.ts';
import type { RevisionOf } from '../access/revisions.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../queue/interfaces.ts';
import type { OwnDoor } from '../queue/route.ts';
import type { Directory } from '../smtp/recipients.ts';
import type { Store } from '../store/store.ts';

export interface ExplainParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly snapshot: () => Snapshot;
  readonly resolver: Resolver;
  readonly random: Random;
  /** For mail to domains that come here. */
  readonly door: OwnDoor;
  readonly domains: Pick<Domains, 'report'>;
  readonly keysOf: KeysOf;
  readonly revisionOf: RevisionOf;
  /** What recipients are decided by. */
  readonly directory: () => Promise<Directory>;
}
