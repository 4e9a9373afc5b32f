/** What an account and the operator have to look at, out of SQLite and PostgreSQL, without looking through what is in order. */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { deferDelivery, HELD } from '../../src/store/messages.ts';
import { pauseDestination, setHeld } from '../../src/store/destinations.ts';
import { insertDomain } from '../../src/store/domains.ts';
import {
  brokenDomains,
  failingDestinations,
  firstSteps,
  heldByOperator,
  oldestWaiting,
  overflowsOf,
  troubledDomains,
  troubledWebhooks,
  unconfirmedOf,
} from '../../src/store/overview.ts';
import { systemMail } from '../../src/queue/system-mail.ts';
import type { Store } from '../../src/store/store.ts';
import { OPERATOR, saveOperator } from '../../src/store/tenants.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 15);

async function open(): Promise<Store> {
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', NOW);
  return store;
}

function claim(tenant: string, name: string, status: 'pending' | 'degraded' | 'failed' | 'verified') {
  const row = { name, tenant, project: 'site', token: 'x', records: null, checked_at: null, created_at: NOW };
  const broken_at = status === 'degraded' || status === 'failed' ? NOW : null;
  return insertDomain({
    ...row,
    status,
    verified_at: status === 'pending' ? null : NOW,
    broken_at,
    next_check_at: NOW,
  });
}

test('domains that are not in order, the worst first', async () => {
  const store = await open();
  await store.write([
    claim('ten_a', 'a.example', 'pending'),
    claim('ten_a', 'b.example', 'degraded'),
    claim('ten_a', 'c.example', 'failed'),
    claim('ten_a', 'd.example', 'verified'),
    claim('ten_b', 'e.example', 'degraded'),
  ]);
  expect((await troubledDomains(store, 'ten_a', 10)).map(({ name }) => name)).toEqual([
    'c.example',
    'b.example',
    'a.example',
  ]);
  expect((await brokenDomains(store, 10)).map(({ name }) => name)).toEqual(['c.example', 'b.example', 'e.example']);
  expect(await firstSteps(store, ['ten_a'])).toEqual({ domain: 1, verified: 1, form: 0, submission: 0 });
  expect(await firstSteps(store, ['ten_c'])).toEqual({ domain: 0, verified: 0, form: 0, submission: 0 });
});

test('the oldest mail that waits, of the account and of all', async () => {
  const store = await open();
  expect([await oldestWaiting(store), await oldestWaiting(store, OPERATOR)]).toEqual([null, null]);
  const mail = { tenant: OPERATOR, to: 'ada@a.test', subject: 'Hello', text: 'Hello' };
  await store.write(systemMail(mail, 'mail.example.net', NOW));
  await store.write(systemMail(mail, 'mail.example.net', NOW + 1000));
  expect([
    await oldestWaiting(store),
    await oldestWaiting(store, OPERATOR),
    await oldestWaiting(store, 'ten_b'),
  ]).toEqual([NOW, NOW, null]);
  // After its first try.
  const [row] = await store.read.selectFrom('deliveries').select('id').orderBy('id').limit(1).execute();
  await store.write([
    {
      definition: () =>
        sql`update deliveries set state = 'sending', lease_owner = 'me', attempts = 1 where id = ${row?.id ?? ''}`,
      values: {},
    },
  ]);
  await store.write([deferDelivery({ id: row?.id ?? '', owner: 'me', attempts: 1, reply: '451', due: HELD }, 1)]);
  expect([await oldestWaiting(store), await oldestWaiting(store, OPERATOR)]).toEqual([NOW, NOW]);
});

test('destinations that fail, and those that are held', async () => {
  const store = await open();
  const mail = { tenant: OPERATOR, subject: 'Hello', text: 'Hello' };
  for (const to of ['ada@a.test', 'ada@b.test'])
    await store.write(systemMail({ ...mail, to }, 'mail.example.net', NOW));
  const pause = { pauses: 1, last_error: 'refused', line: '', paused_until: NOW };
  await store.write([
    pauseDestination({ ...pause, name: 'a.test', failures: 2 }),
    pauseDestination({ ...pause, name: 'b.test', failures: 9 }),
    setHeld({ name: 'h.test', held: 1 }),
  ]);
  expect((await failingDestinations(store, 10)).map(({ name }) => name)).toEqual(['b.test', 'a.test']);
  expect((await heldByOperator(store, 10)).map(({ name }) => name)).toEqual(['h.test']);
  expect(await troubledWebhooks(store, OPERATOR, 10)).toEqual([]);
  expect(await overflowsOf(store, OPERATOR, 10)).toEqual([]);
  expect(await unconfirmedOf(store, OPERATOR, 10)).toEqual([{ count: 0, since: null }]);
});
