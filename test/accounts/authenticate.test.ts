import { expect, test } from 'vitest';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { noteKeyUse, revokeKey } from '../../src/store/api-keys.ts';
import { silentLog } from '../../src/lib/log.ts';
import { changeTenant } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

async function openAuthenticator() {
  const store = await openTestStore();
  const clock = testClock();
  const authenticator = new Authenticator({ store, clock, log: silentLog });
  return { store, clock, authenticator };
}

test('a key that was used a moment ago is refused as soon as it is revoked', async () => {
  const { store, clock, authenticator } = await openAuthenticator();
  const key = await testKey(store, { now: clock.now() });
  for (let i = 0; i < 3; i++) expect(await authenticator.byKey(key.value)).toMatchObject({ key: { id: key.id } });
  const revoking = store.write([revokeKey({ id: key.id, tenant: key.tenant, at: 1 })]);
  // Read while the commit is on its way, the old word must not outlive it.
  await authenticator.byKey(key.value);
  await revoking;
  expect(await authenticator.byKey(key.value)).toBe('AUTH_REVOKED_KEY');
});

test('one that ends by itself ends, and what is written of it elsewhere is seen', async () => {
  const { store, clock, authenticator } = await openAuthenticator();
  const end = new Date(clock.now() + 1000).toISOString();
  const key = await testKey(store, { now: clock.now(), restrictions: { expires_at: end } });
  expect(await authenticator.byKey(key.value)).toMatchObject({ key: { last_used_at: null } });
  await store.write([noteKeyUse({ id: key.id, at: 5 })]);
  expect(await authenticator.byKey(key.value)).toMatchObject({ key: { last_used_at: 5 } });
  clock.advance(1000);
  expect(await authenticator.byKey(key.value)).toBe('AUTH_EXPIRED_KEY');
});

test('a key of a tenant that is suspended, and let go on, follows at once', async () => {
  const { store, authenticator } = await openAuthenticator();
  const key = await testKey(store);
  expect(await authenticator.byKey(key.value)).toHaveProperty('tenant');
  for (const [suspended, expected] of [
    [true, 'TENANT_SUSPENDED'],
    [false, expect.objectContaining({ environment: 'live' })],
  ] as const) {
    await store.write(changeTenant(key.tenant, { suspended }));
    expect(await authenticator.byKey(key.value)).toEqual(expected);
  }
});
