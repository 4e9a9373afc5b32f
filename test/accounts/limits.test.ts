import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { clientBucket, createLimits, MemoryCounters, type Limits } from '../../src/accounts/rate-limits.ts';
import { silentLog } from '../../src/lib/log.ts';
import { createStore } from '../../src/store/database.ts';
import { allSlices } from '../../src/store/limits.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { testClock, type TestClock } from '../harness/clock.ts';
import { freshDatabase, openTestStore, temporaryFolder } from '../harness/store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** For what another thread writes. */
const PATIENCE = { timeout: 10_000 };
const hourly = { count: 3, windowMs: HOUR };

async function openLimits(store: Store, clock: TestClock): Promise<Limits> {
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  return limits;
}

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::FFFF:c000:0207', '192.0.2.7'],
  ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
  ['2001:0db8:0001:0002:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
  ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['', ''],
  ['unix:', 'unix:'],
])('the client %s counts as %s', (ip, bucket) => {
  expect(clientBucket(ip)).toBe(bucket);
});

test('so many are allowed in an hour, and again when the first is an hour old', async () => {
  const clock = testClock();
  const limits = await openLimits(await openTestStore(), clock);
  const start = clock.now();
  expect(await limits.take('a', hourly)).toEqual({
    allowed: true,
    limit: 3,
    remaining: 2,
    reset: (start + HOUR) / 1000,
  });
  clock.advance(30 * MINUTE);
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: true, remaining: 1 });
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: true, remaining: 0 });
  expect(await limits.take('a', hourly)).toEqual({
    allowed: false,
    limit: 3,
    remaining: 0,
    reset: (start + HOUR) / 1000,
  });
  expect(await limits.take('b', hourly)).toMatchObject({ allowed: true, remaining: 2 });
  clock.advance(29 * MINUTE);
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: false });
  clock.advance(MINUTE);
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: true, remaining: 0 });
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: false });
  clock.advance(31 * MINUTE);
  expect(await limits.take('a', hourly)).toMatchObject({ allowed: true, remaining: 1 });
});

test('whatever comes when, a window never holds more than the limit, and who waits for the reset gets in', () => {
  const steps = fc.array(fc.nat({ max: 40 * MINUTE }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 5 }), (waits, count) => {
      const limit = { count, windowMs: HOUR };
      const clock = testClock();
      const windows = new MemoryCounters({ clock });
      const waiter = testClock();
      const patient = new MemoryCounters({ clock: waiter });
      const allowed: number[] = [];
      for (const wait of waits) {
        clock.advance(wait);
        const now = clock.now();
        const verdict = windows.take('a', limit);
        if (verdict.allowed) allowed.push(now);
        const recent = allowed.filter((at) => at > now - (HOUR / 60) * 59).length;
        expect(recent).toBeLessThanOrEqual(count);
        expect(verdict.remaining).toBeLessThanOrEqual(count - recent);

        waiter.advance(wait);
        const first = patient.take('a', limit);
        if (first.allowed) continue;
        expect(first.reset * 1000).toBeGreaterThan(waiter.now());
        waiter.advance(first.reset * 1000 - waiter.now());
        expect(patient.take('a', limit).allowed).toBe(true);
      }
    }),
  );
});

test('a clock that is set back locks nobody out', () => {
  const clock = testClock();
  const windows = new MemoryCounters({ clock });
  for (let i = 0; i < 3; i++) windows.take('a', hourly);
  expect(windows.take('a', hourly).allowed).toBe(false);
  clock.step(-10 * HOUR);
  expect(windows.take('a', hourly).allowed).toBe(true);
});

test('a million clients take bounded memory, and idle ones are forgotten', () => {
  const clock = testClock();
  const windows = new MemoryCounters({ clock, maxBuckets: 1000 });
  for (let i = 0; i < 1_000_000; i++) {
    if (i % 1000 === 0) clock.advance(1000);
    windows.take(`c${i}`, { count: 1, windowMs: MINUTE });
  }
  expect(windows.size).toBeLessThanOrEqual(1000);
  expect(windows.size).toBeGreaterThanOrEqual(500);
  expect(windows.take('c999999', { count: 1, windowMs: MINUTE }).allowed).toBe(false);
  for (let i = 0; i < 2; i++) {
    clock.advance(10 * MINUTE);
    windows.forgetIdle();
  }
  expect(windows.size).toBe(0);
});

test('accepted posts and refused attempts have caps of their own, and posts at once cannot slip through', async () => {
  const clock = testClock();
  const limits = await openLimits(await openTestStore(), clock);
  const form = { id: 'example.com/contact', rateLimit: 2 };
  const ip = '2001:db8::1';
  for (let i = 0; i < 10; i++) {
    const { verdict, refused } = await limits.takeSubmission(form, ip);
    expect(verdict).toMatchObject({ allowed: true, limit: 2, remaining: 1 });
    await refused();
  }
  expect((await limits.takeSubmission(form, ip)).verdict).toMatchObject({ allowed: false, limit: 10, remaining: 0 });
  expect((await limits.takeSubmission({ ...form, id: 'example.com/other' }, ip)).verdict.allowed).toBe(true);

  const others = await Promise.all(Array.from({ length: 5 }, () => limits.takeSubmission(form, '2001:db8:0:1::1')));
  expect(others.filter(({ verdict }) => verdict.allowed).length).toBe(2);
  const sameNetwork = await limits.takeSubmission(form, '2001:db8:0:1:ffff::9');
  expect(sameNetwork.verdict.allowed).toBe(false);
  await sameNetwork.refused();
  clock.advance(HOUR);
  expect((await limits.takeSubmission(form, ip)).verdict).toMatchObject({ allowed: true, remaining: 1 });
});

test('a post that failed is not among the accepted, though the database answers nothing meanwhile', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const limits = await openLimits(store, clock);
  const form = { id: 'example.com/contact', rateLimit: 2 };
  const { refused } = await limits.takeSubmission(form, '192.0.2.1');
  clock.advance(2000);
  const { select } = store;
  Object.assign(store, { select: () => Promise.reject(new StoreError('the server is away', 'ECONNREFUSED')) });
  // On PostgreSQL it cannot be counted as refused.
  await refused().catch((error: unknown) => expect(error).toBeInstanceOf(StoreError));
  Object.assign(store, { select });
  expect((await limits.takeSubmission(form, '192.0.2.1')).verdict).toMatchObject({ allowed: true, remaining: 1 });
});

test('a restart forgets no hour, and minutes only', async () => {
  const url = await freshDatabase();
  const clock = testClock();
  const before = await createStore(url);
  const first = await createLimits({ store: before, clock, log: silentLog });
  for (let i = 0; i < 3; i++) await first.take('a', hourly);
  await first.take('short', { count: 1, windowMs: MINUTE });
  await first.close();
  await before.close();

  const after = await createStore(url);
  onTestFinished(() => after.close());
  const second = await openLimits(after, clock);
  expect(await second.take('a', hourly)).toMatchObject({ allowed: false });
  expect(await second.take('short', { count: 1, windowMs: MINUTE })).toMatchObject({ allowed: true });
});

test('on SQLite counts are written within a second, tried again when that fails, and gone with their window', async () => {
  const clock = testClock();
  const store = await createStore(`sqlite:${await temporaryFolder()}/postern.db`);
  onTestFinished(() => store.close());
  const write = vi.spyOn(store, 'write').mockRejectedValueOnce(new StoreError('disk full', 'SQLITE_FULL'));
  const limits = await openLimits(store, clock);
  await limits.take('a', hourly);
  clock.advance(1000);
  await vi.waitFor(() => expect(write).toHaveBeenCalledTimes(1), PATIENCE);
  expect(await allSlices(store)).toEqual([]);
  await vi.waitFor(async () => {
    clock.advance(1000);
    expect(await allSlices(store)).toEqual([{ bucket: `${HOUR}:a`, starts_at: Date.UTC(2026, 0, 1), count: 1 }]);
  }, PATIENCE);
  await vi.waitFor(async () => {
    clock.advance(HOUR);
    expect(await allSlices(store)).toEqual([]);
  }, PATIENCE);
});

test('two daemons on one store cannot both take the last place', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const [one, two] = [await openLimits(store, clock), await openLimits(store, clock)];
  const daemons = store.dialect === 'sqlite' ? [one, one] : [one, two];
  const verdicts = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => (i % 2 === 0 ? daemons[0] : daemons[1])?.take('a', hourly)),
  );
  expect(verdicts.filter((verdict) => verdict?.allowed === true).length).toBe(3);
});

test('posts that another daemon has counted count here within two seconds, and outlive both', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const form = { id: 'example.com/contact', rateLimit: 3 };
  const ip = '192.0.2.1';
  const one = await openLimits(store, clock);
  const two = store.dialect === 'sqlite' ? one : await openLimits(store, clock);
  expect((await one.takeSubmission(form, ip)).verdict).toMatchObject({ allowed: true, remaining: 2 });
  const mistyped = await two.takeSubmission(form, ip);
  await mistyped.refused();
  await two.takeSubmission(form, ip);
  await vi.waitFor(async () => {
    clock.advance(1000);
    await one.takeSubmission(form, '192.0.2.2');
    const rows = (await allSlices(store)).filter(({ bucket }) => bucket.includes(ip));
    expect(rows.map(({ bucket, count }) => [bucket.split(':')[1], count])).toEqual([
      ['accepted', 2],
      ['refused', 1],
    ]);
  }, PATIENCE);
  clock.advance(1000);
  for (const daemon of [one, two]) {
    const { verdict, refused } = await daemon.takeSubmission(form, ip);
    expect(verdict).toMatchObject({ allowed: true, remaining: 0 });
    await refused();
  }
  const after = await openLimits(store, clock);
  expect((await after.takeSubmission(form, ip)).verdict).toMatchObject({ allowed: true, remaining: 0 });
  expect((await after.takeSubmission(form, ip)).verdict).toMatchObject({ allowed: false, limit: 3 });
});
