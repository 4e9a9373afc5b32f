/** Where a stream of events begins and goes on, on SQLite and on PostgreSQL. */
import { expect, test } from 'vitest';
import { createEventStreams } from '../../src/events/streams.ts';
import { silentLog } from '../../src/lib/log.ts';
import { recordEvent } from '../../src/store/events.ts';
import type { Store } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 1);

async function happen(store: Store, tenant: string, ...times: number[]): Promise<void> {
  for (const at of times) await store.write([recordEvent({ type: 'email.queued', tenant, at, data: {} })]);
}

/** The next texts of a stream, while its clock goes on. */
async function take(stream: AsyncIterator<string>, advance: () => void): Promise<string> {
  let text: string | undefined;
  const next = stream.next().then(({ value }) => (text = String(value)));
  while (text === undefined) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    advance();
  }
  await next;
  return text;
}

test('it goes on after the last event, in the order of time, with what came late', async () => {
  const store = await openTestStore();
  const clock = testClock(NOW);
  const streams = createEventStreams({ store, clock, log: silentLog });
  await happen(store, 'ten_a', NOW - 20_000, NOW - 9000, NOW - 8000);
  await happen(store, 'ten_b', NOW - 7000);
  const rows = await store.read.selectFrom('events').selectAll().orderBy('id').execute();
  const opened = streams.open({
    account: 'ten_a',
    after: rows.find(({ created_at: at }) => at === NOW - 9000)?.id,
    permit: () => Promise.resolve({ tenant: 'ten_a' }),
    format: ({ created_at: at }) => String(at - NOW),
    gone: new AbortController().signal,
    hangUp: () => undefined,
  });
  if (opened.kind !== 'open') throw new Error('it is not open');
  const stream = opened.stream[Symbol.asyncIterator]();
  const advance = () => clock.advance(500);
  expect(await take(stream, advance)).toBe('retry: 3000\n\n');
  // The last one that it got is within the overlap.
  const dataOf = (text: string) => [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => Number(data));
  expect(dataOf(await take(stream, advance))).toEqual([-9000, -8000]);
  await happen(store, 'ten_a', NOW - 8500);
  expect(dataOf(await take(stream, advance))).toEqual([-8500]);
  streams.close();
  expect(await stream.next()).toMatchObject({ done: true });
});
