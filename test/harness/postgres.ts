/** A PostgreSQL server of its own: Debian's binaries, a temporary folder, a free port of 127.0.0.1, durable as by default. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chown, glob, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { codeOf } from '../../src/lib/errors.ts';
import { freePort, startChild, untilReady, type Child } from './child.ts';
import { idsOf, isRoot } from './debian-users.ts';
import { needPackage } from './debian.ts';

const run = promisify(execFile);

export interface Postgres {
  /** `postgres://postgres@127.0.0.1:PORT/postgres`; the user may do everything. */
  readonly url: string;
  /** Of the process whose children serve the connections. */
  readonly pid: number;
  /** The end of what the server has logged so far. */
  readonly log: () => string;
  /** An empty database of this name (letters, digits, `_`); answers its address. */
  createDatabase(name: string): Promise<string>;
  /** Stops all its processes where they are (SIGSTOP): connections stay open, and nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** Ends it as a power cut does (SIGQUIT): what is on the disk stays. */
  crash(): Promise<void>;
  /** Starts it again after a crash, at the same address. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Where files are kept in memory: fsync costs nothing there. */
const MEMORY = '/dev/shm';

interface PostgresKind {
  readonly inMemory?: boolean;
  /** Takes no writes until it is promoted. It follows nobody. */
  readonly standby?: boolean;
  /** The address of a primary that it follows as a standby, with all its data. */
  readonly follows?: string;
  readonly tls?: { readonly cert: string; readonly key: string };
  /** The lines of pg_hba.conf; everybody on this machine is trusted without them. */
  readonly hba?: readonly string[];
}

/** Starts a server in about two seconds. `settings` are `name=value` of postgresql.conf. */
export async function startPostgres(
  settings: readonly string[] = [],
  { inMemory = false, standby = false, follows, tls, hba }: PostgresKind = {},
): Promise<Postgres> {
  const bin = await newestServer();
  const user = isRoot() ? idsOf('postgres') : undefined;
  const folder = await mkdtemp(join(inMemory ? MEMORY : tmpdir(), 'postern-postgres-'));
  if (user !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const where = { ...user, cwd: folder, env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' } };
  if (follows === undefined) {
    // Most servers sort as people do, and not by bytes.
    const collation = ['--locale-provider=icu', '--icu-locale=en-US'];
    const settled = ['-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--no-sync'];
    await run(join(bin, 'initdb'), ['-D', data, ...settled, ...collation], where);
  } else {
    await run(join(bin, 'pg_basebackup'), ['-D', data, '-R', '-c', 'fast', '--no-sync', '-d', follows], where);
  }
  const all = [...settings];
  if (standby) await write('standby.signal', '');
  if (tls !== undefined) {
    const files = [
      `ssl_cert_file=${await write('test.crt', tls.cert)}`,
      `ssl_key_file=${await write('test.key', tls.key)}`,
    ];
    all.push('ssl=on', ...files);
  }
  if (hba !== undefined) await write('pg_hba.conf', `${hba.join('\n')}\n`);
  const port = await freePort();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let server = await launch();
  let isFrozen = false;
  try {
    await untilReady(server, isReady);
  } catch (error) {
    await close();
    throw error;
  }

  function launch(): Promise<Child> {
    return startChild(
      join(bin, 'postgres'),
      ['-D', data, '-k', folder, '-h', '127.0.0.1', '-p', `${port}`, ...all.flatMap((setting) => ['-c', setting])],
      where,
    );
  }

  function isReady(): boolean {
    return /database system is ready to accept (?:read-only )?connections/.test(server.output());
  }

  /** A file of the server in its folder; answers its path. */
  async function write(name: string, text: string): Promise<string> {
    const path = join(data, name);
    await writeFile(path, text, { mode: 0o600 });
    if (user !== undefined) await chown(path, user.uid, user.gid);
    return path;
  }

  return {
    url,
    get pid() {
      return server.pid;
    },
    log: () => server.output(),
    createDatabase,
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    crash: () => server.stop('SIGQUIT'),
    async restart() {
      server = await launch();
      await untilReady(server, isReady);
    },
    close,
  };

  function signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    isFrozen = name === 'SIGSTOP';
    process.kill(server.pid, name);
    for (const pid of childrenOf(server.pid)) {
      try {
        process.kill(pid, name);
      } catch (error) {
        // A session that has just ended.
        if (codeOf(error) !== 'ESRCH') throw error;
      }
    }
  }

  async function createDatabase(name: string): Promise<string> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`);
    await client.end();
    return new URL(`/${name}`, url).href;
  }

  async function close(): Promise<void> {
    if (isFrozen) signal('SIGCONT');
    await server.stop('SIGINT'); // fast shutdown: sessions are cut, the database is left whole
    // Processes that ended with their server may still write.
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
}

/** The folder of the newest server's programs. */
async function newestServer(): Promise<string> {
  const found: string[] = [];
  for await (const path of glob('/usr/lib/postgresql/*/bin/initdb')) found.push(join(path, '..'));
  const newest = found.toSorted((one, other) => one.localeCompare(other, 'en', { numeric: true })).at(-1);
  needPackage(() => newest !== undefined, 'postgresql');
  return newest ?? '';
}
