import { describe, expect, test } from 'vitest';
import type { PublicEvent } from '../../../src/lib/event-types.ts';
import { recordEvent } from '../../../src/store/events.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NEW_YEAR = Date.UTC(2026, 0, 1);
const NOTHING = {
  submissions: 0,
  spam: 0,
  queued: 0,
  delivered: 0,
  deferred: 0,
  bounced: 0,
  forwarded: 0,
  rejected: 0,
};

interface Series {
  readonly from: string;
  readonly to: string;
  readonly interval: string;
  readonly totals: typeof NOTHING;
  readonly series: readonly ({ readonly at: string } & typeof NOTHING)[];
  readonly top_forms: readonly object[];
  readonly top_domains: readonly object[];
}

async function happen(http: TestHttp, tenant: string, ...events: [type: PublicEvent, at: number, domain?: string][]) {
  await http.store.write(
    events.map(([type, at, domain]) => recordEvent({ type, tenant, at, data: {}, ...(domain && { domain }) })),
  );
}

async function analytics(http: TestHttp, key: TestKey, query = ''): Promise<Series> {
  const answer = await http.request(`/analytics${query}`, { headers: key.headers });
  expect([answer.status, answer.text]).toEqual([200, expect.anything()]);
  return answer.json() as unknown as Series;
}

describe('GET /analytics', () => {
  test('counts by day, every day among them, and the same before and after hours are rolled up', async () => {
    const clock = testClock(NEW_YEAR);
    const http = await startHttp({ clock });
    const key = await testKey(http.store, { now: NEW_YEAR, permissions: ['analytics.read'] });
    await happen(
      http,
      key.tenant,
      ['submission.accepted', NEW_YEAR - 3 * DAY, 'one.example'],
      ['submission.accepted', NEW_YEAR, 'one.example'],
      ['submission.spam', NEW_YEAR, 'two.example'],
      ['email.queued', NEW_YEAR, 'one.example'],
      ['email.deferred', NEW_YEAR, 'one.example'],
      ['email.delivered', NEW_YEAR, 'one.example'],
      ['email.bounced', NEW_YEAR],
      ['inbound.accepted', NEW_YEAR, 'one.example'],
      ['inbound.rejected', NEW_YEAR, 'one.example'],
      ['domain.verified', NEW_YEAR, 'one.example'],
    );
    await happen(http, OPERATOR, ['submission.accepted', NEW_YEAR, 'one.example']);
    const fresh = await analytics(http, key);
    expect(fresh).toMatchObject({ from: '2025-12-03T00:00:00.000Z', to: '2026-01-02T00:00:00.000Z', interval: 'day' });
    expect(fresh.totals).toEqual({
      ...NOTHING,
      submissions: 2,
      spam: 1,
      queued: 1,
      delivered: 1,
      deferred: 1,
      bounced: 1,
      forwarded: 1,
      rejected: 1,
    });
    expect(fresh.series.length).toBe(30);
    expect(fresh.series.map(({ at }) => at)).toEqual(
      Array.from({ length: 30 }, (_, i) => new Date(NEW_YEAR - (29 - i) * DAY).toISOString()),
    );
    expect(fresh.series.at(-4)).toEqual({ at: '2025-12-29T00:00:00.000Z', ...NOTHING, submissions: 1 });
    expect(fresh.series.at(-3)).toEqual({ at: '2025-12-30T00:00:00.000Z', ...NOTHING });
    expect(fresh.series.at(-1)).toMatchObject({ submissions: 1, spam: 1, delivered: 1 });
    expect(fresh.top_forms).toEqual([]);
    expect(fresh.top_domains).toEqual([
      { domain: 'one.example', submissions: 2, delivered: 1 },
      { domain: 'two.example', submissions: 0, delivered: 0 },
    ]);
    clock.advance(5 * HOUR);
    expect(await analytics(http, key)).toEqual(fresh);
  });

  test('by hour and month, between dates and times, in whole buckets', async () => {
    const http = await startHttp({ clock: testClock(NEW_YEAR + 90 * DAY) });
    const key = await testKey(http.store, { now: NEW_YEAR });
    for (let day = 0; day < 90; day++)
      await happen(http, key.tenant, ['submission.accepted', NEW_YEAR + day * DAY + HOUR]);
    const months = await analytics(http, key, '?interval=month&from=2026-01-15&to=2026-04-01');
    expect(months.series.map(({ at, submissions }) => [at, submissions])).toEqual([
      ['2026-01-01T00:00:00.000Z', 31],
      ['2026-02-01T00:00:00.000Z', 28],
      ['2026-03-01T00:00:00.000Z', 31],
      ['2026-04-01T00:00:00.000Z', 0],
    ]);
    const hours = await analytics(http, key, '?interval=hour&from=2026-01-02T00:30:00Z&to=2026-01-02T02:00:00Z');
    expect(hours).toMatchObject({ from: '2026-01-02T00:00:00.000Z', to: '2026-01-02T02:00:00.000Z' });
    expect(hours.series.map(({ at, submissions }) => [at, submissions])).toEqual([
      ['2026-01-02T00:00:00.000Z', 0],
      ['2026-01-02T01:00:00.000Z', 1],
    ]);
    const day = await analytics(http, key, '?from=2026-02-01&to=2026-02-01');
    expect(day.totals.submissions).toBe(1);
    expect((await analytics(http, key, '?interval=hour')).series.length).toBe(24);
    expect((await analytics(http, key, '?interval=month')).series.length).toBe(12);
  });

  test('of a form and of a domain, with all that their submissions caused', async () => {
    const http = await startHttp({
      forms: {
        contact: { name: 'Contact', to: 'owner@example.com' },
        other: { name: 'Other', to: 'owner@example.com' },
      },
    });
    const key = await testKey(http.store, { tenant: OPERATOR });
    const post = async (form: string, count: number) => {
      for (let i = 0; i < count; i++) {
        const answer = await http.request(`/example.com/${form}`, {
          body: { message: `Hello, this is number ${i}` },
          headers: { Accept: 'application/json' },
        });
        expect(answer.status).toBe(200);
      }
    };
    await post('contact', 2);
    await post('other', 1);
    await http.request('/example.com/contact', { body: { message: 'Hello', _gotcha: 'x' } });
    const all = await analytics(http, key);
    expect(all.totals).toMatchObject({ submissions: 3, spam: 1, queued: 3 });
    expect(all.top_forms).toEqual([
      { form: 'example.com/contact', submissions: 2, spam: 1 },
      { form: 'example.com/other', submissions: 1, spam: 0 },
    ]);
    const one = await analytics(http, key, '?form=example.com/contact');
    expect(one.totals).toMatchObject({ submissions: 2, spam: 1, queued: 2 });
    expect((await analytics(http, key, '?domain=EXAMPLE.com')).totals).toMatchObject({ submissions: 3 });
    expect((await analytics(http, key, '?domain=example.org')).totals).toEqual(NOTHING);
    expect((await analytics(http, key, '?form=frm_x')).totals).toEqual(NOTHING);
  });

  test('what keys of the environment test cause does not count', async () => {
    const http = await startHttp();
    const live = await testKey(http.store, { tenant: OPERATOR });
    const other = await testKey(http.store, { tenant: OPERATOR, environment: 'test' });
    for (const { headers } of [live, other, other]) {
      const body = new URLSearchParams({ message: 'hello' });
      const posted = await http.request('/example.com/contact', { body, headers });
      expect(posted.status).toBe(200);
    }
    expect((await analytics(http, live)).totals).toMatchObject({ submissions: 1, queued: 1 });
  });

  test('a key for some domains sees those alone', async () => {
    const http = await startHttp({ clock: testClock(NEW_YEAR) });
    const key = await testKey(http.store, { now: NEW_YEAR, restrictions: { domain_restrictions: ['one.example'] } });
    await happen(
      http,
      key.tenant,
      ['submission.accepted', NEW_YEAR, 'one.example'],
      ['submission.accepted', NEW_YEAR, 'two.example'],
      ['email.queued', NEW_YEAR],
    );
    const seen = await analytics(http, key);
    expect(seen.totals).toEqual({ ...NOTHING, submissions: 1 });
    expect(seen.top_domains).toEqual([{ domain: 'one.example', submissions: 1, delivered: 0 }]);
    const refused = await http.request('/analytics?domain=two.example', { headers: key.headers });
    expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_DOMAIN_NOT_ALLOWED']);
  });

  test.each([
    ['from=yesterday', 'from', 'must be a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z'],
    ['from=2026-02-30', 'from', 'must be a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z'],
    ['to=0001-01-01', 'to', 'must be a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z'],
    ['from=2026-01-02&to=2026-01-01', 'from', 'must be before to'],
    [
      'interval=hour&from=2025-01-01&to=2026-01-01',
      'interval',
      'makes more than 750 buckets: use a longer interval or a shorter time span',
    ],
    ['interval=week', 'interval', 'must be one of hour, day, month'],
    ['form=a&form=b', 'form', 'must be text'],
    ['since=2026-01-01', 'since', expect.stringContaining('is not known')],
  ])('?%s is refused by name', async (query, path, message) => {
    const http = await startHttp({ clock: testClock(NEW_YEAR) });
    const answer = await http.request(`/analytics?${query}`, { local: true });
    expect([answer.status, answer.json()]).toEqual([
      400,
      expect.objectContaining({ code: 'VALIDATION_FAILED', details: [{ path, message }] }),
    ]);
  });
});
