import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { connectStore, createStore } from '../../src/store/database.ts';
import { recordEvent } from '../../src/store/events.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { obtainSecret } from '../../src/store/secrets.ts';
import { query } from '../../src/store/statement.ts';
import type { LimitRow } from '../../src/store/tables.ts';
import { StoreError, UnmetError } from '../../src/store/store.ts';
import { freshDatabase, openTestStore } from '../harness/store.ts';

const insert = query<{ bucket: string; count: number }>(
  (value) => sql`insert into limits (bucket, starts_at, count) values (${value('bucket')}, 0, ${value('count')})`,
);
const bump = query<{ bucket: string }, { bucket: string; count: number }>(
  (value) => sql`update limits set count = count + 1 where bucket = ${value('bucket')} returning bucket, count`,
);
const buckets = query<object, LimitRow>(() => sql`select * from limits order by bucket`);

test('a unit is written whole and read back, with the rows that its statements return', async () => {
  const store = await openTestStore();
  const [, second] = await store.write([insert({ bucket: 'a', count: 1 }), bump({ bucket: 'a' })]);
  expect(second).toEqual({ rows: [{ bucket: 'a', count: 2 }], changes: 1 });
  expect(await store.select(buckets({}))).toEqual([{ bucket: 'a', starts_at: 0, count: 2 }]);
});

test('a unit whose last statement fails leaves nothing, and its neighbours in the same commit are written', async () => {
  const store = await openTestStore();
  await store.write([insert({ bucket: 'taken', count: 0 })]);
  const outcomes = await Promise.allSettled([
    store.write([insert({ bucket: 'before', count: 1 })]),
    store.write([insert({ bucket: 'half', count: 1 }), insert({ bucket: 'taken', count: 1 })]),
    store.write([insert({ bucket: 'after', count: 1 })]),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(outcomes[1]).toMatchObject({ reason: expect.any(StoreError) });
  expect((await store.select(buckets({}))).map(({ bucket }) => bucket)).toEqual(['after', 'before', 'taken']);
});

test('an expectation that does not hold undoes the unit and says so', async () => {
  const store = await openTestStore();
  const unit = store.write([insert({ bucket: 'a', count: 1 }), bump({ bucket: 'not there' }, 1)]);
  await expect(unit).rejects.toThrow(UnmetError);
  expect(await store.select(buckets({}))).toEqual([]);
  await store.write([insert({ bucket: 'a', count: 1 }), bump({ bucket: 'a' }, 1)]);
});

test('a thousand units at once are all written', async () => {
  const store = await openTestStore();
  await Promise.all(Array.from({ length: 1000 }, (_, i) => store.write([insert({ bucket: `b${i}`, count: i })])));
  expect((await store.select(buckets({}))).length).toBe(1000);
});

test('units that lock the same rows in opposite order all go through', async () => {
  const store = await openTestStore();
  await store.write([insert({ bucket: 'a', count: 0 }), insert({ bucket: 'b', count: 0 })]);
  const units = Array.from({ length: 4 }, (_, i) => (i % 2 === 0 ? ['a', 'b'] : ['b', 'a']));
  await Promise.all(units.map((names) => store.write(names.map((bucket) => bump({ bucket })))));
  expect(await store.select(buckets({}))).toMatchObject([{ count: 4 }, { count: 4 }]);
});

test('a forgotten value is an error, not a null', async () => {
  const store = await openTestStore();
  // @ts-expect-error -- the type already forbids it
  await expect(async () => store.write([insert({ bucket: 'a' })])).rejects.toThrow('no value for count');
});

test('what was written is there after the store was closed and opened again', async () => {
  const url = await freshDatabase();
  const first = await createStore(url);
  await first.write([insert({ bucket: 'kept', count: 7 })]);
  await first.close();
  const second = await createStore(url);
  expect(await second.select(buckets({}))).toMatchObject([{ bucket: 'kept', count: 7 }]);
  await second.close();
});

test('another thread writes and reads through the shared handle', async () => {
  const store = await openTestStore();
  const other = await connectStore(store.share());
  await other.write([insert({ bucket: 'theirs', count: 1 })]);
  await store.write([insert({ bucket: 'ours', count: 2 })]);
  expect((await other.select(buckets({}))).map(({ bucket }) => bucket)).toEqual(['ours', 'theirs']);
  await other.close();
  await store.write([insert({ bucket: 'still open', count: 3 })]);
});

test('a secret is made once and stays', async () => {
  const store = await openTestStore();
  const [one, two] = await Promise.all([obtainSecret(store, 'srs', 1), obtainSecret(store, 'srs', 2)]);
  expect(one.length).toBe(32);
  expect(two.equals(one)).toBe(true);
  expect((await obtainSecret(store, 'other', 3)).equals(one)).toBe(false);
});

test('an event is kept with what it is about', async () => {
  const store = await openTestStore();
  await store.write([
    recordEvent({ type: 'domain.verified', tenant: OPERATOR, at: 5, data: { why: 'asked' }, domain: 'example.com' }),
  ]);
  const rows = await store.read.selectFrom('events').selectAll().execute();
  expect(rows).toMatchObject([
    { type: 'domain.verified', domain: 'example.com', data: '{"why":"asked"}', message: null },
  ]);
});
