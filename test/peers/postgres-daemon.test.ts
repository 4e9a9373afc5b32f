/** The same program on PostgreSQL: one daemon, two that share the work, one that dies, and a database that hangs up. */
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openAppliance, type Appliance } from '../harness/binary.ts';
import { startCatcher, type Catcher } from '../harness/catcher.ts';
import { until } from '../harness/child.ts';
import { sendMany, startLoad, type Tally } from '../harness/load.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';

let postgres: Postgres;
let databases = 0;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.close());

interface World {
  readonly catcher: Catcher;
  readonly url: string;
  /** Share the database. */
  readonly first: Appliance;
  readonly second: Appliance;
}

/** Two daemons of one configuration that do not run yet, in an empty database. */
async function world(): Promise<World> {
  const catcher = await startCatcher();
  const url = await postgres.createDatabase(`daemon_${++databases}`);
  const first = await openAppliance({ deliverTo: catcher.port, server: { database: { url } } });
  const second = await openAppliance({ deliverTo: catcher.port, server: { database: { url } }, dns: first.dns });
  return { catcher, url, first, second };
}

function references({ mails }: Catcher): string[] {
  return mails.map(({ reference }) => reference).sort();
}

function emptied(appliance: Appliance, ms: number): Promise<void> {
  return until('the queue is empty', async () => (await appliance.waiting()) === 0, ms);
}

function promised({ accepted, refused, unanswered }: Tally) {
  return { accepted: accepted.size, refused: [...refused], unanswered: unanswered.size };
}

test('a daemon on PostgreSQL delivers what it accepts, once, and after a restart goes on', async () => {
  const { catcher, first } = await world();
  const run = await first.startVerified();
  const load = await sendMany({
    url: first.formUrl,
    connections: 8,
    count: 200,
    kind: (n) => (n % 20 === 0 ? 'file' : n % 20 === 1 ? 'without message' : 'plain'),
  });
  expect({ accepted: load.accepted.size, refused: new Set(load.refused.values()) }).toEqual({
    accepted: 190,
    refused: new Set([400]),
  });
  expect(await run.end('SIGTERM')).toBe(0);
  const again = await first.start();
  await emptied(first, 60_000);
  expect(references(catcher)).toEqual([...load.accepted].sort());
  expect(await again.end('SIGTERM')).toBe(0);
});

test('two daemons on one database deliver five hundred submissions between them, each once', async () => {
  const { catcher, first, second } = await world();
  const runs = [await first.startVerified(), await second.start()];
  const load = await sendMany({ url: [first.formUrl, second.formUrl], connections: 16, count: 500 });
  expect(promised(load)).toEqual({ accepted: 500, refused: [], unanswered: 0 });
  await emptied(first, 60_000);
  expect(references(catcher)).toEqual([...load.accepted].sort());
  for (const run of runs) expect(await run.end('SIGTERM')).toBe(0);
});

test('mail that comes while its destination is being served leaves at once, too', async () => {
  const { catcher, first } = await world();
  const run = await first.startVerified();
  for (let sent = 3; sent <= 150; sent += 3) {
    await sendMany({ url: first.formUrl, connections: 3, count: 3 });
    await until(`${sent} mails have arrived`, () => catcher.count() === sent, 5000);
  }
  expect(await run.end('SIGTERM')).toBe(0);
});

test('what a daemon had leased when it was killed, another delivers within seconds', async () => {
  const { catcher, first, second } = await world();
  const victim = await first.startVerified();
  await second.start();
  const load = startLoad({ url: [first.formUrl, second.formUrl], connections: 8 });
  await until('both deliver', () => catcher.count() > 50);
  expect(await victim.end('SIGKILL')).toBe(null);
  const { size } = load.accepted;
  await until('the other goes on', () => load.accepted.size > size + 20);
  await load.stop();
  // Within 15 s of the end it is due again; the rest is for the machine of the test. A lease alone would last 60 s.
  await emptied(second, 40_000);
  const arrived = new Set(references(catcher));
  expect([...load.accepted].filter((reference) => !arrived.has(reference))).toEqual([]);
  expect([...load.refused]).toEqual([]);
  const again = [...Map.groupBy(catcher.mails, ({ reference }) => reference).values()].filter(
    ({ length }) => length > 1,
  );
  for (const copies of again) expect(new Set(copies.map(({ messageId }) => messageId)).size).toBe(1);
  const repeated = again.flatMap((copies) => copies.slice(0, -1));
  // One message in flight on each connection.
  expect(new Set(repeated.map(({ connection }) => connection)).size).toBe(repeated.length);
});

test('a database that hangs up is 503 at worst: the daemon stays, loses nothing and sends nothing that it refused', async () => {
  const { catcher, url, first } = await world();
  const run = await first.startVerified();
  const load = startLoad({ url: first.formUrl, connections: 8 });
  for (let i = 0; i < 5; i++) {
    const { size } = load.accepted;
    await until('it works', () => load.accepted.size > size + 20);
    await hangUp(url);
  }
  const { size } = load.accepted;
  await until('it works again', () => load.accepted.size > size + 20);
  await load.stop();
  await emptied(first, 60_000);
  expect(load.unanswered.size).toBe(0);
  expect([...load.refused.values()].filter((status) => status !== 503)).toEqual([]);
  const arrived = new Set(references(catcher));
  expect([...load.accepted].filter((reference) => !arrived.has(reference))).toEqual([]);
  expect([...load.refused.keys()].filter((reference) => arrived.has(reference))).toEqual([]);
  expect(catcher.mails.length).toBe(arrived.size);
  expect(await run.end('SIGTERM')).toBe(0);
});

/** Ends every session of the database, as a restart of the server or a fail-over does. */
async function hangUp(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
    new URL(url).pathname.slice(1),
  ]);
  await client.end();
}
