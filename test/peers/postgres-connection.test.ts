/** How PostgreSQL is reached: TLS, several hosts, passwords in a file, a connection pooler. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { PassingError } from '../../src/lib/errors.ts';
import { selfSignedCertificate } from '../../src/lib/x509.ts';
import { createStore, type StoreOptions } from '../../src/store/database.ts';
import { query } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { openAppliance } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { freePort, until } from '../harness/child.ts';
import { sendMany } from '../harness/load.ts';
import { startPgBouncer } from '../harness/pgbouncer.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';
import { startTcpProxy } from '../harness/tcp-proxy.ts';

let postgres: Postgres;
let databases = 0;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());
afterEach(() => vi.unstubAllEnvs());

async function open(url: string, options?: StoreOptions): Promise<Store> {
  const store = await createStore(url, options);
  onTestFinished(() => store.close());
  return store;
}

async function words(opening: Promise<unknown>): Promise<string> {
  return opening.then(() => 'opened', String);
}

const insert = query<{ name: string }>(
  (value) => sql`insert into secrets (name, value, created_at) values (${value('name')}, 'x', 1)`,
);

async function isEncrypted(store: Store): Promise<boolean> {
  const { rows } = await sql<{ ssl: boolean }>`
    select ssl from pg_stat_ssl where pid = pg_backend_pid()`.execute(store.read);
  return rows[0]?.ssl === true;
}

describe('sslmode has the meaning of libpq', () => {
  let secure: Postgres;
  let folder = '';
  const own = selfSignedCertificate(['localhost'], Date.now());
  const other = selfSignedCertificate(['db.test'], Date.now());

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'postern-ssl-'));
    await writeFile(join(folder, 'own.crt'), own.cert);
    await writeFile(join(folder, 'other.crt'), other.cert);
    secure = await startPostgres([], { tls: own });
  });
  afterAll(async () => {
    await secure.close();
    await rm(folder, { recursive: true });
  });

  /** Of a server with TLS, or one without. */
  function address(server: Postgres, parameters: string, host = 'localhost'): string {
    const url = new URL(server.url);
    url.hostname = host;
    url.search = parameters.replaceAll('FOLDER', folder);
    return url.href;
  }

  test.for([
    ['', true],
    ['sslmode=disable', false],
    ['sslmode=allow', false],
    ['sslmode=prefer', true],
    ['sslmode=require', true],
    ['sslmode=verify-ca&sslrootcert=FOLDER/own.crt', true],
    ['sslmode=verify-full&sslrootcert=FOLDER/own.crt', true],
  ] as const)('a server with TLS, "%s": encrypted %s', async ([parameters, encrypted]) => {
    expect(await isEncrypted(await open(address(secure, parameters)))).toBe(encrypted);
  });

  test.for([
    ['sslmode=require&sslrootcert=FOLDER/other.crt', 'localhost', /self.signed certificate/],
    ['sslmode=verify-ca&sslrootcert=FOLDER/other.crt', 'localhost', /self.signed certificate/],
    ['sslmode=verify-full&sslrootcert=FOLDER/own.crt', '127.0.0.1', /IP: 127\.0\.0\.1 is not in the cert/],
    ['sslmode=verify-full', 'localhost', /self.signed certificate/],
    ['sslrootcert=system', 'localhost', /self.signed certificate/],
  ] as const)('a server with TLS, "%s" to %s is refused', async ([parameters, host, reason]) => {
    expect(await words(createStore(address(secure, parameters, host)))).toMatch(reason);
  });

  test('verify-ca asks for no name, and PGSSLMODE holds where the address says nothing', async () => {
    await open(address(secure, 'sslmode=verify-ca&sslrootcert=FOLDER/own.crt', '127.0.0.1'));
    vi.stubEnv('PGSSLMODE', 'disable');
    expect(await isEncrypted(await open(address(secure, '')))).toBe(false);
  });

  test.for(['', 'sslmode=disable', 'sslmode=allow', 'sslmode=prefer'])(
    'a server without TLS, "%s"',
    async (parameters) => {
      expect(await isEncrypted(await open(address(postgres, parameters)))).toBe(false);
    },
  );

  test('a server without TLS is refused where it is required', async () => {
    expect(await words(createStore(address(postgres, 'sslmode=require')))).toMatch(/does not support SSL/);
  });

  test('allow encrypts where pg_hba.conf takes nothing else, and prefer does not where it takes no encryption', async () => {
    const strict = await startPostgres([], {
      tls: own,
      hba: ['hostssl all all all trust', 'hostnossl all all all reject'],
    });
    onTestFinished(() => strict.close());
    expect(await isEncrypted(await open(address(strict, 'sslmode=allow')))).toBe(true);
    const plain = await startPostgres([], {
      tls: own,
      hba: ['hostssl all all all reject', 'hostnossl all all all trust'],
    });
    onTestFinished(() => plain.close());
    expect(await isEncrypted(await open(address(plain, 'sslmode=prefer')))).toBe(false);
  });
});

describe('several hosts', () => {
  test('the one is used that takes writes, wherever it stands', async () => {
    const standby = await startPostgres([], { standby: true });
    onTestFinished(() => standby.close());
    const nobody = `127.0.0.1:${await freePort()}`;
    const [first, second] = [new URL(standby.url).host, new URL(postgres.url).host];
    const name = new URL(postgres.url).pathname;
    for (const hosts of [
      [nobody, first, second],
      [second, nobody],
      [first, second],
    ]) {
      const store = await open(`postgres://postgres@${hosts.join(',')}${name}?target_session_attrs=read-write`);
      expect(await sql`select 1 as one`.execute(store.read)).toMatchObject({ rows: [{ one: 1 }] });
    }
    const none = createStore(`postgres://postgres@${nobody},${first}${name}`);
    await expect(none).rejects.toThrow(PassingError);
    expect(await words(none)).toMatch(/no server accepts writes \(127\.0\.0\.1:\d+: .*ECONNREFUSED.*; .*standby/);
  });

  test('a store goes on with the other when one is lost, and no write fails for good', async () => {
    const direct = new URL(await postgres.createDatabase(`hosts_${++databases}`));
    const proxies = [await startTcpProxy(Number(direct.port)), await startTcpProxy(Number(direct.port))];
    const [one, other] = proxies;
    const hosts = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const store = await open(`postgres://postgres@${hosts}${direct.pathname}`);
    await store.write([insert({ name: 'first' })]);
    for (const [lost, left] of [
      [one, other],
      [other, one],
    ]) {
      left?.refuse(false);
      lost?.refuse(true);
      await hangUp(direct);
      // The connections that broke tell of it at their next use, if not before.
      await until(
        'it writes',
        () =>
          store.write([insert({ name: `${lost?.port}` })]).then(
            () => true,
            () => false,
          ),
        15_000,
      );
    }
    expect(await sql`select name from secrets`.execute(store.read)).toMatchObject({ rows: { length: 3 } });
  });
});

async function hangUp(url: URL): Promise<void> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
    url.pathname.slice(1),
  ]);
  await client.end();
}

describe('a server that asks for a password', () => {
  let strict: Postgres;

  beforeAll(async () => {
    strict = await startPostgres([], {
      hba: ['local all postgres trust', 'host all postgres all trust', 'host all all all scram-sha-256'],
    });
    const client = new pg.Client({ connectionString: strict.url });
    await client.connect();
    await client.query("CREATE ROLE ana LOGIN SUPERUSER PASSWORD 's3:cret'");
    await client.end();
  });
  afterAll(() => strict.close());

  function address(): string {
    const url = new URL(strict.url);
    url.username = 'ana';
    return url.href;
  }

  test('finds it in the file of PGPASSFILE', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'postern-pgpass-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'pgpass');
    await writeFile(file, `elsewhere:*:*:ana:no\n127.0.0.1:${new URL(strict.url).port}:*:ana:s3\\:cret\n`, {
      mode: 0o600,
    });
    vi.stubEnv('PGPASSFILE', file);
    const warnings: string[] = [];
    const warn = ({ name, message }: Error) => warnings.push(`${name}: ${message}`);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    await open(address());
    expect(warnings).toEqual([]);
  });

  test('says where it looked when there is none, and when it is wrong', async () => {
    vi.stubEnv('PGPASSFILE', '/nowhere');
    expect(await words(createStore(address()))).toMatch(/database\.url, PGPASSWORD and the file of PGPASSFILE/);
    vi.stubEnv('PGPASSWORD', 'wrong');
    const failed = createStore(address());
    await expect(failed).rejects.not.toThrow(PassingError);
    expect(await words(failed)).toMatch(/password authentication failed for user "ana"/);
  });
});

describe('PgBouncer', () => {
  async function place(mode: 'transaction' | 'session'): Promise<{ direct: string; pooled: string }> {
    const direct = await postgres.createDatabase(`pooled_${++databases}`);
    return { direct, pooled: await startPgBouncer(direct, mode) };
  }

  test('in session mode it is no different', async () => {
    const { pooled } = await place('session');
    const store = await open(pooled);
    expect(await store.write([insert({ name: 'one' })])).toMatchObject([{ changes: 1 }]);
  });

  test('in transaction mode it is refused, with what to set', async () => {
    const { pooled } = await place('transaction');
    const failed = createStore(pooled);
    await expect(failed).rejects.not.toThrow(PassingError);
    expect(await words(failed)).toMatch(/in transaction mode: set database\.prepare: false, and database\.listen_url/);
  });

  test('with prepare: false it asks for the settings of the role', async () => {
    const { direct, pooled } = await place('transaction');
    expect(await words(createStore(pooled, { postgres: { prepare: false, listenUrl: direct } }))).toMatch(
      /ALTER ROLE postgres SET statement_timeout = '10s'; ALTER ROLE postgres SET idle_in_transaction_session_timeout = '10s';/,
    );
  });

  test('in transaction mode two daemons work through it, and listen past it', async () => {
    const { direct, pooled } = await place('transaction');
    const client = new pg.Client({ connectionString: direct });
    await client.connect();
    const name = new URL(direct).pathname.slice(1);
    for (const setting of ['statement_timeout', 'idle_in_transaction_session_timeout']) {
      await client.query(`ALTER ROLE postgres IN DATABASE ${name} SET ${setting} = '10s'`);
    }
    await client.end();
    const catcher = await startCatcher();
    const database = { url: pooled, listen_url: direct, prepare: false };
    const first = await openAppliance({ deliverTo: catcher.port, server: { database } });
    const second = await openAppliance({ deliverTo: catcher.port, server: { database }, dns: first.dns });
    const runs = [await first.startVerified(), await second.start()];
    const load = await sendMany({ url: [first.formUrl, second.formUrl], connections: 16, count: 200 });
    expect({ accepted: load.accepted.size, refused: [...load.refused] }).toEqual({ accepted: 200, refused: [] });
    await until('all has arrived', async () => (await first.waiting()) === 0, 60_000);
    expect(catcher.mails.map(({ reference }) => reference).sort()).toEqual([...load.accepted].sort());
    const { rows } = await sql`select 1 from pg_stat_activity where query like '%AS leads'`.execute(
      (await open(direct)).read,
    );
    expect(rows.length).toBeGreaterThanOrEqual(2);
    for (const run of runs) expect(await run.end('SIGTERM')).toBe(0);
  });
});
