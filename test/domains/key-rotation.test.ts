import { sql } from 'kysely';
import { expect, test } from 'vitest';
import {
  keysOfOwner,
  makeKey,
  nextSelector,
  type KeyOwner,
  createKeyring,
  selectorOf,
} from '../../src/domains/dkim-keys.ts';
import { advanceKeys, rotateKeys } from '../../src/domains/rotation.ts';
import { dkimRecord } from '../../src/dns/records.ts';
import { silentLog } from '../../src/lib/log.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import type { DkimKeyRow } from '../../src/store/tables.ts';
import { testClock } from '../harness/clock.ts';
import { startTestDns } from '../harness/dns.ts';
import { openTestStore } from '../harness/store.ts';

const DAY = 86_400_000;
const CLAIM: KeyOwner = {
  domain: 'example.com',
  tenant: 'ten_a',
  wanted: [{ algorithm: 'ed25519', base: 'postern' }],
  isHost: false,
};

async function setUp(owner = CLAIM) {
  const store = await openTestStore();
  const clock = testClock();
  const { server, resolver } = await startTestDns([]);
  const parts = { store, clock, log: silentLog, resolver: resolver.fresh() };
  const first = owner.wanted.map(
    ({ algorithm, base }) => ({ algorithm, base, selector: base, state: 'active' }) as const,
  );
  await store.write(await Promise.all(first.map((key) => makeKey(owner, key, clock.now()))));
  const keys = () => keysOfOwner(store, owner);
  return {
    store,
    clock,
    zone: server,
    keys,
    rotate: () => rotateKeys(parts, owner),
    advance: () => advanceKeys({ ...parts, resolver: resolver.fresh() }, owner),
    /** Puts the records of the keys in these states into the zone, and no other. */
    async publish(...states: DkimKeyRow['state'][]) {
      const published = (await keys()).filter(({ state }) => states.includes(state));
      server.set(published.map((key) => dkimRecord(key.domain, { ...key, publicKey: key.public_key })));
    },
    states: async () => Object.fromEntries((await keys()).map(({ selector, state }) => [selector, state])),
    events: async () =>
      (await store.read.selectFrom('events').select(['type', 'data']).orderBy('id').execute()).map(
        ({ type, data }) => `${type} ${(JSON.parse(data) as { selector: string }).selector}`,
      ),
    /** Finished mail of the domain that waits; answers how to settle it. */
    async waiting({ domain, tenant }: Pick<KeyOwner, 'domain' | 'tenant'> = owner) {
      const recipients = ['a@inbox.test'];
      const message = { kind: 'transactional', tenant, domain, submission: null, source: {}, recipients } as const;
      const { id, rows } = enqueue({ ...message, ttl: 90 * DAY }, clock.now());
      await store.write(rows);
      await execute(`update messages set body = 'stored' where id = '${id}'`);
      return () => execute(`update deliveries set state = 'delivered' where message = '${id}'`);
    },
  };

  async function execute(text: string): Promise<void> {
    await store.write([{ definition: () => sql.raw(text), values: {} }]);
  }
}

test('the next key signs once its record is seen in DNS, and then alone', async () => {
  const { store, clock, keys, rotate, advance, publish, states, events, zone } = await setUp();
  const keysOf = createKeyring({ store, clock, hostname: () => 'mail.example.net' });
  const signing = async () => (await keysOf('example.com', 'ten_a')).map(({ selector }) => selector);
  await rotate();
  expect(await states()).toEqual({ postern: 'active', 'postern-20260101': 'next' });
  const before = await keys();
  clock.advance(2 * DAY);
  await rotate();
  expect(await keys()).toEqual(before);

  await publish('active');
  expect(await advance()).toBe(before[1]?.since);
  zone.set([{ name: 'postern-20260101._domainkey.example.com', fault: 'SERVFAIL' }]);
  await advance();
  expect(await signing()).toEqual(['postern']);

  await publish('active', 'next');
  expect(await advance()).toBeUndefined();
  clock.advance(60_000);
  expect(await signing()).toEqual(['postern-20260101']);
  expect(await states()).toEqual({ 'postern-20260101': 'active', postern: 'retiring' });
  expect(await events()).toEqual(['domain.dkim_next postern-20260101', 'domain.dkim_active postern-20260101']);
});

test('a key that has signed is kept until nothing that it signed waits, and a week more; then its private half goes', async () => {
  const { clock, keys, rotate, advance, publish, states, events, waiting } = await setUp();
  const settle = await waiting();
  await rotate();
  await publish('active', 'next');
  await advance();
  const [, old] = await keys();
  expect(old).toMatchObject({ state: 'retiring', keep_until: clock.now() + 7 * DAY });
  await advance();
  expect((await keys())[1]).toEqual(old);

  for (const days of [1, 6, 6]) {
    clock.advance(days * DAY);
    await advance();
    expect((await keys())[1]).toMatchObject({ state: 'retiring', keep_until: clock.now() + 7 * DAY });
  }
  await settle();
  // What was signed by the new key, or is another's, keeps nothing.
  await waiting();
  await waiting({ domain: 'example.com', tenant: 'ten_b' });
  clock.advance(7 * DAY - 1);
  await publish('active', 'retiring');
  await advance();
  expect((await keys())[1]).toMatchObject({ selector: 'postern', state: 'retiring' });
  clock.advance(1);
  await advance();
  expect((await keys())[1]).toMatchObject({ selector: 'postern', state: 'retired', private_key: '', keep_until: null });
  expect((await events()).at(-1)).toBe('domain.dkim_retired postern');

  await advance();
  expect(await states()).toMatchObject({ postern: 'retired' });
  await publish('active');
  await advance();
  expect(await states()).toEqual({ 'postern-20260101': 'active' });
});

test('the server’s own key is kept for mail of whatever domain: it seals what is forwarded', async () => {
  const { clock, rotate, advance, publish, states, waiting } = await setUp({ ...CLAIM, isHost: true });
  const settle = await waiting({ domain: 'elsewhere.example', tenant: 'ten_b' });
  await rotate();
  await publish('active', 'next');
  await advance();
  clock.advance(7 * DAY);
  await advance();
  expect(await states()).toMatchObject({ postern: 'retiring' });
  await settle();
  clock.advance(7 * DAY);
  await publish('active', 'retiring');
  await advance();
  expect(await states()).toMatchObject({ postern: 'retired' });
});

test('of several daemons one makes the next key, one lets it sign, and one retires the other', async () => {
  const { clock, keys, rotate, advance, publish, events } = await setUp();
  await Promise.all([rotate(), rotate(), rotate()]);
  expect(await keys()).toHaveLength(2);
  await publish('active', 'next');
  clock.advance(1);
  await Promise.all([advance(), advance(), advance()]);
  clock.advance(7 * DAY);
  await publish('active', 'retiring');
  await Promise.all([advance(), advance(), advance()]);
  expect(await events()).toEqual([
    'domain.dkim_next postern-20260101',
    'domain.dkim_active postern-20260101',
    'domain.dkim_retired postern',
  ]);
});

test('each algorithm goes at its own pace', async () => {
  const wanted = [
    { algorithm: 'rsa', base: 'postern' },
    { algorithm: 'ed25519', base: 'postern-ed25519' },
  ] as const;
  const { zone, rotate, advance, states, keys } = await setUp({ ...CLAIM, wanted });
  await rotate();
  const next = (await keys()).filter(({ state }) => state === 'next');
  expect(next.map(({ selector }) => selector)).toEqual(['postern-20260101', 'postern-ed25519-20260101']);
  zone.set(
    next
      .filter(({ algorithm }) => algorithm === 'ed25519')
      .map((key) => dkimRecord(key.domain, { ...key, publicKey: key.public_key })),
  );
  await advance();
  expect(await states()).toEqual({
    postern: 'active',
    'postern-20260101': 'next',
    'postern-ed25519': 'retiring',
    'postern-ed25519-20260101': 'active',
  });
});

test('both algorithms get a next key also where all that differs is cut off their selectors', async () => {
  const base = 's'.repeat(50);
  const wanted = [
    { algorithm: 'rsa', base },
    { algorithm: 'ed25519', base: selectorOf(base, 'ed25519') },
  ] as const;
  const { rotate, keys } = await setUp({ ...CLAIM, wanted });
  await rotate();
  expect(new Set((await keys()).map(({ selector }) => selector)).size).toBe(4);
});

test('the selector of a next key is one label, whatever the configured one, and never one that is known', () => {
  const at = Date.UTC(2026, 10, 22);
  const long = 's'.repeat(63);
  expect(nextSelector('postern', [], at)).toBe('postern-20261122');
  const taken = [nextSelector('postern', [], at), 'postern-20261122-2'].map((selector) => ({
    domain: 'example.com',
    tenant: 'ten_b',
    algorithm: 'rsa',
    base: 'postern',
    state: 'retired',
    selector,
  })) as DkimKeyRow[];
  expect(nextSelector('postern', taken, at)).toBe('postern-20261122-3');
  expect(nextSelector(long, [], at).length).toBeLessThanOrEqual(63);
  expect(selectorOf(long, 'ed25519')).toHaveLength(63);
});
