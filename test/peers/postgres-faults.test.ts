/** A PostgreSQL server behind a line that fails: every answer of the store is true, and no connection is waited for for good. */
import { createConnection, createServer, type AddressInfo } from 'node:net';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { PassingError, UserError } from '../../src/lib/errors.ts';
import { createStore } from '../../src/store/database.ts';
import { findDestination, noteDue } from '../../src/store/destinations.ts';
import { insertInto, query } from '../../src/store/statement.ts';
import { countSubmission, submissionsOf } from '../../src/store/submissions.ts';
import { StoreError, UnknownOutcomeError, type Store } from '../../src/store/store.ts';
import { openAppliance } from '../harness/binary.ts';
import { startCatcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { startLoad } from '../harness/load.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';
import { startTcpProxy, type TcpProxy } from '../harness/tcp-proxy.ts';

let postgres: Postgres;
let databases = 0;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

interface Line {
  readonly proxy: TcpProxy;
  /** Of a database of its own, through the proxy. */
  readonly url: string;
}

async function startLine(): Promise<Line> {
  const direct = new URL(await postgres.createDatabase(`faults_${++databases}`));
  const proxy = await startTcpProxy(Number(direct.port));
  direct.port = `${proxy.port}`;
  return { proxy, url: direct.href };
}

async function openStore(url: string): Promise<Store> {
  const store = await createStore(url);
  onTestFinished(() => store.close());
  return store;
}

const insert = query<{ name: string }>(
  (value) => sql`insert into secrets (name, value, created_at) values (${value('name')}, 'x', 1)`,
);

function write(store: Store, name: string): Promise<unknown> {
  return store.write([insert({ name })]);
}

async function names(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('secrets').select('name').orderBy('name').execute();
  return rows.map(({ name }) => name);
}

function works(trying: Promise<unknown>): Promise<boolean> {
  return trying.then(
    () => true,
    () => false,
  );
}

const COMMIT = 'COMMIT\0';

describe('a COMMIT that is not answered', () => {
  test('was made: the write succeeds', async () => {
    const { proxy, url } = await startLine();
    const store = await openStore(url);
    proxy.cutAt(COMMIT);
    await write(store, 'kept');
    proxy.cutAt(undefined);
    expect(proxy.cuts()).toBe(1);
    expect(await names(store)).toEqual(['kept']);
  });

  test('never came to the server: the write fails, and nothing of it happened', async () => {
    const { proxy, url } = await startLine();
    const store = await openStore(url);
    proxy.cutAt(COMMIT, 'server lacks them');
    const error = await write(store, 'lost').catch((cause: unknown) => cause);
    proxy.cutAt(undefined);
    expect(error).toBeInstanceOf(StoreError);
    expect(error).not.toBeInstanceOf(UnknownOutcomeError);
    expect(await names(store)).toEqual([]);
  });

  test('and a server that cannot be asked: the write says that it does not know', async () => {
    const { proxy, url } = await startLine();
    const store = await openStore(url);
    // The pool has a connection, and gets no other.
    await write(store, 'before');
    proxy.cutAt(COMMIT);
    proxy.refuse(true);
    const error = await write(store, 'perhaps').catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(UnknownOutcomeError);
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' });
  });
});

test('a server that has crashed gives out numbers of transactions again: another one is not taken for ours', async () => {
  // Nothing but a COMMIT writes to the disk.
  const server = await startPostgres(['wal_writer_delay=10s']);
  onTestFinished(() => server.close());
  const proxy = await startTcpProxy(portOf(server));
  const url = new URL(server.url);
  url.port = `${proxy.port}`;
  const store = await openStore(url.href);
  await write(store, 'a connection');
  proxy.cutAt(COMMIT, 'server lacks them');
  proxy.refuse(true);
  const written = write(store, 'lost in the crash').catch((error: unknown) => error);
  await until('the COMMIT is cut', () => proxy.cuts() === 1);
  await server.crash();
  await server.restart();
  const others = Array.from({ length: 50 }, (_, i) => `INSERT INTO secrets VALUES ('other ${i}', 'x', 1)`);
  await execute(server.url, ...others);
  proxy.cutAt(undefined);
  proxy.refuse(false);
  expect(await written).toBeInstanceOf(UnknownOutcomeError);
  expect(await names(store)).not.toContain('lost in the crash');
});

describe('a standby', () => {
  /** A primary, reached through a line of its own, and a standby that follows it through another. */
  async function startPair() {
    const primary = await startPostgres();
    onTestFinished(() => primary.close());
    const replication = await startTcpProxy(portOf(primary));
    const standby = await startPostgres([], { follows: `host=127.0.0.1 port=${replication.port} user=postgres` });
    onTestFinished(() => standby.close());
    const address = await startTcpProxy(portOf(primary));
    const url = new URL(primary.url);
    url.port = `${address.port}`;
    return { primary, standby, replication, address, store: await openStore(url.href) };
  }

  test('that is cut off and must have each commit: none is acknowledged meanwhile', async () => {
    const { primary, replication, store } = await startPair();
    await execute(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'", RELOAD);
    await until('it must have each commit', async () => {
      const { rows } = await sql<{ sync_state: string }>`SELECT sync_state FROM pg_stat_replication`.execute(
        store.read,
      );
      return rows[0]?.sync_state === 'sync';
    });
    await write(store, 'replicated');
    replication.freeze();
    await expect(write(store, 'not replicated')).rejects.toBeInstanceOf(UnknownOutcomeError);
  });

  test('that is promoted knows other transactions under the same numbers: they are not taken for ours', async () => {
    const { standby, replication, address, store } = await startPair();
    await write(store, 'a connection');
    replication.freeze();
    const others = Array.from({ length: 50 }, (_, i) => `INSERT INTO secrets VALUES ('other ${i}', 'x', 1)`);
    await execute(standby.url, 'SELECT pg_promote()', ...others);
    // From now on it is what new connections find.
    await write(store, 'a connection to the old primary');
    address.leadTo(portOf(standby));
    address.cutAt(COMMIT);
    await expect(write(store, 'on the old primary alone')).rejects.toBeInstanceOf(UnknownOutcomeError);
    address.cutAt(undefined);
    expect(await names(store)).not.toContain('on the old primary alone');
  });
});

describe('a COMMIT of many units that is not answered', () => {
  const insertSecret = insertInto('secrets');

  function writeMany(store: Store, count: number) {
    const units = Array.from({ length: count }, (_, i) => [
      insertSecret({ name: `many ${i}`, value: 'x', created_at: 1 }),
    ]);
    return Promise.allSettled(units.map((unit) => store.write(unit)));
  }

  test.for(['server has them', 'server lacks them'] as const)('%s: so it is said of each', async (behind) => {
    const { proxy, url } = await startLine();
    const store = await openStore(url);
    proxy.cutAt(COMMIT, behind);
    const outcomes = await writeMany(store, 50);
    proxy.cutAt(undefined);
    expect(proxy.cuts()).toBe(1);
    const isThere = behind === 'server has them';
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set([isThere ? 'fulfilled' : 'rejected']));
    expect((await names(store)).length).toBe(isThere ? 50 : 0);
  });

  test('and a server that cannot be asked: none is known', async () => {
    const { proxy, url } = await startLine();
    const store = await openStore(url);
    await write(store, 'before');
    proxy.cutAt(COMMIT);
    proxy.refuse(true);
    const outcomes = await writeMany(store, 20);
    expect(outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason : undefined))).toEqual(
      outcomes.map(() => expect.any(UnknownOutcomeError)),
    );
  });
});

test('all statements of a unit are sent before any of them is answered; many units take few transactions', async () => {
  const direct = new URL(await postgres.createDatabase(`faults_${++databases}`));
  const line = await startHeldLine(Number(direct.port));
  direct.port = `${line.port}`;
  const store = await openStore(direct.href);
  await write(store, 'a connection');
  // A client that waits for an answer would never send the last.
  line.holdUntil('the last of them');
  await store.write([insert({ name: 'first' }), insert({ name: 'second' }), insert({ name: 'the last of them' })]);
  expect(await names(store)).toEqual(['a connection', 'first', 'second', 'the last of them']);

  const before = await transactions(store);
  const insertSecret = insertInto('secrets');
  const units = Array.from({ length: 500 }, (_, i) => [insertSecret({ name: `many ${i}`, value: 'x', created_at: 1 })]);
  await Promise.all(units.map((unit) => store.write(unit)));
  expect((await transactions(store)) - before).toBeLessThan(20);
});

test('a daemon that is slow to commit the posts of a form holds up those of no other', async () => {
  const direct = new URL(await postgres.createDatabase(`faults_${++databases}`));
  const line = await startHeldLine(Number(direct.port));
  // Two others, because one may share the slot of the first by chance.
  const others = await Promise.all([openStore(direct.href), openStore(direct.href)]);
  direct.port = `${line.port}`;
  const slow = await openStore(direct.href);
  const count = () => countSubmission({ form: 'example.com/contact' });
  await slow.write([count()]);
  line.holdUntil('never sent');
  const held = slow.write([count()]).catch((error: unknown) => error);
  const [watcher] = others;
  const open = sql`SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'`;
  await until('it is held', async () => (await open.execute(watcher.read)).rows.length === 1);
  await Promise.any(others.map((store) => store.write([count()])));
  expect(await submissionsOf(watcher, 'example.com/contact')).toBeGreaterThanOrEqual(2);
  expect(await held).toBeInstanceOf(StoreError);
});

/** How many transactions have written. */
async function transactions(store: Store): Promise<number> {
  const { rows } = await sql<{ id: number }>`SELECT pg_current_xact_id()::text::bigint AS id`.execute(store.read);
  return rows[0]?.id ?? Number.NaN;
}

interface HeldLine {
  readonly port: number;
  /** Keeps what the server says until the client has sent this. */
  holdUntil(bytes: string): void;
}

async function startHeldLine(target: number): Promise<HeldLine> {
  let wanted: string | undefined;
  const listener = createServer((client) => {
    const server = createConnection(target, '127.0.0.1');
    const held: Buffer[] = [];
    for (const [one, other] of [[client, server] as const, [server, client] as const]) {
      one.on('error', () => undefined);
      one.on('close', () => other.destroy());
    }
    client.on('data', (data) => {
      server.write(data);
      if (wanted === undefined || !data.includes(wanted)) return;
      wanted = undefined;
      for (const each of held.splice(0)) client.write(each);
    });
    server.on('data', (data) => {
      if (wanted === undefined) client.write(data);
      else held.push(data);
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    listener.close();
  });
  return {
    port: (listener.address() as AddressInfo).port,
    holdUntil(bytes) {
      wanted = bytes;
    },
  };
}

test('connections that have become black holes are cut and replaced', async () => {
  const { proxy, url } = await startLine();
  const store = await openStore(url);
  await Promise.all(Array.from({ length: 20 }, (_, i) => write(store, `before ${i}`)));
  proxy.blackHole();
  await until('a write succeeds', () => works(write(store, 'after')));
  await until('a read succeeds', () => works(names(store)));
  expect(await names(store)).toContain('after');
});

test('the server does not keep connections that have become black holes', async () => {
  const { proxy, url } = await startLine();
  const store = await openStore(url);
  await Promise.all(Array.from({ length: 20 }, (_, i) => write(store, `before ${i}`)));
  const watcher = new pg.Client({ connectionString: postgres.url });
  await watcher.connect();
  onTestFinished(() => watcher.end());
  async function sessions(): Promise<number> {
    const of = [new URL(url).pathname.slice(1)];
    const { rows } = await watcher.query('SELECT pid FROM pg_stat_activity WHERE datname = $1', of);
    return rows.length;
  }
  expect(await sessions()).toBeGreaterThan(0);
  proxy.blackHole();
  await until('they have ended', async () => (await sessions()) === 0);
});

test('a connection that listens is lost and made again, and both are told', async () => {
  const { proxy, url } = await startLine();
  const store = await openStore(url);
  const other = await openStore(url);
  const told: string[] = [];
  const leave = store.listen({
    hear: (topic) => told.push(topic),
    onLost: () => told.push('lost'),
    onConnected: () => told.push('connected'),
    onLead: () => undefined,
  });
  onTestFinished(leave);
  await until('it listens', () => told.includes('connected'));
  proxy.blackHole();
  await until('it listens again', () => told.length >= 3);
  await until('the other can tell', () => works(other.notify('queue')));
  await until('it hears', () => told.includes('queue'));
  expect(told.slice(0, 3)).toEqual(['connected', 'lost', 'connected']);
});

describe('at the start', () => {
  async function failure(url: string): Promise<unknown> {
    return createStore(url).then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  test.for(['refuse', 'freeze', 'a name that DNS does not know'] as const)(
    'a server that is away may come: %s',
    async (how) => {
      const { proxy, url } = await startLine();
      if (how === 'refuse') proxy.refuse(true);
      if (how === 'freeze') proxy.freeze();
      const address = new URL(url);
      if (how.startsWith('a name')) address.hostname = 'database.invalid';
      expect(await failure(address.href)).toBeInstanceOf(PassingError);
    },
  );

  test('what the operator must correct is no passing fault, and shows no password', async () => {
    const url = new URL(postgres.url);
    url.password = 'geh:e@im';
    url.pathname = '/nowhere';
    for (const address of [url.href, `${url.href}?password=geheim`]) {
      const error = await failure(address);
      expect(error).toBeInstanceOf(UserError);
      expect(error).not.toBeInstanceOf(PassingError);
      expect(String(error)).toContain('database "nowhere" does not exist');
      expect(String(error)).not.toMatch(/geh|im@/);
    }
  });

  test('a server without fsync is refused; one with synchronous_commit=off is told otherwise', async () => {
    const server = await startPostgres(['fsync=off']);
    onTestFinished(() => server.close());
    const error = await failure(server.url);
    expect(error).not.toBeInstanceOf(PassingError);
    expect(String(error)).toMatch(/set fsync=on/);
    const url = await postgres.createDatabase(`faults_${++databases}`);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
    await client.end();
    const store = await openStore(url);
    const { rows } = await sql<{ synchronous_commit: string }>`SHOW synchronous_commit`.execute(store.read);
    expect(rows).toEqual([{ synchronous_commit: 'on' }]);
  });
});

test('what a form answers is true while replies to COMMIT are lost: 200 arrives, and what was not sent does not', async () => {
  const { proxy, url } = await startLine();
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port, server: { database: { url } } });
  const run = await appliance.startVerified();
  const load = startLoad({ url: appliance.formUrl, connections: 4 });
  for (let round = 0; round < 6; round++) {
    const { size } = load.accepted;
    await until('it works', () => load.accepted.size > size + 10, 60_000);
    const cuts = proxy.cuts();
    proxy.cutAt(COMMIT, round % 2 === 0 ? 'server has them' : 'server lacks them');
    await until('some are cut', () => proxy.cuts() > cuts + 2, 60_000);
    proxy.cutAt(undefined);
  }
  await load.stop();
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 90_000);
  const arrived = new Set(catcher.mails.map(({ reference }) => reference));
  expect([...load.accepted].filter((reference) => !arrived.has(reference))).toEqual([]);
  expect([...load.refused.keys()].filter((reference) => arrived.has(reference))).toEqual([]);
  expect([...load.refused.values()].filter((status) => status !== 503)).toEqual([]);
  expect(await run.end('SIGTERM')).toBe(0);
});

describe('a newer version that migrates beside this one', () => {
  test('adds columns: what is prepared goes on', async () => {
    const url = await postgres.createDatabase(`faults_${++databases}`);
    const store = await openStore(url);
    const look = () => Promise.all(Array.from({ length: 20 }, () => findDestination(store, 'example.com')));
    await store.write([noteDue({ name: 'example.com', due: 1 })]);
    expect(await look()).toMatchObject(Array.from({ length: 20 }, () => ({ name: 'example.com' })));
    await execute(url, 'ALTER TABLE destinations ADD COLUMN added bigint');
    expect(await look()).toMatchObject(Array.from({ length: 20 }, () => ({ name: 'example.com' })));
    await store.write([noteDue({ name: 'example.org', due: 1 })]);
    expect(await findDestination(store, 'example.org')).toMatchObject({ name: 'example.org' });
  });

  test('does not wait long for a lock, behind which all others would wait', async () => {
    const url = await postgres.createDatabase(`faults_${++databases}`);
    await openStore(url);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query('BEGIN; LOCK TABLE kysely_migration IN ACCESS EXCLUSIVE MODE');
    const error = await createStore(url).catch((cause: unknown) => cause);
    await client.end();
    expect(error).toBeInstanceOf(PassingError);
    expect(String(error)).toContain('canceling statement due to lock timeout');
  });
});

function portOf({ url }: Postgres): number {
  return Number(new URL(url).port);
}

/** Runs statements on a connection of its own. */
async function execute(url: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

const RELOAD = 'SELECT pg_reload_conf()';

describe('a server that takes no writes', () => {
  test('a standby ends the start with words and 1; promoted it serves', async () => {
    const server = await startPostgres([], { standby: true });
    onTestFinished(() => server.close());
    const catcher = await startCatcher();
    const appliance = await openAppliance({ deliverTo: catcher.port, server: { database: { url: server.url } } });
    const refused = await appliance.launch();
    expect(await refused.ended).toBe(1);
    expect(refused.output()).toContain('the server is a standby, which accepts no writes');
    await execute(server.url, 'SELECT pg_promote()');
    const run = await appliance.start();
    expect(await run.end('SIGTERM')).toBe(0);
  });

  test('default_transaction_read_only at the start: words and 1, also where nothing is to be migrated', async () => {
    const url = await postgres.createDatabase(`faults_${++databases}`);
    const name = new URL(url).pathname.slice(1);
    const catcher = await startCatcher();
    const appliance = await openAppliance({ deliverTo: catcher.port, server: { database: { url } } });
    for (const isMigrated of [false, true]) {
      await execute(postgres.url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      const refused = await appliance.launch();
      expect([isMigrated, await refused.ended]).toEqual([isMigrated, 1]);
      expect(refused.output()).toMatch(/cannot be opened: the server does not let this user write/);
      await execute(postgres.url, `ALTER DATABASE ${name} RESET default_transaction_read_only`);
      expect(await (await appliance.start()).end('SIGTERM')).toBe(0);
    }
  });

  test('while the daemon runs: 503 and nothing is sent; it recovers by itself', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.close());
    const catcher = await startCatcher();
    const appliance = await openAppliance({ deliverTo: catcher.port, server: { database: { url: server.url } } });
    const run = await appliance.startVerified();
    const load = startLoad({ url: appliance.formUrl, connections: 4 });
    await until('it works', () => load.accepted.size > 20);
    await execute(server.url, 'ALTER SYSTEM SET default_transaction_read_only = on', RELOAD);
    await until('it refuses', () => load.refused.size > 20);
    await until('it is not ready', async () => (await appliance.admin('/readyz')).status === 503);
    expect(await appliance.admin('/readyz')).toMatchObject({
      body: { checks: { database: { reason: 'the database cannot be written' } } },
    });
    expect(await appliance.admin('/healthz')).toMatchObject({ status: 200 });
    const { size } = load.accepted;
    await execute(server.url, 'ALTER SYSTEM RESET default_transaction_read_only', RELOAD);
    await until('it works again', () => load.accepted.size > size + 20);
    await load.stop();
    await until('the queue is empty', async () => (await appliance.waiting()) === 0, 90_000);
    expect([...new Set(load.refused.values())]).toEqual([503]);
    expect(catcher.mails.map(({ reference }) => reference).sort()).toEqual([...load.accepted].sort());
    expect(await run.end('SIGTERM')).toBe(0);
  });
});

test('a server that stops in the middle of everything: 503 until it goes on, nothing lost and nothing twice', async () => {
  const server = await startPostgres();
  onTestFinished(() => server.close());
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port, server: { database: { url: server.url } } });
  const run = await appliance.startVerified();
  const load = startLoad({ url: appliance.formUrl, connections: 4 });
  await until('it works', () => load.accepted.size > 20);
  server.freeze();
  const answers = await Promise.all(
    ['/admin/queue', '/admin/tenants', '/v1/forms'].map((path) => appliance.admin(path)),
  );
  for (const answer of answers) expect(answer).toMatchObject({ status: 503, body: { code: 'UNAVAILABLE' } });
  expect((await appliance.admin('/readyz')).status).toBe(503);
  expect((await appliance.admin('/healthz')).status).toBe(200);
  await until('a form refuses', () => load.refused.size > 0, 60_000);
  server.thaw();
  const { size } = load.accepted;
  await until('it works again', () => load.accepted.size > size + 20, 60_000);
  await load.stop();
  await until('the queue is empty', async () => (await appliance.waiting()) === 0, 90_000);
  expect([...new Set(load.refused.values())]).toEqual([503]);
  const arrived = Map.groupBy(catcher.mails, ({ reference }) => reference);
  expect([...load.accepted].filter((reference) => !arrived.has(reference))).toEqual([]);
  expect([...arrived.values()].filter(({ length }) => length > 1)).toEqual([]);
  expect(await run.end('SIGTERM')).toBe(0);
});
