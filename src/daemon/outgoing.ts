/** Where mail and webhooks go out, as the main thread (`explain`, tests of webhooks) and delivery both need it. */
import { networkInterfaces } from 'node:os';
import type { ServerConfig } from '../config/schema.ts';
import { createHttpClient, createPolicyFetch, type HttpClient } from '../dns/guarded-fetch.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { ListenAddress } from '../lib/sockets.ts';
import { version } from '../lib/version.ts';
import { MtaSts, type LoopbackAddress, type LoopbackSmtp, type MtaStsOptions } from '../smtp-client/route.ts';
import { isDomainKnown } from '../store/domains.ts';
import type { Store } from '../store/store.ts';

/** The policies of domains to which mail is sent; where these may be on private networks, what serves their policies may be, too. */
export function openMtaSts({
  config,
  ...parts
}: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
} & Pick<MtaStsOptions, 'onFailure'>): MtaSts {
  const fetchPolicy = createPolicyFetch({
    resolver: parts.resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => config().delivery.allow_private_networks,
  });
  return new MtaSts({ ...parts, fetchPolicy });
}

/** The SMTP port of this daemon, for the domains that it may know and its own name. */
export function loopbackSmtp({
  store,
  config,
  place,
}: {
  readonly store: Store;
  readonly config: () => ServerConfig;
  readonly place: () => LoopbackAddress | undefined;
}): LoopbackSmtp {
  return {
    async takes(domain) {
      return domain === config().server.hostname || (await isDomainKnown(store, domain));
    },
    place() {
      const at = place();
      return at && { ...at, host: LOOPBACKS.get(at.host) ?? at.host };
    },
  };
}

/** Where to find what listens on every address. */
const LOOPBACKS: ReadonlyMap<string, string> = new Map([
  ['::', '::1'],
  ['0.0.0.0', '127.0.0.1'],
]);

/** The HTTP client of webhooks, under the configuration that is active at each moment; `listening`: where this daemon answers HTTP. */
export function openWebhookHttp({
  resolver,
  config,
  listening,
}: {
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
  readonly listening: () => readonly ListenAddress[];
}): HttpClient {
  return createHttpClient({
    resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => config().webhooks.allow_private_networks,
    isOwn: (address, port) => {
      const machine = Object.values(networkInterfaces()).flatMap((list = []) => list.map((own) => own.address));
      const isMine = config().server.public_ips.includes(address) || machine.includes(address);
      return listening().some(
        ({ host, port: own }) => own === port && (host === address || (LOOPBACKS.has(host) && isMine)),
      );
    },
  });
}
