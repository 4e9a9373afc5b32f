import { describe, expect, onTestFinished, test } from 'vitest';
import { AccountRequests } from '../../src/accounts/plans.ts';
import { createLimits, type Limits } from '../../src/accounts/rate-limits.ts';
import type { Principal, Restrictions } from '../../src/accounts/principal.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createStore } from '../../src/store/database.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import type { Store } from '../../src/store/store.ts';
import type { TenantRow } from '../../src/store/tables.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { testPrincipal } from '../harness/keys.ts';
import { freshDatabase, openTestStore } from '../harness/store.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;

const plans = {
  free: { requests_per_hour: 10, requests_per_minute: 4, price: 0 },
  pro: { requests_per_hour: 20, requests_per_minute: null, price: 9 },
  gold: { requests_per_hour: null, messages_per_hour: null, messages_per_day: null, requests_per_minute: 2 },
};
const config = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net' }, plans });

async function accounts(store: Store, clock: TestClock) {
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  return within(limits, { store, clock });
}

function within(limits: Limits, parts: { readonly store: Store; readonly clock: TestClock }) {
  const requests = new AccountRequests({ ...parts, log: silentLog, limits, config: () => config });
  return {
    take: (who: Principal) => requests.take(who),
    look: async (who: Principal) => ({
      hour: await requests.left(who, 'hour'),
      minute: await requests.left(who, 'minute'),
    }),
  };
}

/** Somebody with a new key of this tenant. */
function somebody(tenant: Partial<TenantRow> = {}, restrictions: Restrictions = {}): Principal {
  return testPrincipal({ tenant, restrictions });
}

/** How many of so many requests in a row are allowed. */
async function allowed(limits: ReturnType<typeof within>, who: Principal, tries: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < tries; i++) if ((await limits.take(who))?.allowed !== false) count++;
  return count;
}

describe('what an account may', () => {
  const cases: [what: string, tenant: Partial<TenantRow>, minute: number, hour: number][] = [
    ['its plan', {}, 4, 10],
    ['a plan without a limit per minute', { plan: 'pro' }, 20, 20],
    ['a plan of the operator’s own, without one per hour', { plan: 'gold' }, 2, 120],
    ['its own number in place of the plan’s', { requests_per_hour: 3 }, 3, 3],
    ['a plan that is gone: the first', { plan: 'bronze' }, 4, 10],
    ['a plan called as what is none: the first', { plan: 'currency' }, 4, 10],
  ];
  test.each(cases)('%s', async (_, tenant, minute, hour) => {
    const clock = testClock();
    const limits = await accounts(await openTestStore(), clock);
    const who = somebody(tenant);
    let count = await allowed(limits, who, 30);
    expect(count).toBe(minute);
    for (let i = 1; i < 60; i++) {
      clock.advance(MINUTE);
      count += await allowed(limits, who, 5);
    }
    expect(count).toBe(hour);
    clock.advance(HOUR);
    expect(await allowed(limits, who, 30)).toBe(minute);
  });

  test('the operator’s tenant and the operator have none', async () => {
    const limits = await accounts(await openTestStore(), testClock());
    expect(await limits.take(somebody({ id: OPERATOR }))).toBeUndefined();
    const operator: Principal = { ...somebody(), key: undefined };
    for (let i = 0; i < 20; i++) expect(await limits.take(operator)).toBeUndefined();
    expect((await limits.look(operator)).hour).toMatchObject({ allowed: true, limit: 10, remaining: 10 });
  });
});

test('keys share their account’s limits and have their own, of which the tightest is shown', async () => {
  const clock = testClock();
  const limits = await accounts(await openTestStore(), clock);
  const tight = somebody({}, { rate_limit: 2 });
  const fast = somebody({}, { burst_limit: 1 });
  const other = somebody({ id: 'ten_b' });
  expect(await limits.take(tight)).toMatchObject({ allowed: true, limit: 2, remaining: 1 });
  expect(await limits.take(fast)).toMatchObject({ allowed: true, limit: 1, remaining: 0 });
  expect(await limits.take(fast)).toMatchObject({ allowed: false, limit: 1, remaining: 0 });
  expect(await limits.take(tight)).toMatchObject({ allowed: true, limit: 2, remaining: 0 });
  expect(await limits.take(tight)).toMatchObject({ allowed: false, limit: 2, remaining: 0 });
  expect(await limits.look(tight)).toMatchObject({
    hour: { limit: 2, remaining: 0 },
    minute: { limit: 4, remaining: 1 },
  });
  expect(await limits.look(fast)).toMatchObject({ hour: { limit: 10, remaining: 7 }, minute: { limit: 1 } });
  expect(await limits.take(other)).toMatchObject({ allowed: true, limit: 4, remaining: 3 });
  // The operator's keys have no account's limit, but their own.
  const operators = somebody({ id: OPERATOR }, { rate_limit: 1 });
  expect(await allowed(limits, operators, 3)).toBe(1);
});

test('a refused request counts nowhere, and of several refusals the longest is told', async () => {
  const clock = testClock();
  const limits = await accounts(await openTestStore(), clock);
  const who = somebody({}, { burst_limit: 1 });
  for (let i = 0; i < 50; i++) await limits.take(who);
  expect(await limits.look(who)).toMatchObject({ hour: { remaining: 9 }, minute: { limit: 1, remaining: 0 } });
  expect(await limits.look(somebody())).toMatchObject({ hour: { remaining: 9 }, minute: { limit: 4, remaining: 3 } });
  const both = somebody({ id: 'ten_c', requests_per_hour: 1 }, { burst_limit: 1 });
  await limits.take(both);
  const refused = await limits.take(both);
  expect(refused).toMatchObject({ allowed: false, reset: (clock.now() + HOUR) / 1000 });
});

test('requests at once cannot slip through, over two daemons on one PostgreSQL neither', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const one = await accounts(store, clock);
  const two = store.dialect === 'sqlite' ? one : await accounts(store, clock);
  const who = somebody({}, { rate_limit: 8 });
  const verdicts = await Promise.all(Array.from({ length: 24 }, (_, i) => (i % 2 === 0 ? one : two).take(who)));
  expect(verdicts.filter((verdict) => verdict?.allowed === true).length).toBe(4);
  expect(await one.look(who)).toMatchObject({ hour: { limit: 8, remaining: 4 }, minute: { limit: 4, remaining: 0 } });
});

test('a restart forgets no hour', async () => {
  const url = await freshDatabase();
  const clock = testClock();
  const who = somebody({ plan: 'pro' });
  const before = await createStore(url);
  const limits = await createLimits({ store: before, clock, log: silentLog });
  expect(await allowed(within(limits, { store: before, clock }), who, 15)).toBe(15);
  await limits.close();
  await before.close();

  const after = await createStore(url);
  onTestFinished(() => after.close());
  expect(await allowed(await accounts(after, clock), who, 15)).toBe(5);
});
