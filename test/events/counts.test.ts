import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { createEventCounts, type Counted, type EventCounts } from '../../src/events/counts.ts';
import { recordEvent, type NewEvent } from '../../src/store/events.ts';
import { query } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NEW_YEAR = Date.UTC(2026, 0, 1);

const forgetAll = query<object>(() => sql`delete from events`);

function record(store: Store, ...events: Partial<NewEvent>[]): Promise<unknown> {
  return store.write(
    events.map((event) => recordEvent({ type: 'email.queued', tenant: 'ten_a', at: NEW_YEAR, data: {}, ...event })),
  );
}

async function all(counts: EventCounts, tenant: string, from: number, until: number): Promise<Counted[]> {
  const rows: Counted[] = [];
  for await (const slice of counts.of(tenant, { from, until })) rows.push(...slice);
  return rows;
}

const total = (rows: readonly Counted[]) => rows.reduce((sum, { count }) => sum + count, 0);

test('an event counts at once, and once, before its hour is rolled up and after', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const counts = createEventCounts({ store, clock });
  await record(store, { domain: 'one.example' }, { domain: 'one.example' }, {}, { tenant: 'ten_b' });
  const fresh = { type: 'email.queued', from: NEW_YEAR, until: NEW_YEAR + 1, form: '' };
  expect(await all(counts, 'ten_a', NEW_YEAR - DAY, NEW_YEAR + DAY)).toEqual(
    expect.arrayContaining([
      { ...fresh, domain: '', count: 1 },
      { ...fresh, domain: 'one.example', count: 2 },
    ]),
  );
  for (const step of [4 * MINUTE, HOUR, HOUR, 3 * DAY, 40 * DAY]) {
    clock.advance(step);
    expect(total(await all(counts, 'ten_a', NEW_YEAR - DAY, clock.now() + 1))).toBe(3);
    expect(total(await all(counts, 'ten_b', NEW_YEAR - DAY, clock.now() + 1))).toBe(1);
  }
  expect(await all(counts, 'ten_a', NEW_YEAR, NEW_YEAR + HOUR)).toEqual(
    expect.arrayContaining([{ ...fresh, until: NEW_YEAR + HOUR, domain: 'one.example', count: 2 }]),
  );
});

test('counts outlive the events, and daemons that share a store count no hour twice', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const [one, two] = [createEventCounts({ store, clock }), createEventCounts({ store, clock })];
  for (let hour = 0; hour < 50; hour += 5)
    await record(store, { at: NEW_YEAR + hour * HOUR }, { at: NEW_YEAR + hour * HOUR + 1 });
  clock.advance(3 * DAY);
  await Promise.all([one.rollUp(), two.rollUp(), one.rollUp()]);
  await store.write([forgetAll({})]);
  const third = createEventCounts({ store, clock });
  for (const counts of [one, two, third]) {
    expect(total(await all(counts, 'ten_a', NEW_YEAR, clock.now()))).toBe(20);
    expect(total(await all(counts, 'ten_a', NEW_YEAR + 5 * HOUR, NEW_YEAR + 15 * HOUR))).toBe(4);
  }
  const each: [string, string, number][] = [];
  for await (const rows of one.ofAll({ from: NEW_YEAR, until: clock.now() })) {
    each.push(...rows.map(({ tenant, type, count }): [string, string, number] => [tenant, type, count]));
  }
  expect(each.reduce((sum, [, , count]) => sum + count, 0)).toBe(20);
});

test('a span that begins and ends within hours is exact', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const counts = createEventCounts({ store, clock });
  for (let minute = 0; minute < 240; minute++) await record(store, { at: NEW_YEAR + minute * MINUTE });
  clock.advance(DAY);
  const at = (minute: number) => NEW_YEAR + minute * MINUTE;
  for (const [from, until] of [
    [0, 240],
    [30, 210],
    [61, 62],
    [59, 61],
    [60, 120],
    [90, 100],
    [-1000, 1],
    [239, 5000],
  ] as const) {
    expect(total(await all(counts, 'ten_a', at(from), at(until)))).toBe(Math.min(240, until) - Math.max(0, from));
  }
});
