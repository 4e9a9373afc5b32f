/**
 * The delivering half of the daemon, composed: claims, renders, signs and sends. It normally runs in a thread of its own
 * (`delivery-thread.ts`), so that neither RSA nor a slow mail server is felt by whoever fills in a form.
 */
import { createSecretKey, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { placeDeliveries } from '../accounts/message-limits.ts';
import { createKeyring } from '../domains/dkim-keys.ts';
import { createRevisions, type RevisionOf } from '../accounts/projects.ts';
import type { ServerConfig } from '../config/schema.ts';
import { machineSecrets } from '../config/secrets.ts';
import type { Dnssec } from '../dns/dnssec.ts';
import type { Resolver } from '../dns/resolver.ts';
import { createFormSource } from '../forms/form-mail.ts';
import { OWNER_LINKS } from '../forms/owner-links.ts';
import { createWebhookTransport, type WebhookTransportOptions } from '../events/transport.ts';
import type { Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import type { AdjustableLog } from '../lib/log.ts';
import type { ListenAddress } from '../lib/sockets.ts';
import type { SigningContext } from '../mail/dkim.ts';
import { createSmtpClient } from '../smtp-client/client.ts';
import { createTlsReportSource, TlsSessions, type TlsSession } from '../smtp-client/tls-reports.ts';
import type { Random, Source } from '../queue/transport.ts';
import type { LoopbackAddress } from '../smtp-client/route.ts';
import { startJobs } from './jobs.ts';
import { DELIVERY_THREAD, joinMembers } from './members.ts';
import { loopbackSmtp, openMtaSts, openWebhookHttp } from './outgoing.ts';
import { createProcessPool, type ProcessPool } from './process-pool.ts';
import { createSystemSource, systemMail } from '../queue/system-mail.ts';
import { actOnMany } from '../queue/operate.ts';
import { Worker } from '../queue/worker.ts';
import { policyAlertFor, relayAlert, routeAlert } from '../smtp/alerts.ts';
import { createDsnSource, reportFailure } from '../smtp/dsn.ts';
import { createForwardSource, createSubmittedSource } from '../smtp/forward-source.ts';
import { createReplySource } from '../smtp/reply-relay.ts';
import { openSrsKeys } from '../smtp/srs-keys.ts';
import { clearFailures, RELAY } from '../store/destinations.ts';
import { noteFailedNotification } from '../store/form-options.ts';
import { takeBackLeases } from '../store/leases.ts';
import { endLeases, removeMember } from '../store/members.ts';
import { obtainSecret } from '../store/secrets.ts';
import type { Store } from '../store/store.ts';
import type { MessageKind } from '../store/tables.ts';
import { createTransactionalSource } from '../transactional/source.ts';
import type { DeliveryMetrics, Reading } from '../http/metrics.ts';
import { findProject } from '../store/projects.ts';
import { findTenant } from '../store/tenants.ts';

export interface DeliveryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: AdjustableLog;
  readonly resolver: Resolver;
  /** Without it no host has DANE. */
  readonly dnssec?: Dnssec | undefined;
  readonly random: Random;
  /** What is active at the start. */
  readonly server: ServerConfig;
  /** Where the configuration's references to variables lead. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly metrics: DeliveryMetrics;
  /** Default: of its own. */
  readonly pool?: ProcessPool | undefined;
}

/** Where this daemon listens. */
export interface Listening {
  /** For mail; undefined where it takes none. */
  readonly smtp: LoopbackAddress | undefined;
  readonly http: readonly ListenAddress[];
}

export interface Delivery {
  /** There may be something to do. */
  wake(): void;
  /** This is active from now on. */
  configure(server: ServerConfig): void;
  /** The daemon listens here from now on. */
  setListening(listening: Listening): void;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  problem(): string | undefined;
  /** What it has counted; the thread's are two seconds old at most. */
  metrics(): Promise<Reading>;
  /** Whether it has stopped looking at all, so that only a new start helps; what it tries in vain may still recover. */
  isStuck(): boolean;
  /** Claims nothing more, finishes what is in flight for at most `graceMs`, gives the rest back. */
  stop(graceMs: number): Promise<void>;
}

/** The queue is looked through every five seconds at least; after this long it is stuck, ms. */
const STUCK_MS = 30_000;

/** Starts to deliver what is queued. */
export async function startDelivery(parts: DeliveryParts): Promise<Delivery> {
  const { store, clock, log, resolver, dnssec, random, metrics } = parts;
  let { server } = parts;
  let listening: Listening | undefined;
  function config(): ServerConfig {
    return server;
  }
  // First: it reads the database, and where that fails nothing runs yet.
  const pool = parts.pool ?? createProcessPool({ log, cacheFolder: parts.env['NODE_COMPILE_CACHE'] });
  const revisionOf = createRevisions({ store, secrets: machineSecrets(parts.env), reader: pool.reader });
  const rendering = { config, renderer: pool.renderer, revisionOf };
  const source = await createSource(parts, rendering);
  const owner = randomUUID();
  const members = joinMembers({
    store,
    clock,
    log,
    id: owner,
    machine: hostname(),
    roles: [DELIVERY_THREAD],
    async onDead(id) {
      const now = clock.now();
      await store.write([endLeases({ owner: id })]);
      await takeBackLeases(store, now, now);
      await store.write([removeMember({ id })]);
      worker.wake();
    },
  });
  const share = members.share(DELIVERY_THREAD);

  /** What all daemons together may do at a receiver, divided among them. */
  function shared(): ServerConfig {
    if (share === undefined) return server;
    const { concurrency, per_destination } = server.delivery;
    return {
      ...server,
      delivery: {
        ...server.delivery,
        concurrency: share(concurrency),
        per_destination: share(per_destination),
      },
    };
  }
  const tlsSessions = new TlsSessions(parts);
  function countTls(session: TlsSession): void {
    if (config().delivery.tls_reports) tlsSessions.count(session);
  }
  const mail = createSmtpClient({
    resolver,
    config: shared,
    clock,
    log,
    random,
    ownAddresses: (ip) => config().server.public_ips.includes(ip),
    mtaSts: openMtaSts({
      store,
      clock,
      log,
      resolver,
      config,
      onFailure: ({ domain, ...failure }) => {
        const policy = { type: 'sts', strings: [], domain, hosts: [] } as const;
        countTls({ domain, policy, host: null, address: null, local: null, ...failure });
      },
    }),
    dnssec,
    loopback: loopbackSmtp({ store, config, place: () => listening?.smtp }),
    onTransaction: metrics.transaction,
    onTlsSession: countTls,
  });
  const webhooks = createWebhookTransport({
    store,
    clock,
    log,
    http: openWebhookHttp({ resolver, config, listening: () => listening?.http ?? [] }),
    isReady: () => listening !== undefined,
    alertOwner: alertWebhookOwner(parts, rendering),
    wake: () => worker.wake(),
  });
  const worker = new Worker({
    store,
    clock,
    log,
    source,
    transports: { mail, webhooks },
    config: shared,
    owner,
    isSafe: members.isSafe,
    random,
    // Told of mail that will never arrive: its sender, where it was forwarded; the operator, where only he can correct it; the
    // fallback of a form.
    async onFailure(failure) {
      const { unit, data } = await reportFailure(failure, { store, config });
      await policyAlertFor(failure, { store, config });
      return { unit: [...unit, ...noteFailedNotification(failure)], data };
    },
    hasOthers: () => members.hasOthers('delivery'),
    onNoRoute(reply) {
      const lost = { machine: hostname(), reply, at: clock.now() };
      void routeAlert(lost, { store, config: config() }).catch((error: unknown) =>
        log.warn('alert.not_sent', errorFields(error)),
      );
    },
    onRelayPause: (pause) => relayAlert(pause, { store, config: config() }),
    onCounted: metrics.counted,
    admission: {
      place: (deliveries) => placeDeliveries(deliveries, { store, clock, config: config() }),
    },
  });
  metrics.watchRoute(() => worker.progress().hasRoute);
  // What was wrong may have been corrected meanwhile.
  await endRelayPause({ retry: false });

  /** The smarthost is asked at once; `retry`: for all mail that waits. Where that cannot be written, at the end of its pause. */
  async function endRelayPause({ retry }: { readonly retry: boolean }): Promise<void> {
    try {
      await store.write([clearFailures({ names: [RELAY] })]);
      if (retry) await actOnMany(store, 'resume', { filter: { state: 'deferred' }, now: clock.now() });
      worker.wake();
    } catch (error) {
      log.warn('relay.pause_not_ended', errorFields(error));
    }
  }

  const stopSaving = startJobs({ clock, log, jobs: { tls_sessions: () => tlsSessions.flush() } });
  return {
    wake: () => worker.wake(),
    configure(next) {
      const isOtherRelay = !isDeepStrictEqual(next.delivery.relay, server.delivery.relay);
      server = next;
      if (isOtherRelay) void endRelayPause({ retry: true });
      log.adjust(server.log);
    },
    setListening(next) {
      listening = next;
      worker.wake();
    },
    problem() {
      const { fault, triedAt, hasRoute } = worker.progress();
      if (!hasRoute) return 'no mail server can be reached from this machine: the other daemons deliver its mail';
      if (fault !== undefined) return `the queue cannot be processed: ${fault}`;
      const idle = clock.monotonic() - triedAt;
      return idle > STUCK_MS ? `the queue was last checked ${Math.round(idle / 1000)} s ago` : undefined;
    },
    metrics: metrics.read,
    isStuck: () => clock.monotonic() - worker.progress().triedAt > STUCK_MS,
    async stop(graceMs) {
      await worker.stop(graceMs);
      await stopSaving();
      await tlsSessions.flush();
      await pool.close();
      await members.close();
    },
  };
}

interface SourceParts extends Pick<ProcessPool, 'renderer'> {
  readonly config: () => ServerConfig;
  readonly revisionOf: RevisionOf;
}

/** Where the bytes of every message come from, by what it is. */
async function createSource(
  { store, clock, log }: DeliveryParts,
  { config, renderer, revisionOf }: SourceParts,
): Promise<Source> {
  const signing: SigningContext = {
    keysOf: createKeyring({ store, clock, hostname: () => config().server.hostname }),
    secret: createSecretKey(await obtainSecret(store, 'return-path', clock.now())),
    hostname: () => config().server.hostname,
    now: () => clock.now(),
  };
  const ownerKey = createSecretKey(await obtainSecret(store, OWNER_LINKS, clock.now()));
  const forms = createFormSource({ store, log, config, revisionOf, renderer, signing, ownerKey });
  const submitted = createSubmittedSource({ store, signing });
  const sources: Readonly<Record<MessageKind, Source>> = {
    notification: forms,
    acknowledgment: forms,
    confirmation: forms,
    system: createSystemSource(signing),
    tls_report: createTlsReportSource(signing),
    transactional: createTransactionalSource({ store, signing, submitted }),
    forward: createForwardSource({ store, signing, srs: await openSrsKeys({ store, clock }), config }),
    reply: createReplySource({ store, signing }),
    dsn: createDsnSource(signing),
    webhook: { prepare: () => Promise.resolve({ kind: 'unrenderable', reason: 'it is not mail' }) },
  };
  return { prepare: (message, kept) => sources[message.kind].prepare(message, kept) };
}

// What the main thread and the delivery thread say to each other.

export type ToDelivery =
  | { readonly kind: 'wake' }
  | { readonly kind: 'configure'; readonly server: ServerConfig }
  | { readonly kind: 'stop'; readonly graceMs: number };

/** How the thread is. */
export interface FromDelivery {
  readonly problem: string | undefined;
  readonly isStuck: boolean;
  readonly metrics: Reading;
  /** Of its log, since the last time. */
  readonly lines: readonly string[];
}

/** How often the thread says how it is, ms. */
export const BEAT_MS = 2000;

/** Alerts the owner of the project whose configuration names the webhook, else the tenant. */
function alertWebhookOwner(
  { store, clock }: DeliveryParts,
  { config, revisionOf }: SourceParts,
): WebhookTransportOptions['alertOwner'] {
  return async ({ tenant, project }, alert) => {
    const row = project === null ? undefined : await findProject(store, tenant, project);
    const revision = row === undefined || row.revision === '' ? undefined : await revisionOf(row.revision);
    const to = revision?.config.project.owner ?? (await findTenant(store, tenant))?.email;
    return to === undefined ? [] : systemMail({ tenant, to, ...alert }, config().server.hostname, clock.now());
  };
}
