import { createPrivateKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { createKeyring } from '../../src/access/keyring.ts';
import { insertDkimKey } from '../../src/store/domains.ts';
import { testClock } from '../harness/clock.ts';
import { openTestStore } from '../harness/store.ts';
import { makeKey } from '../forms/mail-world.ts';
import { DOMAIN } from '../forms/world.ts';

test('keys are kept as key objects for a minute; a new one signs after that', async () => {
  const store = await openTestStore();
  const clock = testClock();
  const keysOf = createKeyring({ store, clock });
  expect(await keysOf(DOMAIN)).toEqual([]);
  const [rsa, ed25519] = [await makeKey('rsa'), await makeKey('ed25519')];
  await store.write([insertDkimKey(rsa)]);
  const [first] = await keysOf(DOMAIN);
  expect(first?.key.equals(createPrivateKey(rsa.private_key))).toBe(true);
  await store.write([insertDkimKey(ed25519)]);
  expect((await keysOf(DOMAIN))[0]).toBe(first);
  clock.advance(60_000);
  expect((await keysOf(DOMAIN)).map(({ algorithm }) => algorithm).sort()).toEqual(['ed25519', 'rsa']);
});
