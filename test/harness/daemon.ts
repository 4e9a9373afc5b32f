/** The whole daemon for a flow test: real sockets, a real DNS zone that its domains are verified by, and a mail server that catches. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { hostRecords } from '../../src/domains/rotation.ts';
import type { z } from 'zod';
import { queue } from '../../src/contract/queue.ts';
import { startDaemon, type Daemon, type DaemonParts } from '../../src/daemon/daemon.ts';
import { createProcessPool, type ProcessPool } from '../../src/daemon/process-pool.ts';
import { startCatchingMx, type CatchingMx } from '../../src/dev/catching-mx.ts';
import type { DnsServer, ZoneRecord } from '../../src/dev/dns-server.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createLog, silentLog } from '../../src/lib/log.ts';
import { ask } from './binary.ts';
import { startTestDns } from './dns.ts';
import { migratedDatabase, openTestStore, temporaryFolder } from './store.ts';

type Queue = z.output<typeof queue.list.answer>['deliveries'];

export interface TestWorld {
  readonly daemon: Daemon;
  readonly dns: DnsServer;
  readonly mx: CatchingMx;
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  /** What the zone holds beside the records of domains. */
  readonly publicZone: readonly ZoneRecord[];
  /** The configuration folder: edit and `daemon.reload()`. */
  readonly folder: string;
  /** Posts a form's fields and answers the response. */
  post(path: string, fields: Record<string, string> | FormData, headers?: Record<string, string>): Promise<Response>;
  /** All deliveries as the operator sees them, newest first. */
  queue(): Promise<Queue>;
  /** Has all that waits tried now, as the operator can: what a test itself puts into the queue wakes nobody. */
  tryNow(): Promise<void>;
  /** Waits until this many mails were caught. */
  caught(count: number): Promise<CatchingMx['mails']>;
}

export interface WorldSettings {
  /** Project files by name; default: `site.yml` with a form `contact` at `example.test`. */
  readonly projects?: Readonly<Record<string, string>>;
  /** Merged over the test's own server.yml, section by section. */
  readonly server?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Added to the zone. */
  readonly zone?: readonly ZoneRecord[];
  /** Domains that stay unverified. */
  readonly unverified?: readonly string[];
  readonly parts?: DaemonParts;
  /**
   * With a database, a thread for delivery and processes of its own. Otherwise delivery runs in this thread, and the store
   * and the processes are those of all tests: to load the program into them again takes longer than most tests do.
   */
  readonly asInProduction?: boolean;
}

export const SITE = `
project: { name: Site, slug: site, owner: owner@inbox.test }
settings: { rate_limit: 100000 }
domains:
  example.test:
    forms:
      contact: { name: Contact form, to: owner@inbox.test, uploads: { enabled: true } }
`;

const PUBLIC_ZONE: readonly ZoneRecord[] = [
  { name: 'mail.postern.test', type: 'A', value: '127.0.0.1' },
  { name: 'mail.postern.test', type: 'TXT', value: 'v=spf1 ip4:127.0.0.1 -all' },
  { name: 'inbox.test', type: 'MX', value: '10 mx.inbox.test' },
  { name: 'mx.inbox.test', type: 'A', value: '127.0.0.1' },
];

let pool: ProcessPool | undefined;

/** One for all daemons of this process, which ends with it. */
function sharedPool(): ProcessPool {
  pool ??= createProcessPool({ log: silentLog, cacheFolder: process.env['NODE_COMPILE_CACHE'] });
  return { ...pool, close: () => Promise.resolve() };
}

/** What a daemon takes from those before it, and where its database is: its store too, unless the test has a database for it. */
async function sharedParts(withStore: boolean): Promise<{ url: string; parts: DaemonParts }> {
  const parts = { clock: systemClock, pool: sharedPool() };
  if (!withStore) return { url: '', parts };
  const store = await openTestStore();
  return { url: store.url, parts: { ...parts, store } };
}

/** Starts it; everything ends with the test. */
export async function startTestWorld(settings: WorldSettings = {}): Promise<TestWorld> {
  const {
    projects = { 'site.yml': SITE },
    server = {},
    zone = [],
    unverified = [],
    parts = {},
    asInProduction = false,
  } = settings;
  const folder = await temporaryFolder();
  const { server: dns, resolver } = await startTestDns([...PUBLIC_ZONE, ...zone]);
  const mx = await startCatchingMx({
    folder: join(folder, 'caught'),
    hostname: 'mx.inbox.test',
    resolver,
    log: silentLog,
  });
  onTestFinished(() => mx.close());
  const { url: database, parts: shared } = asInProduction
    ? { url: await migratedDatabase(), parts: {} }
    : await sharedParts(server['database'] === undefined);
  const file = await writeConfiguration(folder, projects, {
    server: {
      hostname: 'mail.postern.test',
      operator: 'ops@inbox.test',
      http: { listen: ['127.0.0.1:0'] },
      smtp: { listen: ['127.0.0.1:0'] },
      admin_socket: join(folder, 'admin.sock'),
      ...server['server'],
    },
    database: { url: database, ...server['database'] },
    storage: { ...server['storage'] },
    dns: { servers: [dns.address], ...server['dns'] },
    tls: { ...server['tls'] },
    uploads: { ...server['uploads'] },
    webhooks: { ...server['webhooks'] },
    delivery: { port: mx.port, allow_private_networks: true, ...server['delivery'] },
    inbound: { ...server['inbound'] },
    limits: { requests_per_minute_per_address: 1_000_000, ...server['limits'] },
    plans: { ...server['plans'] },
    alerts: { ...server['alerts'] },
    log: { level: 'silent', ...server['log'] },
  });
  const log = await createLog({ level: 'silent', format: 'json', redact_addresses: false });
  const daemon = await startDaemon(file, {
    log,
    ...shared,
    ...parts,
  });
  onTestFinished(() => daemon.close());
  const publicZone = [
    ...PUBLIC_ZONE,
    ...zone,
    ...(await hostRecords(daemon.store, daemon.snapshot().server.server.hostname)),
  ];
  await verifyDomains(daemon, { unverified, publish: (records) => dns.set([...publicZone, ...records]) });
  const port = daemon.addresses?.tcp[0]?.port ?? 0;
  const url = `http://127.0.0.1:${port}`;
  const socketPath = daemon.addresses?.socket;
  return {
    daemon,
    dns,
    mx,
    url,
    publicZone,
    folder,
    post(path, fields, headers = {}) {
      const body = fields instanceof FormData ? fields : new URLSearchParams(fields);
      return fetch(url + path, { method: 'POST', body, headers, redirect: 'manual' });
    },
    async queue() {
      const { body } = await ask({ socketPath, path: '/admin/queue?limit=100' });
      return queue.list.answer.parse(body).deliveries;
    },
    async tryNow() {
      const headers = { 'Content-Type': 'application/json' };
      const order = { action: 'retry', filter: { state: 'queued' } };
      const { status } = await ask(
        { socketPath, path: '/admin/queue/actions', method: 'POST', headers },
        JSON.stringify(order),
      );
      if (status !== 200) throw new Error(`the queue answers ${status}`);
    },
    async caught(count) {
      for (let i = 0; i < 3000 && mx.mails.list().length < count; i++)
        await new Promise((wait) => setTimeout(wait, 10));
      const { length } = mx.mails.list();
      if (length < count) throw new Error(`${length} of ${count} mails were caught`);
      return mx.mails;
    },
  };
}

async function writeConfiguration(folder: string, projects: Record<string, string>, server: object): Promise<string> {
  await mkdir(join(folder, 'projects'));
  for (const [name, text] of Object.entries(projects)) await writeFile(join(folder, 'projects', name), text);
  await writeFile(join(folder, 'server.yml'), stringify(server));
  return join(folder, 'server.yml');
}

interface Verification {
  readonly unverified: readonly string[];
  readonly publish: (records: ZoneRecord[]) => void;
}

async function verifyDomains(daemon: Daemon, { unverified, publish }: Verification): Promise<void> {
  const names = [...daemon.snapshot().domains.keys()].filter((name) => !unverified.includes(name));
  const reports = await Promise.all(names.map((name) => daemon.domains.report(name)));
  publish(
    reports
      .flatMap((report) => report?.records.filter((record) => record.required) ?? [])
      .map(({ name, type, value }) => ({ name, type, value })),
  );
  for (const name of names) {
    const found = await daemon.domains.check(name);
    if (found?.status !== 'verified') throw new Error(`${name} is ${found?.status}: ${JSON.stringify(found?.records)}`);
  }
}
