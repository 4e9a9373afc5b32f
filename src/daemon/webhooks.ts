/** Webhooks, composed: everything is posted through one guarded HTTP client, and owners are alerted by mail. */
import { networkInterfaces } from 'node:os';
import type { RevisionOf } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import { createHttpDoor, type HttpDoor } from '../dns/guarded-fetch.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { WebhookTransportOptions } from '../events/transport.ts';
import type { Clock } from '../lib/clock.ts';
import type { ListenAddress } from '../lib/sockets.ts';
import { version } from '../lib/version.ts';
import { systemMail } from '../queue/system-mail.ts';
import { findProject } from '../store/projects.ts';
import type { Store } from '../store/store.ts';
import { findTenant } from '../store/tenants.ts';

/** The HTTP client of webhooks, under the configuration that is in force at each moment; `listening`: where this daemon answers HTTP. */
export function openWebhookHttp({
  resolver,
  config,
  listening,
}: {
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
  readonly listening: () => readonly ListenAddress[];
}): HttpDoor {
  return createHttpDoor({
    resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => config().webhooks.allow_private_networks,
    isOwn: (address, port) => {
      const mine = [...config().server.public_ips, ...machineAddresses()];
      return listening().some((own) => own.port === port && answersAt(own.host, address, mine));
    },
  });
}

interface AlertParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
}

/** Alerts the owner of the project whose configuration names the webhook, else the tenant. */
export function alertWebhookOwner({
  store,
  clock,
  config,
  revisionOf,
}: AlertParts): WebhookTransportOptions['alertOwner'] {
  return async ({ tenant, project }, alert) => {
    const row = project === null ? undefined : await findProject(store, tenant, project);
    const revision = row === undefined || row.revision === '' ? undefined : await revisionOf(row.revision);
    const to = revision?.config.project.owner ?? (await findTenant(store, tenant))?.email;
    return to === undefined ? [] : systemMail({ tenant, to, ...alert }, config().server.hostname, clock.now());
  };
}

/** Whether whoever listens at `host` answers at `address`; `::` and `0.0.0.0` stand for all of the machine's. */
function answersAt(host: string, address: string, mine: readonly string[]): boolean {
  return host === address || ((host === '::' || host === '0.0.0.0') && mine.includes(address));
}

function machineAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? []);
}
