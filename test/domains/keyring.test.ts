import { createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { createKeyring } from '../../src/domains/dkim-keys.ts';
import { insertDkimKey } from '../../src/store/dkim-keys.ts';
import { insertDomain } from '../../src/store/domains.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { makeKey } from '../forms/mail-world.ts';
import { DOMAIN } from '../forms/world.ts';

test('keys are kept as key objects for a minute; a new one signs after that', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keysOf = createKeyring({ store, clock, hostname: () => 'mail.example.net' });
  expect(await keysOf(DOMAIN, OPERATOR)).toEqual([]);
  const [rsa, ed25519] = [await makeKey('rsa'), await makeKey('ed25519')];
  await store.write([insertDkimKey(rsa)]);
  const [first] = await keysOf(DOMAIN, OPERATOR);
  expect(first?.key.equals(createPrivateKey(rsa.private_key))).toBe(true);
  await store.write([insertDkimKey(ed25519)]);
  expect((await keysOf(DOMAIN, OPERATOR))[0]).toBe(first);
  clock.advance(60_000);
  expect((await keysOf(DOMAIN, OPERATOR)).map(({ algorithm }) => algorithm).sort()).toEqual(['ed25519', 'rsa']);
});

test('keys sign for their own tenant alone, and never for a claim that DNS has not confirmed', async () => {
  const store = await openTestStore();
  const keysOf = createKeyring({ store, clock: testClock(), hostname: () => 'mail.example.net' });
  const row = { name: DOMAIN, project: 'site', token: 't', next_check_at: 0, created_at: 0 };
  await store.write([
    insertDkimKey(await makeKey('rsa')),
    insertDkimKey({ ...(await makeKey('ed25519')), tenant: 'ten_b' }),
    insertDkimKey({ ...(await makeKey('rsa')), domain: 'mail.example.net' }),
    insertDomain({ ...row, tenant: OPERATOR, status: 'verified' }),
    insertDomain({ ...row, tenant: 'ten_b', status: 'pending' }),
  ]);
  expect(await keysOf(DOMAIN, OPERATOR)).toMatchObject([{ selector: 's-rsa' }]);
  expect(await keysOf(DOMAIN, 'ten_b')).toEqual([]);
  expect(await keysOf(DOMAIN, 'ten_c')).toEqual([]);
  expect(await keysOf('mail.example.net', 'ten_b')).toMatchObject([{ selector: 's-rsa' }]);
});
