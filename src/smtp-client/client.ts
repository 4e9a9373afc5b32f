/**
 * The SMTP client: delivers batches to their mail hosts over kept sessions. It decides where to and how many at a time; what
 * becomes of a delivery is the worker's business.
 */
import type { ServerConfig } from '../config/schema.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import {
  type Transport,
  type Batch,
  type Random,
  type RecipientResult,
  type Result,
  untouched,
} from '../queue/transport.ts';
import { findRoute, type LoopbackSmtp, type Route, type NextHop } from './route.ts';
import { MxPool } from './mx-pool.ts';
import { ConnectionLimit } from './concurrency.ts';
import { TIMEOUTS, type Timeouts } from './timeouts.ts';

export interface SmtpClientOptions {
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: Random;
  /** Whether connecting to this address at the delivery port would reach ourselves; nobody unless told. */
  readonly ownAddresses?: (ip: string) => boolean;
  /** None unless told. */
  readonly door?: LoopbackSmtp;
  readonly timeouts?: Timeouts;
  /** Certificates that a smarthost may have beside those that Node trusts, PEM. */
  readonly ca?: string;
}

/** Recipients to have at hand for a destination of which nothing is known yet, and for each connection of one that answers. */
const FIRST_CAPACITY = 4;
const CAPACITY_PER_CONNECTION = 5;
/** What bounces without a connection goes as fast as it can be written down. */
const CAPACITY_FOR_BOUNCES = 100;
const MAX_REMEMBERED = 10_000;
/** How long what was cut off has to write down how it ended, ms. */
const AFTER_CUT = 2000;

/** Mail's transport. */
export interface SmtpClient extends Transport {
  /** Open connections, and those of them that carry a message. */
  connections(): { readonly open: number; readonly busy: number };
}

/** An SMTP client without connections; it opens them as batches come. */
export function createSmtpClient(options: SmtpClientOptions): SmtpClient {
  const { config, clock, log, timeouts = TIMEOUTS, ca } = options;
  const connectionLimit = new ConnectionLimit(() => config().delivery.concurrency);
  const pools = new Map<string, MxPool>();
  /** Where each destination's last batches went; undefined: nowhere for good. */
  const lastPool = new Map<string, MxPool | undefined>();
  const unsettled = new Set<Promise<void>>();
  let stopped = false;

  function track(work: Promise<void>): Promise<void> {
    unsettled.add(work);
    return work.finally(() => unsettled.delete(work));
  }

  async function deliver(destination: string, batches: readonly Batch[]): Promise<void> {
    const began = clock.monotonic();
    const route = await routeTo(destination);
    if (stopped) return end(batches, untouched);
    switch (route.kind) {
      case 'nextHop':
        return poolOf(destination, route.nextHop).take(batches);
      case 'permanent':
        remember(destination, undefined);
        return end(batches, (batch) => bounced(batch, route.reply));
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
        end(batches.slice(0, 1), () => result);
        return end(batches.slice(1), untouched);
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

  function end(batches: readonly Batch[], resultOf: (batch: Batch) => Result): void {
    for (const batch of batches) void track(batch.done(resultOf(batch)));
  }

  function poolOf(destination: string, nextHop: NextHop): MxPool {
    let pool = pools.get(nextHop.pool);
    if (pool === undefined) {
      forgetUnused();
      pool = new MxPool(nextHop, { clock, log, config, timeouts, connectionLimit, ca, track });
      pools.set(nextHop.pool, pool);
    }
    pool.nextHop = nextHop;
    remember(destination, pool);
    return pool;
  }

  function remember(destination: string, pool: MxPool | undefined): void {
    lastPool.delete(destination);
    lastPool.set(destination, pool);
    const [oldest] = lastPool.size > MAX_REMEMBERED ? lastPool.keys() : [];
    if (oldest !== undefined) lastPool.delete(oldest);
  }

  function forgetUnused(): void {
    if (pools.size < MAX_REMEMBERED) return;
    for (const [key, pool] of pools) if (pool.isUnused) pools.delete(key);
  }

  function allConnections() {
    return [...pools.values()].flatMap((pool) => [...pool.connections]);
  }

  return {
    send(destination, batches) {
      void track(deliver(destination, batches));
    },
    capacity(destination) {
      const pool = lastPool.get(destination);
      if (pool === undefined) return lastPool.has(destination) ? CAPACITY_FOR_BOUNCES : FIRST_CAPACITY;
      return pool.isProven() ? pool.limit * CAPACITY_PER_CONNECTION : Math.min(FIRST_CAPACITY, pool.limit * 2);
    },
    connections: () => ({ open: connectionLimit.open, busy: allConnections().filter(({ isBusy }) => isBusy).length }),
    async stop(graceMs) {
      stopped = true;
      for (const pool of pools.values()) pool.stop();
      const cut = setTimeout(() => {
        for (const connection of allConnections()) connection.cut();
      }, graceMs);
      const over = timeout(graceMs + AFTER_CUT);
      while (unsettled.size > 0 && !over.passed) await Promise.race([Promise.all(unsettled), over.promise]);
      clearTimeout(cut);
      over.cancel();
    },
  };
}

function bounced({ recipients }: Batch, reply: string): Result {
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
