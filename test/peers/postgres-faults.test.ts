/** A PostgreSQL server behind a line that fails: every answer of the store is true, and no connection is waited for for good. */
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { PassingError, UserError } from '../../src/lib/errors.ts';
import { createStore } from '../../src/store/database.ts';
import { define } from '../../src/store/statement.ts';
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

const insert = define<{ name: string }>()((db, value) =>
  db.insertInto('secrets').values({ name: value('name'), value: 'x', created_at: 1 }),
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

test('connections that have become black holes are cut and replaced', async () => {
  const { proxy, url } = await startLine();
  const store = await openStore(url);
  await Promise.all(Array.from({ length: 20 }, (_, i) => write(store, `before ${i}`)));
  proxy.blackHole();
  await until('a write succeeds', () => works(write(store, 'after')));
  await until('a read succeeds', () => works(names(store)));
  expect(await names(store)).toContain('after');
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
