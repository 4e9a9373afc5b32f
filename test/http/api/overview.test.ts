/** The overview: figures of today and a week ago, what waits, what needs attention, and the first steps; for the operator of the server. */
import type { z } from 'zod';
import { expect, test } from 'vitest';
import { analytics } from '../../../src/contract/analytics.ts';
import { newId } from '../../../src/lib/ids.ts';
import { insertWebhook, noteFailure } from '../../../src/store/webhooks.ts';
import { insertDomain } from '../../../src/store/domains.ts';
import { setHeld } from '../../../src/store/destinations.ts';
import { recordEvent } from '../../../src/store/events.ts';
import type { Store } from '../../../src/store/store.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';

const NOW = Date.UTC(2026, 0, 15, 10, 30);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

async function overview(http: TestHttp, key: Pick<TestKey, 'headers'> | undefined, query = '') {
  const answer = await http.request(
    `/overview${query}`,
    key === undefined ? { local: true } : { headers: key.headers },
  );
  expect([answer.status, answer.text]).toEqual([200, expect.anything()]);
  return analytics.overview.answer.parse(answer.json());
}

async function happen(store: Store, tenant: string, type: 'email.delivered' | 'submission.spam', ...times: number[]) {
  await store.write(times.map((at) => recordEvent({ type, tenant, at, data: {}, domain: 'one.example' })));
}

function kindsOf({ attention }: z.output<typeof analytics.overview.answer>): string[] {
  return attention.map(({ kind, subject }) => `${kind} ${subject}`);
}

async function claim(store: Store, tenant: string, name: string, status: 'pending' | 'degraded' | 'verified') {
  const row = { name, tenant, project: 'site', token: 'x', records: null, checked_at: null, created_at: NOW - DAY };
  const more = { status, verified_at: status === 'pending' ? null : NOW - DAY, broken_at: null, next_check_at: NOW };
  await store.write([insertDomain({ ...row, ...more, ...(status === 'degraded' && { broken_at: NOW - HOUR }) })]);
}

test('today and the same span a week ago, of the account', async () => {
  const http = await startHttp({ clock: testClock(NOW) });
  const [key, other] = [await testKey(http.store, { now: NOW - 30 * DAY }), await testKey(http.store, { now: NOW })];
  await happen(http.store, key.tenant, 'email.delivered', NOW - 1, NOW - 10 * HOUR, NOW - 11 * HOUR);
  await happen(http.store, key.tenant, 'submission.spam', NOW - 5 * 60_000);
  await happen(http.store, key.tenant, 'email.delivered', NOW - 7 * DAY - 1, NOW - 7 * DAY + 60_000);
  await happen(http.store, other.tenant, 'email.delivered', NOW - 1);
  const none = { submissions: 0, spam: 0, delivered: 0, deferred: 0, bounced: 0 };
  expect(await overview(http, key)).toMatchObject({
    scope: 'account',
    from: '2026-01-15T00:00:00.000Z',
    to: '2026-01-15T10:30:00.000Z',
    today: { ...none, delivered: 2, spam: 1 },
    last_week: { ...none, delivered: 1 },
    oldest_waiting_at: null,
    attention: [],
    first_steps: { has_domain: false, has_verified_domain: false, has_form: false, has_submission: false },
  });
  const { today } = await overview(http, key, '?from=2026-01-14T23:00:00Z');
  expect(today.delivered).toBe(3);
});

test('the operator sees the server, and acting for an account that', async () => {
  const http = await startHttp({ clock: testClock(NOW), problems: ['the file is wrong'] });
  const key = await testKey(http.store, { now: NOW });
  await happen(http.store, key.tenant, 'email.delivered', NOW - 1);
  await claim(http.store, key.tenant, 'broken.example', 'degraded');
  await claim(http.store, key.tenant, 'new.example', 'pending');
  await http.store.write([setHeld({ name: 'slow.example', held: 1 })]);
  const shown = await overview(http, undefined);
  expect([shown.scope, shown.today.delivered]).toEqual(['server', 1]);
  expect(kindsOf(shown)).toEqual([
    'configuration mail.example.net',
    'domain_degraded broken.example',
    'destination_held slow.example',
  ]);
  expect(shown.attention[0]?.message).toBe('The file is wrong.');
  // Its projects on disk.
  expect(shown.first_steps.has_form).toBe(true);
  const acting = await http.request('/overview', { local: true, headers: { 'X-Postern-Tenant': key.tenant } });
  expect(kindsOf(analytics.overview.answer.parse(acting.json()))).toEqual([
    'domain_degraded broken.example',
    'domain_pending new.example',
  ]);
  const full = await overview(http, await testKey(http.store, { tenant: OPERATOR, now: NOW }));
  expect([full.scope, kindsOf(full)]).toEqual(['account', []]);
});

test('what needs attention, of other accounts and beside the domains of a key nothing', async () => {
  const http = await startHttp({ clock: testClock(NOW) });
  const [key, other] = [await testKey(http.store, { now: NOW }), await testKey(http.store, { now: NOW })];
  const restrictions = { domain_restrictions: ['two.example'] };
  const narrow = await testKey(http.store, { tenant: key.tenant, restrictions, now: NOW });
  const id = newId('whk', NOW);
  const webhook = { project: null, form: '', url: 'https://x.test/', events: '[]', description: '', secret: 's' };
  await claim(http.store, key.tenant, 'one.example', 'degraded');
  await claim(http.store, key.tenant, 'two.example', 'pending');
  await http.store.write([
    insertWebhook({ ...webhook, id, tenant: key.tenant, created_at: NOW }),
    noteFailure({ id, now: NOW, quiet: 0 }),
  ]);
  const shown = await overview(http, key);
  expect(kindsOf(shown)).toEqual([
    'domain_degraded one.example',
    'domain_pending two.example',
    `webhook_failing ${id}`,
  ]);
  expect(shown.attention[0]?.since).toBe('2026-01-15T09:30:00.000Z');
  expect(shown.first_steps).toMatchObject({ has_domain: true, has_verified_domain: true });
  expect(kindsOf(await overview(http, narrow))).toEqual(['domain_pending two.example']);
  expect(kindsOf(await overview(http, other))).toEqual([]);
});

test('how long the oldest mail waits', async () => {
  const clock = testClock(NOW);
  const http = await startHttp({ clock });
  const other = await testKey(http.store, { now: NOW });
  await http.request('/example.com/contact', { body: { message: 'Hello' }, headers: { Accept: 'application/json' } });
  clock.advance(HOUR);
  await http.request('/example.com/contact', { body: { message: 'Again' }, headers: { Accept: 'application/json' } });
  const shown = await overview(http, undefined);
  expect(shown.oldest_waiting_at).toBe('2026-01-15T10:30:00.000Z');
  expect(shown.first_steps.has_submission).toBe(true);
  const own = await overview(http, await testKey(http.store, { tenant: OPERATOR, now: NOW }));
  expect(own.oldest_waiting_at).toBe('2026-01-15T10:30:00.000Z');
  expect((await overview(http, other)).oldest_waiting_at).toBeNull();
});

test.each(['2026-01-13T10:00:00Z', '2026-01-15T10:31:00Z', 'yesterday'])('?from=%s is refused', async (from) => {
  const http = await startHttp({ clock: testClock(NOW) });
  const answer = await http.request(`/overview?from=${from}`, { local: true });
  expect([answer.status, answer.json()['code']]).toEqual([400, 'VALIDATION_FAILED']);
});

test('the operator sees the statistics of the server hour by hour, an account its own alone', async () => {
  const http = await startHttp({ clock: testClock(NOW) });
  const [key, other] = [await testKey(http.store, { now: NOW }), await testKey(http.store, { now: NOW })];
  await happen(http.store, key.tenant, 'email.delivered', NOW - 1, NOW - 3 * HOUR);
  await happen(http.store, other.tenant, 'email.delivered', NOW - 3 * HOUR);
  const query = '/analytics?scope=server&interval=hour&from=2026-01-15T07:00:00Z';
  const { totals, series } = analytics.show.answer.parse((await http.request(query, { local: true })).json());
  expect([totals.delivered, series.map(({ delivered }) => delivered)]).toEqual([3, [2, 0, 0, 1]]);
  const refused = await http.request(query, { headers: key.headers });
  expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_FORBIDDEN']);
  const both = await http.request(`${query}&domain=one.example`, { local: true });
  expect([both.status, both.json()['code']]).toEqual([400, 'VALIDATION_FAILED']);
});
