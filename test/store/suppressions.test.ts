import { expect, test } from 'vitest';
import {
  allow,
  countSuppressions,
  findSuppression,
  isSuppressed,
  selectSuppressions,
  suppress,
} from '../../src/store/suppressions.ts';
import { openTestStore } from '../harness/store.ts';

test('the list of a tenant: by address, in pages, without case, the first word stands', async () => {
  const store = await openTestStore();
  const tenant = 'ten_a';
  await store.write([
    suppress({ tenant, address: 'Bob@x.example', reason: 'bounce', created_at: 1 }),
    suppress({ tenant, address: 'ana@x.example', reason: 'unsubscribe', created_at: 2 }),
    suppress({ tenant, address: 'bob@X.example', reason: 'complaint', created_at: 3 }),
    suppress({ tenant: 'ten_b', address: 'eve@x.example', reason: 'manual', created_at: 4 }),
  ]);
  const all = await selectSuppressions(store, { tenant, after: undefined, limit: 10 });
  expect(all).toEqual([
    { tenant, address: 'ana@x.example', reason: 'unsubscribe', created_at: 2 },
    { tenant, address: 'bob@x.example', reason: 'bounce', created_at: 1 },
  ]);
  expect(await selectSuppressions(store, { tenant, after: 'ana@x.example', limit: 10 })).toEqual(all.slice(1));
  expect(await countSuppressions(store, tenant)).toBe(2);
  expect(await findSuppression(store, tenant, 'BOB@x.example')).toEqual(all[1]);
  await store.write([allow(tenant, 'Bob@X.example')]);
  expect(await isSuppressed(store, tenant, 'bob@x.example')).toBe(false);
  expect(await isSuppressed(store, 'ten_b', 'eve@x.example')).toBe(true);
});
