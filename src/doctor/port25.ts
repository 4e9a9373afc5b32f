/** Whether mail can leave: a session with a mail server elsewhere, opened as for a delivery. Many providers close port 25. */
import type { ServerConfig } from '../config/schema.ts';
import { isPublicAddress } from '../dns/networks.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { Clock } from '../lib/clock.ts';
import { findRoute } from '../smtp-client/route.ts';
import { openSession } from '../smtp-client/session.ts';
import { TIMEOUTS } from '../smtp-client/wire.ts';
import type { Results } from './check.ts';

export interface WayOut {
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly config: ServerConfig;
}

interface Tried {
  /** `untried`: it is not known where to. */
  readonly state: 'opened' | 'closed' | 'untried';
  readonly words: string;
}

/** Large, unlike each other, and known to everybody. */
const WELL_KNOWN = ['gmail.com', 'outlook.com', 'yahoo.com'];
const STEP_MS = 8000;
const PATIENCE = { ...TIMEOUTS, connect: STEP_MS, greeting: STEP_MS, command: STEP_MS, tls: STEP_MS };

/** Tries `target` (`host` or `host:port`), else the smarthost, else the MX hosts of well-known domains. */
export async function checkPort25(out: WayOut, target: string | undefined): Promise<Results> {
  const { relay } = out.config.delivery;
  const [first = ''] = WELL_KNOWN;
  const isSmarthost = target === undefined && relay !== null;
  const destinations = target !== undefined ? [target] : isSmarthost ? [first] : WELL_KNOWN;
  const tried = await Promise.all(destinations.map((destination) => attempt(destination, out, target)));
  const opened = tried.find(({ state }) => state === 'opened');
  if (opened !== undefined) return { status: 'ok', found: opened.words };
  const found = tried.map(({ words }) => words).join('; ');
  // A smarthost that cannot be found lets nothing out; of the others that says nothing about the port.
  if (!isSmarthost && tried.every(({ state }) => state === 'untried')) {
    const advice = 'No mail server was tried: specify one that is in DNS (--port25), or check again when DNS answers.';
    return { status: 'unknown', found, advice };
  }
  const advice = isSmarthost
    ? 'Check host, port, user, password and tls of delivery.relay. Until the smarthost accepts mail, all mail waits.'
    : 'Ask the provider of this machine to open outbound port 25, or set a smarthost in delivery.relay.';
  return { status: 'failed', found, advice };
}

async function attempt(destination: string, out: WayOut, target: string | undefined): Promise<Tried> {
  const config = target === undefined ? out.config : routedTo(target, out.config);
  const route = await findRoute(destination, { ...out, config, ownAddresses: () => false, random: Math.random });
  if (route.kind !== 'nextHop') return { state: 'untried', words: `${destination}: ${route.reply}` };
  const [host] = route.nextHop.hosts;
  // The operator's own routes may lead anywhere, what a request names may not.
  const isGuarded = target !== undefined && !config.delivery.allow_private_networks;
  const address = host?.addresses.find((each) => !isGuarded || isPublicAddress(each));
  if (host === undefined || address === undefined) {
    return { state: 'closed', words: `${destination} is on a private network (delivery.allow_private_networks)` };
  }
  const { nextHop } = route;
  const opened = await openSession(
    { host: host.name, address },
    {
      nextHop,
      hostname: config.server.hostname,
      timeouts: PATIENCE,
      pressed: () => false,
      monotonic: () => out.clock.monotonic(),
      brokenTls: new Set(),
      anchors: new Map(),
      onWire: () => undefined,
    },
  );
  const place = `${host.name} (${address}), port ${nextHop.port}`;
  if (opened.kind === 'failed') return { state: 'closed', words: `${place}: ${opened.reply}` };
  opened.session.wire.quit();
  const encrypted = opened.session.wire.tls === null ? '' : ', encrypted';
  const known = nextHop.credentials === undefined ? '' : ', and accepts the password';
  return { state: 'opened', words: `${place} answers${encrypted}${known}` };
}

function routedTo(target: string, config: ServerConfig): ServerConfig {
  const { delivery } = config;
  const value = /^(\[.*\]|[^:]*):\d+$/.test(target) ? target : `${target}:${delivery.port}`;
  return { ...config, delivery: { ...delivery, routes: { [target]: value } } };
}
