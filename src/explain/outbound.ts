/** What becomes of mail to an address elsewhere: whether it may be sent, whether it is sent now, to which hosts, and how it went. */
import type { HostTlsa } from '../dns/mx.ts';
import { parseAddress } from '../lib/addresses.ts';
import { isoTime } from '../lib/clock.ts';
import { isRelayed } from '../queue/destinations.ts';
import { KINDS } from '../queue/worker.ts';
import { findRoute, routeRule, tlsPolicy, type Route, type NextHop } from '../smtp-client/route.ts';
import { recentAttemptsAt, recentAttemptsTo, type RecentAttempt } from '../store/messages.ts';
import { recipientStatuses } from '../store/consents.ts';
import { findDestination, relayPause } from '../store/destinations.ts';
import { suppressionsOf } from '../store/suppressions.ts';
import type { MessageKind } from '../store/tables.ts';
import { type ExplainParts, passes, stops, warns, type Step } from './steps.ts';

const SHOWN_ATTEMPTS = 5;

/** Whose mail of which kind. */
interface Mail {
  readonly tenant: string;
  readonly kind: MessageKind;
  /** Of a notification: its form. */
  readonly form?: string;
}

/** The steps of mail to one recipient, from the suppression list to the last attempts; without `mail` of anybody's. */
export async function outboundSteps(address: string, mail: Mail | undefined, parts: ExplainParts): Promise<Step[]> {
  const destination = parseAddress(address)?.domain;
  if (destination === undefined)
    return [stops('route', `${address} is not a valid email address`, 'it cannot be parsed')];
  const attempts = await attemptsOf(address, destination, parts);
  const route = await findRoute(destination, {
    resolver: parts.resolver,
    config: parts.snapshot().server,
    ownAddresses: (ip) => parts.snapshot().server.server.public_ips.includes(ip),
    random: parts.random,
    mtaSts: parts.mtaSts,
    dnssec: parts.dnssec,
    loopback: parts.loopback,
  });
  const steps = [
    ...(mail === undefined || !KINDS[mail.kind].consent ? [] : [await consentStep(address, mail, parts)]),
    await suppressionStep(address, mail, parts),
    await destinationStep(destination, parts),
    routeStep(destination, route, parts),
    ...(route.kind === 'nextHop' ? [tlsStep(route.nextHop, attempts)] : []),
    attemptsStep(address, attempts),
  ];
  return steps.map((step) => ({ ...step, about: address }));
}

async function consentStep(address: string, { tenant }: { tenant: string }, { store }: ExplainParts): Promise<Step> {
  switch ((await recipientStatuses(store, tenant, [address])).get(address)) {
    case 'refused':
      return stops('consent', 'refused', 'the recipient has declined mail from this server');
    case 'pending':
      return stops('consent', 'pending', 'the recipient has not yet confirmed: the account’s mail waits');
    default:
      return passes('consent', 'may be sent', 'the account is trusted, has this domain, or the recipient confirmed');
  }
}

async function suppressionStep(address: string, mail: Mail | undefined, { store }: ExplainParts): Promise<Step> {
  const step = 'suppression';
  const all = await suppressionsOf(store, address);
  const entries = all.filter(
    ({ tenant, form }) => mail === undefined || (tenant === mail.tenant && (form === '' || form === mail.form)),
  );
  if (entries.length === 0) return passes(step, 'not on the suppression list', 'there is no entry for this address');
  const found = entries
    .map(({ tenant, form, reason, created_at: since }) => {
      const what = form === '' ? '' : ` for the form ${form}`;
      return `on the suppression list of ${tenant}${what} since ${isoTime(since)} (${reason})`;
    })
    .join('; ');
  if (mail === undefined) return warns(step, found, 'these accounts send it only notifications from their own forms');
  if (entries.some(({ form }) => form !== ''))
    return stops(step, found, 'the recipient has stopped the notifications from this form');
  return KINDS[mail.kind].suppression
    ? stops(step, found, 'mail of this kind is not sent to addresses on the list')
    : warns(step, found, 'mail to the owner of a form is sent anyway');
}

async function destinationStep(destination: string, { store, clock, snapshot }: ExplainParts): Promise<Step> {
  const paused = isRelayed(snapshot().server, destination) ? await relayPause(store, clock.now()) : undefined;
  if (paused !== undefined) {
    return warns(
      'destination',
      `all mail to the smarthost waits until ${isoTime(paused.until)}`,
      `${paused.failures} failures in a row, the last: ${paused.error}`,
    );
  }
  const row = await findDestination(store, destination);
  if (row === undefined)
    return passes('destination', `no mail has been sent to ${destination} yet`, 'the destination is new');
  if (row.held === 1) {
    return stops(
      'destination',
      `mail to ${destination} is held`,
      `the operator holds it; to release it, run: postern queue release ${destination}`,
    );
  }
  const error = row.last_error ?? 'it could not be reached';
  if (row.paused_until !== null && row.paused_until > clock.now()) {
    return warns(
      'destination',
      `mail to ${destination} waits until ${isoTime(row.paused_until)}`,
      `${row.failures} connection failures in a row, the last: ${error}`,
    );
  }
  if (row.failures > 0)
    return warns('destination', `${destination} is being retried`, `its last connection failed: ${error}`);
  return passes('destination', `${destination} is open`, 'it is neither held nor paused');
}

function routeStep(destination: string, route: Route, { snapshot }: ExplainParts): Step {
  const rule = routeRule(destination, snapshot().server);
  const because = {
    routes: `delivery.routes has an entry for ${destination}`,
    relay: 'delivery.relay is used for all mail',
    mx: `the MX records of ${destination}, or its address if it has none`,
  }[rule.by];
  switch (route.kind) {
    case 'permanent':
      return stops('route', `rejected immediately: ${route.reply}`, because);
    case 'temporary':
      return warns('route', `no route for now, retried later: ${route.reply}`, because);
    case 'nextHop': {
      if (rule.by === 'mx' && route.nextHop.hosts.some(({ name }) => name === snapshot().server.server.hostname)) {
        return passes(
          'route',
          'to this server itself: its forwarding rules apply',
          `this server is an MX host of ${destination}`,
        );
      }
      const hosts = route.nextHop.hosts.map(({ name, addresses }) => `${name} [${addresses.join(', ')}]`);
      return passes('route', `${hosts.join(', then ')}, port ${route.nextHop.port}`, because);
    }
  }
}

function tlsStep(nextHop: NextHop, attempts: readonly RecentAttempt[]): Step {
  const last = attempts.find(({ outcome, host }) => outcome === 'delivered' && host !== null);
  const seen = last === undefined ? 'no recent delivery' : `last seen: ${last.tls ?? 'clear text'}`;
  const dane = nextHop.hosts.flatMap(({ name, tlsa }) => (tlsa === undefined ? [] : [{ name, ...tlsa }]));
  if (dane.length > 0) {
    const withoutTlsa = nextHop.hosts.filter(({ tlsa }) => tlsa === undefined).map(({ name }) => name);
    const rest = withoutTlsa.length === 0 ? '' : `; no TLSA record: ${withoutTlsa.join(', ')}`;
    const isAny = dane.every(({ records }) => records.length === 0);
    const whose = isAny ? 'with any certificate' : 'with a certificate that matches the TLSA records';
    return passes('tls', `TLS is required, ${whose} (${seen})`, `DANE: ${dane.map(daneText).join('; ')}${rest}`);
  }
  const mtaSts = nextHop.mtaSts;
  if (mtaSts !== undefined) {
    const hosts = mtaSts.mx.join(', ');
    return mtaSts.mode === 'enforce'
      ? passes(
          'tls',
          `TLS is required, with a valid certificate for the host (${seen})`,
          `MTA-STS, mode enforce: ${hosts}`,
        )
      : passes(
          'tls',
          `TLS if the host offers it; failures are only recorded (${seen})`,
          `MTA-STS, mode testing: ${hosts}`,
        );
  }
  const { security } = nextHop.relay ?? {};
  const { required, verified } = tlsPolicy(nextHop, nextHop.hosts[0]?.name ?? '');
  const wanted = required
    ? `TLS is required${verified ? ', with a valid certificate for the host' : ''}`
    : security === 'off'
      ? 'clear text'
      : 'TLS if the host offers it, with any certificate; otherwise clear text';
  return passes(
    'tls',
    `${wanted} (${seen})`,
    nextHop.tls === 'implicit'
      ? 'the smarthost uses implicit TLS'
      : security === undefined
        ? 'RFC 7435: no policy requires more'
        : `delivery.relay: TLS is ${security}`,
  );
}

function daneText({ name, base, records, published }: HostTlsa & { readonly name: string }): string {
  const at = base === name ? name : `${name} (${base})`;
  return `${at}: ${published.join(', ')}${records.length === 0 ? ' (none can be used)' : ''}`;
}

/** To the address itself; where there are none, to others of its destination. */
async function attemptsOf(
  address: string,
  destination: string,
  { store, tenant = '' }: ExplainParts,
): Promise<RecentAttempt[]> {
  const of = { tenant, limit: SHOWN_ATTEMPTS };
  const own = await recentAttemptsTo(store, address, of);
  return own.length > 0 ? own : recentAttemptsAt(store, destination, of);
}

function attemptsStep(address: string, attempts: readonly RecentAttempt[]): Step {
  const [last] = attempts;
  if (last === undefined) return passes('attempts', 'none recently', 'no mail was sent there');
  const isOwn = last.recipient.toLowerCase() === address.toLowerCase();
  const found = attempts
    .map(
      ({ at, outcome, host, reply, message }) =>
        `${isoTime(at)} ${outcome}${host === null ? '' : ` at ${host}`}: ${reply} (${message})`,
    )
    .join('\n');
  const because = isOwn
    ? 'the last attempts to this address'
    : 'the last attempts to other addresses of the destination';
  return last.outcome === 'delivered' || last.outcome === 'captured'
    ? passes('attempts', found, because)
    : warns('attempts', found, because);
}
