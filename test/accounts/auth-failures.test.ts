/** Keys that open nothing are told of, and slow down whoever goes on. */
import { expect, test } from 'vitest';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { silentLog } from '../../src/lib/log.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

async function open() {
  const store = await openTestStore();
  const clock = testClock();
  const authenticator = new Authenticator({ store, clock, log: silentLog });
  const events = async () => {
    const rows = await store.read.selectFrom('events').selectAll().where('type', '=', 'auth.failed').execute();
    const told = rows.map(({ tenant, data }) => ({ tenant, ...(JSON.parse(data) as { address: string }) }));
    return told.sort((a, b) => a.address.localeCompare(b.address));
  };
  return { store, clock, authenticator, events };
}

const UNKNOWN = 'svc_sk_live_0000000000000000000000000000abcd';

test('each reason is an event of whose key it is, else of the operator, once a minute per address', async () => {
  const { store, clock, authenticator, events } = await open();
  const revoked = await testKey(store, { now: clock.now(), revoked: true });
  const fenced = await testKey(store, { now: clock.now(), restrictions: { ip_whitelist: ['192.0.2.0/24'] } });
  for (let i = 0; i < 3; i++) expect(await authenticator.byKey(UNKNOWN, '198.51.100.1')).toBe('AUTH_INVALID_KEY');
  expect(await authenticator.byKey(revoked.value, '198.51.100.2')).toBe('AUTH_REVOKED_KEY');
  expect(await authenticator.byKey(fenced.value, '198.51.100.3')).toMatchObject({ key: { id: fenced.id } });
  expect(await authenticator.byKey(fenced.value, '192.0.2.7')).toMatchObject({ key: { id: fenced.id } });
  await expect.poll(events).toEqual([
    { tenant: OPERATOR, address: '198.51.100.1', last4: 'abcd', reason: 'AUTH_INVALID_KEY' },
    {
      tenant: revoked.tenant,
      address: '198.51.100.2',
      last4: revoked.value.slice(-4),
      reason: 'AUTH_REVOKED_KEY',
      key: revoked.id,
    },
    {
      tenant: fenced.tenant,
      address: '198.51.100.3',
      last4: fenced.value.slice(-4),
      reason: 'AUTH_IP_NOT_ALLOWED',
      key: fenced.id,
    },
  ]);
  expect(authenticator.failures).toMatchObject({
    AUTH_INVALID_KEY: 3,
    AUTH_REVOKED_KEY: 1,
    AUTH_IP_NOT_ALLOWED: 1,
  });
  clock.advance(60_000);
  await authenticator.byKey(UNKNOWN, '198.51.100.1');
  await expect.poll(async () => (await events()).length).toBe(4);
});

test('after 60 in a minute an address waits a second for each further answer, and no other does', async () => {
  const { clock, authenticator } = await open();
  for (let i = 0; i < 60; i++) await authenticator.byKey(UNKNOWN, '198.51.100.1');
  let answered = false;
  const waiting = authenticator.byKey(UNKNOWN, '198.51.100.1').then(() => (answered = true));
  expect(await authenticator.byKey(UNKNOWN, '198.51.100.2')).toBe('AUTH_INVALID_KEY');
  clock.advance(999);
  await new Promise((turn) => setImmediate(turn));
  expect(answered).toBe(false);
  clock.advance(1);
  await waiting;
});

test('no more than 200 answers wait at a time: those beyond them are given at once', async () => {
  const { authenticator } = await open();
  for (let i = 0; i < 60; i++) await authenticator.byKey(UNKNOWN, '198.51.100.1');
  for (let i = 0; i < 200; i++) void authenticator.byKey(UNKNOWN, '198.51.100.1');
  expect(await authenticator.byKey(UNKNOWN, '198.51.100.1')).toBe('AUTH_INVALID_KEY');
});
