/**
 * The real daemon, started as an operator starts it (`bin/postern serve --config FILE`), on loopback, with everything at
 * its default but the limits, which one client in a bench would hit at once. Its domain is verified by DNS as any other.
 */
import { createWriteStream } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stringify } from 'yaml';
import { z } from 'zod';
import { domainRecords } from '../../src/dns/records.ts';
import { startDnsServer, type ZoneRecord } from '../../src/dev/dns-server.ts';
import { createStore } from '../../src/store/database.ts';
import { dkimKeysOf } from '../../src/store/dkim-keys.ts';
import { allDomains } from '../../src/store/domains.ts';
import { endWithUs, freePort, until } from '../../test/harness/child.ts';

export const DOMAIN = 'forms.test';
/** Its mail is forwarded. */
export const FORWARDED = `info@${DOMAIN}`;
const HOSTNAME = 'mail.postern.test';
const UNLIMITED = 1_000_000_000;

export interface Daemon {
  readonly pid: number;
  readonly port: number;
  /** Where it takes mail, if it does; that for `FORWARDED` goes to office@owner.test. */
  readonly smtpPort: number;
  /** Where the form is posted to. */
  readonly formUrl: string;
  /** Holds all mail for a destination. */
  hold(domain: string): Promise<void>;
  /** Releases a destination that is held. */
  release(domain: string): Promise<void>;
  /** A header with an API key of the operator's tenant, which has no account limit. */
  authorization(): Promise<{ readonly Authorization: string }>;
  close(): Promise<void>;
}

export interface DaemonOptions {
  /** All mail of the form goes to this port of 127.0.0.1; without it nothing is delivered. */
  readonly deliverTo?: number;
  /** Other mail goes to hosts of DNS, at this port. */
  readonly mailPort?: number;
  /** Who gets the mail of the form; `office@owner.test` by default. */
  readonly formTo?: string;
  /** Puts into the database at this path, before the daemon that is measured starts, what waits there. */
  readonly fill?: (path: string) => void | Promise<void>;
  /** More of the DNS that it asks. */
  readonly records?: readonly ZoneRecord[];
  /** Whether it takes mail. */
  readonly takesMail?: boolean;
  /** Whether it seals what it forwards (ARC); default: true. */
  readonly seals?: boolean;
  /** `retention` of server.yml. */
  readonly retention?: object;
  /** `database.url`; default: SQLite in a folder of its own. */
  readonly database?: string | undefined;
  /** More of its environment. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** A daemon with one verified domain and one form, ready for posts. */
export async function startPostern(options: DaemonOptions = {}): Promise<Daemon> {
  const {
    deliverTo,
    mailPort,
    records = [],
    formTo = 'office@owner.test',
    fill,
    takesMail = false,
    seals = true,
    retention = {},
    environment = {},
  } = options;
  const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
  const database = options.database ?? `sqlite:${join(folder, 'postern.db')}`;
  const dns = await startDnsServer([]);
  const ports = { port: await freePort(), smtpPort: await freePort() };
  const place = { folder, ...ports, dns: dns.address, deliverTo, mailPort, takesMail, seals, retention, database };
  await writeProject(folder, formTo);
  let running: Served;
  try {
    // The first run makes the keys; what they ask for is published, and the second run finds it at once.
    await writeServer(place, '1s');
    await (await serve(place)).stop();
    dns.set([...(await recordsToPublish(database)), ...records]);
    await fill?.(join(folder, 'postern.db'));
    await writeServer(place, '6h');
    running = await serve(place, environment);
  } catch (error) {
    await dns.close();
    throw error;
  }
  const formUrl = `http://127.0.0.1:${place.port}/${DOMAIN}/contact`;
  const daemon = {
    ...ports,
    pid: running.pid,
    formUrl,
    async hold(domain: string) {
      await askOperator(join(folder, 'admin.sock'), '/admin/queue/hold', { domain });
    },
    async release(domain: string) {
      await askOperator(join(folder, 'admin.sock'), '/admin/queue/release', { domain });
    },
    authorization: () => makeKey(join(folder, 'admin.sock')),
    close,
  };
  await until('the domain is verified', async () => (await post(formUrl)) === 200, 60_000).catch(
    async (error: unknown) => {
      await close();
      throw error;
    },
  );
  return daemon;

  async function close(): Promise<void> {
    await running.stop();
    await dns.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly smtpPort: number;
  readonly dns: string;
  readonly deliverTo: number | undefined;
  readonly mailPort: number | undefined;
  readonly takesMail: boolean;
  readonly seals: boolean;
  readonly retention: object;
  readonly database: string;
}

async function writeServer(
  { folder, port, smtpPort, dns, deliverTo, mailPort, takesMail, seals, retention, database }: Place,
  recheck: string,
): Promise<void> {
  const config = {
    server: {
      hostname: HOSTNAME,
      operator: 'ops@postern.test',
      http: { listen: [`127.0.0.1:${port}`] },
      admin_socket: join(folder, 'admin.sock'),
      smtp: { listen: [`127.0.0.1:${smtpPort}`] },
      roles: ['http', ...(takesMail ? ['smtp'] : []), ...((deliverTo ?? mailPort) === undefined ? [] : ['delivery'])],
    },
    database: { url: database },
    retention,
    dns: { servers: [dns], recheck },
    inbound: { arc: { seal: seals } },
    delivery: {
      allow_private_networks: true,
      ...(mailPort === undefined ? {} : { port: mailPort }),
      routes: deliverTo === undefined ? {} : { 'owner.test': `127.0.0.1:${deliverTo}` },
    },
    limits: { requests_per_minute_per_address: UNLIMITED, smtp: { per_address: 500 } },
  };
  await writeFile(join(folder, 'server.yml'), stringify(config));
}

async function writeProject(folder: string, to: string): Promise<void> {
  const form = { name: 'Contact', to, rateLimit: UNLIMITED, uploads: {} };
  const domain = { forwarding: { [FORWARDED]: 'office@owner.test' }, forms: { contact: form } };
  const project = { project: { name: 'Bench', slug: 'bench' }, domains: { [DOMAIN]: domain } };
  await mkdir(join(folder, 'projects'));
  await writeFile(join(folder, 'projects/bench.yml'), stringify(project));
}

interface Served {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts the daemon, with more in its environment, and waits until it is ready. */
export async function serve(
  { folder, port }: Pick<Place, 'folder' | 'port'>,
  environment: Readonly<Record<string, string>> = {},
): Promise<Served> {
  const log = createWriteStream(join(folder, 'log'), { flags: 'a' });
  await once(log, 'open');
  const launcher = `${import.meta.dirname}/../../bin/postern`;
  const env = { ...process.env, ...environment };
  const child = spawn(launcher, ['serve', '--config', join(folder, 'server.yml')], {
    stdio: ['ignore', log, log],
    env,
  });
  await once(child, 'spawn');
  endWithUs(child);
  try {
    await until('the daemon is ready', async () => {
      if (child.exitCode !== null) throw new Error(`the daemon ended with ${child.exitCode}`);
      return (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.ok === true;
    });
  } catch (error) {
    await stop();
    throw new Error(await readFile(join(folder, 'log'), 'utf8'), { cause: error });
  }
  // The launcher becomes the daemon.
  return { pid: child.pid ?? 0, stop };

  async function stop(): Promise<void> {
    log.end();
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill();
    await once(child, 'exit');
  }
}

/** What the domain's owner would copy into his zone, read from the database that no daemon holds now. */
async function recordsToPublish(database: string) {
  const store = await createStore(database);
  try {
    const domain = (await allDomains(store)).find(({ name }) => name === DOMAIN);
    if (domain === undefined) throw new Error('the daemon does not know its domain');
    const dkim = (await dkimKeysOf(store, DOMAIN)).map(({ selector, algorithm, public_key: publicKey }) => ({
      selector,
      algorithm,
      publicKey,
    }));
    return domainRecords({ domain: DOMAIN, token: domain.token, hostname: HOSTNAME, dkim });
  } finally {
    await store.close();
  }
}

/** As the operator makes one, on the Unix socket; without permissions it may do everything that an account can. */
export async function makeKey(
  socketPath: string,
  permissions?: readonly string[],
): Promise<{ readonly Authorization: string }> {
  const made = await askOperator(socketPath, '/api-keys', { name: 'Bench', permissions });
  const { key } = z.object({ key: z.string() }).parse(made);
  return { Authorization: `Bearer ${key}` };
}

/** As the operator does, on the Unix socket. */
async function askOperator(socketPath: string, path: string, body: object): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' };
  const asked = request({ socketPath, path, method: 'POST', headers }).end(JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(`${path} answers ${response.statusCode}: ${answer}`);
  return JSON.parse(answer);
}

async function post(url: string): Promise<number> {
  const body = new URLSearchParams({ email: 'first@customer.test', message: 'Is anybody there?' });
  const answer = await fetch(url, { method: 'POST', body, headers: { accept: 'application/json' } });
  await answer.arrayBuffer();
  return answer.status;
}
