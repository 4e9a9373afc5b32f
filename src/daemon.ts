/**
 * The composition root: the only place that makes long-lived things and knows them all. It starts them in the order in
 * which they need each other and ends them in the opposite one; where a start fails, what had started is ended.
 */
import { createSecretKey } from 'node:crypto';
import type Koa from 'koa';
import { createAccountLimits } from './access/account-limits.ts';
import { createAuthenticator } from './access/authenticate.ts';
import { createDomains, type Domains } from './access/domains.ts';
import { adoptHostKey } from './access/host-key.ts';
import { createIdempotency } from './access/idempotency.ts';
import { createLimits } from './access/limits.ts';
import { createRevisions } from './access/revisions.ts';
import { signupConfirmation } from './access/tenants.ts';
import { sweepTokens } from './access/tokens.ts';
import { createUsage } from './access/usage.ts';
import { createBundleReader } from './bundle-reader.ts';
import { findServerFile } from './config/files.ts';
import type { Reading } from './config/load.ts';
import { machineSecrets } from './config/secrets.ts';
import type { ServerConfig } from './config/schema.ts';
import type { Snapshot } from './config/snapshot.ts';
import type { Reload } from './config/source.ts';
import { openConfig, readServer, startWatching } from './configuration.ts';
import { openInbound } from './daemon-smtp.ts';
import { openSubmission } from './daemon-submission.ts';
import { startDelivery } from './delivery.ts';
import { startDeliveryThread, type RemoteDelivery } from './delivery-remote.ts';
import { refusesMail } from './dns/refuses-mail.ts';
import { createResolver, type Resolver } from './dns/resolver.ts';
import { createEventCounts } from './events/counts.ts';
import { forgetOldEvents } from './events/forget.ts';
import { createAccept, sweepAcknowledged } from './forms/accept.ts';
import { adoptForms } from './forms/adopt.ts';
import { formConfirmation } from './forms/confirm.ts';
import { createFileStore } from './forms/files.ts';
import { createJudge } from './forms/judge.ts';
import { watchFreeSpace } from './store/free-space.ts';
import type { ListenAddress } from './http/listen.ts';
import { createMetrics } from './http/metrics.ts';
import { createHttpServer, type HttpAddresses } from './http/server.ts';
import { startJobs } from './jobs.ts';
import { systemClock, type Clock } from './lib/clock.ts';
import { errorFields } from './lib/errors.ts';
import { createLog, type AdjustableLog, type Log } from './lib/log.ts';
import { createStore } from './store/database.ts';
import { joinPeers } from './peers.ts';
import { systemMail } from './queue/system-mail.ts';
import { saveOperator } from './store/revisions.ts';
import { obtainSecret } from './store/secrets.ts';
import type { Store, Topic } from './store/store.ts';
import { checkTemplates } from './templates/engine.ts';
import { createTransactional } from './transactional/send.ts';
import { version } from './version.ts';
import { openWebhooks } from './webhooks.ts';

export interface DaemonParts {
  /** With a clock or a resolver of its own (tests), delivery runs in this thread. */
  readonly clock?: Clock;
  readonly resolver?: Resolver;
  readonly random?: () => number;
  readonly log?: AdjustableLog;
  /** Answers before all routes: what the dev world adds. */
  readonly extra?: Koa.Middleware;
}

export interface Daemon {
  readonly addresses: HttpAddresses | undefined;
  /** Where mail is taken, port 25 first. */
  readonly smtp: readonly ListenAddress[];
  readonly domains: Domains;
  readonly store: Store;
  snapshot(): Snapshot;
  /** Reads the configuration again, as SIGHUP does. */
  reload(): Promise<Reload>;
  /** Stops accepting, finishes what is in progress, gives back what is not, closes the database. */
  close(): Promise<void>;
}

/** How long requests and deliveries that are in progress may take to finish at a stop, ms. */
const GRACE_MS = 10_000;

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
  const reading: Reading = { secrets: machineSecrets(process.env), checkTemplates };
  const file = await findServerFile(configFile, process.env);
  const reader = createBundleReader(clock);
  const server = await readServer(file, reading);
  const log = parts.log ?? createLog(server.log);

  const store = await createStore(server.database.url);
  ending.push(() => store.close());
  await saveOperator(store, server.server.operator, clock.now());
  const config = await openConfig({ file, server, reading, reader, store, clock, log });
  const snapshot = config.current;

  const resolver = parts.resolver ?? createResolver({ servers: server.dns.servers, log });
  const domains = createDomains({
    store,
    resolver,
    clock,
    log,
    snapshot,
    letter: (letter) => systemMail(letter, snapshot().server.server.hostname, clock.now()),
    async onTransition() {
      wake();
      await takeOver().catch((error: unknown) => log.error('config.refresh_failed', errorFields(error)));
    },
  });
  await domains.adopt();
  await adoptHostKey({ store, clock, log }, server.server.hostname);
  await adoptForms({ store, clock }, snapshot());
  const limits = await createLimits({ store, clock, log });
  ending.push(() => limits.close());
  const accounts = createAccountLimits({ limits, config: () => snapshot().server });
  const usage = createUsage({ store, clock, log });
  ending.push(() => usage.close());
  const counts = createEventCounts({ store, clock });
  const files = createFileStore({ store, clock });
  const idempotency = createIdempotency({ store, clock });
  const authenticator = createAuthenticator({ store, clock, log });
  ending.push(() => authenticator.saveUses());

  const delivery = await openDelivery({ server, store, clock, log, resolver, config: () => snapshot().server, parts });
  ending.push(() => delivery.stop(GRACE_MS));
  const peers = joinPeers({ store, clock, log, hear });
  ending.push(() => peers.close());

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
  const here = { listening: () => addresses?.tcp ?? [] };
  const webhooks = openWebhooks({ store, clock, log, resolver, random, snapshot, ...here, wakeMail: wake });
  await webhooks.adopt();

  const freeSpace = watchFreeSpace(databaseFile(server), { clock, log });
  const revisionOf = createRevisions({ store, secrets: reading.secrets });
  const metrics = createMetrics({ store, clock, log, version: version() });
  ending.push(() => metrics.close());
  await metrics.listen(server.server.metrics.listen);
  const { extra } = parts;
  const http = createHttpServer({
    metrics,
    snapshot,
    domains,
    store,
    limits,
    files,
    idempotency,
    confirmations: {
      signup: signupConfirmation({ store, clock }),
      form: formConfirmation({ store, clock, config: () => snapshot().server, wake }),
    },
    freeSpace,
    authenticator,
    accounts,
    usage,
    counts,
    takeAccount: accounts.take,
    used: usage.used,
    clock,
    log,
    judge: createJudge((domain) => refusesMail(domain, resolver)),
    accept: createAccept({ store, clock, limits, config: () => snapshot().server, wake }),
    ...(await openTransactional({ store, clock })),
    version: version(),
    queueProblem: delivery.problem,
    wake,
    revisionOf,
    takeOver,
    reader,
    webhooks,
    ...(extra === undefined ? {} : { extra }),
  });
  const addresses = server.server.roles.includes('http') ? await http.listen() : undefined;
  // Together: what each of them has in progress may take as long.
  const doors: { close(graceMs: number): Promise<void> }[] = [http];
  ending.push(async () => {
    await Promise.all(doors.map((door) => door.close(GRACE_MS)));
  });
  const around = { server, snapshot, store, clock, log, resolver };
  const inbound = await openInbound({ ...around, domains, freeSpace, limits, revisionOf, wake });
  doors.push(inbound);
  const account = { authenticator, takeAccount: accounts.take, used: usage.used };
  const submission = await openSubmission({ ...around, ...account, freeSpace, wake });
  doors.push(submission);
  if (server.server.roles.includes('delivery')) {
    const stop = webhooks.start();
    ending.push(() => stop(GRACE_MS));
  }

  config.onChange((next) => {
    delivery.configure(next.server);
    log.adjust(next.server.log);
    domains.adopt().catch((error: unknown) => log.error('domains.adopt_failed', errorFields(error)));
    adoptHostKey({ store, clock, log }, next.server.server.hostname).catch((error: unknown) =>
      log.error('host_key.adopt_failed', errorFields(error)),
    );
    adoptForms({ store, clock }, next).catch((error: unknown) => log.error('forms.adopt_failed', errorFields(error)));
    webhooks.adopt().catch((error: unknown) => log.error('webhooks.adopt_failed', errorFields(error)));
  });
  ending.push(startWatching({ file, clock, config }));
  ending.push(
    startJobs({
      log,
      jobs: {
        domains: domains.checkDue,
        ...(store.dialect === 'postgres' ? { configuration: config.refresh } : {}),
        files: files.sweep,
        idempotency: idempotency.sweep,
        events: () => forgetOldEvents({ store, clock, counts, config: () => snapshot().server }),
        keys: authenticator.saveUses,
        webhooks: webhooks.sweep,
        tokens: () => sweepTokens({ store, clock }),
        acknowledged: () => sweepAcknowledged({ store, clock }),
        ...inbound.jobs,
        ...submission.jobs,
      },
    }),
  );

  const smtp = [...inbound.addresses, ...submission.addresses];
  const { hostname } = server.server;
  log.info('daemon.ready', { hostname, addresses: addresses?.tcp, smtp, socket: addresses?.socket });
  return { addresses, smtp, domains, store, snapshot, reload: config.reload };
}

/** What sends mail for programs, and knows the links in it again. */
async function openTransactional({ store, clock }: { store: Store; clock: Clock }) {
  const unsubscribeKey = createSecretKey(await obtainSecret(store, 'unsubscribe', clock.now()));
  return { unsubscribeKey, transactional: createTransactional({ store, unsubscribeKey }) };
}

interface OpenDelivery {
  readonly server: ServerConfig;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly resolver: Resolver;
  readonly config: () => ServerConfig;
  readonly parts: DaemonParts;
}

async function openDelivery({ server, parts, ...here }: OpenDelivery): Promise<RemoteDelivery> {
  if (!server.server.roles.includes('delivery')) {
    return { wake() {}, configure() {}, problem: () => undefined, stop: () => Promise.resolve() };
  }
  if (parts.clock === undefined && parts.resolver === undefined)
    return startDeliveryThread(here.store, server, here.clock);
  const delivery = await startDelivery({ ...here, random: parts.random ?? Math.random, env: process.env });
  // In this thread it reads the configuration by itself.
  return { ...delivery, configure() {} };
}

/** The file whose disk fills up; undefined where the database is a server's. */
function databaseFile({ database }: ServerConfig): string | undefined {
  return database.url.startsWith('sqlite:') ? database.url.slice('sqlite:'.length) : undefined;
}
