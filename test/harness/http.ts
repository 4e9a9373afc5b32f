/** The HTTP server on loopback with a real store, for tests that speak HTTP to it. */
import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { AccountRequests } from '../../src/accounts/plans.ts';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import type { z } from 'zod';

import type { DomainReport } from '../../src/domains/domains.ts';
import { Idempotency } from '../../src/accounts/idempotency.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import { Sessions } from '../../src/accounts/sessions.ts';
import { createTotp } from '../../src/accounts/totp.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import { createObjectLimits } from '../../src/accounts/object-limits.ts';
import { createRevisions } from '../../src/accounts/projects.ts';
import { signupConfirmation } from '../../src/accounts/tenants.ts';
import { readHere } from '../../src/config/bundle.ts';
import { projectSchema } from '../../src/config/schema.ts';
import { analytics } from '../../src/contract/analytics.ts';
import { queue } from '../../src/contract/queue.ts';

import { serverSchema } from '../../src/config/schema-server.ts';
import { type Project, buildSnapshot, type Snapshot } from '../../src/config/snapshot.ts';
import { NO_SECRETS } from '../../src/config/secrets.ts';
import { receivedReports } from '../../src/domains/received-reports.ts';
import { createEventCounts } from '../../src/events/counts.ts';
import { createEventStreams } from '../../src/events/streams.ts';
import { createAccept } from '../../src/forms/accept.ts';
import { createFileStore } from '../../src/forms/files.ts';
import { createChallenges } from '../../src/forms/challenges.ts';
import { createSpamProtection } from '../../src/forms/spam/filter.ts';
import { createLogLines, silentLog } from '../../src/lib/log.ts';
import { createWaitingMail } from '../../src/queue/waiting.ts';
import { createOverview } from '../../src/http/overview.ts';
import { createProblems, createStatus } from '../../src/http/status.ts';
import { createMetrics } from '../../src/http/metrics.ts';
import { createHttpServer, watchForwarded, type HttpServerOptions } from '../../src/http/server.ts';
import { systemClock, type Clock } from '../../src/lib/clock.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import { openBackups } from '../../src/store/backup.ts';
import type { Store } from '../../src/store/store.ts';
import type { DomainStatus, SubmissionRow } from '../../src/store/tables.ts';
import { checkTemplates } from '../../src/templates/engine.ts';
import { rendererHere } from '../../src/templates/render.ts';
import { testConsent } from './consent.ts';
import { expectListedCode } from './contract.ts';
import { openTestStore, temporaryFolder } from './store.ts';
import { createSenderOf } from '../../src/transactional/sender.ts';

export interface TestAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body as JSON. */
  readonly json: () => Record<string, unknown>;
}

export interface TestRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Uint8Array | URLSearchParams | FormData | object;
  /** Over the operator's Unix socket. */
  readonly local?: boolean;
}

export interface TestHttp {
  /** Sends no header that is not given, but for the body's type. */
  readonly request: (path: string, request?: TestRequest) => Promise<TestAnswer>;
  /** `http://127.0.0.1:…` */
  readonly base: string;
  readonly port: number;
  /** Path of the operator's Unix socket. */
  readonly socket: string;
  readonly store: Store;
  /** The configuration that it serves. */
  readonly snapshot: () => Snapshot;
  /** What woke the queue. */
  readonly wakes: () => number;
  readonly submissions: () => Promise<SubmissionRow[]>;
  /** Deliveries as the operator sees them, oldest first. */
  readonly queue: () => Promise<z.output<typeof queue.list.answer>['deliveries']>;
  /** What happened in an account, oldest first. */
  readonly events: (tenant: string, type?: string) => Promise<z.output<typeof analytics.events.answer>['events']>;
  /** Writes bytes to a new connection and answers all that comes back until it ends. */
  readonly raw: (bytes: string | Uint8Array, then?: (socket: Socket) => void) => Promise<string>;
  readonly close: (graceMs?: number) => Promise<void>;
}

export interface TestHttpOptions {
  /** `forms` of the verified domain example.com. */
  readonly forms?: object;
  readonly domain?: object;
  /** `collections` of the project. */
  readonly collections?: object;
  readonly server?: object;
  readonly limits?: object;
  readonly plans?: object;
  readonly tls?: object;
  readonly status?: Readonly<Record<string, DomainStatus>>;
  /** Beside the operator's. */
  readonly projects?: readonly Project[];
  readonly problems?: readonly string[];
  readonly unavailable?: ReadonlyMap<string, string>;
  readonly clock?: Clock;
  readonly options?: Partial<HttpServerOptions>;
  /** As in the local environment: whoever opens the console is the operator. */
  readonly isDev?: boolean;
  readonly store?: Store;
}

function reportOf(name: string, status: DomainStatus = 'pending'): DomainReport {
  return {
    name,
    project: 'example',
    status,
    reason: null,
    records: [RECORD],
    keys: [],
    checkedAt: null,
    verifiedAt: null,
  };
}

const RECORD = {
  purpose: 'ownership',
  type: 'TXT',
  name: '_postern.pending.example',
  value: 'postern-verification=0123456789abcdef',
  required: true,
  status: 'missing',
  found: [],
} as const;

/** A server for example.com (verified) and pending.example, gone when the test is over. */
export async function startHttp(given: TestHttpOptions = {}): Promise<TestHttp> {
  const { clock = systemClock, status = {} } = given;
  const store = given.store ?? (await openTestStore());
  const socket = join(await temporaryFolder(), 'run', 'admin.sock');
  const server = serverSchema.parse({
    server: {
      hostname: 'mail.example.net',
      operator: 'ops@example.net',
      admin_socket: socket,
      http: { listen: ['127.0.0.1:0'] },
      ...given.server,
    },
    limits: { free_disk: '1B', ...given.limits },
    plans: { ...given.plans },
    tls: { ...given.tls },
  });
  const config = projectSchema.parse({
    project: { name: 'Example', slug: 'example' },
    domains: {
      'example.com': {
        forms: given.forms ?? { contact: { name: 'Contact us', to: 'owner@example.com' } },
        ...given.domain,
      },
      'pending.example': { forms: { contact: {} } },
    },
    collections: given.collections,
  });
  const project = { revision: 'rev_1', slug: 'example', tenant: OPERATOR, source: 'file', config } as const;
  const { problems = [], unavailable = new Map<string, string>(), projects: more = [] } = given;
  const snapshot = buildSnapshot({ server, projects: [project, ...more], problems, unavailable });
  await saveOperator(store, 'ops@example.net', clock.now());
  const states: Record<string, DomainStatus> = { 'example.com': 'verified', 'pending.example': 'pending', ...status };
  const limits = await createLimits({ store, clock, log: silentLog });
  const requests = new AccountRequests({ store, clock, log: silentLog, limits, config: () => server });
  let wakes = 0;
  const consent = testConsent({ store, clock, limits, config: () => server, wake: () => wakes++ });
  const unsubscribeKey = createSecretKey(Buffer.alloc(32, 7));
  const ownerKey = createSecretKey(Buffer.alloc(32, 6));
  const metrics = createMetrics({ store, clock, log: silentLog, version: '0.0.0' });
  onTestFinished(() => metrics.close());
  const reader = readHere(checkTemplates);
  const counts = createEventCounts({ store, clock });
  const serverProblems = createProblems({
    store,
    clock,
    snapshot: () => snapshot,
    freeSpace: { below: () => false },
    queueProblem: () => undefined,
  });
  const streams = createEventStreams({ store, clock, log: silentLog });
  const spam = createSpamProtection({
    store,
    clock,
    log: silentLog,
    snapshot: () => snapshot,
    refusesMail: () => Promise.resolve(false),
    http: { request: () => Promise.resolve({ kind: 'failed', reason: 'nothing is posted here' }) },
  });
  const authenticator = new Authenticator({ store, clock, log: silentLog });
  const wake = () => void wakes++;
  const sessions = new Sessions({
    store,
    clock,
    log: silentLog,
    authenticator,
    wake,
    config: () => server,
    totp: createTotp({ store, clock, limits }),
    accountMail: (mail) => systemMail(mail, server.server.hostname, clock.now()),
    isDev: given.isDev ?? false,
  });
  onTestFinished(() => sessions.mailLinks());
  const http = createHttpServer({
    metrics,
    sessions,
    forwarded: watchForwarded({ clock, log: silentLog }),
    store,
    clock,
    limits,
    log: silentLog,
    snapshot: () => snapshot,
    domains: {
      status: (name) => states[name],
      report: (name) => Promise.resolve(reportOf(name, states[name])),
      check: (name) => Promise.resolve(reportOf(name, states[name])),
      rotateKeys: (name) => Promise.resolve(reportOf(name, states[name])),
      move: (name) => Promise.resolve(reportOf(name, states[name])),
    },
    status: createStatus({
      store,
      clock,
      metrics,
      version: '0.0.0',
      snapshot: () => snapshot,
      problems: serverProblems,
    }),
    overview: createOverview({ store, clock, counts, snapshot: () => snapshot, problems: serverProblems }),
    reload: () => Promise.resolve({ kind: 'unchanged' }),
    settings: () => [],
    logLines: createLogLines(clock),
    waiting: createWaitingMail({ store, clock }),
    checkConfig: () => Promise.resolve({ file: '', projects: 1, errors: [], warnings: [] }),
    backups: await openBackups({ path: undefined, clock, log: silentLog, reserve: () => 0 }),
    doctor: () => Promise.resolve({ checks: [], ok: true }),
    explain: () => Promise.resolve(undefined),
    reportsOn: (span) =>
      receivedReports(
        { store, resolver: { addresses: () => Promise.resolve({ kind: 'nodata' }) }, config: () => server },
        span,
      ),
    trace: () => Promise.resolve(undefined),
    hostKeys: { rotate: () => Promise.resolve(true), check: () => Promise.resolve() },
    files: createFileStore({ store, clock }),
    idempotency: new Idempotency({ store, clock }),
    confirmations: {
      signup: signupConfirmation({ store, clock, release: consent.release }),
      recipient: consent.confirmation,
      submission: () => Promise.resolve(undefined),
    },
    consent,
    authenticator,
    objects: createObjectLimits({ store, clock, snapshot: () => snapshot }),
    requests,
    counts,
    streams,
    challenges: createChallenges({
      store,
      clock,
      log: silentLog,
      secret: Buffer.alloc(32, 9),
      http: { request: () => Promise.resolve({ kind: 'failed', reason: 'there is no network here' }) },
    }),
    spamFilter: spam.filter,
    learning: spam.learning,
    accept: createAccept({
      store,
      clock,
      limits,
      consent,
      config: () => server,
      clientKey: unsubscribeKey,
      wake: () => wakes++,
    }),
    freeSpace: { below: () => false },
    unsubscribeKey,
    ownerKey,
    senderOf: createSenderOf(store),
    renderer: rendererHere(),
    serverFile: '/etc/postern/server.yml',
    version: '0.0.0',
    queueProblem: () => undefined,
    revisionOf: createRevisions({ store, secrets: NO_SECRETS, reader }),
    wake: () => wakes++,
    webhooks: {
      test: () => Promise.reject(new Error('nothing is posted here')),
      objection: () => Promise.resolve(undefined),
      enable: () => Promise.resolve(),
      replayEvent: () => Promise.resolve(false),
      replaySince: () => Promise.resolve({ replayed: 0, more: false }),
    },
    takeOver: () => Promise.resolve(),
    reader,
    ...given.options,
  });
  const { tcp } = await http.listen();
  const port = tcp[0]?.port ?? 0;
  onTestFinished(async () => {
    streams.close();
    await http.close(0);
    await limits.close();
    await requests.flush();
  });
  return {
    async request(path, request) {
      const answer = await ask({ port, socket, path }, request);
      const method = request?.method ?? (request?.body === undefined ? 'GET' : 'POST');
      // Over the Unix socket the operator may name an account, which no key can: of one that is unknown each route says 404.
      const isListed = request?.local !== true && answer.status >= 400 && answer.text.startsWith('{');
      if (isListed) expectListedCode(method, path, answer.json());
      return answer;
    },
    base: `http://127.0.0.1:${port}`,
    port,
    socket,
    store,
    snapshot: () => snapshot,
    wakes: () => wakes,
    async queue() {
      const { text } = await ask({ port, socket, path: '/admin/queue?limit=100' }, { local: true });
      return queue.list.answer.parse(JSON.parse(text)).deliveries.reverse();
    },
    async events(tenant, type) {
      const path = `/events?limit=100${type === undefined ? '' : `&type=${type}`}`;
      const { text } = await ask({ port, socket, path }, { local: true, headers: { 'X-Postern-Tenant': tenant } });
      return analytics.events.answer.parse(JSON.parse(text)).events.reverse();
    },
    submissions: () => store.read.selectFrom('submissions').selectAll().orderBy('id').execute(),
    raw: (bytes, then) => speak(port, bytes, then),
    close: (graceMs = 1000) => http.close(graceMs),
  };
}

async function speak(port: number, bytes: string | Uint8Array, then?: (socket: Socket) => void): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let heard = '';
  socket.setEncoding('latin1').on('data', (text: string) => (heard += text));
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(bytes);
  then?.(socket);
  await once(socket, 'close');
  return heard;
}

/** A body and its type: URLSearchParams and FormData as browsers send them, other objects as JSON. */
async function encode(body: TestRequest['body']): Promise<{ bytes?: Uint8Array; type?: string }> {
  if (body === undefined) return {};
  if (typeof body === 'string') return { bytes: Buffer.from(body) };
  if (body instanceof Uint8Array) return { bytes: body };
  if (body instanceof URLSearchParams) {
    return { bytes: Buffer.from(body.toString()), type: 'application/x-www-form-urlencoded' };
  }
  if (!(body instanceof FormData)) return { bytes: Buffer.from(JSON.stringify(body)), type: 'application/json' };
  const response = new Response(body);
  return { bytes: await response.bytes(), type: response.headers.get('content-type') ?? '' };
}

async function ask(
  where: { port: number; socket: string; path: string },
  given: TestRequest = {},
): Promise<TestAnswer> {
  const { bytes, type } = await encode(given.body);
  const headers = {
    ...(type === undefined ? {} : { 'Content-Type': type }),
    ...(bytes === undefined ? {} : { 'Content-Length': String(bytes.length) }),
    ...given.headers,
  };
  const target = given.local === true ? { socketPath: where.socket } : { host: '127.0.0.1', port: where.port };
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      ...target,
      path: where.path,
      method: given.method ?? (bytes === undefined ? 'GET' : 'POST'),
      headers,
    });
    request.on('error', reject).on('response', (response) => {
      let text = '';
      if (response.headers['content-type'] === 'text/event-stream') {
        // It has no end.
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text, json: () => ({}) });
        return void request
          .off('error', reject)
          .on('error', () => undefined)
          .destroy();
      }
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('error', reject).on('end', () => {
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text, json: () => JSON.parse(text) as Record<string, unknown> });
      });
    });
    request.end(bytes);
  });
}
