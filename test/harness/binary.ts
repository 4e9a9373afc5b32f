/**
 * The real program, as an operator runs it: `bin/postern serve --config FILE` with a folder of its own for configuration
 * and database, that a test starts, kills and starts again. Its domain is verified by DNS as any other.
 */
import { existsSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:http';
import { join } from 'node:path';
import { Kysely, SqliteDialect } from 'kysely';
import { onTestFinished } from 'vitest';
import { stringify } from 'yaml';
import { z } from 'zod';
import { type DnsServer, type ZoneRecord, startDnsServer } from '../../src/dev/dns-server.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import { openForReading } from '../../src/store/sqlite-connection.ts';
import type { Tables } from '../../src/store/tables.ts';
import { freePort, startChild, until, untilReady, type Child } from './child.ts';
import { temporaryFolder } from './store.ts';

const LAUNCHER = join(import.meta.dirname, '../../bin/postern');
export const HOSTNAME = 'mail.postern.test';
const DOMAIN = 'forms.test';
const FORM = `/${DOMAIN}/contact`;

export const PROJECT = {
  project: { name: 'Site', slug: 'site', owner: 'owner@inbox.test' },
  domains: {
    [DOMAIN]: {
      forms: {
        contact: {
          name: 'Contact form',
          to: 'owner@inbox.test',
          required: ['message'],
          uploads: { enabled: true, max_size: '512KiB' },
          rateLimit: 1_000_000_000,
        },
      },
    },
  },
};

type Section = Readonly<Record<string, unknown>>;
type Sections = Readonly<Record<string, Section>>;

export interface ApplianceOptions {
  /** Port of the mail server that all of the world's mail goes to. */
  readonly deliverTo: number;
  /** Merged over the test's own server.yml, section by section. */
  readonly server?: Sections;
  /** One that shares its database is in the same world, too. */
  readonly dns?: DnsServer;
  /** Beside the test's own environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** One start of the program. */
export interface Run {
  readonly pid: number;
  /** The end of what it printed so far. */
  output(): string;
  signal(name: NodeJS.Signals): void;
  /** Its exit code; null after a signal that it did not handle. */
  readonly ended: Promise<number | null>;
  /** `signal` and `ended` in one. */
  end(name: NodeJS.Signals): Promise<number | null>;
  /** Waits until `/readyz` answers 200. */
  ready(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed where it is JSON. */
  readonly body: unknown;
}

export interface Published {
  readonly name: string;
  readonly type: 'TXT';
  readonly value: string;
}

export interface Appliance {
  /** Where it takes mail, on 127.0.0.1. */
  readonly smtpPort: number;
  readonly folder: string;
  /** `http://127.0.0.1:PORT`, the same in every start. */
  readonly url: string;
  /** Where the form is posted to. */
  readonly formUrl: string;
  /** `sqlite:…` or `postgres://…` */
  readonly database: string;
  readonly dns: DnsServer;
  /** What its domain publishes, once it is verified. */
  published(): readonly Published[];
  /** Merges into server.yml; active after a start or a reload. */
  configure(sections: Sections): Promise<void>;
  /** Replaces the project file. */
  writeProject(project: object): Promise<void>;
  /** Starts it, or the `bin/postern` of another version, and does not wait. */
  launch(launcher?: string): Promise<Run>;
  /** The same, and waits until it is ready. */
  start(launcher?: string): Promise<Run>;
  /** Starts it for the first time: publishes the DNS records that it asks for, and waits until its form works. */
  startVerified(): Promise<Run>;
  /** Posts nothing: 400 from a form that works, 403 where the domain is pending. */
  probe(): Promise<Answer>;
  /** Asks over the operator's Unix socket. */
  admin(path: string, method?: string): Promise<Answer>;
  /** Looks into its database, whether it runs or not. */
  look<T>(query: (database: Kysely<Tables>) => Promise<T>): Promise<T>;
  /** How many deliveries are not over. */
  waiting(): Promise<number>;
}

/** A place for it; nothing runs yet. Everything ends with the test. */
export async function openAppliance(options: ApplianceOptions): Promise<Appliance> {
  const folder = await temporaryFolder();
  const dns = options.dns ?? (await startWorldDns());
  const port = await freePort();
  const smtpPort = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const file = join(folder, 'server.yml');
  const socket = join(folder, 'admin.sock');
  const base: Sections = {
    server: {
      hostname: HOSTNAME,
      operator: 'ops@inbox.test',
      http: { listen: [`127.0.0.1:${port}`] },
      smtp: { listen: [`127.0.0.1:${smtpPort}`] },
      admin_socket: socket,
    },
    database: { url: `sqlite:${join(folder, 'postern.db')}` },
    dns: { servers: [dns.address], recheck: '1s' },
    delivery: { port: options.deliverTo, allow_private_networks: true, retry: ['1s', '1s'] },
    limits: { requests_per_minute_per_address: 1_000_000_000 },
  };
  let server = merged(base, options.server ?? {});
  await replaceFile(file, stringify(server));
  await mkdir(join(folder, 'projects'));
  await writeProject(PROJECT);
  const database = String(server['database']?.['url']);
  let published: readonly Published[] = [];
  return {
    folder,
    url,
    smtpPort,
    formUrl: url + FORM,
    database,
    dns,
    published: () => published,
    configure,
    writeProject,
    launch,
    start,
    startVerified,
    probe,
    admin,
    look,
    waiting,
  };

  async function configure(sections: Sections): Promise<void> {
    server = merged(server, sections);
    await replaceFile(file, stringify(server));
  }

  async function writeProject(project: object): Promise<void> {
    await replaceFile(join(folder, 'projects/site.yml'), stringify(project));
  }

  async function launch(launcher = LAUNCHER): Promise<Run> {
    const child = await startChild(launcher, ['serve', '--config', file], {
      cwd: folder,
      env: { ...process.env, ...options.env },
    });
    onTestFinished(() => child.stop('SIGKILL'));
    return runOf(child);
  }

  function runOf(child: Child): Run {
    const { pid, output, ended } = child;
    let over = false;
    void ended.then(() => (over = true));
    function signal(name: NodeJS.Signals): void {
      if (!over) process.kill(pid, name);
    }
    return {
      pid,
      output,
      ended,
      signal,
      end(name) {
        signal(name);
        return ended;
      },
      ready: () => untilReady(child, async () => (await get('/readyz'))?.status === 200),
    };
  }

  async function start(launcher?: string): Promise<Run> {
    const run = await launch(launcher);
    await run.ready();
    // It listens on the socket a moment after it is ready on the port.
    await until('the admin socket is there', () => Promise.resolve(existsSync(socket)));
    return run;
  }

  async function startVerified(): Promise<Run> {
    const run = await start();
    published = recordsOf(await probe());
    dns.set([...WORLD, ...published]);
    await until('the domain is verified', async () => {
      const answer = await admin(`/domains/${DOMAIN}/verify`, 'POST').catch(() => undefined);
      return answer?.status === 200 && (await probe()).status === 400;
    });
    return run;
  }

  function probe(): Promise<Answer> {
    return ask({ port, host: '127.0.0.1', path: FORM, method: 'POST', headers: { Accept: 'application/json' } });
  }

  function admin(path: string, method = 'GET'): Promise<Answer> {
    return ask({ socketPath: socket, path, method });
  }

  async function look<T>(query: (database: Kysely<Tables>) => Promise<T>): Promise<T> {
    const reader = openDatabase(database);
    try {
      return await query(reader);
    } finally {
      await reader.destroy();
    }
  }

  async function waiting(): Promise<number> {
    const rows = await look((db) =>
      db.selectFrom('deliveries').select('id').where('state', 'in', ['queued', 'sending', 'deferred']).execute(),
    );
    return rows.length;
  }

  function get(path: string): Promise<Answer | undefined> {
    return ask({ port, host: '127.0.0.1', path }).catch(() => undefined);
  }
}

export const WORLD: readonly ZoneRecord[] = [
  { name: HOSTNAME, type: 'A', value: '127.0.0.1' },
  { name: 'inbox.test', type: 'MX', value: '10 mx.inbox.test' },
  { name: 'mx.inbox.test', type: 'A', value: '127.0.0.1' },
];

async function startWorldDns(): Promise<DnsServer> {
  const dns = await startDnsServer(WORLD);
  onTestFinished(() => dns.close());
  return dns;
}

const PENDING = z.object({
  records: z.array(z.object({ name: z.string(), type: z.string(), value: z.string(), required: z.boolean() })),
});

/** The records that a form of a pending domain asks for. */
function recordsOf({ status, body }: Answer): Published[] {
  const { success, data } = PENDING.safeParse(body);
  if (status !== 403 || !success) throw new Error(`the pending domain answers ${status}: ${JSON.stringify(body)}`);
  const required = data.records.filter((record) => record.required && record.type === 'TXT');
  return required.map(({ name, value }) => ({ name, type: 'TXT', value }));
}

function openDatabase(url: string): Kysely<Tables> {
  if (!url.startsWith('sqlite:')) return openPostgresStore({ url }).read;
  return new Kysely({ dialect: new SqliteDialect({ database: openForReading(url.slice('sqlite:'.length)) }) });
}

/** As careful editors do it: the watching daemon never sees half a file. */
async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

function merged(base: Sections, more: Sections): Sections {
  const names = new Set([...Object.keys(base), ...Object.keys(more)]);
  return Object.fromEntries([...names].map((name) => [name, { ...base[name], ...more[name] }]));
}

/** One request on a connection of its own. */
export function ask(options: RequestOptions, body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ ...options, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const json = response.headers['content-type']?.startsWith('application/json') === true;
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: json ? JSON.parse(text) : text,
        });
      });
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
