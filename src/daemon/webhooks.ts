/** Webhooks, composed: what they are told is posted through the guarded door, and their owners are written to by mail. */
import { networkInterfaces } from 'node:os';
import type { Snapshot } from '../config/snapshot.ts';
import { createHttpDoor } from '../dns/guarded-fetch.ts';
import type { Resolver } from '../dns/resolver.ts';
import { createWebhooks, type Webhooks } from '../events/webhooks.ts';
import type { ListenAddress } from '../lib/sockets.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { systemMail } from '../queue/system-mail.ts';
import type { Store } from '../store/store.ts';
import { findTenant } from '../store/tenants.ts';
import { version } from '../lib/version.ts';

export interface OpenWebhooks {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  readonly random: () => number;
  readonly snapshot: () => Snapshot;
  /** Where this daemon answers HTTP. */
  readonly listening: () => readonly ListenAddress[];
  readonly wakeMail: () => void;
}

/** Webhooks under the configuration that is in force at each moment. */
export function openWebhooks({ resolver, listening, ...parts }: OpenWebhooks): Webhooks {
  const { store, clock, snapshot } = parts;
  const door = createHttpDoor({
    resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => snapshot().server.webhooks.allow_private_networks,
    isOwn: (address, port) => {
      const mine = [...snapshot().server.server.public_ips, ...machineAddresses()];
      return listening().some((own) => own.port === port && answersAt(own.host, address, mine));
    },
  });
  return createWebhooks({
    ...parts,
    door,
    async mailOwner({ tenant, project }, letter) {
      const { server, projects } = snapshot();
      const owner = projects.find((one) => one.tenant === tenant && one.slug === project)?.config.project.owner;
      const to = owner ?? (await findTenant(store, tenant))?.email;
      return to === undefined ? [] : systemMail({ tenant, to, ...letter }, server.server.hostname, clock.now());
    },
  });
}

/** Whether whoever listens at `host` answers at `address`; `::` and `0.0.0.0` stand for all of the machine's. */
function answersAt(host: string, address: string, mine: readonly string[]): boolean {
  return host === address || ((host === '::' || host === '0.0.0.0') && mine.includes(address));
}

function machineAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? []);
}
