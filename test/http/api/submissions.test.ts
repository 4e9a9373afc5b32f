import { describe, expect, test } from 'vitest';
import { firstId, newId } from '../../../src/lib/ids.ts';
import { claimDeliveries } from '../../../src/store/leases.ts';
import { settleDelivery } from '../../../src/store/messages.ts';
import { insertForm } from '../../../src/store/forms.ts';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { SEARCHED } from '../../../src/store/submission-list.ts';
import { insertSubmission, noteToIndex, submissionsOf } from '../../../src/store/submissions.ts';
import type { SubmissionRow } from '../../../src/store/tables.ts';
import { testClock, type TestClock } from '../../harness/clock.ts';
import { submissionRow } from '../../harness/submissions.ts';
import {
  startHttp,
  type TestAnswer,
  type TestHttp,
  type TestHttpOptions,
  type TestRequest,
} from '../../harness/http.ts';
import { testKey } from '../../harness/keys.ts';

const HOUR = 3_600_000;
const CONTACT = '/forms/example.com/contact/submissions';
const SPAM = {
  name: 'x',
  message: '[url=http://a.example]x[/url] http://b.example http://c.example http://d.example http://e.example',
};

interface World extends TestHttp {
  readonly clock: TestClock;
  /** As the operator. */
  readonly api: (path: string, request?: TestRequest) => Promise<TestAnswer>;
  /** Posts a form and answers the submission's id. */
  readonly post: (fields: Record<string, string> | FormData, path?: string) => Promise<string>;
}

async function open(options: TestHttpOptions = {}): Promise<World> {
  const clock = testClock();
  const forms = {
    contact: {
      name: 'Contact us',
      to: 'owner@example.com',
      uploads: { enabled: true },
      spam_protection: { on_spam: 'silent' },
    },
    other: { to: ['a@example.com', 'b@example.net'] },
  };
  const http = await startHttp({ clock, forms, ...options });
  return {
    ...http,
    clock,
    api: (path, request = {}) => http.request(path, { ...request, local: true }),
    async post(fields, path = '/example.com/contact') {
      clock.advance(1000);
      const body = fields instanceof FormData ? fields : new URLSearchParams(fields);
      const answer = await http.request(path, { method: 'POST', body, headers: { Accept: 'application/json' } });
      expect(answer.status).toBe(200);
      return String(answer.json()['id']);
    },
  };
}

function idsIn(answer: TestAnswer): unknown[] {
  return (answer.json()['submissions'] as { id: string }[]).map(({ id }) => id);
}

async function mails({ store }: TestHttp, submission: string) {
  const rows = await store.read
    .selectFrom('messages')
    .innerJoin('deliveries', 'deliveries.message', 'messages.id')
    .select(['messages.kind', 'messages.environment', 'deliveries.recipient', 'deliveries.state'])
    .where('messages.submission', '=', submission)
    .orderBy('messages.created_at')
    .orderBy('deliveries.recipient')
    .execute();
  return rows.map(({ kind, environment, recipient, state }) => [kind, environment, recipient, state].join(' '));
}

function row(world: { clock: TestClock }, more: Partial<SubmissionRow> = {}): SubmissionRow {
  const now = more.created_at ?? world.clock.now();
  return submissionRow(now, { tenant: OPERATOR, revision: '', fields: '[["name","Ana"]]', ...more });
}

describe('GET /submissions/{id}', () => {
  test('shows exactly this', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana García', 'topic[]': 'a', email: 'ana@example.org' });
    const shown = (await world.api(`/v1/submissions/${id}`)).json();
    expect(shown).toEqual({
      id,
      form: 'example.com/contact',
      environment: 'live',
      domain: 'example.com',
      fields: { name: 'Ana García', topic: ['a'], email: 'ana@example.org' },
      files: [],
      stored: 'all',
      ip: '127.0.0.1',
      user_agent: '',
      referer: '',
      status: 'accepted',
      spam: { score: expect.any(Number), reasons: expect.any(Array) },
      read: false,
      created_at: '2026-01-01T00:00:01.000Z',
      messages: [expect.stringMatching(/^msg_/)],
      deliveries: [
        {
          message: expect.stringMatching(/^msg_/),
          recipient: 'owner@example.com',
          state: 'queued',
          recipient_status: 'confirmed',
        },
      ],
      attempts: [],
    });
  });

  test('one of another tenant is as unknown as one that never was', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' });
    const { headers } = await testKey(world.store, { now: world.clock.now() });
    for (const [method, path] of [
      ['GET', `/submissions/${id}`],
      ['DELETE', `/submissions/${id}`],
      ['POST', `/submissions/${id}/spam`],
      ['POST', `/submissions/${id}/ham`],
      ['POST', `/submissions/${id}/resend`],
      ['GET', '/submissions/sub_nope'],
    ] as const) {
      const answer = await world.request(path, { method, headers });
      expect([path, answer.status, answer.json()['code']]).toEqual([path, 404, 'NOT_FOUND']);
    }
    expect((await world.request(CONTACT, { headers })).status).toBe(404);
    expect((await world.api(`/submissions/${id}`)).json()['status']).toBe('accepted');
  });

  test('a key for other domains may not, one for this domain may', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' });
    const keyFor = async (domain: string) =>
      (
        await testKey(world.store, {
          tenant: OPERATOR,
          restrictions: { domain_restrictions: [domain] },
          now: world.clock.now(),
        })
      ).headers;
    for (const path of [`/submissions/${id}`, CONTACT, `${CONTACT}/export`]) {
      expect((await world.request(path, { headers: await keyFor('example.com') })).status).toBe(200);
      const refused = await world.request(path, { headers: await keyFor('example.org') });
      expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_DOMAIN_NOT_ALLOWED']);
    }
    const instant = await world.request('/instant/submissions', { headers: await keyFor('example.com') });
    expect(instant.status).toBe(403);
  });

  test('reading needs forms.read, deciding forms.write', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' });
    const { headers } = await testKey(world.store, {
      tenant: OPERATOR,
      permissions: ['forms.read'],
      now: world.clock.now(),
    });
    expect((await world.request(`/submissions/${id}`, { headers })).status).toBe(200);
    for (const verb of ['spam', 'ham', 'resend']) {
      expect((await world.request(`/submissions/${id}/${verb}`, { method: 'POST', headers })).status).toBe(403);
    }
    expect((await world.request(`/submissions/${id}`, { method: 'DELETE', headers })).status).toBe(403);
  });
});

describe('GET /forms/{id}/submissions', () => {
  test('lists newest first, in pages, by either spelling of the id', async () => {
    const world = await open();
    const ids = [
      await world.post({ name: 'a' }),
      await world.post({ name: 'b' }),
      await world.post({ name: 'c' }),
    ].reverse();
    await world.post({ name: 'elsewhere' }, '/example.com/other');
    const first = await world.api(`${CONTACT}?limit=2`);
    expect(idsIn(first)).toEqual(ids.slice(0, 2));
    expect(first.json()).toMatchObject({ count: 3, next_cursor: ids[1] });
    const rest = await world.api(`/api/forms/Example.COM%2Fcontact/submissions?limit=2&cursor=${ids[1]}`);
    expect(idsIn(rest)).toEqual(ids.slice(2));
    expect(rest.json()).toMatchObject({ count: 3, next_cursor: null });
  });

  test('by status and by time', async () => {
    const world = await open();
    const old = await world.post({ name: 'old' });
    world.clock.advance(48 * HOUR);
    const spam = await world.post(SPAM);
    const fresh = await world.post({ name: 'fresh' });
    for (const [query, ids, count] of [
      ['status=spam', [spam], 1],
      ['status=accepted', [fresh, old], 2],
      ['from=2026-01-02', [fresh, spam], 2],
      ['to=2026-01-01', [old], 1],
      ['from=2026-01-03T00:00:00Z&to=2026-01-03&status=accepted', [fresh], 1],
      ['from=2030-01-01', [], 0],
    ] as const) {
      const answer = await world.api(`${CONTACT}?${query}`);
      expect([query, idsIn(answer), answer.json()['count']]).toEqual([query, ids, count]);
    }
  });

  test('q finds what is written in names and values, in whatever case, and nothing else', async () => {
    const world = await open();
    const names = ['Иван', 'ИВАН', '50% off', '500 off', '0_0', '0x0', 'a "b"\\c', 'xy'];
    for (const name of names) await world.post({ name });
    await world.post({ name: 'Ana García', phone: '1' });
    for (const [q, expected] of [
      ['GARCÍA', ['Ana García']],
      ['garcía', ['Ana García']],
      ['50% off', ['50% off']],
      ['off 50', ['50% off', '500 off']],
      ['a "b"\\c', ['a "b"\\c']],
      ['иван', ['ИВАН', 'Иван']],
      ['phone', ['Ana García']],
      ['x%y', []],
      ['nobody', []],
    ] as const) {
      const answer = await world.api(`${CONTACT}?q=${encodeURIComponent(q)}`);
      const found = (answer.json()['submissions'] as { fields: { name: string } }[]).map(({ fields }) => fields.name);
      expect([q, found.sort(), answer.json()['count']]).toEqual([q, expected, expected.length]);
    }
  });

  test('a search goes on where it ended: no page reads more than so many', async () => {
    const world = await open();
    const fields = '[["name","needle"]]';
    const old = row(world, { fields, created_at: 1_700_000_000_000 });
    const others = Array.from({ length: SEARCHED }, (_, i) =>
      row(world, { fields, status: 'spam', created_at: 1_750_000_000_000 + i }),
    );
    const all = [old, ...others];
    await world.store.write(all.flatMap((each) => [insertSubmission(each), noteToIndex({ submission: each.id })]));
    const first = await world.api(`${CONTACT}?q=needle&status=accepted`);
    expect(first.json()).toMatchObject({
      submissions: [],
      count: 0,
      count_is_more: true,
      next_cursor: expect.stringMatching(/^sub_/),
    });
    const next = await world.api(`${CONTACT}?q=needle&status=accepted&cursor=${String(first.json()['next_cursor'])}`);
    expect(idsIn(next)).toEqual([old.id]);
    expect(next.json()['next_cursor']).toBeNull();
  });

  test('a form that is gone still has its submissions; one that never was is 404', async () => {
    const world = await open();
    const gone = row(world, { form: 'example.com/gone' });
    await world.store.write([insertSubmission(gone)]);
    expect(idsIn(await world.api('/forms/example.com/gone/submissions'))).toEqual([gone.id]);
    expect((await world.api('/forms/example.com/other/submissions')).json()).toEqual({
      submissions: [],
      count: 0,
      count_is_more: false,
      next_cursor: null,
    });
    for (const path of [
      '/forms/example.com/never/submissions',
      '/forms/contact/submissions',
      '/forms/frm_1/submissions',
    ]) {
      const answer = await world.api(path);
      expect([path, answer.status, answer.json()['code']]).toEqual([path, 404, 'FORM_NOT_FOUND']);
    }
  });

  test('what its query does not know is refused', async () => {
    const world = await open();
    for (const query of ['limit=0', 'cursor=msg_1', 'status=ham', 'q=', 'from=yesterday', 'page=2']) {
      const answer = await world.api(`${CONTACT}?${query}`);
      expect([query, answer.status, answer.json()['code']]).toEqual([query, 400, 'VALIDATION_FAILED']);
    }
  });
});

describe('GET /submissions', () => {
  test('lists those of all forms, newest first, in pages, and filters them', async () => {
    const world = await open();
    const first = await world.post({ name: 'Ana' });
    const other = await world.post({ name: 'Bo' }, '/example.com/other');
    const spam = await world.post(SPAM);
    const form = new FormData();
    form.set('name', 'Cleo');
    form.set('cv', new File(['%PDF-1.4'], 'cv.pdf'));
    const filed = await world.post(form);
    await world.api('/submissions/actions', { method: 'POST', body: { action: 'read', ids: [first, filed] } });
    for (const [query, ids] of [
      ['', [filed, spam, other, first]],
      ['?form=example.com/other', [other]],
      ['?domain=example.com&status=accepted', [filed, other, first]],
      ['?domain=example.org', []],
      ['?unread=true', [spam, other]],
      ['?unread=true&status=accepted', [other]],
      ['?files=true', [filed]],
      ['?q=bo', [other]],
      ['?status=pending', []],
      ['?to=2020-01-01', []],
    ] as const) {
      const answer = await world.api(`/submissions${query}`);
      expect([query, idsIn(answer)]).toEqual([query, ids]);
      expect([query, answer.json()['count']]).toEqual([query, ids.length]);
    }
    const page = await world.api('/submissions?limit=3');
    expect(page.json()).toMatchObject({ count: 4, count_is_more: false, next_cursor: other });
    expect(idsIn(await world.api(`/submissions?limit=3&cursor=${other}`))).toEqual([first]);
    expect((await world.api(`/submissions/${first}`)).json()['read']).toBe(true);
    expect((await world.api('/submissions/counts')).json()).toEqual({
      all: 4,
      unread: 1,
      spam: 1,
      pending: 0,
      by_form: [{ form: 'example.com/other', unread: 1 }],
    });
    expect((await world.api('/submissions?form=example.com/never')).status).toBe(404);
    for (const query of ['unread=yes', 'domain=x%20y', 'form=', 'files=1']) {
      expect((await world.api(`/submissions?${query}`)).status, query).toBe(400);
    }
  });

  test('a key sees the submissions of its domains alone, another account none', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' });
    const elsewhere = row(world, { form: 'example.net/contact', domain: 'example.net' });
    const collected = row(world, { form: 'c/surveys/one', domain: 'example.com' });
    await world.store.write([insertSubmission(elsewhere), insertSubmission(collected)]);
    const now = world.clock.now();
    const restrictions = { domain_restrictions: ['example.com'] };
    const { headers } = await testKey(world.store, { tenant: OPERATOR, restrictions, now });
    expect(idsIn(await world.request('/submissions', { headers }))).toEqual([id]);
    expect((await world.request('/submissions/counts', { headers })).json()).toMatchObject({ all: 1, unread: 1 });
    expect((await world.request('/submissions?domain=example.net', { headers })).status).toBe(403);
    const json = { action: 'delete', ids: [id, elsewhere.id, collected.id] };
    const acted = await world.request('/submissions/actions', {
      method: 'POST',
      headers,
      body: { ...json, action: 'read' },
    });
    expect(acted.json()['results']).toMatchObject([
      { id, done: true, code: null, error: null },
      { id: elsewhere.id, done: false, code: 'AUTH_DOMAIN_NOT_ALLOWED' },
      { id: collected.id, done: false, code: 'AUTH_DOMAIN_NOT_ALLOWED' },
    ]);
    const stranger = await testKey(world.store, { now });
    expect(idsIn(await world.request('/submissions', stranger))).toEqual([]);
    const refused = await world.request('/submissions/actions', {
      method: 'POST',
      headers: stranger.headers,
      body: json,
    });
    expect((refused.json()['results'] as { code: string }[]).map(({ code }) => code)).toEqual(
      Array(3).fill('NOT_FOUND'),
    );
    expect(idsIn(await world.api('/submissions'))).toHaveLength(3);
  });

  test('a test key sees what test keys sent, and changes nothing live', async () => {
    const world = await open();
    const live = await world.post({ name: 'Ana' });
    const now = world.clock.now();
    const { headers } = await testKey(world.store, { tenant: OPERATOR, environment: 'test', now });
    expect(idsIn(await world.request('/submissions', { headers }))).toEqual([]);
    const json = { action: 'read', ids: [live, 'sub_none'] };
    const answer = await world.request('/submissions/actions', { method: 'POST', headers, body: json });
    expect(answer.json()['results']).toMatchObject([{ code: 'AUTH_TEST_KEY' }, { code: 'NOT_FOUND' }]);
    expect((await world.api(`/submissions/${live}`)).json()['read']).toBe(false);
  });
});

describe('POST /submissions/actions', () => {
  test('does each by itself and says how it went', async () => {
    const world = await open();
    const [one, two, spam] = [await world.post({ name: 'a' }), await world.post({ name: 'b' }), await world.post(SPAM)];
    async function act(action: string, ids: readonly string[]) {
      const answer = await world.api('/submissions/actions', { method: 'POST', body: { action, ids } });
      expect(answer.status).toBe(200);
      return (answer.json()['results'] as { id: string; done: boolean; code: string | null }[]).map((result) =>
        result.done ? result.id : result.code,
      );
    }
    expect(await act('resend', [one, spam, 'sub_none', one])).toEqual([one, 'CONFLICT', 'NOT_FOUND']);
    expect(await mails(world, one)).toHaveLength(2);
    expect(await act('ham', [spam])).toEqual([spam]);
    expect(await mails(world, spam)).toEqual(['notification live owner@example.com queued']);
    expect(await act('delete', [two])).toEqual(['CONFLICT']);
    expect(await act('spam', [two, spam])).toEqual([two, spam]);
    expect(await act('delete', [two, spam])).toEqual([two, spam]);
    expect(idsIn(await world.api('/submissions'))).toEqual([one]);
    expect(await act('read', [one, two])).toEqual([one, 'NOT_FOUND']);
    expect(idsIn(await world.api('/submissions?unread=true'))).toEqual([]);
    expect(await act('unread', [one])).toEqual([one]);
    expect(idsIn(await world.api('/submissions?unread=true'))).toEqual([one]);
  });

  test('what it does not know is refused', async () => {
    const world = await open();
    for (const body of [
      { action: 'burn', ids: ['sub_1'] },
      { action: 'read', ids: [] },
      { action: 'read', ids: Array(201).fill('sub_1') },
      { action: 'read' },
    ]) {
      const answer = await world.api('/submissions/actions', { method: 'POST', body });
      expect(answer.json()['code']).toBe('VALIDATION_FAILED');
    }
  });
});

test('GET /instant/submissions lists those of the tenant’s instant forms alone', async () => {
  const world = await open();
  const at = world.clock.now();
  const formOf = (kind: 'api' | 'instant', tenant = OPERATOR) => ({
    id: newId('frm', at),
    tenant,
    kind,
    name: 'F',
    config: JSON.stringify({ to: 'a@example.org' }),
    domain: null,
    created_at: at,
  });
  const [one, two, api, foreign] = [formOf('instant'), formOf('instant'), formOf('api'), formOf('instant', 'ten_x')];
  const rows = [one, two, api, foreign].map(({ id, tenant }, i) =>
    row(world, { form: id, tenant, created_at: at + i }),
  );
  await world.store.write([
    ...[one, two, api, foreign].map((form) => insertForm(form)),
    ...rows.map((each) => insertSubmission(each)),
  ]);
  const answer = await world.api('/instant/submissions');
  expect(idsIn(answer)).toEqual([rows[1]?.id, rows[0]?.id]);
  expect(answer.json()).toMatchObject({ count: 2, next_cursor: null });
});

describe('POST /submissions/{id}/ham', () => {
  test('releases what was kept back, once', async () => {
    const world = await open();
    const id = await world.post(SPAM);
    expect((await world.api(`/submissions/${id}`)).json()).toMatchObject({
      status: 'spam',
      spam: {
        score: expect.any(Number),
        reasons: expect.arrayContaining([{ name: 'link_markup', score: 12, detail: 'links in BBCode' }]),
      },
      messages: [],
    });
    const wakes = world.wakes();
    const answers = [1, 2, 3].map(() => world.api(`/submissions/${id}/ham`, { method: 'POST' }));
    for (const answer of await Promise.all(answers)) {
      expect([answer.status, answer.json()['status']]).toEqual([200, 'accepted']);
    }
    expect((await world.api(`/submissions/${id}`)).json()).toMatchObject({
      status: 'accepted',
      messages: [expect.any(String)],
    });
    expect(await mails(world, id)).toEqual(['notification live owner@example.com queued']);
    expect(await submissionsOf(world.store, 'example.com/contact')).toBe(1);
    expect(world.wakes()).toBe(wakes + 1);
    const events = await world.store.read
      .selectFrom('events')
      .select('type')
      .where('submission', '=', id)
      .orderBy('id')
      .execute();
    expect(events.map(({ type }) => type).sort()).toEqual(['email.queued', 'submission.accepted', 'submission.spam']);
  });

  test('with a test key its mail goes nowhere', async () => {
    const world = await open();
    const live = await world.post(SPAM);
    const { headers } = await testKey(world.store, { tenant: OPERATOR, environment: 'test', now: world.clock.now() });
    const refused = await world.request(`/submissions/${live}/ham`, { method: 'POST', headers });
    expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_TEST_KEY']);
    const posted = await world.request('/example.com/contact', {
      body: new URLSearchParams(SPAM),
      headers: { ...headers, Accept: 'application/json' },
    });
    const id = String(posted.json()['id']);
    expect((await world.request(`/submissions/${id}/ham`, { method: 'POST', headers })).status).toBe(200);
    expect(await mails(world, id)).toEqual(['notification test owner@example.com queued']);
  });

  test('of a form that is gone nobody knows who is to get it', async () => {
    const world = await open();
    const gone = row(world, { form: 'example.com/gone', status: 'spam' });
    await world.store.write([insertSubmission(gone)]);
    const answer = await world.api(`/submissions/${gone.id}/ham`, { method: 'POST' });
    expect([answer.status, answer.json()]).toEqual([
      409,
      expect.objectContaining({ code: 'CONFLICT', error: expect.stringContaining('form of this submission is gone') }),
    ]);
    expect((await world.api(`/submissions/${gone.id}`)).json()['status']).toBe('spam');
  });

  test('of a form whose recipient has not agreed, its mail waits; it is not sent once more before', async () => {
    const world = await open();
    const at = world.clock.now();
    const key = await testKey(world.store, { account: { trusted: 0 } });
    const id = newId('frm', at);
    const config = JSON.stringify({ to: 'a@example.org' });
    const spam = row(world, { form: id, tenant: key.tenant, status: 'spam' });
    await world.store.write([
      insertForm({ id, tenant: key.tenant, kind: 'instant', name: 'F', domain: null, config, created_at: at }),
      insertSubmission(spam),
    ]);
    const ham = await world.api(`/submissions/${spam.id}/ham`, { method: 'POST', headers: key.headers });
    expect(ham.json()).toMatchObject({
      status: 'accepted',
      deliveries: [{ recipient: 'a@example.org', state: 'queued', recipient_status: 'pending' }],
    });
    const resent = await world.api(`/submissions/${spam.id}/resend`, { method: 'POST', headers: key.headers });
    expect([resent.status, resent.json()['code']]).toEqual([403, 'RECIPIENT_NOT_CONFIRMED']);
  });
});

describe('POST /submissions/{id}/spam', () => {
  test('marks it, counts it no more and cancels what waits; ham undoes all of that', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' }, '/example.com/other');
    for (let i = 0; i < 2; i++) {
      const answer = await world.api(`/submissions/${id}/spam`, { method: 'POST' });
      expect([answer.status, answer.json()['status']]).toEqual([200, 'spam']);
    }
    expect(await mails(world, id)).toEqual([
      'notification live a@example.com cancelled',
      'notification live b@example.net cancelled',
    ]);
    expect(await submissionsOf(world.store, 'example.com/other')).toBe(0);
    const resent = await world.api(`/submissions/${id}/resend`, { method: 'POST' });
    expect([resent.status, resent.json()['error']]).toEqual([409, expect.stringContaining('Release it first')]);
    world.clock.advance(1);
    await world.api(`/submissions/${id}/ham`, { method: 'POST' });
    expect((await mails(world, id)).slice(2)).toEqual([
      'notification live a@example.com queued',
      'notification live b@example.net queued',
    ]);
    expect(await submissionsOf(world.store, 'example.com/other')).toBe(1);
  });

  test('what arrived before is not sent again when it is released', async () => {
    const world = await open();
    const id = await world.post({ name: 'Ana' });
    await deliver(world);
    await world.api(`/submissions/${id}/spam`, { method: 'POST' });
    await world.api(`/submissions/${id}/ham`, { method: 'POST' });
    expect(await mails(world, id)).toEqual(['notification live owner@example.com delivered']);
  });
});

test('POST /submissions/{id}/resend is a new message each time', async () => {
  const world = await open();
  const id = await world.post({ name: 'Ana' });
  await deliver(world);
  world.clock.advance(1);
  const answer = await world.api(`/submissions/${id}/resend`, { method: 'POST' });
  expect([answer.status, answer.json()['messages']]).toEqual([200, [expect.any(String), expect.any(String)]]);
  expect(await mails(world, id)).toEqual([
    'notification live owner@example.com delivered',
    'notification live owner@example.com queued',
  ]);
  expect(await submissionsOf(world.store, 'example.com/contact')).toBe(1);
});

describe('files', () => {
  async function withFile(world: World, name = 'Lebenslauf – Ana "Ü".pdf', content = '%PDF<script>') {
    const form = new FormData();
    form.set('name', 'Ana');
    form.set('cv', new File([content], name, { type: 'text/html' }));
    const id = await world.post(form);
    const [file] = (await world.api(`/submissions/${id}`)).json()['files'] as { id: string }[];
    return { id, file, path: `/submissions/${id}/files/${file?.id}` };
  }

  test('are listed and downloaded, and no browser runs them', async () => {
    const world = await open();
    const { file, path } = await withFile(world);
    expect(file).toEqual({
      id: expect.stringMatching(/^fil_/),
      field: 'cv',
      filename: 'Lebenslauf – Ana "Ü".pdf',
      content_type: 'text/html',
      size: 12,
    });
    const answer = await world.api(path);
    expect([answer.status, answer.text]).toEqual([200, '%PDF<script>']);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': '12',
      'content-disposition':
        'attachment; filename="Lebenslauf _ Ana ___.pdf"; filename*=UTF-8\'\'Lebenslauf%20%E2%80%93%20Ana%20%22%C3%9C%22.pdf',
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
    });
  });

  test('a large one arrives whole', async () => {
    const world = await open();
    const content = Array.from({ length: 150_000 }, (_, i) => `${i}\n`).join('');
    const { path } = await withFile(world, 'big.txt', content);
    expect((await world.api(path)).text).toBe(content);
  });

  test('one of another submission is not found', async () => {
    const world = await open();
    const one = await withFile(world);
    const two = await withFile(world);
    expect((await world.api(`/submissions/${one.id}/files/${two.file?.id}`)).status).toBe(404);
  });

  test('DELETE removes the submission with them, when no mail needs it any more', async () => {
    const world = await open();
    const { id, path } = await withFile(world);
    const early = await world.api(`/submissions/${id}`, { method: 'DELETE' });
    expect([early.status, early.json()['code']]).toEqual([409, 'CONFLICT']);
    expect((await world.api(path)).status).toBe(200);
    await deliver(world);
    const removed = await world.api(`/submissions/${id}`, { method: 'DELETE' });
    expect([removed.status, removed.json()['id']]).toEqual([200, id]);
    for (const table of ['submissions', 'submission_files', 'file_chunks'] as const) {
      expect([table, await world.store.read.selectFrom(table).selectAll().execute()]).toEqual([table, []]);
    }
    expect((await world.api(`/submissions/${id}`, { method: 'DELETE' })).status).toBe(404);
    expect(await submissionsOf(world.store, 'example.com/contact')).toBe(1);
  });
});

describe('GET /forms/{id}/submissions/export', () => {
  test('is a CSV with a column for every field, safe in spreadsheets', async () => {
    const world = await open();
    const first = await world.post({ name: '=1+1', message: 'a "b",\nc' });
    const form = new FormData();
    form.append('topic', 'x');
    form.append('topic', 'y');
    form.set('cv', new File(['1'], 'cv.pdf'));
    const second = await world.post(form);
    const spam = await world.post(SPAM);
    const answer = await world.api(`${CONTACT}/export?status=accepted`);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': 'attachment; filename="example.com-contact-submissions.csv"',
    });
    // Of how likely it is spam the model decides.
    expect(answer.text.replaceAll(/accepted,\d+,/g, 'accepted,0,')).toBe(
      [
        '\ufeffsubmission_id,submitted_at,status,spam_score,spam_reasons,ip,user_agent,referer,files,topic,name,message',
        `${second},2026-01-01T00:00:02.000Z,accepted,0,"words, structure, headers",127.0.0.1,,,cv.pdf,"x, y",,`,
        `${first},2026-01-01T00:00:01.000Z,accepted,0,"words, structure, headers",127.0.0.1,,,,,'=1+1,"a ""b"",\nc"`,
        '',
      ].join('\r\n'),
    );
    expect((await world.api(`${CONTACT}/export`)).text).toContain(`${spam},2026-01-01T00:00:03.000Z,spam,`);
  });

  test('or JSON, as the API shows them, however many there are', async () => {
    const world = await open();
    const rows = Array.from({ length: 1200 }, (_, i) => row(world, { created_at: 1_750_000_000_000 + i }));
    await world.store.write(rows.map((each) => insertSubmission(each)));
    const answer = await world.api(`${CONTACT}/export?format=json`);
    expect(answer.headers['content-type']).toBe('application/json');
    const exported = idsIn(answer);
    expect(exported).toEqual(rows.map(({ id }) => id).reverse());
    expect((await world.api('/forms/example.com/other/submissions/export?format=json')).json()).toEqual({
      submissions: [],
    });
  });
});

test('the bound of a moment lies between the ids before it and the others', () => {
  const at = 1_767_225_600_123;
  expect(newId('sub', at - 1) < firstId('sub', at)).toBe(true);
  expect(newId('sub', at) > firstId('sub', at)).toBe(true);
});

/** As if the queue had delivered all that waits. */
async function deliver({ store, clock }: World): Promise<void> {
  const now = clock.now();
  const waiting = await store.read
    .selectFrom('deliveries')
    .select('destination')
    .where('state', '=', 'queued')
    .execute();
  for (const { destination } of waiting) {
    const claim = { destination, now, owner: 'test', until: now + HOUR, delays: '[0]', last_delay: 0, limit: 100 };
    const [{ rows }] = await store.write([claimDeliveries(claim)]);
    const end = { owner: 'test', state: 'delivered', reply: '250 ok', at: now } as const;
    await store.write(rows.map(({ id, attempts }) => settleDelivery({ id, attempts, ...end }, 1)));
  }
}
