import { describe, expect, test } from 'vitest';
import {
  messagesLeft,
  placeDeliveries,
  placesFor,
  recountWaiting,
  checkQuota,
  type Countable,
} from '../../src/accounts/message-limits.ts';
import type { Principal } from '../../src/accounts/principal.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import type { TenantRow } from '../../src/store/tables.ts';
import { foldMessageCounts, messagesOfAll } from '../../src/store/usage.ts';
import { OPERATOR, saveOperator, changeTenant, findTenant } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The start of a UTC day. */
const START = 20_000 * DAY;

describe('the times at which there is room', () => {
  const allowance = { plan: 'free', per_hour: 3, per_day: 5 };
  const cases = [
    ['at once', [], 3, [[0, 3]]],
    [
      'an hour and a day later',
      [],
      9,
      [
        [0, 3],
        [HOUR, 2],
        [DAY, 3],
        [DAY + HOUR, 1],
      ],
    ],
    [
      'as the hour empties',
      [[-30 * MINUTE, 2]],
      3,
      [
        [0, 1],
        [30 * MINUTE, 2],
      ],
    ],
    [
      'behind those who wait',
      [
        [0, 3],
        [HOUR, 2],
      ],
      1,
      [[DAY, 1]],
    ],
    ['not before the day has room', [[-2 * HOUR, 5]], 1, [[DAY - 2 * HOUR, 1]]],
  ] as const;
  test.each(cases)('%s', (_, known, count, places) => {
    const slices = known.map(([at, used]) => ({ starts_at: START + at, count: used }));
    const found = placesFor(slices, allowance, { from: START, count });
    expect(found).toEqual(places.map(([at, some]) => ({ at: START + at, count: some })));
  });

  test('no limit: all at once, whatever was sent', () => {
    const known = [{ starts_at: START, count: 1_000_000 }];
    const none = { plan: 'enterprise', per_hour: null, per_day: null };
    expect(placesFor(known, none, { from: START, count: 7 })).toEqual([{ at: START, count: 7 }]);
  });
});

async function start(free: object = { messages_per_hour: 3, messages_per_day: 5 }) {
  const store = await openTestStore();
  const clock = testClock(START + 12 * HOUR);
  const config = serverSchema.parse({
    server: { hostname: 'mail.example.net', operator: 'ops@example.net' },
    plans: { free },
  });
  await saveOperator(store, 'ops@example.net', clock.now());
  const { tenant: id } = await testKey(store, { now: clock.now() });
  const parts = { store, clock, config };
  const limits = {
    checkQuota: (who: Pick<Principal, 'tenant' | 'environment'>, count: number) => checkQuota(who, count, parts),
    place: (deliveries: readonly Countable[]) => placeDeliveries(deliveries, parts),
    look: (tenant: TenantRow) => messagesLeft(tenant, parts),
    release: (tenant?: string) => recountWaiting(parts, tenant),
  };
  return {
    store,
    clock,
    limits,
    id,
    async send(count: number, of = id, environment: 'live' | 'test' = 'live') {
      const tenant = await findTenant(store, of);
      if (tenant === undefined) throw new Error('no such tenant');
      const quota = await limits.checkQuota({ tenant, environment }, count);
      if (quota.kind === 'allowed') await store.write(quota.unit);
      return quota.kind === 'later' ? `later: ${(quota.at - clock.now()) / MINUTE} min` : quota.kind;
    },
  };
}

describe('what programs send', () => {
  test('is taken while the hour and the day have quota, and told when there is some again', async () => {
    const { clock, send } = await start();
    expect([await send(2), await send(1), await send(1)]).toEqual(['allowed', 'allowed', 'later: 60 min']);
    clock.advance(HOUR);
    expect([await send(2), await send(1)]).toEqual(['allowed', `later: ${23 * 60} min`]);
  });

  test('with more recipients than any window holds is never taken', async () => {
    const { send } = await start();
    expect(await send(4)).toBe('never');
  });

  test('of the operator and of test keys is not counted', async () => {
    const { send } = await start();
    expect([await send(500, OPERATOR), await send(500, undefined, 'test'), await send(3)]).toEqual(
      Array(3).fill('allowed'),
    );
  });

  test('at the same time never exceeds the limit together', async () => {
    const { limits, store, id } = await start();
    const tenant = await findTenant(store, id);
    if (tenant === undefined) throw new Error('no such tenant');
    const rooms = await Promise.all(
      Array.from({ length: 8 }, () => limits.checkQuota({ tenant, environment: 'live' }, 1)),
    );
    const written = await Promise.allSettled(
      rooms.map((quota) => (quota.kind === 'allowed' ? store.write(quota.unit) : Promise.resolve(0))),
    );
    expect(written.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  });

  test('goes by the numbers of the tenant where it has some', async () => {
    const { store, id, send } = await start();
    await store.write(changeTenant(id, { messages_per_hour: 10, messages_per_day: 20 }));
    expect([await send(9), await send(2)]).toEqual(['allowed', 'later: 60 min']);
  });
});

test('what strangers cause waits for its turn, one behind the other, and programs stand behind it', async () => {
  const { limits, id, clock, send } = await start();
  const all = Array.from({ length: 6 }, (_, i) => ({ id: `dlv_${i}`, tenant: id }));
  const waits = await limits.place(all);
  const minutes = [...waits].map(([delivery, { until }]) => [delivery, (until - clock.now()) / MINUTE]);
  expect(minutes).toEqual([
    ['dlv_3', 60],
    ['dlv_4', 60],
    ['dlv_5', 24 * 60],
  ]);
  expect([...waits.values()].map(({ reply }) => reply)[0]).toMatch(
    /^451 4\.7\.1 The account has reached the limit of the plan free: 3 recipients an hour/,
  );
  expect(await send(1)).toBe(`later: ${24 * 60} min`);
  await limits.release(id);
  clock.advance(HOUR);
  expect(await send(1)).toBe('allowed');
});

test('what was used is told, and is kept by the day when it is in no window any more', async () => {
  const { limits, store, id, clock, send } = await start();
  await send(2);
  clock.advance(HOUR);
  await send(2);
  const tenant = await findTenant(store, id);
  if (tenant === undefined) throw new Error('no such tenant');
  expect(await limits.look(tenant)).toMatchObject({
    hour: { limit: 3, remaining: 1 },
    day: { limit: 5, remaining: 1 },
  });
  clock.advance(3 * DAY);
  await foldMessageCounts(store, clock.now());
  await foldMessageCounts(store, clock.now());
  expect(await store.read.selectFrom('message_counts').selectAll().execute()).toEqual([
    { tenant: id, starts_at: START, count: 4 },
  ]);
  expect(await messagesOfAll(store, START, START + DAY)).toEqual([{ tenant: id, messages: 4 }]);
});
