/**
 * The composition root: the only place that makes long-lived things and knows them all. It starts them in the order in
 * which they need each other and ends them in the opposite one; where a start fails, what had started is ended.
 */
import { createSecretKey, type KeyObject } from 'node:crypto';
import type Koa from 'koa';
import { createAccountLimits } from '../accounts/plans.ts';
import { createAuthFailures, type AuthFailures } from '../accounts/auth-failures.ts';
import { createAuthenticator } from '../accounts/authenticate.ts';
import { createCollectionNames } from '../accounts/collection-names.ts';
import { createConsent, releaseInTime } from '../accounts/consent.ts';
import { createDomains, type Domains } from '../domains/domains.ts';
import { adoptHostKey, createHostKeys } from '../domains/host-key.ts';
import { createIdempotency } from '../accounts/idempotency.ts';
import { createMessageLimits } from '../accounts/message-limits.ts';
import { createLimits } from '../accounts/rate-limits.ts';
import { createObjectLimits } from '../accounts/object-limits.ts';
import { createRevisions } from '../accounts/projects.ts';
import { signupConfirmation } from '../accounts/tenants.ts';
import { sweepTokens } from '../accounts/tokens.ts';
import { createUsage } from '../accounts/usage.ts';
import { findServerFile } from '../config/files.ts';
import type { Reading } from '../config/load.ts';
import { machineSecrets } from '../config/secrets.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { Reload } from '../config/source.ts';
import { openCertificate, openConfig, readServer, startWatching } from './configuration.ts';
import { openDelivery } from './delivery-remote.ts';
import { openInbound, openDirectory } from './inbound.ts';
import { openSubmission } from './submission.ts';
import { createPolicyFetch } from '../dns/guarded-fetch.ts';
import { refusesMail } from '../dns/mx.ts';
import { createResolver, type Resolver } from '../dns/resolver.ts';
import { createDoctor } from '../doctor/doctor.ts';
import { createEventCounts, forgetOldEvents } from '../events/counts.ts';
import { createAccept, sweepAcknowledged } from '../forms/accept.ts';
import { adoptForms } from '../forms/find.ts';
import { createFileStore } from '../forms/files.ts';
import { createSpamFilter } from '../forms/spam/filter.ts';
import { mailOverflows } from '../forms/overflow.ts';
import { openBackups } from '../store/backup.ts';
import { watchFreeSpace } from '../store/free-space.ts';
import { createHttpServer, type HttpAddresses } from '../http/server.ts';
import { startJobs, watchClock, retentionJobs } from './jobs.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { activatedSockets, type ListenAddress } from '../lib/sockets.ts';
import { createLog, type AdjustableLog, type Log } from '../lib/log.ts';
import { isClockBehind, pullBackDueTimes } from '../store/clock-step.ts';
import { foldMessageCounts } from '../store/message-counts.ts';
import { createStore, databaseFile } from '../store/database.ts';
import { joinCluster } from './cluster.ts';
import { createProcessPool, type ProcessPool } from './process-pool.ts';
import { LEASE } from '../queue/claimer.ts';
import { longestWaits, WEBHOOK_RETRY_MS } from '../queue/retry.ts';
import { systemMail, type SystemMail } from '../queue/system-mail.ts';
import { BOUNCE_LEASE } from '../smtp/bounce-reading.ts';
import { createSmtpCounters, type SmtpCounters } from '../smtp/record.ts';
import { saveOperator } from '../store/revisions.ts';
import type { Statement } from '../store/statement.ts';
import type { Store, Topic } from '../store/store.ts';
import { checkTemplates } from '../templates/engine.ts';
import { version } from '../lib/version.ts';
import { createWebhooks } from '../events/webhooks.ts';
import { openWebhookHttp } from './webhooks.ts';
import { createMetrics, type Metrics, type MetricsParts } from '../http/metrics.ts';
import type { CertificateKeeper } from '../lib/certificate.ts';
import { obtainSecret } from '../store/secrets.ts';
import type { Renderer } from '../templates/render.ts';
import { createTransactional, type Transactional } from '../transactional/send.ts';
import { createKeyring } from '../domains/signing-keys.ts';
import { loopbackSmtp } from './delivery.ts';
import { createExplain, type Explain } from '../explain/explain.ts';
import type { ExplainParts } from '../explain/steps.ts';
import { trace, type Trace } from '../explain/trace.ts';
import { openSrsKeys } from '../smtp/srs-keys.ts';

export interface DaemonParts {
  /** With a clock or a resolver of its own (tests), delivery runs in this thread. */
  readonly clock?: Clock;
  readonly resolver?: Resolver;
  readonly random?: () => number;
  readonly log?: AdjustableLog;
  /** Of processes that outlive the daemon. */
  readonly pool?: ProcessPool;
  /** Answers before all routes: what the dev world adds. */
  readonly extra?: Koa.Middleware;
}

export interface Daemon {
  readonly addresses: HttpAddresses | undefined;
  /** Where mail is taken, port 25 first. */
  readonly smtp: readonly ListenAddress[];
  readonly domains: Domains;
  readonly store: Store;
  readonly log: Log;
  /** What keeps the queue from moving, in words; undefined while it moves. */
  queueProblem(): string | undefined;
  /** Whether only a new start would help. */
  isStuck(): boolean;
  snapshot(): Snapshot;
  /** Reads the configuration again, as SIGHUP does. */
  reload(): Promise<Reload>;
  /** Stops accepting, finishes what is in progress, gives back what is not, closes the database. */
  close(): Promise<void>;
}

/** How long requests and deliveries that are in progress may take to finish at a stop, ms. */
const GRACE_MS = 10_000;

/** Of one account: requests that wait for their turn to be rendered or checked. */
const MAX_WAITING = 50;

/** Starts the daemon under this server.yml (else the usual places). Throws UserError where the operator must mend something. */
export async function startDaemon(configFile?: string, parts: DaemonParts = {}): Promise<Daemon> {
  const ending: (() => Promise<void>)[] = [];
  async function close(): Promise<void> {
    for (const end of ending.splice(0).reverse()) await end();
  }
  try {
    return { ...(await compose(configFile, parts, ending)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function compose(
  configFile: string | undefined,
  parts: DaemonParts,
  ending: (() => Promise<void>)[],
): Promise<Omit<Daemon, 'close'>> {
  const { clock = systemClock } = parts;
  const { env } = process;
  const reading: Reading = { secrets: machineSecrets(env), checkTemplates };
  const file = await findServerFile(configFile, env);
  const server = await readServer(file, reading);
  const log = parts.log ?? createLog(server.log);
  const pool =
    parts.pool ?? createProcessPool({ log, cacheFolder: env['NODE_COMPILE_CACHE'], maxWaiting: MAX_WAITING });
  ending.push(() => pool.close());
  const { reader, renderer } = pool;

  const store = await createStore(server.database.url);
  ending.push(() => store.close());
  await saveOperator(store, server.server.operator, clock.now());
  const config = await openConfig({ file, server, reading, reader, store, clock, log });
  const snapshot = config.current;
  const certificate = await openCertificate(server, { log, files: () => snapshot().server.tls.files });
  const sockets = activatedSockets(env, process.pid);

  const resolver = parts.resolver ?? createResolver({ servers: server.dns.servers, log });
  function letter(mail: SystemMail): Statement[] {
    return systemMail(mail, snapshot().server.server.hostname, clock.now());
  }
  const domains = createDomains({
    store,
    resolver,
    clock,
    log,
    snapshot,
    letter,
    fetchPolicy: createPolicyFetch({ resolver, userAgent: `Postern/${version()}` }),
    async onTransition() {
      wake();
      // Addresses at a domain that is verified now need not agree any more.
      await Promise.all([consent.release(), takeOver()]).catch((error: unknown) =>
        log.error('config.refresh_failed', errorFields(error)),
      );
    },
  });
  await domains.adopt();
  await adoptHostKey({ store, clock, log }, server.server.hostname);
  const hostKeys = createHostKeys({ store, clock, log, resolver, snapshot });
  await adoptForms({ store, clock }, snapshot());
  const limits = await createLimits({ store, clock, log });
  ending.push(() => limits.close());
  const consent = createConsent({ store, clock, log, limits, config: () => snapshot().server, letter, wake });
  const accounts = createAccountLimits({ limits, config: () => snapshot().server });
  const objects = createObjectLimits({ store, clock, snapshot });
  const collectionNames = createCollectionNames({ store, limits, snapshot });
  const messages = createMessageLimits({ store, clock, config: () => snapshot().server });
  const usage = createUsage({ store, clock, log });
  ending.push(() => usage.close());
  const counts = createEventCounts({ store, clock });
  const files = createFileStore({ store, clock });
  const idempotency = createIdempotency({ store, clock });
  const authFailures = createAuthFailures({ store, clock, log });
  const authenticator = createAuthenticator({ store, clock, log, failures: authFailures });
  ending.push(() => authenticator.saveUses());

  const now = { config: () => snapshot().server, env };
  const delivery = await openDelivery({ server, store, clock, log, resolver, ...now, parts });
  ending.push(() => delivery.stop(GRACE_MS));
  const peers = joinCluster({ store, clock, log, hear });
  ending.push(() => peers.close());
  // Its files may have brought new revisions.
  peers.configChanged();

  /** There is mail to send, here or elsewhere. */
  function wake(): void {
    delivery.wake();
    peers.mailQueued();
  }

  /** Projects or domains have changed in the database: that is in force when this resolves, and elsewhere soon. */
  async function takeOver(): Promise<void> {
    peers.configChanged();
    await config.refresh();
  }

  function hear(topic: Topic): void {
    if (topic === 'queue') delivery.wake();
    else {
      const heard = config.refresh().then(domains.adopt);
      heard.catch((error: unknown) => log.error('config.refresh_failed', errorFields(error)));
    }
  }

  const random = parts.random ?? Math.random;
  const webhookHttp = openWebhookHttp({
    resolver,
    config: () => snapshot().server,
    listening: () => addresses?.tcp ?? [],
  });
  const webhooks = createWebhooks({ store, clock, log, http: webhookHttp, snapshot, wake });
  await webhooks.adopt();

  const path = databaseFile(server.database.url);
  const freeSpace = watchFreeSpace(path, { clock, log });
  const backups = await openBackups({ path, clock, log, reserve: () => snapshot().server.limits.free_disk });
  ending.push(() => backups.drop());
  const revisionOf = createRevisions({ store, secrets: reading.secrets, reader });
  const counters = createSmtpCounters();
  const metrics = openMetrics({ store, clock, log, certificate, counters, authFailures });
  ending.push(() => metrics.close());
  await metrics.listen(server.server.metrics.listen);
  const { extra } = parts;
  const http = createHttpServer({
    metrics,
    snapshot,
    domains,
    checkConfig: config.check,
    hostKeys,
    backups,
    doctor: createDoctor({ store, clock, resolver, snapshot, queueProblem: delivery.problem, databaseFile: path }),
    ...(await openExplain({ store, clock, snapshot, resolver, random, domains, revisionOf })),
    store,
    limits,
    files,
    idempotency,
    confirmations: {
      signup: signupConfirmation({ store, clock, release: consent.release }),
      recipient: consent.confirmation,
    },
    consent,
    freeSpace,
    authenticator,
    accounts,
    messages,
    objects,
    collectionNames,
    usage,
    counts,
    takeAccount: accounts.take,
    used: usage.used,
    clock,
    log,
    spamFilter: createSpamFilter((domain) => refusesMail(domain, resolver)),
    accept: createAccept({ store, clock, limits, consent, config: () => snapshot().server, wake }),
    ...(await openTransactional({ store, clock, renderer })),
    version: version(),
    queueProblem: delivery.problem,
    wake,
    revisionOf,
    takeOver,
    reader,
    webhooks,
    certificate,
    bind: sockets.bind,
    ...(extra === undefined ? {} : { extra }),
  });
  const smtp = {
    server,
    snapshot,
    store,
    clock,
    log,
    resolver,
    certificate,
    bind: sockets.bind,
    counters,
    freeSpace,
    wake,
  };
  const account = { authenticator, takeAccount: accounts.take, messages, used: usage.used };
  const listeners: { close(graceMs: number): Promise<void> }[] = [];
  // Together: what each of them has in progress may take as long.
  ending.push(async () => {
    await Promise.all(listeners.map((listener) => listener.close(GRACE_MS)));
  });
  const inbound = await openInbound({ ...smtp, domains, limits, revisionOf, consent });
  listeners.push(inbound);
  const submission = await openSubmission({ ...smtp, ...account });
  listeners.push(submission);
  // Last: /readyz must not answer before mail is accepted, too.
  listeners.push(http);
  const addresses = server.server.roles.includes('http') ? await http.listen() : undefined;
  delivery.setListening({ smtp: inbound.door, http: addresses?.tcp ?? [] });
  if (server.server.roles.includes('delivery')) {
    ending.push(webhooks.start());
  }

  async function reload(): Promise<Reload> {
    const answer = await config.reload();
    if (answer.kind !== 'unchanged') peers.configChanged();
    await certificate?.look();
    return answer;
  }

  config.onChange((next, before) => {
    delivery.configure(next.server);
    log.adjust(next.server.log);
    adopt('domains', domains.adopt());
    adopt('host_key', adoptHostKey({ store, clock, log }, next.server.server.hostname));
    adopt('forms', adoptForms({ store, clock }, next));
    adopt('webhooks', webhooks.adopt());
    if (JSON.stringify(next.server.plans) !== JSON.stringify(before.server.plans)) {
      adopt('plans', messages.release().then(wake));
    }
  });

  function adopt(what: string, adopting: Promise<unknown>): void {
    adopting.catch((error: unknown) => log.error(`${what}.adopt_failed`, errorFields(error)));
  }
  ending.push(startWatching({ file, clock, config, reload }));
  ending.push(
    startJobs({
      clock,
      log,
      jobs: {
        clock: watchClock({
          clock,
          log,
          isBehind: () => isClockBehind(store, clock.now()),
          async onStepBack() {
            const { retry } = snapshot().server.delivery;
            await pullBackDueTimes(store, {
              now: clock.now(),
              deliveries: longestWaits(retry),
              webhooks: longestWaits(WEBHOOK_RETRY_MS),
              lease: LEASE,
              bounce: BOUNCE_LEASE,
            });
            delivery.wake();
          },
        }),
        domains: domains.checkDue,
        host_keys: hostKeys.checkDue,
        ...(store.dialect === 'postgres' ? { configuration: config.refresh } : {}),
        files: files.sweep,
        idempotency: idempotency.sweep,
        events: () => forgetOldEvents({ store, clock, counts, config: () => snapshot().server }),
        keys: authenticator.saveUses,
        webhooks: webhooks.sweep,
        tokens: () => sweepTokens({ store, clock }),
        consent: releaseInTime({ clock, consent }),
        overflows: () => mailOverflows({ store, clock, snapshot, wake }),
        messages: () => foldMessageCounts(store, clock.now()),
        acknowledged: () => sweepAcknowledged({ store, clock }),
        ...retentionJobs({ store, clock, snapshot }),
        ...inbound.jobs,
        ...(certificate === undefined ? {} : { certificate: certificate.look }),
      },
    }),
  );

  for (const address of sockets.left()) log.warn('socket.unused', { address });
  const smtpAddresses = [...inbound.addresses, ...submission.addresses];
  const { hostname } = server.server;
  log.info('daemon.ready', { hostname, addresses: addresses?.tcp, smtp: smtpAddresses, socket: addresses?.socket });
  const { problem: queueProblem, isStuck } = delivery;
  return { addresses, smtp: smtpAddresses, domains, store, log, queueProblem, isStuck, snapshot, reload };
}

// The figures for Prometheus, composed: those of the store, of HTTP, of mail, of the certificate.

export interface OpenMetrics extends Pick<MetricsParts, 'store' | 'clock' | 'log'> {
  readonly certificate: CertificateKeeper | undefined;
  readonly counters: SmtpCounters;
  readonly authFailures: Pick<AuthFailures, 'tally'>;
}

function openMetrics({ certificate, counters, authFailures, ...parts }: OpenMetrics): Metrics {
  return createMetrics({
    ...parts,
    version: version(),
    certificateEnds: () => certificate?.expiresAt(),
    tallies: [
      {
        name: 'postern_smtp_connections_total',
        help: 'Connections to the ports of mail, and those that were one too many.',
        tally: counters.connections,
      },
      {
        name: 'postern_smtp_recipients_total',
        help: 'Recipients of mail that came in, by what was said of them.',
        tally: counters.recipients,
      },
      {
        name: 'postern_auth_failures_total',
        help: 'API keys that were shown and opened nothing, by the reason.',
        tally: authFailures.tally,
      },
    ],
  });
}

// What sends mail for programs, composed, with the key that knows the links in it again.

export interface TransactionalWork {
  readonly transactional: Transactional;
  readonly unsubscribeKey: KeyObject;
}

/** With the secret that the database keeps, made where there is none. */
async function openTransactional(parts: {
  readonly store: Store;
  readonly clock: Clock;
  readonly renderer: Renderer;
}): Promise<TransactionalWork> {
  const { store, clock, renderer } = parts;
  const unsubscribeKey = createSecretKey(await obtainSecret(store, 'unsubscribe', clock.now()));
  return { unsubscribeKey, transactional: createTransactional({ store, unsubscribeKey, renderer }) };
}

// Explanations and traces, composed: with what decides when there is mail, and what is kept of it.

type Parts = Omit<ExplainParts, 'keysOf' | 'directory' | 'domains' | 'door'> & {
  readonly domains: Pick<Domains, 'status' | 'report'>;
};

export interface Insight {
  /** What would happen. */
  readonly explain: Explain;
  /** What did happen. */
  readonly trace: (id: string) => Promise<Trace | undefined>;
}

/** The functions that explain, and trace. */
async function openExplain(parts: Parts): Promise<Insight> {
  const { store, clock, snapshot } = parts;
  const srs = await openSrsKeys({ store, clock });
  const directory = await openDirectory(parts, srs);
  const explain = createExplain({
    ...parts,
    // Under its name: that is enough to say where mail would go.
    door: loopbackSmtp({ store, config: () => snapshot().server, door: () => undefined }),
    keysOf: createKeyring({ store, clock, hostname: () => snapshot().server.server.hostname }),
    async directory() {
      await srs.renew();
      return directory();
    },
  });
  return { explain, trace: (id) => trace(store, id) };
}
