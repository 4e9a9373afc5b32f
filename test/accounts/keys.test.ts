import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Authenticator } from '../../src/accounts/authenticate.ts';
import { KEY_PREFIXES, isKeyValue, newKeyValue } from '../../src/accounts/authenticate.ts';
import { expandPermissions } from '../../src/accounts/principal.ts';
import { PERMISSIONS } from '../../src/lib/permission-names.ts';
import { silentLog } from '../../src/lib/log.ts';
import { revokeKey } from '../../src/store/api-keys.ts';
import type { Statement } from '../../src/store/statement.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { changeTenant, confirmTenant } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { testKey, type TestKeySettings } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

async function start(settings: TestKeySettings = {}) {
  const clock = testClock();
  const store = await openTestStore();
  const key = await testKey(store, { now: clock.now(), ...settings });
  return { clock, store, key, authenticator: new Authenticator({ store, clock, log: silentLog }) };
}

describe('the value of a key', () => {
  test('is 28 random characters behind its prefix, and six that check them', () => {
    for (const prefix of KEY_PREFIXES) {
      const value = newKeyValue(prefix);
      expect(value).toMatch(new RegExp(`^${prefix}[0-9A-Za-z]{34}$`));
      expect(isKeyValue(value)).toBe(true);
      expect(newKeyValue(prefix)).not.toBe(value);
    }
  });

  test('is not taken for one where a character is another, or two have changed places', () => {
    const value = newKeyValue('svc_sk_live_');
    fc.assert(
      fc.property(fc.nat(value.length - 1), fc.constantFrom('_', '0', '9', 'A', 'Z', 'a', 'z'), (at, character) => {
        const other = value.slice(0, at) + character + value.slice(at + 1);
        expect(isKeyValue(other)).toBe(other === value);
        const swapped = value.slice(0, at) + (value[at + 1] ?? '') + (value[at] ?? '') + value.slice(at + 2);
        expect(isKeyValue(swapped)).toBe(swapped === value);
      }),
    );
  });

  test('is refused without a look-up where it is mistyped', async () => {
    const { store, clock } = await start();
    const blind: Store = { ...store, select: () => Promise.reject(new Error('looked up')) };
    const authenticator = new Authenticator({ store: blind, clock, log: silentLog });
    expect(await authenticator.byKey('svc_sk_live_0000000000000000000000000000000000')).toBe('AUTH_INVALID_KEY');
    expect(await authenticator.byKey('')).toBe('AUTH_INVALID_KEY');
  });
});

test('coarse names stand for all of their kind, and full keys for all but admin', () => {
  expect(expandPermissions(['keys', 'forms'])).toEqual(PERMISSIONS.filter((name) => /^(?:forms|keys)\./.test(name)));
  expect(expandPermissions(['forms.write'])).toEqual(['forms.write', 'forms.submit']);
  expect(expandPermissions([])).toEqual([]);
  expect(expandPermissions([...PERMISSIONS, 'forms', 'forms'])).toEqual(PERMISSIONS);
});

describe('a look-up', () => {
  test('is one statement, and answers the key with its tenant', async () => {
    const { store, clock, key } = await start({ permissions: ['forms'], account: { requests_per_hour: 7 } });
    let statements = 0;
    const counting: Store = {
      ...store,
      select<Row>(statement: Statement<Row>) {
        statements++;
        return store.select(statement);
      },
    };
    const principal = await new Authenticator({ store: counting, clock, log: silentLog }).byKey(key.value);
    expect(statements).toBe(1);
    expect(principal).toEqual({
      tenant: {
        id: key.tenant,
        name: 'Tenant',
        email: 'tenant@inbox.test',
        plan: 'free',
        requests_per_hour: 7,
        messages_per_hour: null,
        messages_per_day: null,
        suspended: 0,
        trusted: 1,
        confirmed_at: clock.now(),
        created_at: clock.now(),
      },
      key: expect.objectContaining({ id: key.id, tenant: key.tenant, created_at: clock.now() }),
      permissions: new Set(['forms.read', 'forms.write', 'forms.submit']),
      environment: 'live',
      restrictions: {},
    });
  });

  test('knows what was committed a moment before', async () => {
    const { store, clock, key, authenticator } = await start({ account: { confirmed_at: null } });
    const at = clock.now();
    expect(await authenticator.byKey(key.value)).toBe('TENANT_UNCONFIRMED');
    await store.write([confirmTenant({ id: key.tenant, at })]);
    expect(await authenticator.byKey(key.value)).toMatchObject({ key: { id: key.id } });
    await store.write(changeTenant(key.tenant, { suspended: true }));
    expect(await authenticator.byKey(key.value)).toBe('TENANT_SUSPENDED');
    await store.write(changeTenant(key.tenant, { suspended: false }));
    expect(await authenticator.byKey(key.value)).toMatchObject({ key: { id: key.id } });
    await store.write([revokeKey({ id: key.id, tenant: key.tenant, at })]);
    expect(await authenticator.byKey(key.value)).toBe('AUTH_REVOKED_KEY');
  });
});

describe('the last use of a key', () => {
  const lastUse = async (store: Store) =>
    (await store.read.selectFrom('api_keys').select('last_used_at').executeTakeFirstOrThrow()).last_used_at;

  test('is written behind, the newest alone', async () => {
    const { store, clock, key, authenticator } = await start();
    await authenticator.byKey(key.value);
    clock.advance(5000);
    await authenticator.byKey(key.value);
    expect(await lastUse(store)).toBeNull();
    await authenticator.saveUses();
    expect(await lastUse(store)).toBe(clock.now());
  });

  test('never goes back', async () => {
    const { store, clock, key, authenticator } = await start();
    const other = new Authenticator({ store, clock, log: silentLog });
    await other.byKey(key.value);
    clock.advance(5000);
    await authenticator.byKey(key.value);
    await authenticator.saveUses();
    await other.saveUses();
    expect(await lastUse(store)).toBe(clock.now());
  });

  test('is no use of a key that is refused', async () => {
    const { store, key, authenticator } = await start({ revoked: true });
    await authenticator.byKey(key.value);
    await authenticator.saveUses();
    expect(await lastUse(store)).toBeNull();
  });

  test('is kept while the store cannot write', async () => {
    const { store, clock, key } = await start();
    let full = true;
    const failing: Store = {
      ...store,
      write: (unit) => (full ? Promise.reject(new StoreError('full', 'SQLITE_FULL')) : store.write(unit)),
    };
    const authenticator = new Authenticator({ store: failing, clock, log: silentLog });
    await authenticator.byKey(key.value);
    await authenticator.saveUses();
    full = false;
    await authenticator.saveUses();
    expect(await lastUse(store)).toBe(clock.now());
  });
});

test('no table holds the value of a key', async () => {
  const { store, key } = await start();
  const rows = [
    ...(await store.read.selectFrom('api_keys').selectAll().execute()),
    ...(await store.read.selectFrom('events').selectAll().execute()),
  ];
  expect(rows.length).toBeGreaterThan(1);
  expect(JSON.stringify(rows)).not.toContain(key.value.slice('svc_sk_live_'.length, -4));
});
