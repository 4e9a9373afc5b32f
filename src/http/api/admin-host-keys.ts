/** The server's own DKIM keys: what they have to publish, and their rotation. */
import { z } from 'zod';
import { hostOwner, keysOfOwner } from '../../domains/dkim-keys.ts';
import type { HostKeys } from '../../domains/host-key.ts';
import type { Snapshot } from '../../config/snapshot.ts';
import type { Store } from '../../store/store.ts';
import { json } from '../answer.ts';
import { refuse } from '../errors.ts';
import { keyShape, shownKeys } from './key-shapes.ts';
import { defineRoute, type Outcome, type Route } from './route.ts';

export interface AdminHostKeysParts {
  readonly store: Store;
  readonly snapshot: () => Snapshot;
  readonly hostKeys: Pick<HostKeys, 'rotate' | 'check'>;
}

const ADMIN = { permission: 'admin', domains: 'refuse', tag: 'Administration' } as const;
const hostKeysShape = z.object({
  hostname: z.string(),
  keys: z.array(keyShape).describe('What signs first, then by age.'),
});

/** `/admin/host-keys…` */
export function adminHostKeysRoutes({ store, snapshot, hostKeys }: AdminHostKeysParts): Route[] {
  async function show(): Promise<Outcome> {
    const { hostname } = snapshot().server.server;
    return json({ hostname, keys: shownKeys(await keysOfOwner(store, hostOwner(hostname))) });
  }

  return [
    defineRoute({
      ...ADMIN,
      method: 'GET',
      path: '/admin/host-keys',
      summary: 'Shows the DKIM keys that sign for the host name itself, and what they have to publish.',
      answer: hostKeysShape,
      handle: show,
    }),
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/host-keys/rotate',
      summary: 'Makes the next DKIM key of the host name, as `POST /domains/{domain}/rotate-dkim` does for a domain.',
      answer: hostKeysShape,
      async handle() {
        if (await hostKeys.rotate()) return show();
        const { hostname } = snapshot().server.server;
        const message = `${hostname} is a domain of a project of the operator’s: rotate its keys as those of any domain.`;
        return refuse('CONFLICT', { message });
      },
    }),
    defineRoute({
      ...ADMIN,
      method: 'POST',
      path: '/admin/host-keys/verify',
      summary: 'Asks DNS at once for the records of the host name’s keys, and shows how they stand.',
      answer: hostKeysShape,
      async handle() {
        await hostKeys.check();
        return show();
      },
    }),
  ];
}
