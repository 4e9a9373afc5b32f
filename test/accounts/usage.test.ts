import { expect, onTestFinished, test, vi } from 'vitest';
import { AccountRequests } from '../../src/accounts/plans.ts';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { silentLog } from '../../src/lib/log.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { usageOf, usageOfAll } from '../../src/store/usage.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { testPrincipal } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const NEW_YEAR = Date.UTC(2026, 0, 1);

async function openRequests(store: Store, clock: TestClock): Promise<AccountRequests> {
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  return new AccountRequests({ store, clock, log: silentLog, limits, config: () => config });
}

const config = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' } });

const days = (store: Store) => usageOf(store, 'ten_a', { from: 0, until: NEW_YEAR + 10 * DAY });

test('requests, errors and refusals are counted per key and day, and several daemons add up', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const [one, two] = [await openRequests(store, clock), await openRequests(store, clock)];
  const [who, other] = [testPrincipal({}), testPrincipal({})];
  for (const status of [200, 200, 404, 429, 500]) one.count(who, status);
  two.count(who, 200);
  two.count(other, 403);
  two.count({ ...who, key: undefined }, 200);
  await Promise.all([one.flush(), two.flush()]);
  clock.advance(DAY);
  one.count(who, 200);
  await one.flush();
  await two.flush();
  const row = { tenant: 'ten_a', errors: 0, rate_limited: 0 };
  expect((await days(store)).filter(({ key }) => key === who.key?.id)).toEqual([
    { ...row, key: who.key?.id, day: NEW_YEAR, requests: 6, errors: 2, rate_limited: 1 },
    { ...row, key: who.key?.id, day: NEW_YEAR + DAY, requests: 1 },
  ]);
  expect((await days(store)).filter(({ key }) => key === other.key?.id)).toMatchObject([{ requests: 1, errors: 1 }]);
  const all = { from: NEW_YEAR, until: NEW_YEAR + DAY };
  expect(await usageOfAll(store, all.from, all.until)).toEqual([
    { tenant: 'ten_a', requests: 7, errors: 3, rate_limited: 1 },
  ]);
});

test('what the store did not take is tried again', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const requests = await openRequests(store, clock);
  vi.spyOn(store, 'write').mockRejectedValueOnce(new StoreError('disk full', 'SQLITE_FULL'));
  const who = testPrincipal({});
  requests.count(who, 200);
  await requests.flush();
  expect(await days(store)).toEqual([]);
  requests.count(who, 200);
  await requests.flush();
  expect(await days(store)).toMatchObject([{ requests: 2 }]);
});
