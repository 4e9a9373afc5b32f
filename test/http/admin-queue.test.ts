import { describe, expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { HELD, parkDelivery, walkWaiting } from '../../src/store/messages.ts';
import { nextDueAt } from '../../src/store/destinations.ts';
import { insertDomain } from '../../src/store/domains.ts';
import { claimDeliveries } from '../../src/store/leases.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import type { Statement } from '../../src/store/statement.ts';
import { startHttp, type TestHttp, type TestRequest } from '../harness/http.ts';
import { testClock } from '../harness/clock.ts';
import { testKey } from '../harness/keys.ts';

const HOUR = 3_600_000;

/** A message to each recipient list; answers the messages' ids. */
function fill(http: TestHttp, now: number, ...lists: string[][]): Promise<string[]> {
  return fillFor(OPERATOR, http, { now, lists });
}

async function fillFor(
  tenant: string,
  http: TestHttp,
  { now, lists }: { now: number; lists: string[][] },
): Promise<string[]> {
  const ids: string[] = [];
  for (const [i, recipients] of lists.entries()) {
    const { id, unit } = enqueue(
      { tenant, kind: 'system', submission: null, domain: 'example.com', source: {}, recipients, ttl: HOUR },
      now + i,
    );
    await http.store.write(unit);
    ids.push(id);
  }
  return ids;
}

const local = (http: TestHttp, path: string, request: TestRequest = {}) =>
  http.request(path, { ...request, local: true });
const states = async (http: TestHttp) =>
  (await http.store.read.selectFrom('deliveries').select(['recipient', 'state']).orderBy('recipient').execute()).map(
    ({ recipient, state }) => [recipient, state],
  );

describe('GET /admin/queue', () => {
  test('lists newest first, in pages, by state and domain', async () => {
    const clock = testClock();
    const http = await startHttp({ clock });
    await fill(http, clock.now(), ['a@one.example'], ['b@two.example'], ['c@one.example']);
    const all = (await local(http, '/v1/admin/queue?limit=2')).json();
    expect(all).toMatchObject({
      count: 3,
      deliveries: [
        {
          recipient: 'c@one.example',
          destination: 'one.example',
          state: 'queued',
          attempts: 0,
          next_attempt_at: '2026-01-01T00:00:00.002Z',
          created_at: '2026-01-01T00:00:00.002Z',
          expires_at: '2026-01-01T01:00:00.002Z',
          settled_at: null,
        },
        { recipient: 'b@two.example' },
      ],
    });
    const rest = (await local(http, `/api/admin/queue?limit=2&cursor=${String(all['next_cursor'])}`)).json();
    expect(rest).toMatchObject({ count: 3, deliveries: [{ recipient: 'a@one.example' }], next_cursor: null });
    const one = (await local(http, '/admin/queue?domain=ONE.example&state=queued')).json();
    expect(one).toMatchObject({
      count: 2,
      deliveries: [{ recipient: 'c@one.example' }, { recipient: 'a@one.example' }],
    });
    expect((await local(http, '/admin/queue?state=bounced')).json()).toEqual({
      deliveries: [],
      relay: null,
      count: 0,
      next_cursor: null,
    });
  });

  test.each(['limit=0', 'limit=201', 'limit=x', 'cursor=x', 'state=lost', 'domain=x%20y'])(
    '?%s is refused by name',
    async (query) => {
      const http = await startHttp();
      const answer = await local(http, `/admin/queue?${query}`);
      expect([answer.status, answer.json()]).toEqual([
        400,
        expect.objectContaining({
          code: 'VALIDATION_FAILED',
          details: [{ path: query.split('=')[0], message: expect.any(String) }],
        }),
      ]);
    },
  );
});

test('a message is shown with every delivery and attempt, by its own id or a delivery’s', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const [id = ''] = await fill(http, clock.now(), ['a@one.example', 'b@two.example']);
  const shown = (await local(http, `/admin/queue/${id}`)).json();
  expect(shown).toMatchObject({
    message: { id, kind: 'system', domain: 'example.com', created_at: '2026-01-01T00:00:00.000Z' },
    deliveries: expect.arrayContaining([
      expect.objectContaining({ recipient: 'a@one.example', tries: [] }),
      expect.objectContaining({ recipient: 'b@two.example', tries: [] }),
    ]),
  });
  const [row] = await http.store.read.selectFrom('deliveries').select('id').orderBy('id').execute();
  expect((await local(http, `/admin/queue/${row?.id}`)).json()).toEqual(shown);
  const unknown = await local(http, '/admin/queue/msg_nope');
  expect([unknown.status, unknown.json()['code']]).toEqual([404, 'NOT_FOUND']);
});

test('retry and cancel act on what waits and wake the queue; what is over is a conflict', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const [id = ''] = await fill(http, clock.now(), ['a@one.example', 'b@two.example']);
  const retried = await local(http, `/admin/queue/${id}/retry`, { method: 'POST' });
  expect([retried.status, retried.json()]).toEqual([
    200,
    { deliveries: [expect.stringMatching(/^dlv_/), expect.stringMatching(/^dlv_/)], held: [] },
  ]);
  expect(http.wakes()).toBe(1);
  expect((await local(http, `/admin/queue/${id}/cancel`, { method: 'POST' })).status).toBe(200);
  expect(await states(http)).toEqual([
    ['a@one.example', 'cancelled'],
    ['b@two.example', 'cancelled'],
  ]);
  for (const verb of ['retry', 'cancel']) {
    const again = await local(http, `/admin/queue/${id}/${verb}`, { method: 'POST' });
    expect([again.status, again.json()]).toEqual([
      409,
      expect.objectContaining({ code: 'CONFLICT', error: 'Nothing is waiting for delivery: cancelled.' }),
    ]);
    expect((await local(http, `/admin/queue/dlv_nope/${verb}`, { method: 'POST' })).status).toBe(404);
  }
});

test('a destination is held and released by its domain', async () => {
  const http = await startHttp();
  const held = () => http.store.read.selectFrom('destinations').select(['name', 'held']).execute();
  const hold = await local(http, '/admin/queue/hold', { body: { domain: 'ONE.example' } });
  expect([hold.status, hold.json()]).toEqual([200, { destination: 'one.example', held: true }]);
  expect(await held()).toEqual([{ name: 'one.example', held: 1 }]);
  expect((await local(http, '/v1/admin/queue/release', { body: { domain: 'one.example' } })).json()).toEqual({
    destination: 'one.example',
    held: false,
  });
  expect(await held()).toEqual([{ name: 'one.example', held: 0 }]);
  const refused = [
    await local(http, '/admin/queue/hold', { body: {} }),
    await local(http, '/admin/queue/hold', { body: { domain: 'not a domain' } }),
    await local(http, '/admin/queue/hold', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{"domain":',
    }),
    await local(http, '/admin/queue/hold', { method: 'POST', body: new URLSearchParams({ domain: 'one.example' }) }),
  ];
  expect(refused.map((answer) => [answer.status, answer.json()['code']])).toEqual([
    [400, 'VALIDATION_FAILED'],
    [400, 'VALIDATION_FAILED'],
    [400, 'BODY_MALFORMED'],
    [415, 'UNSUPPORTED_MEDIA_TYPE'],
  ]);
});

describe('POST /admin/queue/actions', () => {
  const act = async (http: TestHttp, body: object) => (await local(http, '/admin/queue/actions', { body })).json();
  const count = async (http: TestHttp, body: object) => (await act(http, body))['count'];

  test('cancels all that waits of a tenant, however much, and of nobody else', async () => {
    const clock = testClock();
    const http = await startHttp({ clock });
    const { tenant } = await testKey(http.store);
    const many = Array.from({ length: 1200 }, (_, i) => [`u${i}@d${i % 7}.example`]);
    await fillFor(tenant, http, { now: clock.now(), lists: many });
    await fill(http, clock.now(), ['a@d1.example']);
    const filter = { tenant };
    expect(await act(http, { action: 'cancel', filter, dry_run: true })).toEqual({
      action: 'cancel',
      count: 1200,
      in_progress: 0,
      dry_run: true,
    });
    expect(await count(http, { action: 'cancel', filter })).toBe(1200);
    expect(http.wakes()).toBe(1);
    expect(await count(http, { action: 'cancel', filter })).toBe(0);
    expect((await local(http, `/admin/queue?tenant=${tenant}&state=cancelled`)).json()).toMatchObject({ count: 1200 });
    expect((await local(http, '/admin/queue?state=queued')).json()).toMatchObject({
      count: 1,
      deliveries: [{ recipient: 'a@d1.example' }],
    });
    // Nothing is left to look for there.
    const due = await http.store.read.selectFrom('destinations').select(['name', 'next_due_at']).execute();
    expect(due.flatMap(({ name, next_due_at: at }) => (at === null ? [] : [name]))).toEqual(['d1.example']);
  });

  test('commits some hundred at a time, in as many statements however many destinations that concerns', async () => {
    const http = await startHttp();
    await fill(http, Date.now(), ...Array.from({ length: 1200 }, (_, i) => [`u@d${i}.example`]));
    const units: (readonly Statement[])[] = [];
    const changed: number[] = [];
    const { write } = http.store;
    Object.assign(http.store, {
      async write(unit: readonly Statement[]) {
        const results = await write(unit);
        units.push(unit);
        changed.push(results[0]?.changes ?? 0);
        return results;
      },
    });
    for (const action of ['hold', 'release', 'retry', 'cancel']) {
      units.length = changed.length = 0;
      expect(await count(http, { action, filter: { sender: 'example.com' } })).toBe(1200);
      // And the event that says so.
      expect(changed).toEqual([500, 500, 200, 1]);
      expect(Math.max(...units.map(({ length }) => length))).toBeLessThanOrEqual(3);
    }
  });

  test('lets others have their turn, also where it only counts, and so does the list', async () => {
    const http = await startHttp();
    const recipients = Array.from({ length: 100 }, (_, i) => `u${i}@one.example`);
    await fill(http, Date.now(), ...Array.from({ length: 300 }, () => recipients));
    const requests = [
      // Its count ends there.
      ['/admin/queue?sender=example.com', {}, 10_000],
      [
        '/admin/queue/actions',
        { body: { action: 'cancel', filter: { sender: 'example.com' }, dry_run: true } },
        30_000,
      ],
    ] as const;
    for (const [path, request, expected] of requests) {
      let isAnswered = false;
      const answer = local(http, path, request).finally(() => (isAnswered = true));
      let served = 0;
      for (; !isAnswered; served++) expect((await http.request('/healthz')).status).toBe(200);
      expect((await answer).json()).toMatchObject({ count: expected });
      expect(served).toBeGreaterThan(3);
    }
  });

  test('what is parked until its recipient agrees is held and cancelled as all else; to retry it sends nothing', async () => {
    const clock = testClock();
    const http = await startHttp({ clock });
    await fill(http, clock.now(), ['a@one.example'], ['b@one.example']);
    const claim = { destination: 'one.example', now: clock.now(), owner: 'me', until: clock.now() + HOUR };
    const [{ rows }] = await http.store.write([claimDeliveries({ ...claim, delays: '[1]', last_delay: 0, limit: 1 })]);
    for (const { id, attempts } of rows) {
      const parking = { id, attempts, owner: 'me', reply: '450 not yet', expires_at: clock.now() + HOUR };
      await http.store.write([parkDelivery(parking, 1)]);
    }
    const filter = { domain: 'one.example' };
    const both = async (action: string) => [
      await count(http, { action, filter, dry_run: true }),
      await count(http, { action, filter }),
    ];
    expect(await both('retry')).toEqual([1, 1]);
    expect(await both('hold')).toEqual([2, 2]);
    expect(await both('release')).toEqual([2, 2]);
    expect(await both('cancel')).toEqual([2, 2]);
  });

  test('matches by domain, sender, age and state together', async () => {
    const clock = testClock();
    const http = await startHttp({ clock });
    await fill(http, clock.now(), ['a@one.example'], ['b@two.example']);
    clock.advance(HOUR / 2);
    await fill(http, clock.now(), ['c@one.example']);
    const matching = (filter: object) => count(http, { action: 'retry', filter, dry_run: true });
    expect(await matching({ domain: 'one.example' })).toBe(2);
    expect(await matching({ domain: 'one.example', older_than: '20m' })).toBe(1);
    expect(await matching({ sender: 'example.com' })).toBe(3);
    expect(await matching({ sender: 'other.example' })).toBe(0);
    expect(await matching({ state: 'deferred' })).toBe(0);
    expect((await local(http, '/admin/queue?older_than=20m&sender=example.com')).json()).toMatchObject({ count: 2 });
    for (const body of [
      { action: 'cancel', filter: {} },
      { action: 'drop', filter: { tenant: 'ten_a' } },
      { action: 'cancel', filter: { state: 'delivered' } },
      { action: 'cancel', filter: { older_than: 'long' } },
    ])
      expect((await local(http, '/admin/queue/actions', { body })).status).toBe(400);
  });

  test('what is held neither leaves nor expires until it is released; retry leaves it alone', async () => {
    const clock = testClock();
    const http = await startHttp({ clock });
    await fill(http, clock.now(), ['a@one.example'], ['b@one.example']);
    const filter = { domain: 'one.example' };
    expect(await count(http, { action: 'hold', filter })).toBe(2);
    expect((await local(http, '/admin/queue')).json()['deliveries']).toMatchObject([
      { held: true, state: 'queued', next_attempt_at: null },
      { held: true, state: 'queued', next_attempt_at: null },
    ]);
    expect(await count(http, { action: 'retry', filter })).toBe(0);
    expect(await nextDueAt(http.store)).toBe(HELD);
    clock.advance(2 * HOUR);
    const { overdue } = await walkWaiting(http.store, 'queued', { after: '', limit: 10, now: clock.now() });
    expect(overdue).toEqual([]);
    expect(await count(http, { action: 'release', filter })).toBe(2);
    expect(await nextDueAt(http.store)).toBe(clock.now());
  });
});

test('mail of a suspended tenant is shown as such', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  const { tenant } = await testKey(http.store);
  await fillFor(tenant, http, { now: clock.now(), lists: [['a@one.example']] });
  await fill(http, clock.now() + 1, ['b@one.example']);
  const change = (suspended: boolean) =>
    local(http, `/admin/tenants/${tenant}`, { method: 'PATCH', body: { suspended } });
  const shown = async () => (await local(http, '/admin/queue')).json()['deliveries'];
  expect(await shown()).toMatchObject([{ suspended: false }, { suspended: false }]);
  await change(true);
  // The queue is told at once, so that nothing more leaves.
  expect(http.wakes()).toBe(1);
  expect(await shown()).toMatchObject([{ suspended: false }, { suspended: true, recipient: 'a@one.example' }]);
  await change(false);
  expect(http.wakes()).toBeGreaterThan(1);
  expect(await shown()).toMatchObject([{ suspended: false }, { suspended: false }]);
});

test('actions name a project, and are events of the operator', async () => {
  const clock = testClock();
  const http = await startHttp({ clock });
  await http.store.write(
    [
      ['example.com', 'example'],
      ['other.example', 'other'],
    ].map(([name = '', project = '']) =>
      insertDomain({
        name,
        tenant: OPERATOR,
        project,
        token: 't',
        status: 'verified',
        next_check_at: 0,
        created_at: 0,
      }),
    ),
  );
  await fill(http, clock.now(), ['a@one.example'], ['b@two.example']);
  const act = async (action: string, filter: object) =>
    (await local(http, '/admin/queue/actions', { body: { action, filter } })).json();
  expect(await act('cancel', { project: 'other' })).toMatchObject({ count: 0 });
  expect(await act('hold', { project: 'example', domain: 'two.example' })).toMatchObject({ count: 1 });
  expect(await act('cancel', { project: 'example' })).toMatchObject({ count: 2 });
  await local(http, '/admin/queue/hold', { body: { domain: 'one.example' } });
  const events = await http.store.read
    .selectFrom('events')
    .select('data')
    .where('type', '=', 'queue.changed')
    .execute();
  expect(new Set(events.map(({ data }): unknown => JSON.parse(data)))).toEqual(
    new Set<unknown>([
      { action: 'cancel', filter: { project: 'other' }, count: 0, by: null },
      { action: 'hold', filter: { project: 'example', domain: 'two.example' }, count: 1, by: null },
      { action: 'cancel', filter: { project: 'example' }, count: 2, by: null },
      { action: 'hold', destination: 'one.example', by: null },
    ]),
  );
});
