/** The deletion of an account that is interrupted anywhere, and goes on. */
import { expect, test } from 'vitest';
import { beginDeletion, createDeletions } from '../../src/accounts/delete-account.ts';
import { silentLog } from '../../src/lib/log.ts';
import { actOnMany } from '../../src/queue/operate.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { findTenant } from '../../src/store/tenants.ts';
import type { Store } from '../../src/store/store.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

test('goes on where it was interrupted, and leaves other accounts alone', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const { tenant } = await testKey(store, { now: clock.now() });
  const { tenant: other } = await testKey(store, { now: clock.now() });
  for (const owner of [tenant, other]) {
    const mail = { kind: 'system', submission: null, domain: 'example.com', source: {}, ttl: 3_600_000 } as const;
    await store.write(enqueue({ ...mail, tenant: owner, recipients: ['a@one.example'] }, clock.now()).unit);
  }
  const row = await findTenant(store, tenant);
  if (row === undefined) throw new Error('there is no such account');
  const by = { key: undefined };
  expect(await beginDeletion(row, { queued: 'cancel', by }, { store, clock })).toBe(true);
  expect(await beginDeletion(row, { queued: 'deliver', by }, { store, clock })).toBe(false);

  let failures = 0;
  for (let writes = 0; (await findTenant(store, tenant)) !== undefined; writes++) {
    let left = writes;
    const breaking: Store = {
      ...store,
      write: (unit) => (left-- > 0 ? store.write(unit) : Promise.reject(new Error('power cut'))),
    };
    const job = createDeletions({
      store: breaking,
      clock,
      log: silentLog,
      cancelQueued: (id) => actOnMany(breaking, 'cancel', { filter: { tenant: id }, now: clock.now() }),
    });
    await job().catch(() => failures++);
  }
  expect(failures).toBeGreaterThan(20);
  const kept = await store.read.selectFrom('deliveries').select(['tenant', 'state']).execute();
  expect(kept).toEqual([{ tenant: other, state: 'queued' }]);
  expect(await findTenant(store, other)).toBeDefined();
});
