import { expect, test } from 'vitest';
import { recordEvent, type NewEvent } from '../../../src/store/events.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NEW_YEAR = Date.UTC(2026, 0, 1);

interface Listed {
  readonly events: readonly { readonly id: string; readonly type: string; readonly created_at: string }[];
  readonly count: number;
  readonly next_cursor: string | null;
}

async function list(http: TestHttp, key: TestKey, query = ''): Promise<Listed> {
  const answer = await http.request(`/events${query}`, { headers: key.headers });
  expect([answer.status, answer.text]).toEqual([200, expect.anything()]);
  return answer.json() as unknown as Listed;
}

async function happen(http: TestHttp, tenant: string, ...events: Partial<NewEvent>[]): Promise<void> {
  for (const event of events) {
    await http.store.write([recordEvent({ type: 'email.queued', tenant, at: NEW_YEAR, data: {}, ...event })]);
  }
}

/** Without the event of its own making. */
async function quietKey(http: TestHttp, settings: Parameters<typeof testKey>[1] = {}): Promise<TestKey> {
  return testKey(http.store, { now: NEW_YEAR - 100 * DAY, ...settings });
}

test('what happened is listed newest first, in pages, with its count', async () => {
  const clock = testClock(NEW_YEAR);
  const http = await startHttp({ clock });
  const key = await quietKey(http, { permissions: ['analytics.read'] });
  const times = Array.from({ length: 25 }, (_, i) => NEW_YEAR - i * 7 * HOUR);
  await happen(http, key.tenant, ...times.map((at) => ({ at })));
  await happen(http, key.tenant, { at: NEW_YEAR }, { at: NEW_YEAR });
  for (const step of [0, 3 * HOUR, 40 * DAY]) {
    clock.advance(step);
    const seen: string[] = [];
    let query = '?limit=10';
    for (let pages = 1; ; pages++) {
      const page = await list(http, key, query);
      expect(page.count).toBe(28);
      seen.push(...page.events.map(({ id }) => id));
      if (page.next_cursor === null) {
        expect(pages).toBe(3);
        break;
      }
      query = `?limit=10&cursor=${page.next_cursor}`;
    }
    expect(seen).toEqual([...seen].sort().reverse());
    expect(new Set(seen).size).toBe(28);
  }
  const [last] = (await list(http, key, '?type=key.created')).events;
  expect(last).toMatchObject({ type: 'key.created', created_at: '2025-09-23T00:00:00.000Z' });
});

test('an event tells all that is known of it', async () => {
  const http = await startHttp();
  const key = await testKey(http.store, { tenant: OPERATOR });
  const posted = await http.request('/example.com/contact', {
    body: { message: 'Hello there' },
    headers: { Accept: 'application/json' },
  });
  const [message] = await http.store.read.selectFrom('messages').select('id').execute();
  const [event] = (await list(http, key, '?type=email.queued')).events;
  expect(event).toEqual({
    id: expect.stringMatching(/^evt_/),
    type: 'email.queued',
    created_at: expect.stringMatching(/Z$/),
    domain: 'example.com',
    form: 'example.com/contact',
    submission: posted.json()['id'],
    message: message?.id,
    data: { kind: 'notification', recipients: ['owner@example.com'] },
  });
});

test('by type, domain, form and time', async () => {
  const clock = testClock(NEW_YEAR + 2 * DAY);
  const http = await startHttp({ clock });
  const key = await quietKey(http);
  await happen(
    http,
    key.tenant,
    { type: 'email.bounced', domain: 'one.example' },
    { type: 'email.delivered', domain: 'one.example', at: NEW_YEAR + DAY },
    { type: 'email.delivered', domain: 'two.example', at: NEW_YEAR + DAY + 1 },
    { type: 'email.delivered', at: NEW_YEAR + 2 * DAY },
  );
  const counts = async (query: string) => {
    const { events, count } = await list(http, key, query);
    expect(events.length).toBe(count);
    return count;
  };
  expect(await counts('?type=email.delivered')).toBe(3);
  expect(await counts('?type=email.complained')).toBe(0);
  expect(await counts('?domain=ONE.example')).toBe(2);
  expect(await counts('?domain=one.example&type=email.bounced')).toBe(1);
  expect(await counts('?form=frm_x')).toBe(0);
  expect(await counts('?from=2026-01-01&to=2026-01-01')).toBe(1);
  expect(await counts('?from=2026-01-02')).toBe(3);
  expect(await counts('?from=2026-01-01T00:00:00.001Z&to=2026-01-02T00:00:00.001Z')).toBe(1);
});

test('of another tenant nothing, of other domains nothing', async () => {
  const http = await startHttp({ clock: testClock(NEW_YEAR) });
  const key = await quietKey(http, { restrictions: { domain_restrictions: ['one.example'] } });
  const stranger = await quietKey(http);
  await happen(http, key.tenant, { domain: 'one.example' }, { domain: 'two.example' }, {});
  const seen = await list(http, key);
  expect([seen.count, seen.events]).toEqual([1, [expect.objectContaining({ domain: 'one.example' })]]);
  const refused = await http.request('/events?domain=two.example', { headers: key.headers });
  expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_DOMAIN_NOT_ALLOWED']);
  expect((await list(http, stranger)).events.map(({ type }) => type)).toEqual(['key.created']);
  // A cursor of somebody else's is a place in time, no more.
  const cursor = seen.events[0]?.id;
  expect((await list(http, stranger, `?cursor=${cursor}`)).events.length).toBe(1);
});

test.each(['type=delivered', 'cursor=evt_1', 'limit=0', 'from=soon', 'colour=red'])('?%s is refused', async (query) => {
  const http = await startHttp();
  const answer = await http.request(`/events?${query}`, { local: true });
  expect([answer.status, answer.json()]).toEqual([
    400,
    expect.objectContaining({
      code: 'VALIDATION_FAILED',
      details: [expect.objectContaining({ path: query.split('=')[0] })],
    }),
  ]);
});
