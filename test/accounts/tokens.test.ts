import { expect, test } from 'vitest';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { isServed, makeAccount, signupConfirmation } from '../../src/accounts/tenants.ts';
import { findToken, newToken, sweepTokens } from '../../src/accounts/consent.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { silentLog } from '../../src/lib/log.ts';
import { OPERATOR, saveOperator, changeTenant, countTenants, listTenants } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const HTTP = { listen: ['127.0.0.1:0'] };

async function start(http: object = HTTP) {
  const clock = testClock();
  const store = await openTestStore();
  const config = serverSchema.parse({ server: { hostname: 'mail.example.net', operator: 'ops@example.net', http } });
  const { tenant, key, unit } = makeAccount(
    { name: 'Anna', email: 'anna@inbox.test', plan: 'free', confirmed: false, by: null },
    clock.now(),
  );
  const { link, statement } = newToken({ kind: 'signup', tenant: tenant.id, subject: tenant.id }, config, clock.now());
  await store.write([...unit, statement]);
  return { clock, store, tenant, key, link, token: link.split('/').at(-1) ?? '' };
}

test('a link leads to the address under which the world reaches the server', async () => {
  expect((await start()).link).toMatch(/^http:\/\/mail\.example\.net\/confirm\/[\w-]{32}$/);
  const behindProxy = await start({ ...HTTP, base_url: 'https://post.example.net/' });
  expect(behindProxy.link).toMatch(/^https:\/\/post\.example\.net\/confirm\/[\w-]{32}$/);
});

test('a token is found until it ends, and no other value is', async () => {
  const { clock, store, tenant, token } = await start();
  expect(await findToken({ store, clock }, token)).toMatchObject({ kind: 'signup', tenant: tenant.id });
  expect(await findToken({ store, clock }, token.toLowerCase())).toBeUndefined();
  expect(await findToken({ store, clock }, '')).toBeUndefined();
  clock.advance(7 * DAY);
  expect(await findToken({ store, clock }, token)).toBeUndefined();
});

test('what is confirmed by two at once is confirmed once', async () => {
  const { clock, store, tenant, token } = await start();
  const kind = signupConfirmation({ store, clock, release: () => Promise.resolve() });
  const row = await findToken({ store, clock }, token);
  if (row === undefined) throw new Error('no token');
  const [one, two] = await Promise.all([kind(row), kind(row)]);
  expect([one?.isDone, two?.isDone]).toEqual([false, false]);
  await Promise.all([one?.confirm(), two?.confirm()]);
  expect((await kind(row))?.isDone).toBe(true);
  expect(await isServed(store, tenant.id)).toBe(true);
  const told = await store.read.selectFrom('events').select('id').where('type', '=', 'tenant.confirmed').execute();
  expect(told).toHaveLength(1);
});

test('the sweep takes what nobody confirmed in time, and nothing else', async () => {
  const { clock, store, key } = await start();
  await saveOperator(store, 'ops@example.net', clock.now());
  const confirmed = await testKey(store, { now: clock.now() });
  clock.advance(7 * DAY - 1);
  await sweepTokens({ store, clock });
  expect(await countTenants(store)).toBe(3);
  clock.advance(1);
  await sweepTokens({ store, clock });
  const left = await listTenants(store, { limit: 10 });
  expect(left.map(({ id }) => id)).toEqual([OPERATOR, confirmed.tenant]);
  const authenticator = new Authenticator({ store, clock, log: silentLog });
  expect(await authenticator.byKey(key)).toBe('AUTH_INVALID_KEY');
  expect(await authenticator.byKey(confirmed.value)).toMatchObject({ key: { id: confirmed.id } });
});

test('who is served: the operator, and tenants that are confirmed and not suspended', async () => {
  const { store, tenant } = await start();
  expect(await isServed(store, OPERATOR)).toBe(true);
  expect(await isServed(store, tenant.id)).toBe(false);
  expect(await isServed(store, 'ten_nobody')).toBe(false);
  const other = await testKey(store);
  expect(await isServed(store, other.tenant)).toBe(true);
  await store.write(changeTenant(other.tenant, { suspended: true }));
  expect(await isServed(store, other.tenant)).toBe(false);
});
