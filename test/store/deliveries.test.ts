/** Claims, leases and destinations as rows: what is due is claimed once, and nothing that waits is forgotten. */
import { describe, expect, test } from 'vitest';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import {
  attemptsOfMessage,
  deferDelivery,
  deliveriesOfMessage,
  endWaiting,
  findDelivery,
  giveBack,
  makeDue,
  selectDeliveries,
  settleDelivery,
  walkWaiting,
} from '../../src/store/messages.ts';
import {
  beginDeliveries,
  claimDeliveries,
  claimNewest,
  claimTurn,
  nextFlow,
  leasedTo,
  renewLeases,
  takeBackLeases,
  tenantsWaiting,
} from '../../src/store/leases.ts';
import {
  clearFailures,
  dueDestinations,
  dueLines,
  findDestination,
  nextDueAt,
  noteAnswered,
  noteDue,
  pauseDestination,
  recomputeDue,
  repairDue,
  repairDueAmong,
  setHeld,
} from '../../src/store/destinations.ts';
import type { Statement } from '../../src/store/statement.ts';
import { UnmetError, type Store } from '../../src/store/store.ts';
import { suppress } from '../../src/store/suppressions.ts';
import { testKey } from '../harness/keys.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = 1_000_000;
const CLAIM = {
  destination: 'example.test',
  now: NOW,
  owner: 'me',
  until: NOW + 60_000,
  delays: '[100,200,300]',
  last_delay: 2,
  limit: 100,
};

async function add(
  store: Store,
  recipients: string | readonly string[],
  more: Partial<NewMessage> & { at?: number } = {},
) {
  const { id, unit } = enqueue(newMessage(recipients, more), more.at ?? NOW);
  await store.write(unit);
  return id;
}

async function claim(store: Store, more: Partial<typeof CLAIM> = {}) {
  const [{ rows }] = await store.write([claimDeliveries({ ...CLAIM, ...more })]);
  return rows;
}

describe('a claim', () => {
  test('takes what is due, longest due first, and writes the next try ahead', async () => {
    const store = await openTestStore();
    const second = await add(store, 'b@example.test', { at: NOW - 1 });
    const first = await add(store, 'a@example.test', { at: NOW - 2 });
    await add(store, 'late@example.test', { at: NOW + 1 });
    await add(store, 'elsewhere@other.test');
    const [one] = await claim(store, { limit: 1 });
    expect(one).toMatchObject({ message: first, recipient: 'a@example.test', attempts: 1, suppressed: 0 });
    expect(await claim(store)).toMatchObject([{ message: second }]);
    expect(await claim(store)).toEqual([]);
    expect(await findDelivery(store, one?.id ?? '')).toMatchObject({
      state: 'sending',
      attempts: 1,
      next_attempt_at: NOW + 100,
      lease_owner: 'me',
      lease_until: NOW + 60_000,
    });
  });

  test('counts the tries, and repeats the last delay', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    const delays: (number | null | undefined)[] = [];
    for (let i = 1; i <= 4; i++) {
      const [row] = await claim(store);
      expect(row?.attempts).toBe(i);
      delays.push((await findDelivery(store, row?.id ?? ''))?.next_attempt_at);
      await store.write([deferDelivery({ id: row?.id ?? '', owner: 'me', attempts: i, reply: '451', due: NOW }, 1)]);
    }
    expect(delays).toEqual([NOW + 100, NOW + 200, NOW + 300, NOW + 300]);
  });

  test('by two owners at the same time gives each delivery to one', async () => {
    const store = await openTestStore();
    for (let i = 0; i < 20; i++) await add(store, `u${i}@example.test`);
    const claims = await Promise.all(Array.from({ length: 10 }, (_, i) => claim(store, { owner: `o${i}`, limit: 3 })));
    const ids = claims.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const rest = await claim(store);
    expect(ids.length + rest.length).toBe(20);
  });

  test('knows who is suppressed, whatever the case, for this tenant alone', async () => {
    const store = await openTestStore();
    await store.write([suppress({ tenant: 'ten_a', address: 'No@example.test', reason: 'bounce', created_at: NOW })]);
    await add(store, ['nO@example.test', 'yes@example.test']);
    await add(store, 'no@example.test', { tenant: 'ten_b' });
    const rows = await claim(store);
    expect(new Set(rows.map(({ tenant, recipient, suppressed }) => `${tenant} ${recipient} ${suppressed}`))).toEqual(
      new Set(['ten_a nO@example.test 1', 'ten_a yes@example.test 0', 'ten_b no@example.test 0']),
    );
  });

  test('can be for one turn, and turns are found by bulk, tenant and flow', async () => {
    const store = await openTestStore();
    const place = 'example.test';
    for (const tenant of ['ten_a', 'ten_b', 'ten_c']) {
      for (const form of ['site/one', 'site/two'])
        await add(store, ['1@example.test', '2@example.test'], { tenant, form });
    }
    await add(store, 'b@example.test', { tenant: 'ten_b', kind: 'forward' });
    await add(store, 'a@other.test', { tenant: 'ten_d' });
    const tenants = (after: string, limit = 10) => tenantsWaiting(store, place, { bulk: 0, after, limit });
    expect(await tenants('')).toEqual(['ten_a', 'ten_b', 'ten_c']);
    expect(await tenants('', 2)).toEqual(['ten_a', 'ten_b']);
    expect(await tenants('ten_a')).toEqual(['ten_b', 'ten_c']);
    expect(await tenants('ten_c')).toEqual([]);
    expect(await tenantsWaiting(store, place, { bulk: 1, after: '', limit: 10 })).toEqual(['ten_b']);
    const turn = { bulk: 0, tenant: 'ten_b', flow: '' };
    expect(await nextFlow(store, place, turn)).toBe('site/one');
    expect(await nextFlow(store, place, { ...turn, flow: 'site/one' })).toBe('site/two');
    expect(await nextFlow(store, place, { ...turn, flow: 'site/two' })).toBe('site/one');
    expect(await nextFlow(store, place, { ...turn, bulk: 1 })).toBe('forward');
    const [{ rows }] = await store.write([claimTurn({ ...CLAIM, ...turn, flow: 'site/two' })]);
    expect(rows.map(({ tenant, recipient }) => `${tenant} ${recipient}`).sort()).toEqual([
      'ten_b 1@example.test',
      'ten_b 2@example.test',
    ]);
    expect(await nextFlow(store, place, turn)).toBe('site/one');
    expect(await nextFlow(store, place, { ...turn, tenant: 'ten_d' })).toBeUndefined();
  });

  test('can be for the newest that is due', async () => {
    const store = await openTestStore();
    for (const age of [3, 2, 1, -1]) await add(store, `age${age}@example.test`, { at: NOW - age });
    const [{ rows }] = await store.write([claimNewest({ ...CLAIM, limit: 2 })]);
    expect(rows.map(({ recipient }) => recipient).sort()).toEqual(['age1@example.test', 'age2@example.test']);
  });
});

describe('the end of a try', () => {
  test.each<[string, (lease: { id: string; owner: string; attempts: number }) => Statement]>([
    ['settled', (lease) => settleDelivery({ ...lease, state: 'delivered', reply: '250 ok', at: NOW + 1 }, 1)],
    ['deferred', (lease) => deferDelivery({ ...lease, reply: '451 later', due: NOW + 1 }, 1)],
    ['given back', (lease) => giveBack({ ...lease, due: NOW + 1 }, 1)],
  ])('%s: only for the one who holds the lease of this try', async (_, statement) => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    const [row] = await claim(store);
    const lease = { id: row?.id ?? '', owner: 'me', attempts: 1 };
    await expect(store.write([statement({ ...lease, owner: 'somebody else' })])).rejects.toThrow(UnmetError);
    await expect(store.write([statement({ ...lease, attempts: 2 })])).rejects.toThrow(UnmetError);
    await store.write([statement(lease)]);
    await expect(store.write([statement(lease)])).rejects.toThrow(UnmetError);
    expect(await findDelivery(store, lease.id)).toMatchObject({ lease_owner: null, lease_until: null });
  });

  test('a claim that is given back never was', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    const [row] = await claim(store);
    const id = row?.id ?? '';
    await store.write([giveBack({ id, owner: 'me', attempts: 1, due: NOW }, 1)]);
    expect(await findDelivery(store, id)).toMatchObject({ state: 'queued', attempts: 0, next_attempt_at: NOW });
    await claim(store);
    await store.write([deferDelivery({ id, owner: 'me', attempts: 1, reply: '451', due: NOW }, 1)]);
    await claim(store);
    await store.write([giveBack({ id, owner: 'me', attempts: 2, due: NOW }, 1)]);
    expect(await findDelivery(store, id)).toMatchObject({ state: 'deferred', attempts: 1, last_reply: '451' });
  });
});

describe('leases', () => {
  const MINUTE = 60_000;
  const SLOWLY = { delays: `[${10 * MINUTE}]`, last_delay: 0 };

  test('that ran out are taken back: what had not begun is due at once, and its try does not count', async () => {
    const store = await openTestStore();
    const message = await add(store, 'a@example.test');
    await claim(store, SLOWLY);
    await store.write([recomputeDue({ name: 'example.test' })]);
    expect(await takeBackLeases(store, NOW + MINUTE, NOW + MINUTE)).toBe(0);
    expect(await takeBackLeases(store, NOW + MINUTE + 1, NOW + MINUTE + 1)).toBe(1);
    expect(await deliveriesOfMessage(store, message)).toMatchObject([
      { state: 'queued', attempts: 0, next_attempt_at: NOW + MINUTE + 1, lease_owner: null, lease_until: null },
    ]);
    expect(await attemptsOfMessage(store, message)).toEqual([]);
    expect(await findDestination(store, 'example.test')).toMatchObject({ next_due_at: NOW + MINUTE + 1 });
  });

  test('of tries that had begun count, and wait for seconds; if that repeats, for as long as the claim said', async () => {
    const store = await openTestStore();
    const message = await add(store, 'a@example.test');
    let now = NOW;
    const crash = async () => {
      const [row] = await claim(store, { ...SLOWLY, now });
      await store.write([beginDeliveries({ ids: [row?.id ?? ''], owner: 'me' })]);
      await takeBackLeases(store, Number.MAX_SAFE_INTEGER, now + 1000);
      const [{ attempts, next_attempt_at: due } = { attempts: 0, next_attempt_at: 0 }] = await deliveriesOfMessage(
        store,
        message,
      );
      const waits = (due ?? 0) - now;
      now = due ?? 0;
      return { attempts, waits };
    };
    expect(await crash()).toEqual({ attempts: 1, waits: 6000 });
    expect(await crash()).toEqual({ attempts: 2, waits: 10 * MINUTE });
    expect(await crash()).toEqual({ attempts: 3, waits: 10 * MINUTE });
    expect((await attemptsOfMessage(store, message)).map(({ outcome }) => outcome)).toEqual([
      'interrupted',
      'interrupted',
      'interrupted',
    ]);
  });

  test('let nothing begin that another has, or whose tenant is suspended', async () => {
    const store = await openTestStore();
    const { tenant } = await testKey(store, { account: { suspended: 1 } });
    await add(store, 'a@example.test');
    await add(store, 'b@example.test', { tenant });
    const rows = await claim(store);
    const ids = rows.map(({ id }) => id);
    const begin = async (owner: string) => (await store.write([beginDeliveries({ ids, owner })]))[0].rows;
    expect(await begin('you')).toEqual([]);
    expect(await begin('me')).toEqual([{ id: rows.find((row) => row.tenant === 'ten_a')?.id, attempts: 1 }]);
  });

  test('that are renewed are not', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    const [row] = await claim(store);
    await store.write([renewLeases({ owner: 'me', until: NOW + 100_000 })]);
    expect(await takeBackLeases(store, NOW + 60_001, NOW)).toBe(0);
    expect(await leasedTo(store, 'me')).toEqual([{ id: row?.id, attempts: 1, destination: 'example.test' }]);
    expect(await leasedTo(store, 'you')).toEqual([]);
  });
});

describe('a destination', () => {
  const name = 'example.test';
  const due = async (store: Store) => (await findDestination(store, name))?.next_due_at;

  test('is due when its earliest delivery is', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test', { at: NOW + 5 });
    expect(await due(store)).toBe(NOW + 5);
    await add(store, 'b@example.test', { at: NOW + 2 });
    expect(await due(store)).toBe(NOW + 2);
    await add(store, 'c@example.test', { at: NOW + 9 });
    expect(await due(store)).toBe(NOW + 2);
    await claim(store, { now: NOW + 2 });
    await store.write([recomputeDue({ name })]);
    expect(await due(store)).toBe(NOW + 5);
    await claim(store, { now: NOW + 10 });
    await store.write([recomputeDue({ name })]);
    expect(await due(store)).toBe(null);
    await store.write([noteDue({ name, due: NOW + 50 })]);
    expect(await due(store)).toBe(NOW + 50);
  });

  test('in a pause is due at its end; until five failures new mail may probe before', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    const pause = { name, pauses: 1, paused_until: NOW + 1000, last_error: 'refused', line: 'again:ten_a' };
    await store.write([pauseDestination({ ...pause, failures: 4 })]);
    expect(await due(store)).toBe(NOW + 1000);
    await add(store, 'b@example.test', { at: NOW + 1 });
    expect(await due(store)).toBe(NOW + 1);

    await store.write([pauseDestination({ ...pause, failures: 5 })]);
    await add(store, 'c@example.test', { at: NOW + 2 });
    await store.write([recomputeDue({ name })]);
    expect(await due(store)).toBe(NOW + 1000);
    await store.write([noteDue({ name, due: NOW + 5000 })]);
    expect(await due(store)).toBe(NOW + 1000);

    await store.write([clearFailures({ names: [name] }), recomputeDue({ name })]);
    expect(await findDestination(store, name)).toMatchObject({
      next_due_at: NOW,
      failures: 0,
      pauses: 0,
      paused_until: null,
      last_error: null,
    });
  });

  test('that fails leaves all that waits for it as it is', async () => {
    const store = await openTestStore();
    for (let i = 0; i < 20; i++) await add(store, `u${i}@example.test`);
    const before = await selectDeliveries(store, { limit: 100 });
    const pause = {
      name,
      failures: 1,
      pauses: 1,
      paused_until: NOW + 1000,
      last_error: 'refused',
      line: 'again:ten_a',
    };
    await store.write([pauseDestination(pause)]);
    expect(await selectDeliveries(store, { limit: 100 })).toEqual(before);
    expect(await dueDestinations(store, 'again:ten_a', { now: NOW + 999, limit: 10 })).toEqual([]);
    expect(await dueDestinations(store, 'again:ten_a', { now: NOW + 1000, limit: 10 })).toMatchObject([
      { name, last_error: 'refused' },
    ]);
  });

  test('is found when it is due and not held, longest overdue first', async () => {
    const store = await openTestStore();
    for (const [i, domain] of ['c.test', 'a.test', 'b.test', 'later.test'].entries()) {
      await add(store, `x@${domain}`, { at: NOW + i });
    }
    await store.write([setHeld({ name: 'a.test', held: 1 }), setHeld({ name: 'unknown.test', held: 1 })]);
    const names = async (limit: number, line = 'ten_a') =>
      (await dueDestinations(store, line, { now: NOW + 2, limit })).map((row) => row.name);
    expect(await names(10)).toEqual(['c.test', 'b.test']);
    expect(await names(1)).toEqual(['c.test']);
    expect(await nextDueAt(store)).toBe(NOW);
    await store.write([setHeld({ name: 'a.test', held: 0 })]);
    expect(await names(10)).toEqual(['c.test', 'a.test', 'b.test']);
    expect(await names(10, '')).toEqual([]);
  });

  test('waits in the line of its tenant until it answers, and in another after it could not be reached', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    await add(store, 'b@example.test', { tenant: 'ten_b' });
    await add(store, 'x@other.test', { tenant: 'ten_b', at: NOW + 1 });
    expect(await dueLines(store, NOW)).toEqual(['ten_a']);
    expect(await dueLines(store, NOW + 1)).toEqual(['ten_a', 'ten_b']);
    await store.write([noteAnswered({ name }), setHeld({ name: 'other.test', held: 1 })]);
    expect(await dueLines(store, NOW + 1)).toEqual(['']);
    const pause = { name, failures: 1, pauses: 1, paused_until: NOW + 9, last_error: 'refused', line: 'again:ten_a' };
    await store.write([pauseDestination(pause)]);
    expect(await dueLines(store, NOW + 8)).toEqual([]);
    expect(await dueLines(store, NOW + 9)).toEqual(['again:ten_a']);
  });

  test('that was forgotten is found again', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    await add(store, 'b@other.test');
    await store.write([claimDeliveries({ ...CLAIM, destination: 'other.test' }), recomputeDue({ name: 'other.test' })]);
    const [row] = await claim(store);
    await store.write([recomputeDue({ name })]);
    // The race of two daemons: the delivery is there, the destination does not know.
    await store.write([giveBack({ id: row?.id ?? '', owner: 'me', attempts: 1, due: NOW + 7 }, 1)]);
    expect(await due(store)).toBe(null);
    const [{ changes }] = await store.write([repairDue({ now: NOW })]);
    expect(changes).toBe(1);
    expect(await due(store)).toBe(NOW + 7);
  });

  test('that is thought to be due later is found again, but its pause stays', async () => {
    const store = await openTestStore();
    await add(store, 'a@example.test');
    await add(store, 'b@example.test');
    const later = NOW + 3_600_000;
    const rows = await claim(store, { limit: 1 });
    await store.write([giveBack({ id: rows[0]?.id ?? '', owner: 'me', attempts: 1, due: later }, 1)]);
    const pause = { name, failures: 1, pauses: 1, paused_until: later, last_error: 'refused', line: 'again:ten_a' };
    await store.write([pauseDestination(pause)]);
    expect(await store.write([repairDueAmong({ names: [name], now: NOW })])).toMatchObject([{ changes: 0 }]);
    expect(await due(store)).toBe(later);
    await store.write([clearFailures({ names: [name] })]);
    expect(await store.write([repairDueAmong({ names: ['other.test'], now: NOW })])).toMatchObject([{ changes: 0 }]);
    expect(await store.write([repairDueAmong({ names: [name], now: NOW })])).toMatchObject([{ changes: 1 }]);
    expect(await due(store)).toBe(NOW);
    expect(await store.write([repairDueAmong({ names: [name], now: NOW })])).toMatchObject([{ changes: 0 }]);
  });
});

describe('deliveries that waited too long', () => {
  test('are found unless they are about to be tried or held', async () => {
    const store = await openTestStore();
    const ttl = 1000;
    const late = NOW + ttl;
    await add(store, 'due@due.test', { ttl });
    await add(store, 'paused@paused.test', { ttl });
    await add(store, 'held@held.test', { ttl });
    await add(store, 'young@paused.test', { ttl: ttl + 1 });
    const pause = { failures: 1, pauses: 1, paused_until: late + 1, last_error: 'refused', line: 'again:ten_a' };
    await store.write([
      pauseDestination({ ...pause, name: 'paused.test' }),
      pauseDestination({ ...pause, name: 'held.test' }),
      setHeld({ name: 'held.test', held: 1 }),
    ]);
    const found = async () => {
      const { overdue } = await walkWaiting(store, 'queued', { after: '', limit: 10, now: late });
      return overdue.map(({ recipient }) => recipient);
    };
    expect(await found()).toEqual(['paused@paused.test']);
    const [row] = await selectDeliveries(store, { destination: 'due.test', limit: 1 });
    await store.write([makeDue({ id: row?.id ?? '', due: late + 1 })]);
    expect((await found()).toSorted()).toEqual(['due@due.test', 'paused@paused.test']);
  });

  test('are found stretch by stretch', async () => {
    const store = await openTestStore();
    for (let i = 0; i < 5; i++) await add(store, `u${i}@example.test`, { at: NOW + i, ttl: 1000 - i });
    const pause = {
      name: 'example.test',
      failures: 1,
      pauses: 1,
      paused_until: NOW + 9000,
      last_error: 'refused',
      line: 'again:ten_a',
    };
    await store.write([pauseDestination(pause)]);
    const stretches: string[][] = [];
    let after = '';
    do {
      const { overdue, next } = await walkWaiting(store, 'queued', { after, limit: 2, now: NOW + 1000 });
      stretches.push(overdue.map(({ recipient }) => recipient.slice(0, 2)));
      after = next;
    } while (after !== '');
    expect(stretches.map((each) => each.toSorted())).toEqual([['u0', 'u1'], ['u2', 'u3'], ['u4']]);
  });

  test('and are ended once, unless somebody claimed them', async () => {
    const store = await openTestStore();
    const message = await add(store, ['a@example.test', 'b@other.test']);
    const [a, b] = (await deliveriesOfMessage(store, message)).toSorted((x, y) =>
      x.recipient.localeCompare(y.recipient),
    );
    const end = (id: string | undefined) => endWaiting({ id: id ?? '', state: 'expired', reply: 'too late', at: NOW });
    await claim(store);
    const results = await store.write([end(a?.id), end(b?.id), end(b?.id)]);
    expect(results.map(({ changes }) => changes)).toEqual([0, 1, 0]);
    expect(await findDelivery(store, b?.id ?? '')).toMatchObject({
      state: 'expired',
      next_attempt_at: null,
      settled_at: NOW,
    });
  });
});

test('deliveries are listed by state and destination, page by page, newest first', async () => {
  const store = await openTestStore();
  for (let i = 0; i < 5; i++) await add(store, [`u${i}@example.test`, `u${i}@other.test`], { at: NOW + i });
  await claim(store, { now: NOW + 1 });
  const all = await selectDeliveries(store, { destination: 'example.test', limit: 10 });
  expect(all.map(({ recipient }) => recipient)).toEqual(
    ['u4', 'u3', 'u2', 'u1', 'u0'].map((user) => `${user}@example.test`),
  );
  const queued = await selectDeliveries(store, { destination: 'example.test', state: 'queued', limit: 2 });
  expect(queued.map(({ recipient }) => recipient)).toEqual(['u4@example.test', 'u3@example.test']);
  const next = await selectDeliveries(store, {
    destination: 'example.test',
    state: 'queued',
    limit: 2,
    before: queued[1]?.id ?? '',
  });
  expect(next.map(({ recipient }) => recipient)).toEqual(['u2@example.test']);
  expect((await selectDeliveries(store, { state: 'sending', limit: 10 })).length).toBe(2);
});
