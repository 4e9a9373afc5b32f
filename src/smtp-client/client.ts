/**
 * The courier: takes parcels to their mail hosts over kept sessions. It decides where to and how many at a time; what
 * becomes of a delivery is the worker's business.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import {
  type Courier,
  type Parcel,
  type Random,
  type RecipientResult,
  type Result,
  untouched,
} from '../queue/interfaces.ts';
import { findRoute, type OwnDoor, type Route, type Way } from './route.ts';

import { Site } from './mx-pool.ts';
import { Slots } from './concurrency.ts';
import { TIMEOUTS, type Timeouts } from './timeouts.ts';

export interface CourierOptions {
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: Random;
  /** Whether connecting to this address at the delivery port would reach ourselves; nobody unless told. */
  readonly ownAddresses?: (ip: string) => boolean;
  /** None unless told. */
  readonly door?: OwnDoor;
  readonly timeouts?: Timeouts;
  /** Certificates that a smarthost may have beside those that Node trusts, PEM. */
  readonly ca?: string;
}

/** Recipients to have at hand for a destination of which nothing is known yet, and for each connection of one that answers. */
const FIRST_APPETITE = 4;
const APPETITE_PER_CONNECTION = 5;
/** What bounces without a connection goes as fast as it can be written down. */
const APPETITE_FOR_BOUNCES = 100;
const MOST_REMEMBERED = 10_000;
/** How long what was cut off has to write down how it ended, ms. */
const AFTER_CUT = 2000;

/** A courier without connections; it opens them as parcels come. */
export function createCourier(options: CourierOptions): Courier {
  const { config, clock, log, timeouts = TIMEOUTS, ca } = options;
  const slots = new Slots(() => config().delivery.concurrency);
  const sites = new Map<string, Site>();
  /** Where each destination's last parcels went; undefined: nowhere for good. */
  const lastSite = new Map<string, Site | undefined>();
  const unsettled = new Set<Promise<void>>();
  let stopped = false;

  function track(work: Promise<void>): Promise<void> {
    unsettled.add(work);
    return work.finally(() => unsettled.delete(work));
  }

  async function send(destination: string, parcels: readonly Parcel[]): Promise<void> {
    const began = clock.monotonic();
    const route = await routeTo(destination);
    if (stopped) return end(parcels, untouched);
    switch (route.kind) {
      case 'way':
        return siteOf(destination, route.way).take(parcels);
      case 'permanent':
        remember(destination, undefined);
        return end(parcels, (parcel) => bounced(parcel, route.reply));
      case 'temporary': {
        // One has found out for all of them.
        const result = {
          kind: 'unreachable',
          reply: route.reply,
          began,
          host: null,
          address: null,
          tls: null,
        } as const;
        end(parcels.slice(0, 1), () => result);
        return end(parcels.slice(1), untouched);
      }
    }
  }

  async function routeTo(destination: string): Promise<Route> {
    const { resolver, random, ownAddresses = () => false, door } = options;
    try {
      return await findRoute(destination, { resolver, config: config(), random, ownAddresses, door });
    } catch (error) {
      log.error('delivery.fault', { destination, ...errorFields(error) });
      return { kind: 'temporary', reply: `451 4.3.0 ${messageOf(error)}` };
    }
  }

  function end(parcels: readonly Parcel[], resultOf: (parcel: Parcel) => Result): void {
    for (const parcel of parcels) void track(parcel.done(resultOf(parcel)));
  }

  function siteOf(destination: string, way: Way): Site {
    let site = sites.get(way.site);
    if (site === undefined) {
      forgetUnused();
      site = new Site(way, { clock, log, config, timeouts, slots, ca, track });
      sites.set(way.site, site);
    }
    site.way = way;
    remember(destination, site);
    return site;
  }

  function remember(destination: string, site: Site | undefined): void {
    lastSite.delete(destination);
    lastSite.set(destination, site);
    const [oldest] = lastSite.size > MOST_REMEMBERED ? lastSite.keys() : [];
    if (oldest !== undefined) lastSite.delete(oldest);
  }

  function forgetUnused(): void {
    if (sites.size < MOST_REMEMBERED) return;
    for (const [key, site] of sites) if (site.isUnused) sites.delete(key);
  }

  function allLanes() {
    return [...sites.values()].flatMap((site) => [...site.lanes]);
  }

  return {
    take(destination, parcels) {
      void track(send(destination, parcels));
    },
    appetite(destination) {
      const site = lastSite.get(destination);
      if (site === undefined) return lastSite.has(destination) ? APPETITE_FOR_BOUNCES : FIRST_APPETITE;
      return site.isProven() ? site.limit * APPETITE_PER_CONNECTION : Math.min(FIRST_APPETITE, site.limit * 2);
    },
    connections: () => ({ open: slots.open, busy: allLanes().filter(({ isBusy }) => isBusy).length }),
    async stop(graceMs) {
      stopped = true;
      for (const site of sites.values()) site.stop();
      const cut = setTimeout(() => {
        for (const lane of allLanes()) lane.cut();
      }, graceMs);
      const over = timeout(graceMs + AFTER_CUT);
      while (unsettled.size > 0 && !over.passed) await Promise.race([Promise.all(unsettled), over.promise]);
      clearTimeout(cut);
      over.cancel();
    },
  };
}

function bounced({ recipients }: Parcel, reply: string): Result {
  return {
    kind: 'decided',
    recipients: recipients.map((recipient): RecipientResult => {
      return { recipient, outcome: 'bounced', cause: 'reply', reply, host: null, address: null, tls: null };
    }),
  };
}

function timeout(ms: number): { readonly promise: Promise<void>; readonly passed: boolean; cancel(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const state = { promise, passed: false, cancel: () => clearTimeout(timer) };
  const timer = setTimeout(() => {
    state.passed = true;
    resolve();
  }, ms);
  return state;
}
