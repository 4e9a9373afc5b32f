/** Events on PostgreSQL by day: days that are over are dropped, and what was there before the table had partitions goes on. */
import { Kysely, PostgresDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createEventCounts, forgetOldEvents } from '../../src/events/counts.ts';
import { newId, timeOfId } from '../../src/lib/ids.ts';
import { createStore } from '../../src/store/database.ts';
import { addEventDays } from '../../src/store/event-days.ts';
import { eventsAmong, findEvent, recordEvent } from '../../src/store/events.ts';
import { migrationsFor } from '../../src/store/migrations/index.ts';
import type { Store } from '../../src/store/store.ts';
import { until } from '../harness/child.ts';
import { testClock } from '../harness/clock.ts';
import { startPostgres, type Postgres } from '../harness/postgres.ts';

let postgres: Postgres;
let databases = 0;
beforeAll(async () => {
  postgres = await startPostgres(['autovacuum=off'], { inMemory: true });
});
afterAll(() => postgres.close());

const DAY = 86_400_000;
const EVENT = { type: 'email.queued', tenant: 'ten_a', data: {} } as const;
const today = Math.floor(Date.now() / DAY) * DAY;
/** Later than what the partition of before has. */
const LATER = today + 30 * DAY;

async function open(url?: string): Promise<{ store: Store; client: pg.Client }> {
  const at = url ?? (await postgres.createDatabase(`days_${++databases}`));
  const store = await createStore(at);
  const client = new pg.Client({ connectionString: at });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await store.close();
  });
  return { store, client };
}

async function record(store: Store, at: number, count = 1): Promise<string[]> {
  const before = new Set(await ids(store));
  await store.write(Array.from({ length: count }, () => recordEvent({ ...EVENT, at })));
  return (await ids(store)).filter((id) => !before.has(id));
}

async function ids(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('events').select('id').orderBy('id').execute();
  return rows.map(({ id }) => id);
}

/** Keeps what is at most so many days old at `now`. */
async function forget(store: Store, now: number, days: number): Promise<void> {
  const clock = testClock(now);
  const counts = createEventCounts({ store, clock });
  await forgetOldEvents({ store, clock, counts, config: () => ({ retention: { events: days * DAY } }) });
}

/** The same until it has had the lock. */
async function untilForgotten(store: Store, now: number, days: number): Promise<void> {
  await until('what is too old is gone', async () => {
    await forget(store, now, days);
    const [oldest = newId('evt', now)] = await ids(store);
    return timeOfId(oldest) >= now - (now % DAY) - days * DAY;
  });
}

/** What the events take of the disk, bytes. */
async function size(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ bytes: number }>(
    "select sum(pg_total_relation_size(relid))::int as bytes from pg_partition_tree('events')",
  );
  return rows[0]?.bytes ?? 0;
}

test('a day whose events are too old goes with its files, and no other event', async () => {
  const { store, client } = await open();
  await addEventDays(store, LATER);
  await addEventDays(store, LATER);
  for (let day = 0; day < 3; day++) await record(store, LATER + day * DAY + 1, 100);
  const kept = (await ids(store)).slice(100);
  const before = await size(client);
  // To the millisecond before the day is over for good.
  await forget(store, LATER + 3 * DAY - 1, 2);
  expect(await ids(store)).toHaveLength(300);
  await untilForgotten(store, LATER + 3 * DAY, 2);
  expect(await ids(store)).toEqual(kept);
  expect(await size(client)).toBeLessThan(before);
});

test('while somebody reads the table, nobody waits for the drop of a day, which comes later', async () => {
  const { store, client } = await open();
  await addEventDays(store, LATER);
  await record(store, LATER, 10);
  await client.query('begin');
  await client.query('select count(*) from events');
  await forget(store, LATER + 40 * DAY, 1);
  expect(await ids(store)).toHaveLength(10);
  await client.query('commit');
  await untilForgotten(store, LATER + 40 * DAY, 1);
  expect(await ids(store)).toEqual([]);
});

test('events of a clock that was far ahead are there, are found, and go with their age', async () => {
  const { store } = await open();
  const [id = ''] = await record(store, LATER + 3 * DAY);
  // Their day has no partition any more, and those around it have.
  await addEventDays(store, LATER);
  await record(store, LATER, 5);
  expect(await findEvent(store, id)).toMatchObject({ id });
  expect(await eventsAmong(store, await ids(store))).toHaveLength(6);
  await untilForgotten(store, LATER + 3 * DAY, 1);
  expect(await ids(store)).toEqual([id]);
  await untilForgotten(store, LATER + 6 * DAY, 1);
  expect(await ids(store)).toEqual([]);
});

/** A database of the version before with these events, and a connection of that version. */
async function old(times: readonly number[]): Promise<{ url: string; before: pg.Client }> {
  const url = await postgres.createDatabase(`days_${++databases}`);
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
  const { '0057-events-by-day': _later, ...migrations } = migrationsFor('postgres');
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } });
  expect((await migrator.migrateToLatest()).error).toBeUndefined();
  await db.destroy();
  const before = new pg.Client({ connectionString: url });
  await before.connect();
  onTestFinished(() => before.end());
  for (const at of times) await insertOld(before, at);
  return { url, before };
}

/** As that version does, which keeps its statement prepared. */
async function insertOld(client: pg.Client, at: number): Promise<void> {
  const row = { id: newId('evt', at), tenant: 'ten_a', type: 'email.queued', data: '{}', created_at: at };
  const columns = Object.keys(row).join(', ');
  const text = `insert into events (${columns}) select ${columns} from json_populate_recordset(null::events, $1)`;
  await client.query({ name: 'insert', text, values: [JSON.stringify([row])] });
}

test('a database of the version before keeps its events, and that version goes on beside this one', async () => {
  const { url, before } = await old([today - 20 * DAY, today]);
  const { store } = await open(url);
  await addEventDays(store, today + 20 * DAY);
  await insertOld(before, today + 1);
  await insertOld(before, today + 20 * DAY);
  expect(await ids(store)).toHaveLength(4);
  await untilForgotten(store, today + 1, 10);
  expect(await ids(store)).toHaveLength(3);
  // The old table is dropped when all that it may have is too old.
  await untilForgotten(store, today + 30 * DAY, 11);
  expect(await ids(store)).toHaveLength(1);
});

test('a database with events of a clock that was far ahead is opened, and keeps them', async () => {
  const { url } = await old([today, LATER]);
  const { store } = await open(url);
  await addEventDays(store, today);
  await record(store, today);
  expect(await ids(store)).toHaveLength(3);
  await untilForgotten(store, LATER + 5 * DAY, 1);
  expect(await ids(store)).toEqual([]);
});
