/** What the operator watches, on both databases. */
import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { pauseDestination, setHeld } from '../../src/store/destinations.ts';
import { countQueuedSince, readFigures, worstDestinations } from '../../src/store/figures.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 31, 12);

test('the queue by state, what was queued lately, and the worst destinations first', async () => {
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', NOW);
  const mail = {
    tenant: OPERATOR,
    kind: 'system',
    submission: null,
    domain: 'example.com',
    source: {},
    ttl: 3_600_000,
  } as const;
  await store.write(enqueue({ ...mail, recipients: ['a@one.example', 'b@two.example'] }, NOW - 120_000).unit);
  await store.write(enqueue({ ...mail, recipients: ['c@two.example', 'd@three.example'] }, NOW).unit);
  const failing = { failures: 6, pauses: 2, paused_until: NOW + 600_000, last_error: 'timed out', line: '' };
  await store.write([
    pauseDestination({ name: 'three.example', ...failing }),
    setHeld({ name: 'two.example', held: 1 }),
    setHeld({ name: 'idle.example', held: 0 }),
  ]);
  expect((await readFigures(store, NOW)).deliveries).toEqual([{ state: 'queued', transport: 'smtp', count: 4 }]);
  expect(await countQueuedSince(store, NOW - 60_000)).toBe(2);
  expect(await countQueuedSince(store, NOW - 180_000)).toBe(4);
  const worst = await worstDestinations(store, 10);
  expect(worst.map(({ destination, waiting, held, last_error: error }) => [destination, waiting, held, error])).toEqual(
    [
      ['three.example', 1, 0, 'timed out'],
      ['two.example', 2, 1, null],
      ['one.example', 1, 0, null],
    ],
  );
  expect(await worstDestinations(store, 1)).toHaveLength(1);
});
