import { expect, test } from 'vitest';
import { createEventCounts, forgetOldEvents } from '../../src/events/counts.ts';
import { recordEvent } from '../../src/store/events.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const NEW_YEAR = Date.UTC(2026, 0, 1);

test('events go with their age, all of them, and their counts stay', async () => {
  const clock = testClock(NEW_YEAR + 10 * DAY);
  const store = await openTestStore();
  const counts = createEventCounts({ store, clock });
  const event = { type: 'email.queued', tenant: 'ten_a', data: {} } as const;
  for (let day = 0; day < 10; day++) {
    const at = NEW_YEAR + day * DAY;
    await store.write(Array.from({ length: 300 }, (_, i) => recordEvent({ ...event, at: at + i })));
  }
  const kept = async () => {
    const { count } = await store.read
      .selectFrom('events')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return count;
  };
  const forget = (days: number) =>
    forgetOldEvents({ store, clock, counts, config: () => ({ retention: { events: days * DAY } }) });
  await forget(30);
  expect(await kept()).toBe(3000);
  await forget(3);
  expect(await kept()).toBe(900);
  let counted = 0;
  for await (const rows of counts.of('ten_a', { from: NEW_YEAR, until: clock.now() })) {
    for (const { count } of rows) counted += count;
  }
  expect(counted).toBe(3000);
});
