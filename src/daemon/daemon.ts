/**
 * The composition root: the only place that makes long-lived things and knows them all. It starts them in the order in
 * which they need each other and ends them in the opposite one; where a start fails, what had started is ended.
 */
import { createSecretKey, randomUUID } from 'node:crypto';
import { hostname as machineName } from 'node:os';
import { resolve } from 'node:path';
import type Koa from 'koa';
import { AccountRequests } from '../accounts/plans.ts';
import { Authenticator } from '../accounts/authenticate.ts';
import { watchConfig, findServerFile } from '../config/files.ts';
import { createKeyring } from '../domains/dkim-keys.ts';
import { createConsent, releaseInTime, sweepTokens } from '../accounts/consent.ts';
import { createDomains, type Domains } from '../domains/domains.ts';
import { receivedReports } from '../domains/received-reports.ts';
import { adoptHostKey, createHostKeys } from '../domains/rotation.ts';
import { Idempotency } from '../accounts/idempotency.ts';
import { recountWaiting } from '../accounts/message-limits.ts';
import { createLimits } from '../accounts/rate-limits.ts';
import { createDeletions } from '../accounts/delete-account.ts';
import { createObjectLimits } from '../accounts/object-limits.ts';
import { createRevisions } from '../accounts/projects.ts';
import { Sessions } from '../accounts/sessions.ts';
import { createTotp } from '../accounts/totp.ts';
import { signupConfirmation } from '../accounts/tenants.ts';
import type { Reading } from '../config/folder.ts';
import { machineSecrets } from '../config/secrets.ts';
import type { Snapshot } from '../config/snapshot.ts';
import type { ServerConfig } from '../config/schema.ts';
import { createConfigSource, type Reload } from '../config/source.ts';
import { postgresOptions, projectStore, readServer } from './configuration.ts';
import { openDelivery } from './delivery-remote.ts';
import { loopbackSmtp, openMtaSts, openWebhookHttp } from './outgoing.ts';
import { openSmtp } from './smtp.ts';
import { openStorage, refuseLostBucket } from './storage.ts';
import { createHttpClient, createPolicyFetch, type HttpClient } from '../dns/guarded-fetch.ts';
import { refusesMail } from '../dns/mx.ts';
import { createDnssec } from '../dns/dnssec.ts';
import { createResolver, type Resolver } from '../dns/resolver.ts';
import type { Inquiry } from '../doctor/doctor.ts';
import { createEventCounts, forgetOldEvents } from '../events/counts.ts';
import { createEventStreams } from '../events/streams.ts';
import { createAccept, sweepAcknowledged } from '../forms/accept.ts';
import { useFallbacks } from '../forms/fallback.ts';
import { adoptForms } from '../forms/find.ts';
import { dropUnconfirmed, optInConfirmation } from '../forms/opt-in.ts';
import { createFileStore } from '../forms/files.ts';
import { createScanner } from '../forms/scanner.ts';
import { createChallenges } from '../forms/challenges.ts';
import { createSpamProtection } from '../forms/spam/filter.ts';
import { createDigests } from '../forms/digest.ts';
import { mailOverflows } from '../forms/overflow.ts';
import { OWNER_LINKS, sweepUsedLinks } from '../forms/owner-links.ts';
import { openBackups } from '../store/backup.ts';
import { createStore, databaseFile } from '../store/database.ts';
import { watchFreeSpace } from '../store/sqlite.ts';
import { createHttpServer, watchForwarded, type HttpAddresses } from '../http/server.ts';
import { startJobs, watchClock, retentionJobs } from './jobs.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { errorFields } from '../lib/errors.ts';
import { activatedSockets, type ListenAddress } from '../lib/sockets.ts';
import { createLog, createLogLines, type AdjustableLog, type Log } from '../lib/log.ts';
import { isClockBehind, pullBackDueTimes } from '../store/clock-step.ts';
import { addEventDays } from '../store/event-days.ts';
import { releaseFreePages } from '../store/free-pages.ts';
import { foldMessageCounts } from '../store/usage.ts';
import { createAlerts } from './alerts.ts';
import { joinCluster } from './cluster.ts';
import { joinMembers, type Members } from './members.ts';
import { createProcessPool, type ProcessPool } from './process-pool.ts';
import { LEASE } from '../queue/claimer.ts';
import { actOnMany } from '../queue/operate.ts';
import { longestWaits, WEBHOOK_RETRY_MS } from '../queue/retry.ts';
import { createWaitingMail } from '../queue/waiting.ts';
import { systemMail, type SystemMail } from '../queue/system-mail.ts';
import { BOUNCE_LEASE } from '../smtp/bounces.ts';
import { createSmtpCounters } from '../smtp/receive.ts';
import { OPERATOR, saveOperator } from '../store/tenants.ts';
import type { Statement } from '../store/statement.ts';
import type { Store, Topic } from '../store/store.ts';
import { checkTemplates } from '../templates/engine.ts';
import { version } from '../lib/version.ts';
import { createWebhooks } from '../events/webhooks.ts';
import { createDatabaseMetrics, createMetrics, type Figure } from '../http/metrics.ts';
import { createOverview } from '../http/overview.ts';
import { createProblems, createStatus } from '../http/status.ts';
import { keepCertificate, readCertificate, type CertificateKeeper } from '../lib/certificate.ts';
import { keepAcmeCertificates, type AcmeCertificateParts, type AcmeCertificates } from '../domains/certificates.ts';
import { tlsModeOf } from '../config/schema-server.ts';
import { obtainSecret } from '../store/secrets.ts';
import { createTlsReports } from '../smtp-client/tls-reports.ts';
import { openDirectory } from '../smtp/recipients.ts';
import { openSrsKeys } from '../smtp/srs-keys.ts';
import { createSenderOf } from '../transactional/sender.ts';

export interface DaemonParts {
  /** With a clock or a resolver of its own (tests), delivery runs in this thread. */
  readonly clock?: Clock;
  readonly resolver?: Resolver;
  readonly random?: () => number;
  /** Asks the providers of captchas. */
  readonly http?: Pick<HttpClient, 'request'>;
  readonly log?: AdjustableLog;
  /** Of processes that outlive the daemon. */
  readonly pool?: ProcessPool;
  /** What `database.url` names, where somebody else has opened it and closes it. */
  readonly store?: Store;
  /** Answers before all routes: what the dev world adds. */
  readonly extra?: Koa.Middleware;
  /** Whoever opens the console on this machine is the operator. Only `dev/` sets it: no setting and no option does. */
  readonly isDev?: boolean;
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

/** Starts the daemon under this server.yml (else the usual places). Throws UserError where the operator must correct something. */
export async function startDaemon(configFile?: string, parts: DaemonParts = {}): Promise<Daemon> {
  const ending: (() => Promise<void>)[] = [];
  async function close(): Promise<void> {
    for (const end of ending.splice(0).reverse()) await end();
  }
  try {
    return { ...(await start(configFile, parts, ending)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function start(
  configFile: string | undefined,
  parts: DaemonParts,
  ending: (() => Promise<void>)[],
): Promise<Omit<Daemon, 'close'>> {
  // Load.
  const { clock = systemClock, random = Math.random, extra } = parts;
  const { env } = process;
  const reading: Reading = { secrets: machineSecrets(env), checkTemplates };
  const file = resolve(await findServerFile(configFile, env));
  const origin = await readServer(file, reading);
  const { ok: server } = origin;
  const { roles, hostname } = server.server;
  const logLines = createLogLines(clock);
  const log = parts.log ?? (await createLog({ ...server.log, keep: logLines.add }));
  const pool =
    parts.pool ?? createProcessPool({ log, cacheFolder: env['NODE_COMPILE_CACHE'], maxWaiting: MAX_WAITING });
  ending.push(() => pool.close());
  const { reader, renderer } = pool;

  // Open the store, and what is active in it.
  const opened =
    parts.store ??
    (await createStore(server.database.url, {
      log,
      reserve: server.limits.free_disk,
      postgres: postgresOptions(server.database),
    }));
  if (parts.store === undefined) ending.push(() => opened.close());
  const database = createDatabaseMetrics(opened, clock);
  const { store, close: closeStorage } = await openStorage({ store: database.store, clock, settings: server.storage });
  ending.push(closeStorage);
  await refuseLostBucket(store);
  await saveOperator(store, server.server.operator, clock.now());
  const machine = machineName();
  const projects = projectStore({ store, clock, machine });
  const source = await createConfigSource({
    file,
    server,
    origin,
    reading,
    reader,
    log,
    machine,
    tenant: OPERATOR,
    projects,
  });
  const { current: snapshot, server: config } = source;
  const resolver = parts.resolver ?? createResolver({ servers: server.dns.servers, log });
  const dnssec = parts.resolver === undefined ? createDnssec({ ...server.dns, clock }) : undefined;
  const core = { store, clock, log, config, snapshot, resolver, dnssec, random, wake };

  // Wire.
  function accountMail(mail: SystemMail): Statement[] {
    return systemMail(mail, config().server.hostname, clock.now());
  }
  const domains = createDomains({
    ...core,
    accountMail,
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
  const certificate = await keepCertificates({ ...core, domains });
  ending.push(() => certificate?.close() ?? Promise.resolve());
  await adoptHostKey(core, hostname);
  const hostKeys = createHostKeys(core);
  await adoptForms(core, snapshot());
  const members = joinMembers({ ...core, id: randomUUID(), machine, roles });
  ending.push(() => members.close());
  const limits = await createLimits({ ...core, share: members.share('http') });
  ending.push(() => limits.close());
  const consent = createConsent({ ...core, limits, accountMail });
  const requests = new AccountRequests({ ...core, limits });
  ending.push(() => requests.flush());
  const counts = createEventCounts(core);
  const streams = createEventStreams(core);
  const scanner = createScanner({ log, clamd: () => config().uploads.clamd });
  const files = createFileStore({ ...core, scanner });
  const idempotency = new Idempotency(core);
  const authenticator = new Authenticator(core);
  ending.push(() => authenticator.saveUses());
  const sessions = new Sessions({
    ...core,
    authenticator,
    accountMail,
    totp: createTotp({ ...core, limits }),
    isDev: parts.isDev ?? false,
  });
  const revisionOf = createRevisions({ store, secrets: reading.secrets, reader });

  const delivery = await openDelivery({ ...core, server, env, parts, keepLines: logLines.add });
  ending.push(() => delivery.stop(GRACE_MS));
  const peers = joinCluster({ ...core, hear, wakeHere: delivery.wake });
  ending.push(() => peers.close());
  // Its files may have brought new revisions.
  peers.configChanged();

  /** There is mail to send, here or elsewhere. */
  function wake(): void {
    peers.mailQueued();
  }

  /** Projects or domains have changed in the database: that is active when this resolves, and elsewhere soon. */
  async function takeOver(): Promise<void> {
    peers.configChanged();
    await source.refresh();
  }

  function hear(topic: Topic): void {
    if (topic === 'queue') return delivery.wake();
    const heard = source.refresh().then(domains.adopt);
    heard.catch((error: unknown) => log.error('config.refresh_failed', errorFields(error)));
  }

  const webhookHttp = openWebhookHttp({ ...core, listening: () => addresses?.tcp ?? [] });
  const webhooks = createWebhooks({ ...core, http: webhookHttp });
  await webhooks.adopt();
  const spam = createSpamProtection({
    ...core,
    http: webhookHttp,
    refusesMail: (domain) => refusesMail(domain, resolver),
  });
  const path = databaseFile(server.database.url);
  const freeSpace = watchFreeSpace(path, core);
  const backups = await openBackups({ path, clock, log, reserve: () => config().limits.free_disk });
  ending.push(() => backups.drop());
  const counters = createSmtpCounters();
  const forwarded = watchForwarded(core);
  const alerts = createAlerts({
    ...core,
    certificates: () => certificate?.states() ?? [],
  });
  const problems = createProblems({ ...core, freeSpace, queueProblem: delivery.problem });
  const metrics = createMetrics({
    ...core,
    version: version(),
    threads: async () => [...(await database.read()), ...(await delivery.metrics())],
    figures: () => [
      ...daemonFigures({ problems: snapshot().problems, certificate, members, leads: peers.leads() }),
      alerts.figure(),
    ],
    counters: [
      {
        name: 'postern_smtp_connections_total',
        help: 'Inbound SMTP connections, accepted or rejected because of a limit.',
        counts: counters.connections,
      },
      {
        name: 'postern_smtp_recipients_total',
        help: 'Inbound recipients by reply.',
        counts: counters.recipients,
      },
      {
        name: 'postern_auth_failures_total',
        help: 'Rejected API keys, links and codes by reason, in HTTP and SMTP AUTH.',
        counts: authenticator.failures,
      },
    ],
  });
  ending.push(() => metrics.close());
  const unsubscribeKey = createSecretKey(await obtainSecret(store, 'unsubscribe', clock.now()));
  const challenges = createChallenges({
    ...core,
    secret: await obtainSecret(store, 'challenge', clock.now()),
    http: parts.http ?? openCaptchaHttp(resolver),
  });
  const ownerKey = createSecretKey(await obtainSecret(store, OWNER_LINKS, clock.now()));
  const clientKey = createSecretKey(await obtainSecret(store, 'client-address', clock.now()));
  const srs = await openSrsKeys(core);
  const directory = await openDirectory({ ...core, domains }, srs);
  const mtaSts = openMtaSts(core);
  // What an operator asks for now and then is loaded when it is asked for.
  const explainParts = {
    ...core,
    mtaSts,
    domains,
    revisionOf,
    // Under its name: that is enough to say where mail would go.
    loopback: loopbackSmtp({ store, config, place: () => undefined }),
    keysOf: createKeyring({ ...core, hostname: () => config().server.hostname }),
    async directory() {
      await srs.renew();
      return directory();
    },
  };

  // Listen.
  const sockets = activatedSockets(env, process.pid);
  await metrics.listen(server.server.metrics.listen);
  const shared = {
    ...core,
    wake: peers.mailQueued,
    certificate,
    domains,
    limits,
    consent,
    freeSpace,
    authenticator,
    sessions,
    requests,
    revisionOf,
    bind: sockets.bind,
  };
  const http = createHttpServer({
    ...shared,
    metrics,
    forwarded,
    status: createStatus({ ...core, metrics, version: version(), problems }),
    overview: createOverview({
      ...core,
      counts,
      async problems() {
        const { hostname: subject } = config().server;
        const alerted = alerts.active().map(({ kind, subject: message }) => ({ kind, subject, message, since: null }));
        return [...(await problems()), ...alerted];
      },
    }),
    checkConfig: source.check,
    settings: source.settings,
    logLines,
    waiting: createWaitingMail(core),
    reload,
    hostKeys,
    backups,
    serverFile: file,
    async doctor(inquiry: Inquiry) {
      const { createDoctor } = await import('../doctor/doctor.ts');
      const { problem: queueProblem } = delivery;
      return createDoctor({ ...core, certificate, queueProblem, databaseFile: path, forwardedBy: forwarded.peers })(
        inquiry,
      );
    },
    async explain(what: string, tenant?: string) {
      const { createExplain } = await import('../explain/explain.ts');
      return createExplain(explainParts)(what, tenant);
    },
    reportsOn: (span) => receivedReports(core, span),
    async trace(id, tenant) {
      const { trace } = await import('../explain/trace.ts');
      return trace(store, id, tenant);
    },
    files,
    idempotency,
    confirmations: {
      signup: signupConfirmation({ store, clock, release: consent.release }),
      recipient: consent.confirmation,
      submission: optInConfirmation({ ...core, revisionOf, consent }),
    },
    objects: createObjectLimits(core),
    counts,
    streams,
    challenges,
    spamFilter: spam.filter,
    learning: spam.learning,
    accept: createAccept({ ...core, wake: peers.mailQueued, limits, consent, clientKey }),
    unsubscribeKey,
    ownerKey,
    senderOf: createSenderOf(store),
    renderer,
    version: version(),
    queueProblem: delivery.problem,
    takeOver,
    reader,
    webhooks,
    ...(extra === undefined ? {} : { extra }),
  });
  const listeners: { close(graceMs: number): Promise<void> }[] = [];
  // Together: what each of them has in progress may take as long.
  ending.push(async () => {
    streams.close();
    await Promise.all(listeners.map((listener) => listener.close(GRACE_MS)));
  });
  const smtp = await openSmtp({ ...shared, server, counters, share: members.share('smtp') });
  listeners.push(smtp);
  // Last: /readyz must not answer before mail is accepted, too.
  listeners.push(http);
  const addresses = roles.includes('http') ? await http.listen() : undefined;
  delivery.setListening({ smtp: smtp.loopback, http: addresses?.tcp ?? [] });
  if (roles.includes('delivery')) ending.push(webhooks.start());

  // Follow what changes, and the clock.
  async function follow(): Promise<Reload> {
    const answer = await source.reload();
    if (answer.kind !== 'unchanged') peers.configChanged();
    return answer;
  }

  async function reload(): Promise<Reload> {
    const answer = await follow();
    await certificate?.reload();
    return answer;
  }

  function adopt(what: 'domains' | 'host_key' | 'forms' | 'webhooks' | 'plans', adopting: Promise<unknown>): void {
    adopting.catch((error: unknown) => log.error(`${what}.adopt_failed`, errorFields(error)));
  }

  source.onChange((next, before) => {
    delivery.configure(next.server);
    log.adjust(next.server.log);
    adopt('domains', domains.adopt());
    adopt('host_key', adoptHostKey(core, next.server.server.hostname));
    adopt('forms', adoptForms(core, next));
    adopt('webhooks', webhooks.adopt());
    if (JSON.stringify(next.server.plans) !== JSON.stringify(before.server.plans)) {
      adopt('plans', recountWaiting(core).then(wake));
    }
  });
  const stop = new AbortController();
  const watching = watchConfig({
    file,
    clock,
    signal: stop.signal,
    enabled: () => config().server.watch,
    reload: follow,
  });
  ending.push(() => {
    stop.abort();
    return watching;
  });
  // Of what this process remembers, or of this machine: every daemon has its own.
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
            await pullBackDueTimes(store, {
              now: clock.now(),
              deliveries: longestWaits(config().delivery.retry),
              webhooks: longestWaits(WEBHOOK_RETRY_MS),
              lease: LEASE,
              bounce: BOUNCE_LEASE,
            });
            delivery.wake();
          },
        }),
        ...(roles.includes('delivery')
          ? { tls_reports: createTlsReports({ ...core, http: openReportHttp(core) }) }
          : {}),
        ...(store.dialect === 'postgres' ? { configuration: source.refresh } : {}),
        events: () => forgetOldEvents({ ...core, counts }),
        keys: () => authenticator.saveUses(),
        sessions: () => sessions.sweep(),
        usage: () => requests.flush(),
        webhooks: webhooks.sweep,
        page_tokens: challenges.sweep,
        spam: spam.catchUp,
        ...smtp.jobs,
        ...alerts.jobs,
        ...(certificate === undefined ? {} : { certificate: certificate.look }),
      },
    }),
  );
  // Of the database alone: one daemon does it for all.
  ending.push(
    startJobs({
      clock,
      log,
      leads: peers.leads,
      jobs: {
        domains: domains.checkDue,
        host_keys: hostKeys.checkDue,
        mta_sts: () => mtaSts.refresh(),
        files: files.sweep,
        objects: store.blobs.sweep,
        idempotency: () => idempotency.sweep(),
        tokens: () => sweepTokens(core),
        consent: releaseInTime({ clock, consent }),
        overflows: () => mailOverflows(core),
        digests: createDigests({ ...core, ownerKey }),
        used_links: () => sweepUsedLinks(core),
        fallbacks: () => useFallbacks({ ...core, revisionOf, consent }),
        unconfirmed: () => dropUnconfirmed(core),
        deletions: createDeletions({
          ...core,
          cancelQueued: (tenant) => actOnMany(store, 'cancel', { filter: { tenant }, now: clock.now() }),
        }),
        messages: () => foldMessageCounts(store, clock.now()),
        acknowledged: () => sweepAcknowledged(core),
        ...retentionJobs(core),
        free_pages: () => releaseFreePages(store, clock),
        event_days: () => addEventDays(store, clock.now()),
      },
    }),
  );

  for (const address of sockets.left()) log.warn('socket.unused', { address });
  const { addresses: smtpAddresses } = smtp;
  log.info('daemon.ready', { hostname, addresses: addresses?.tcp, smtp: smtpAddresses, socket: addresses?.socket });
  const { problem: queueProblem, isStuck } = delivery;
  return { addresses, smtp: smtpAddresses, domains, store, log, queueProblem, isStuck, snapshot, reload };
}

/** The certificates of HTTPS and STARTTLS, as `tls.mode` says. Throws UserError where its files cannot be used. */
async function keepCertificates(parts: AcmeCertificateParts): Promise<AcmeCertificates | undefined> {
  const { server, tls } = parts.snapshot().server;
  switch (tlsModeOf({ server, tls })) {
    case 'acme':
      return keepAcmeCertificates(parts);
    case 'files': {
      if (tls.files === null) return undefined;
      const current = { log: parts.log, files: () => parts.snapshot().server.tls.files };
      const keeper = keepCertificate(await readCertificate(tls.files), current);
      return { ...keeper, close: () => Promise.resolve() };
    }
    case 'off':
      return undefined;
  }
}

const ROLES = ['http', 'smtp', 'delivery'];

/** What the daemon as a whole knows of itself, for Prometheus. */
function daemonFigures({
  problems,
  certificate,
  members,
  leads,
}: {
  readonly members: Pick<Members, 'count'>;
  readonly leads: boolean;
  readonly problems: readonly string[];
  readonly certificate: Pick<CertificateKeeper, 'states'> | undefined;
}): Figure[] {
  return [
    {
      name: 'postern_cluster_daemons',
      help: 'Running daemons on this database by role, including this one.',
      value: ROLES.map((role) => [{ role }, members.count(role)] as const),
    },
    {
      name: 'postern_cluster_leads',
      help: '1 if this daemon runs the scheduled jobs of all daemons on this database.',
      value: leads ? 1 : 0,
    },
    {
      name: 'postern_configuration_problems',
      help: 'Problems that keep a changed configuration from being applied.',
      value: problems.length,
    },
    {
      name: 'postern_tls_certificate_failed_tries',
      help: 'Consecutive failed attempts to obtain the certificate of a host name.',
      value: (certificate?.states() ?? []).map(({ name, failure }) => [{ name }, failure?.count ?? 0] as const),
    },
    {
      name: 'postern_tls_certificate_expiry_timestamp_seconds',
      help: 'Expiry of the certificate of a host name, in seconds since the epoch.',
      value: (certificate?.states() ?? []).flatMap(({ name, expiresAt }) =>
        expiresAt === undefined ? [] : [[{ name }, expiresAt / 1000] as const],
      ),
    },
  ];
}

/** The HTTP client for TLS reports, which go wherever the domain's mail may go. */
function openReportHttp({
  resolver,
  config,
}: {
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
}): HttpClient {
  return createHttpClient({
    resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => config().delivery.allow_private_networks,
  });
}

/** A visitor waits for the answer, ms. */
const CAPTCHA_MS = 5000;

/** The HTTP client for the providers of captchas, whose names are our own. */
function openCaptchaHttp(resolver: Resolver): HttpClient {
  return createHttpClient({
    resolver,
    userAgent: `Postern/${version()}`,
    allowPrivate: () => false,
    connectMs: CAPTCHA_MS,
    wholeMs: CAPTCHA_MS,
  });
}
