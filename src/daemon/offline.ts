/**
 * What the server's own code answers on its machine while no daemon runs: routes of the API that only read. The database is
 * read as it is, without a lock; nothing is written and nothing is started.
 */
import { readHere } from '../config/bundle.ts';
import {
  checkConfig,
  checkFolder,
  loadReadable,
  loadServer,
  type FolderContext,
  type Reading,
} from '../config/folder.ts';
import { readActiveProjects } from '../config/active-projects.ts';
import type { ReadableServer } from '../config/parse.ts';
import { formatProblem } from '../config/problem.ts';
import { machineSecrets, maskPasswords, type SecretSource } from '../config/secrets.ts';
import { buildSnapshot } from '../config/snapshot.ts';
import type { OfflineAnswer, OfflineRequest } from '../contract/offline.ts';
import { mailLog, queue } from '../contract/queue.ts';
import type { Route as ContractRoute } from '../contract/route.ts';
import { configCheck, doctor } from '../contract/server.ts';
import { createResolver } from '../dns/resolver.ts';
import { createDoctor, type Doctor } from '../doctor/doctor.ts';
import { serviceState } from '../doctor/service.ts';
import { stateOf } from '../domains/certificates.ts';
import { statusOf, wordsOf, type Refusal } from '../http/answer.ts';
import { trace } from '../explain/trace.ts';
import { queueReads, tracing } from '../http/api/queue.ts';
import { invalid, success, writerOf, type CallOf, type DataOf, type Success } from '../http/api/route.ts';
import { systemClock } from '../lib/clock.ts';
import { allCertificates, type CertificateStatus } from '../store/certificates.ts';
import { postgresOptions } from './configuration.ts';
import { databaseFile, openForReadingOnly } from '../store/database.ts';
import { domainOwners } from '../store/domains.ts';
import { findRevision, storedProjects } from '../store/projects.ts';
import { ROW_BLOBS, type Store } from '../store/store.ts';
import { OPERATOR } from '../store/tenants.ts';
import { checkTemplates } from '../templates/engine.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** Answers a request under this server.yml, valid or not. Throws UserError where it or the database cannot be read. */
export async function answerOffline(file: string, request: OfflineRequest, env: Env): Promise<OfflineAnswer> {
  const secrets = machineSecrets(env);
  const readable = await loadReadable(file, secrets);
  const { database } = readable.server;
  const { url } = database;
  const source = maskPasswords(url);
  let opened: Promise<Store> | undefined;

  function open(): Promise<Store> {
    return (opened ??= openForReadingOnly(url, postgresOptions(database)));
  }

  async function reads() {
    return queueReads({ store: await open(), clock: systemClock });
  }

  const reading: Reading = { secrets, checkTemplates };
  const served = [
    serve(queue.list, async (call) => (await reads()).list(call), source),
    serve(queue.show, async (call) => (await reads()).show(call), source),
    serve(mailLog.trace, async (call) => tracing(async (id) => trace(await open(), id))(call), source),
    serve(doctor.check, async ({ query: { dnsbl, port25 } }) => {
      const store = await open().catch(unreadable);
      const examine = await openDoctor({ file, readable, reading, store, path: env['PATH'] });
      return success(await examine({ dnsbl: dnsbl.filter((name) => name !== undefined), port25 }));
    }),
    serve(configCheck.check, async () => {
      return success(await checkConfig(file, reading, await contextOf(await open(), secrets)));
    }),
  ];
  try {
    const one = served.find(({ name }) => name === request.route);
    if (one === undefined) throw new Error(`${request.route} needs a running daemon`);
    return await one.answer(request);
  } finally {
    await opened?.then((store) => store.close()).catch(() => undefined);
  }
}

/** A route with its handler, as `implement` of the API has it. */
function serve<R extends ContractRoute>(
  route: R,
  handle: (call: Pick<CallOf<R>, 'query' | 'params'>) => Promise<Success<DataOf<R>> | Refusal>,
  source?: string,
) {
  return {
    name: `${route.method} ${route.path}`,
    async answer({ params, query: asked }: OfflineRequest): Promise<OfflineAnswer> {
      const names = [...new Set(asked.keys())];
      const values = names.map((name) => [name, asked.getAll(name)] as const);
      const query = route.query?.safeParse(
        Object.fromEntries(values.map(([name, all]) => [name, all.length === 1 ? all[0] : all])),
      );
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- parsed with the very schema of the route
      const call = { query: query?.data, params } as Pick<CallOf<R>, 'query' | 'params'>;
      const isWrong = query?.success === false && route.query !== undefined;
      const outcome = isWrong ? invalid(query.error, route.query) : await handle(call);
      if ('data' in outcome) return { kind: 'answered', data: writerOf(route.answer)(outcome.data), source };
      return { kind: 'refused', code: outcome.code, status: statusOf(outcome), message: wordsOf(outcome) };
    },
  };
}

interface Examined {
  readonly file: string;
  readonly readable: ReadableServer;
  readonly reading: Reading;
  readonly store: Store;
  /** Where programs are looked for. */
  readonly path: string | undefined;
}

/** The doctor of a daemon that does not run. */
async function openDoctor({ file, readable, reading, store, path }: Examined): Promise<Doctor> {
  const { server, named, hidden } = readable;
  const checked = await loadServer(file, reading.secrets, { checkMachine: true }).catch(() => undefined);
  const known = readable.errors.length > 0 || hidden.length > 0 || checked === undefined || 'ok' in checked;
  const errors = (known ? readable.errors : checked.errors).map(formatProblem);
  const context = await contextOf(store, reading.secrets).catch(() => undefined);
  const report = await checkFolder(file, { ...reading, formRecipients: server.limits.form_recipients }, context);
  const rows = new Map((await certificatesOf(store)).map((row) => [row.name, row]));
  const names = [...new Set([server.server.hostname, ...server.tls.acme.names])];
  const snapshot = buildSnapshot({
    server,
    projects: context?.inForce ?? [],
    problems: report.refused.flatMap((refused) => refused.errors),
  });
  return createDoctor({
    store,
    clock: systemClock,
    resolver: createResolver({ servers: server.dns.servers }),
    snapshot: () => snapshot,
    queueProblem: () => undefined,
    databaseFile: databaseFile(server.database.url),
    forwardedBy: () => [],
    certificate: { states: () => names.map((name) => stateOf(name, rows.get(name))) },
    down: { service: await serviceState(path), errors, named },
  });
}

/** What the projects of the database say of the files. */
async function contextOf(store: Store, secrets: SecretSource): Promise<FolderContext> {
  const records = await storedProjects(store);
  function revision(id: string) {
    return findRevision(store, id);
  }
  const inForce = await readActiveProjects({
    records,
    revision,
    reader: readHere(undefined),
    secrets,
    before: [],
    again: true,
  });
  return {
    tenant: OPERATOR,
    inForce: inForce.flatMap(({ project }) => project ?? []),
    owners: (names) => domainOwners(store, names),
  };
}

async function certificatesOf(store: Store): Promise<CertificateStatus[]> {
  try {
    return await allCertificates(store);
  } catch {
    // The check of the database says why.
    return [];
  }
}

/** In place of a store that cannot be opened: the reader is told why. */
function unreadable(reason: unknown): Store {
  async function fail(): Promise<never> {
    throw reason;
  }
  return {
    dialect: 'sqlite',
    get read(): never {
      throw reason;
    },
    blobs: ROW_BLOBS,
    select: fail,
    write: fail,
    accountVersion: () => undefined,
    notify: fail,
    listen: () => fail,
    share() {
      throw reason;
    },
    close: async () => undefined,
  };
}
