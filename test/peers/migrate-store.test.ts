/** `postern migrate-store` with a real PostgreSQL: there and back, through a kill in the middle, with keys and queue. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HOSTNAME, openAppliance, type Appliance } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { startChild, until } from '../harness/child.ts';
import { LAUNCHER, runBinary } from '../harness/command.ts';
import { sendMany } from '../harness/load.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';

let postgres: Postgres;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

const ACCEPTS = ['http', 'smtp'];

/** A server on SQLite that has accepted mail, sent none of it, and ended. */
async function queued(count: number): Promise<{ appliance: Appliance; catcher: Catcher; accepted: string[] }> {
  const catcher = await startCatcher();
  const appliance = await openAppliance({ deliverTo: catcher.port });
  await appliance.configure({ server: { roles: ACCEPTS } });
  const run = await appliance.startVerified();
  const load = await sendMany({
    url: appliance.formUrl,
    connections: 8,
    count,
    kind: (n) => (n % 50 ? 'plain' : 'file'),
  });
  expect(load.accepted.size).toBe(count);
  expect(await run.end('SIGTERM')).toBe(0);
  return { appliance, catcher, accepted: [...load.accepted].sort() };
}

function migrate({ folder }: Appliance, url: string) {
  return runBinary(['migrate-store', url, '--config', join(folder, 'server.yml')], { folder });
}

async function ask<Row extends object>(url: string, query: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(query)).rows;
  } finally {
    await client.end();
  }
}

/** Starts the daemon on this database, and waits until all mail has arrived. */
async function deliver({ appliance, catcher, accepted }: Awaited<ReturnType<typeof queued>>, url: string) {
  await appliance.configure({ database: { url }, server: { roles: [...ACCEPTS, 'delivery'] } });
  const run = await appliance.start();
  await until('all mail has arrived', () => catcher.count() === accepted.length);
  return run;
}

test('killed in the middle it goes on where it was; then keys and queue are in PostgreSQL, and each mail is sent once', async () => {
  const server = await queued(1500);
  const { appliance, catcher, accepted } = server;
  const url = await postgres.createDatabase('moved');
  const key = await appliance.look((db) =>
    db.selectFrom('dkim_keys').select('public_key').where('domain', '=', HOSTNAME).execute(),
  );
  const args = ['migrate-store', url, '--config', join(appliance.folder, 'server.yml')];
  const child = await startChild(LAUNCHER, args, { cwd: appliance.folder });
  await until('some rows are there', async () => {
    // Messages are copied before their deliveries, so that much is left when this is seen.
    const rows = await ask<{ count: number }>(url, 'select count(*)::int as count from messages').catch(() => []);
    return (rows[0]?.count ?? 0) > 0;
  });
  process.kill(child.pid, 'SIGKILL');
  expect(await child.ended).toBe(null);
  const [part] = await ask<{ count: number }>(url, 'select count(*)::int as count from deliveries');
  expect(part?.count).toBeLessThan(accepted.length);
  // Nobody starts on half a database.
  await appliance.configure({ database: { url } });
  const early = await appliance.launch();
  expect(await early.ended).toBe(78);
  expect(early.output()).toContain('another database is being copied into it: run postern migrate-store again');
  await appliance.configure({ database: { url: appliance.database } });
  // What was copied and then changed is found.
  const source = new Database(appliance.database.slice('sqlite:'.length));
  source.exec('update config_revisions set created_at = created_at + 1');
  expect(await migrate(appliance, url)).toMatchObject({
    code: 78,
    err: expect.stringContaining('The table config_revisions differs between the databases'),
  });
  source.exec('update config_revisions set created_at = created_at - 1');
  source.close();
  const { code, out, err } = await migrate(appliance, url);
  expect([code, err]).toEqual([0, '']);
  expect(out).toMatch(
    /^Copied \d+ rows in \d+ tables \(\d+ of them before the interruption\); all tables are identical/,
  );
  const run = await deliver(server, url);
  expect(catcher.mails.map(({ reference }) => reference).sort()).toEqual(accepted);
  expect((await appliance.probe()).status).toBe(400); // its domain is verified
  expect(await ask(url, `select public_key from dkim_keys where domain = '${HOSTNAME}'`)).toEqual(key);
  expect(await run.end('SIGTERM')).toBe(0);
});

test('to PostgreSQL and back it is the same', async () => {
  const server = await queued(100);
  const { appliance, catcher, accepted } = server;
  const url = await postgres.createDatabase('there_and_back');
  expect((await migrate(appliance, url)).code).toBe(0);
  await appliance.configure({ database: { url } });
  const back = `sqlite:${join(appliance.folder, 'back.db')}`;
  expect(await migrate(appliance, back)).toMatchObject({ code: 0, err: '' });
  const run = await deliver(server, back);
  expect(catcher.mails.map(({ reference }) => reference).sort()).toEqual(accepted);
  expect(await run.end('SIGTERM')).toBe(0);
});

test('a database in use, one that is not empty, and one of the same kind are refused', async () => {
  const { appliance } = await queued(1);
  const url = await postgres.createDatabase('refused');
  const run = await appliance.start();
  expect(await migrate(appliance, url)).toMatchObject({
    code: 1,
    err: expect.stringContaining('Stop it first: systemctl stop postern'),
  });
  expect(await run.end('SIGTERM')).toBe(0);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  expect(await migrate(appliance, url)).toMatchObject({
    code: 1,
    err: expect.stringContaining('is in use (connections: 1)'),
  });
  await client.end();
  const other = await postgres.createDatabase('other');
  await ask(other, 'create table mine (id int)');
  expect(await migrate(appliance, other)).toMatchObject({
    code: 78,
    err: expect.stringContaining('The target is not empty'),
  });
  expect(await ask(other, "select tablename from pg_tables where schemaname = 'public'")).toEqual([
    { tablename: 'mine' },
  ]);
  const away = 'postgres://postern:secret@127.0.0.1:1/postern';
  const refused = await migrate(appliance, away);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('The PostgreSQL database cannot be used') });
  expect(refused.err).not.toContain('secret');
  expect(await migrate(appliance, `sqlite:${join(appliance.folder, 'b.db')}`)).toMatchObject({
    code: 78,
    err: expect.stringContaining('One of the databases must be SQLite and the other PostgreSQL'),
  });
});
