/**
 * Trouble that the daemon notices by itself: a certificate that is not renewed, an address on a block list, a big receiver whose
 * queue grows. The operator gets one mail about each cause, with what to do, and another only after days, however many daemons notice
 * it and whatever restarts between. `postern_alerts` says what is wrong at the moment.
 */
import type { ServerConfig } from '../config/schema.ts';
import { recordsOf, type Resolver } from '../dns/resolver.ts';
import { lookUpBlockList } from '../doctor/blocklist.ts';
import { addressesOf } from '../doctor/host.ts';
import type { Figure } from '../http/metrics.ts';
import type { CertificateFailure, CertificateState } from '../lib/certificate.ts';
import { isoTime, type Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { receiverOf, type Receiver } from '../queue/destinations.ts';
import { alertOperator, type OperatorAlert } from '../queue/system-mail.ts';
import { mailWaitingSince, type WaitingMail } from '../store/alerts.ts';
import type { Store } from '../store/store.ts';
import type { Jobs } from './jobs.ts';

export interface AlertsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly config: () => ServerConfig;
  readonly resolver: Resolver;
  /** There is mail to send. */
  readonly wake: () => void;
  /** Those in use, and those that are to be obtained. */
  readonly certificates: () => readonly CertificateState[];
}

export interface Alerts {
  readonly jobs: Jobs;
  /** What is wrong at the moment, for Prometheus. */
  figure(): Figure;
  /** The same in words. */
  active(): readonly ActiveAlert[];
}

export interface ActiveAlert {
  readonly kind: Kind;
  /** A sentence without its full stop. */
  readonly subject: string;
}

type Alert = Omit<OperatorAlert, 'days'>;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MAX_TEXT = 500;

/** A mail about one cause comes again after so many days. */
const DAYS = { certificate: 7, block_list: 7, receiver: 1 } as const;
type Kind = keyof typeof DAYS;

/** Certificates are renewed earlier, by machine; one that lives for days only is nearly over in its last third. */
const SOON = 14 * DAY;

/** So many tries in a row fail before the operator is mailed: within an hour without a valid certificate, and a day with one. */
const MAX_FAILURES = { none: 3, valid: 6 };

/** More than a busy hour leaves behind, and enough to be a receiver's decision. */
const MIN_WAITING = 50;
const MAX_DESTINATIONS = 100;
/** Longer than retries of a server that is briefly busy take. */
const LATE_AFTER = HOUR;

export function createAlerts(parts: AlertsParts): Alerts {
  const { store, clock, log, config, resolver, wake } = parts;
  const active = new Map<Kind, readonly Alert[]>();
  let waitedBefore: ReadonlyMap<Receiver, number> | undefined;

  /** Tells of what was found, now. */
  async function raise(kind: Kind, found: readonly Alert[]): Promise<void> {
    active.set(kind, found);
    const { server } = config();
    for (const alert of found) {
      const sent = await alertOperator(store, { ...alert, days: DAYS[kind] }, { ...server, now: clock.now() });
      if (!sent) continue;
      log.warn('alert.sent', { alert: alert.name, subject: alert.subject });
      wake();
    }
  }

  async function lookAtCertificates(): Promise<void> {
    const { hostname } = config().server;
    const now = clock.now();
    const found = parts.certificates().flatMap((state) => certificateAlert(state, { hostname, now }) ?? []);
    await raise('certificate', found);
  }

  async function lookAtBlockLists(): Promise<void> {
    const { server, alerts } = config();
    if (alerts.dnsbl.length === 0) return raise('block_list', []);
    const fresh = resolver.fresh();
    const addresses = recordsOf(
      await addressesOf({ hostname: server.hostname, publicIps: server.public_ips, resolver: fresh }),
    );
    const asked = addresses.flatMap((address) => alerts.dnsbl.map((zone) => ({ address, zone })));
    const found = await Promise.all(
      asked.map(async (each) => ({ ...each, listing: await lookUpBlockList(each.zone, each.address, fresh) })),
    );
    await raise(
      'block_list',
      found.flatMap(({ address, zone, listing }) =>
        listing.kind === 'listed' ? [blockListAlert({ address, zone, words: listing.words })] : [],
      ),
    );
  }

  async function lookAtReceivers(): Promise<void> {
    // A smarthost stands between, and has an alert of its own.
    if (config().delivery.relay !== null) return raise('receiver', []);
    const late = await mailWaitingSince(store, clock.now() - LATE_AFTER, MAX_DESTINATIONS);
    const known = await Promise.all(
      late.map(async (each) => ({ ...each, receiver: receiverOf(each.destination, await mxHostOf(each.destination)) })),
    );
    const byReceiver = Map.groupBy(known, ({ receiver }) => receiver);
    byReceiver.delete('other');
    const waits = new Map([...byReceiver].map(([receiver, some]) => [receiver, countOf(some)]));
    const before = waitedBefore;
    waitedBefore = waits;
    const growing = [...byReceiver].filter(([receiver]) => {
      const count = waits.get(receiver) ?? 0;
      return before !== undefined && count >= MIN_WAITING && count > (before.get(receiver) ?? 0);
    });
    const { hostname } = config().server;
    await raise(
      'receiver',
      growing.map(([receiver, some]) => receiverAlert(receiver, some, hostname)),
    );
  }

  async function mxHostOf(domain: string): Promise<string | null> {
    const hosts = recordsOf(await resolver.mx(domain)).toSorted((a, b) => a.preference - b.preference);
    return hosts[0]?.exchange ?? null;
  }

  return {
    jobs: {
      alert_certificate: every(10 * MINUTE, clock, lookAtCertificates),
      alert_block_list: every(HOUR, clock, lookAtBlockLists),
      alert_receiver: every(10 * MINUTE, clock, lookAtReceivers),
    },
    active: () => [...active].flatMap(([kind, found]) => found.map(({ subject }) => ({ kind, subject }))),
    figure: () => ({
      name: 'postern_alerts',
      help: 'Active alerts, by kind.',
      value: (['certificate', 'block_list', 'receiver'] as const).map((alert) => [
        { alert },
        active.get(alert)?.length ?? 0,
      ]),
    }),
  };
}

/** Runs the job at once and then in this interval; after a failure sooner. */
function every(interval: number, clock: Clock, job: () => Promise<void>): () => Promise<void> {
  let doneAt = -Infinity;
  return async () => {
    const now = clock.monotonic();
    if (now - doneAt < interval) return;
    await job();
    doneAt = now;
  };
}

/** What others wrote, as one line of a mail. */
function shown(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').slice(0, MAX_TEXT);
}

function countOf(some: readonly WaitingMail[]): number {
  return some.reduce((sum, { count }) => sum + count, 0);
}

interface Situation {
  readonly hostname: string;
  readonly now: number;
}

function certificateAlert(state: CertificateState, situation: Situation): Alert | undefined {
  const { expiresAt, obtainedAt = 0, failure } = state;
  const left = (expiresAt ?? 0) - situation.now;
  if (failure !== undefined && failure.count >= (left > 0 ? MAX_FAILURES.valid : MAX_FAILURES.none))
    return failureAlert(state, failure, situation);
  if (expiresAt === undefined || left >= Math.min(SOON, (expiresAt - obtainedAt) / 3)) return undefined;
  return expiryAlert({ ...state, expiresAt }, situation);
}

/** When it ends, as words of a sentence. */
function endOf(expiresAt: number, now: number): string {
  const days = Math.floor((expiresAt - now) / DAY);
  return expiresAt <= now ? 'has expired' : `expires in ${days} ${days === 1 ? 'day' : 'days'}`;
}

function failureAlert(
  { name, expiresAt }: CertificateState,
  { count, at, reason, nextAt }: CertificateFailure,
  { now }: Situation,
): Alert {
  const isValid = expiresAt !== undefined && expiresAt > now;
  const instead =
    expiresAt === undefined ? 'A self-signed certificate is in use' : `The last one expired at ${isoTime(expiresAt)}`;
  const used = isValid
    ? `The certificate in use ${endOf(expiresAt, now)}: ${isoTime(expiresAt)}.`
    : `${instead}: browsers show warnings for your forms, and servers that require a valid
certificate send no mail here.`;
  const text = `The last ${count} attempts to obtain a certificate for ${name} failed, the last one at ${isoTime(at)}:

    ${shown(reason)}

${used}

The next attempt is at ${isoTime(nextAt)}. To try again at once, when you have corrected the cause:

    systemctl reload postern
    postern doctor`;
  return { name: `certificate:${name}`, subject: `No certificate can be obtained for ${name}`, text };
}

function expiryAlert(
  { name, expiresAt }: CertificateState & { expiresAt: number },
  { hostname, now }: Situation,
): Alert {
  const when = endOf(expiresAt, now);
  const text = `The certificate that ${hostname} uses for ${name} ${when}: ${isoTime(expiresAt)}.

It should have been renewed by now. Without a valid certificate, browsers show warnings for your forms, and servers that
require one send no mail here.

With tls.mode: files, check that your ACME client renews it (certbot renew --dry-run) and that tls.files names the renewed files,
which are reloaded when they change. The log says why a certificate was not loaded or not renewed:

    journalctl -u postern --grep 'tls\\.'
    postern doctor`;
  return { name: `certificate:${name}`, subject: `The certificate of ${name} ${when}`, text };
}

function blockListAlert({ address, zone, words }: Record<'address' | 'zone' | 'words', string>): Alert {
  const text = `${address}, from which this server sends mail, is on a block list:

    ${shown(words)}

Receivers that use this list refuse your mail.

1. Find the cause: an account that sends unsolicited mail, a form that is abused, or another machine behind this IP address.

    postern analytics
    postern queue list --state deferred

2. Stop it (postern tenants suspend stops an account).
3. Ask the list to remove the IP address; its website says how. Do not ask earlier: most lists count the requests.`;
  return { name: `block_list:${zone}:${address}`, subject: `${address} is on the block list ${zone}`, text };
}

function receiverAlert(receiver: Receiver, some: readonly WaitingMail[], hostname: string): Alert {
  const count = countOf(some);
  const lines = some
    .slice(0, 5)
    .map(({ destination, count: each, reply }) => `    ${destination}: ${each} (${shown(reply ?? 'not tried yet')})`);
  const text = `${count} deliveries to ${receiver} have been waiting for more than an hour, and their number is growing:

${lines.join('\n')}

They are retried as set in delivery.retry, and nothing is lost before delivery.expire. Large receivers often limit the mail from
an IP address that they do not know well, or whose mail their users do not want. The replies say why:

    postern queue list --state deferred

If the replies mention a limit, wait, and send less at a time. If they mention a policy, authentication or reputation, run
postern doctor and read the page they link to.`;
  return {
    name: `receiver:${receiver}`,
    subject: `Mail from ${hostname} to ${receiver} is waiting: ${count} deliveries`,
    text,
  };
}
