/**
 * The SMTP client: delivers batches to their mail hosts over kept sessions. It decides where to and how many at a time; what
 * becomes of a delivery is the worker's business.
 */
import type { ServerConfig } from '../config/schema.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { errorFields, messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { LruMap } from '../lib/lru.ts';
import { NOBODY, sameForAll, untouched, type Batch, type Result, type Transport } from '../queue/transport.ts';
import { ConnectionLimit, MxPool } from './mx-pool.ts';
import { findRoute, routeRule, type NextHop, type Route, type RouteOptions } from './route.ts';
import type { TlsSession } from './tls-reports.ts';
import { TIMEOUTS, type Timeouts } from './wire.ts';

export interface SmtpClientOptions extends Pick<
  RouteOptions,
  'resolver' | 'random' | 'mtaSts' | 'dnssec' | 'loopback'
> {
  readonly config: () => ServerConfig;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether connecting to this address at the delivery port would reach ourselves; default: nobody. */
  readonly ownAddresses?: RouteOptions['ownAddresses'];
  readonly timeouts?: Timeouts;
  /** Told how long each transaction took, ms; default: nobody. */
  readonly onTransaction?: ((ms: number) => void) | undefined;
  /** Told of the sessions with MX hosts, once for each domain; default: nobody. */
  readonly onTlsSession?: ((session: TlsSession) => void) | undefined;
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

/** For reports about TLS. */
const ANY_TLS = { mtaSts: undefined, dnssec: undefined } as const;
type AnyTls = Partial<typeof ANY_TLS>;
const NOWHERE = { host: null, address: null, local: null } as const;

type Refused = Exclude<Route, { kind: 'nextHop' }>;

function isReport({ isTlsReport }: Batch): boolean {
  return isTlsReport;
}

/** An SMTP client without connections; it opens them as batches come. */
export function createSmtpClient(options: SmtpClientOptions): SmtpClient {
  const { config, clock, log, timeouts = TIMEOUTS, ca, onTransaction, onTlsSession } = options;
  const connectionLimit = new ConnectionLimit(() => config().delivery.concurrency);
  const pools = new Map<string, MxPool>();
  /** Where each destination's last batches went. */
  const lastPool = new LruMap<MxPool | 'nowhere'>(MAX_REMEMBERED);
  const unsettled = new Set<Promise<void>>();
  let stopped = false;

  function track(work: Promise<void>): Promise<void> {
    unsettled.add(work);
    return work.finally(() => unsettled.delete(work));
  }

  async function deliver(destination: string, batches: readonly Batch[]): Promise<void> {
    const [reports, others] = [batches.filter(isReport), batches.filter((batch) => !isReport(batch))];
    await Promise.all([
      others.length > 0 ? deliverAll(destination, others) : undefined,
      reports.length > 0 ? deliverAll(destination, reports, ANY_TLS) : undefined,
    ]);
  }

  async function deliverAll(destination: string, batches: readonly Batch[], without: AnyTls = {}): Promise<void> {
    const began = clock.monotonic();
    const route = await routeTo(destination, without);
    if (stopped) return end(batches, untouched);
    const viaRelay = routeRule(destination, config()).by === 'relay' ? { isRelay: true as const } : {};
    switch (route.kind) {
      case 'nextHop':
        return poolOf(destination, route.nextHop).take(batches);
      case 'permanent':
        lastPool.set(destination, 'nowhere');
        return end(batches, (batch) => sameForAll(batch, 'bounced', route.reply));
      case 'temporary':
        countRefused(destination, route);
        // One has found out for all of them.
        end(batches.slice(0, 1), () => ({
          ...NOBODY,
          ...viaRelay,
          kind: 'unreachable',
          reply: route.reply,
          began,
          policy: route.policy,
        }));
        return end(batches.slice(1), untouched);
    }
  }

  function countRefused(domain: string, { brokenPolicy, policy, reply: reason }: Refused): void {
    const result = policy?.result ?? null;
    if (brokenPolicy !== undefined && result !== null)
      onTlsSession?.({ ...NOWHERE, domain, policy: brokenPolicy, result, reason });
  }

  async function routeTo(destination: string, without: AnyTls): Promise<Route> {
    try {
      return await findRoute(destination, { ownAddresses: () => false, ...options, config: config(), ...without });
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
      if (pools.size >= MAX_REMEMBERED) for (const [key, other] of pools) if (other.isUnused) pools.delete(key);
      const parts = { clock, log, config, timeouts, connectionLimit, ca, track, onTransaction, onTlsSession };
      pool = new MxPool(nextHop, parts);
      pools.set(nextHop.pool, pool);
    }
    pool.nextHop = nextHop;
    lastPool.set(destination, pool);
    return pool;
  }

  function allConnections() {
    return [...pools.values()].flatMap((pool) => [...pool.connections]);
  }

  async function settled(): Promise<void> {
    while (unsettled.size > 0) await Promise.all(unsettled);
  }

  return {
    send(destination, batches) {
      void track(deliver(destination, batches));
    },
    capacity(destination) {
      const pool = lastPool.get(destination);
      if (pool === undefined) return FIRST_CAPACITY;
      if (pool === 'nowhere') return CAPACITY_FOR_BOUNCES;
      return pool.isProven() ? pool.limit * CAPACITY_PER_CONNECTION : Math.min(FIRST_CAPACITY, pool.limit * 2);
    },
    connections: () => ({ open: connectionLimit.open, busy: allConnections().filter(({ isBusy }) => isBusy).length }),
    async stop(graceMs) {
      stopped = true;
      for (const pool of pools.values()) pool.stop();
      const over = new AbortController();
      const all = settled();
      await Promise.race([all, systemClock.sleep(graceMs, over.signal)]);
      if (unsettled.size > 0) for (const connection of allConnections()) connection.cut();
      await Promise.race([all, systemClock.sleep(AFTER_CUT, over.signal)]);
      over.abort();
    },
  };
}
