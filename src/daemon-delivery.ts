/** Delivery, composed: a thread of its own, or this one where a test holds the clock or the name servers. */
import type { ServerConfig } from './config/schema.ts';
import { startDelivery, type DeliveryParts } from './delivery.ts';
import { startDeliveryThread, type RemoteDelivery } from './delivery-remote.ts';
import type { DoorPlace } from './queue/route.ts';

export interface OpenDelivery extends Omit<DeliveryParts, 'random' | 'door'> {
  /** As it was at the start. */
  readonly server: ServerConfig;
  /** What the test holds. */
  readonly parts: Partial<Pick<DeliveryParts, 'clock' | 'resolver' | 'random'>>;
}

/** Starts it, where this daemon has the role. */
export async function openDelivery({ server, parts, ...here }: OpenDelivery): Promise<RemoteDelivery> {
  if (!server.server.roles.includes('delivery')) {
    return {
      wake() {},
      configure() {},
      openDoor() {},
      problem: () => undefined,
      isStuck: () => false,
      stop: () => Promise.resolve(),
    };
  }
  if (parts.clock === undefined && parts.resolver === undefined)
    return startDeliveryThread(here.store, server, here.clock);
  let door: DoorPlace | undefined;
  const random = parts.random ?? Math.random;
  const delivery = await startDelivery({ ...here, random, door: () => door });
  return {
    ...delivery,
    // In this thread it reads the configuration by itself.
    configure() {},
    openDoor(place) {
      door = place;
    },
  };
}
