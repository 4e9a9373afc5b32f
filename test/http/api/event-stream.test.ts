/** Events as they happen: who gets which, what a client that was away gets, and when a stream ends. */
import { expect, onTestFinished, test } from 'vitest';
import { createEventStreams, MAX_RESUMED, MAX_STREAMS_OF_ACCOUNT } from '../../../src/events/streams.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { newId } from '../../../src/lib/ids.ts';
import { revokeKey } from '../../../src/store/api-keys.ts';
import { recordEvent, type NewEvent } from '../../../src/store/events.ts';
import type { Store } from '../../../src/store/store.ts';
import { movedClock, testClock } from '../../harness/clock.ts';
import { startHttp, type TestHttp } from '../../harness/http.ts';
import { testKey, type TestKey } from '../../harness/keys.ts';
import { openTestStore } from '../../harness/store.ts';

interface Message {
  readonly id?: string;
  readonly event?: string;
  readonly data: Record<string, unknown>;
}

interface Stream {
  /** Resolves with the next messages, once there are so many. */
  next(count?: number): Promise<Message[]>;
  /** What has come so far, as it came. */
  text(): string;
  /** Resolves when the server ends it. */
  readonly ended: Promise<void>;
  close(): void;
}

async function open(
  http: TestHttp,
  key: Pick<TestKey, 'headers'>,
  { query = '', after }: { query?: string; after?: string | undefined } = {},
): Promise<Stream> {
  const abort = new AbortController();
  onTestFinished(() => abort.abort());
  const response = await fetch(`${http.base}/events/stream${query}`, {
    headers: { ...key.headers, ...(after === undefined ? {} : { 'Last-Event-ID': after }) },
    signal: abort.signal,
  });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
  let text = '';
  let taken = 0;
  async function read(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true });
  }
  const ended = read().catch((error: unknown) => {
    if (!abort.signal.aborted) throw error;
  });
  const stream = {
    async next(count = 1) {
      await expect.poll(() => messagesOf(text).length - taken, { timeout: 10_000 }).toBeGreaterThanOrEqual(count);
      const messages = messagesOf(text).slice(taken);
      taken += messages.length;
      return messages;
    },
    text: () => text,
    ended,
    close: () => abort.abort(),
  };
  // From then on nothing that happens is before it.
  await expect.poll(() => text).toContain('retry: ');
  return stream;
}

function messagesOf(text: string): Message[] {
  return text.split('\n\n').flatMap((block) => {
    const fields = new Map(
      block.split('\n').map((line) => [line.split(': ', 1)[0], line.slice(line.indexOf(': ') + 2)]),
    );
    const data = fields.get('data');
    if (data === undefined) return [];
    const [id, event] = [fields.get('id'), fields.get('event')];
    return [{ ...(id && { id }), ...(event && { event }), data: JSON.parse(data) as Record<string, unknown> }];
  });
}

async function happen(store: Store, tenant: string, ...events: Partial<NewEvent>[]): Promise<void> {
  for (const event of events)
    await store.write([recordEvent({ type: 'email.queued', tenant, at: Date.now(), data: {}, ...event })]);
}

function idsOf(messages: readonly Message[]): unknown[] {
  return messages.map(({ data }) => data['type']);
}

test('what happens is sent as the list has it, to its account alone', async () => {
  const http = await startHttp();
  const [key, stranger] = [await testKey(http.store), await testKey(http.store)];
  const stream = await open(http, key);
  const other = await open(http, stranger);
  await happen(http.store, stranger.tenant, { type: 'email.bounced' });
  await happen(http.store, key.tenant, { type: 'email.delivered', domain: 'one.example', data: { to: 'x\ny' } });
  const [message] = await stream.next();
  const { events } = (await http.request('/events?type=email.delivered', { headers: key.headers })).json() as {
    events: { id: string }[];
  };
  expect(message).toEqual({ id: events[0]?.id, data: events[0] });
  expect(idsOf(await other.next())).toEqual(['email.bounced']);
  await happen(http.store, key.tenant, { type: 'submission.accepted' });
  expect(idsOf(await stream.next())).toEqual(['submission.accepted']);
});

test('by type, domain and form, and within the restrictions of the key', async () => {
  const http = await startHttp();
  const key = await testKey(http.store);
  const restricted = await testKey(http.store, {
    tenant: key.tenant,
    restrictions: { domain_restrictions: ['one.example'] },
  });
  const byType = await open(http, key, { query: '?types=email.bounced,submission.spam' });
  const byDomain = await open(http, key, { query: '?domain=TWO.example' });
  const byForm = await open(http, key, { query: '?form=frm_1' });
  const narrow = await open(http, restricted);
  await happen(
    http.store,
    key.tenant,
    { type: 'email.bounced', domain: 'one.example' },
    { type: 'email.queued', domain: 'two.example' },
    { type: 'submission.spam', form: 'frm_1' },
  );
  expect(idsOf(await byType.next(2))).toEqual(['email.bounced', 'submission.spam']);
  expect(idsOf(await byDomain.next())).toEqual(['email.queued']);
  expect(idsOf(await byForm.next())).toEqual(['submission.spam']);
  expect(idsOf(await narrow.next())).toEqual(['email.bounced']);
  const refused = await http.request('/events/stream?domain=two.example', { headers: restricted.headers });
  expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_DOMAIN_NOT_ALLOWED']);
});

test('a test key gets what test keys did', async () => {
  const http = await startHttp();
  const live = await testKey(http.store);
  const key = await testKey(http.store, { tenant: live.tenant, environment: 'test' });
  const stream = await open(http, key);
  await happen(http.store, live.tenant, { type: 'email.bounced' });
  await happen(http.store, `${live.tenant}:test`, { type: 'email.delivered' });
  expect(idsOf(await stream.next())).toEqual(['email.delivered']);
});

test('a client that was away gets what it missed, also what was committed late', async () => {
  const http = await startHttp();
  const key = await testKey(http.store, { now: Date.now() - 3_600_000 });
  const stream = await open(http, key);
  await happen(http.store, key.tenant, { type: 'email.queued' });
  const [first] = await stream.next();
  stream.close();
  await happen(http.store, key.tenant, { type: 'email.delivered' }, { type: 'email.bounced' });
  // Begun before the last one that the client got.
  await happen(http.store, key.tenant, { type: 'email.deferred', at: Date.now() - 2000 });
  const again = await open(http, key, { after: first?.id });
  const types = idsOf(await again.next(3));
  expect(types).toEqual(expect.arrayContaining(['email.delivered', 'email.bounced', 'email.deferred']));
  // A commit may take seconds.
  await happen(http.store, key.tenant, { type: 'submission.spam', at: Date.now() - 5000 });
  expect(idsOf(await again.next())).toEqual(['submission.spam']);
});

test('so does one that had got nothing yet, or only what is left out', async () => {
  const http = await startHttp();
  const key = await testKey(http.store, { now: Date.now() - 7_200_000 });
  for (const after of [undefined, newId('evt', Date.now() - 3_700_000)]) {
    const stream = await open(http, key, { after });
    const begun = () => /^id: (.*)$/m.exec(stream.text())?.[1];
    await expect.poll(begun).toBeDefined();
    stream.close();
    await happen(http.store, key.tenant, { type: 'email.delivered' });
    const again = await open(http, key, { after: begun() });
    expect(idsOf(await again.next())).toContain('email.delivered');
    again.close();
  }
});

test('who was away too long, or missed too much, is told what is left out', async () => {
  const http = await startHttp();
  const now = Date.now();
  const key = await testKey(http.store, { now: now - 7_200_000 });
  const stream = await open(http, key, { after: newId('evt', now - 3_700_000) });
  const [gap] = await stream.next();
  expect(gap).toMatchObject({ event: 'gap', data: { since: new Date(now - 3_700_000).toISOString() } });
  const missed = Array.from({ length: MAX_RESUMED + 1 }, (_, i) =>
    recordEvent({ type: 'email.queued', tenant: key.tenant, at: now - 60_000 + i, data: {} }),
  );
  await http.store.write(missed);
  const another = await open(http, key, { after: newId('evt', now - 61_000) });
  const messages = await another.next();
  expect(messages.map(({ event }) => event)).toEqual(['gap']);
  await happen(http.store, key.tenant, { type: 'email.bounced' });
  expect(idsOf(await another.next())).toEqual(['email.bounced']);
});

test('where nothing happens, a comment keeps the connection open', async () => {
  const clock = movedClock();
  const http = await startHttp({ clock });
  const stream = await open(http, await testKey(http.store));
  expect(stream.text()).toMatch(/^retry: 3000\nid: evt_[0-9a-z]{26}\n\n$/);
  clock.pass(20_000);
  await expect.poll(() => stream.text(), { timeout: 5000 }).toMatch(/^retry: 3000\nid: .*\n\n: heartbeat\n\n$/);
});

test('it ends when its key ends, and with the server', async () => {
  const clock = movedClock();
  const http = await startHttp({ clock });
  const [key, other] = [await testKey(http.store), await testKey(http.store)];
  const stream = await open(http, key);
  await http.store.write([revokeKey({ ...key, at: clock.now() })]);
  clock.pass(5000);
  await stream.ended;
  const refused = await http.request('/events/stream', { headers: key.headers });
  expect(refused.json()['code']).toBe('AUTH_REVOKED_KEY');
  const last = await open(http, other);
  await Promise.all([last.ended.catch(() => undefined), http.close(0)]);
});

test('an account has so many streams, and one that is closed is free again', async () => {
  const http = await startHttp();
  const key = await testKey(http.store);
  const streams = await Promise.all(Array.from({ length: MAX_STREAMS_OF_ACCOUNT }, () => open(http, key)));
  const refused = await http.request('/events/stream', { headers: key.headers });
  expect([refused.status, refused.json()['code'], refused.headers['retry-after']]).toEqual([429, 'RATE_LIMITED', '5']);
  await open(http, await testKey(http.store));
  streams[0]?.close();
  await expect
    .poll(async () => {
      const answer = await fetch(`${http.base}/events/stream`, { headers: key.headers });
      await answer.body?.cancel();
      return answer.status;
    })
    .toBe(200);
});

test('a reader that takes nothing is dropped', async () => {
  const clock = testClock();
  const store = await openTestStore();
  const streams = createEventStreams({ store, clock, log: silentLog });
  const dropped: string[] = [];
  const opened = ['slow', 'quick'].map((account) =>
    streams.open({
      account,
      permit: () => Promise.resolve({ tenant: account }),
      format: () => '{}',
      gone: new AbortController().signal,
      hangUp: () => dropped.push(account),
    }),
  );
  const [slow, quick] = opened.map((one) => (one.kind === 'open' ? one.stream[Symbol.asyncIterator]() : undefined));
  await slow?.next();
  await quick?.next();
  const next = quick?.next();
  for (let i = 0; i < 6; i++) {
    await new Promise(setImmediate);
    clock.advance(5000);
  }
  await new Promise(setImmediate);
  expect(dropped).toEqual(['slow']);
  streams.close();
  await next;
});

test.each([
  ['?types=delivered', 'types'],
  [`?types=${Array.from({ length: 51 }, () => 'email.queued').join()}`, 'types'],
  ['?type=email.queued', 'type'],
])('%s is refused', async (query, path) => {
  const http = await startHttp();
  const answer = await http.request(`/events/stream${query}`, { local: true });
  const details = [expect.objectContaining({ path })];
  expect([answer.status, answer.json()]).toEqual([
    400,
    expect.objectContaining({ code: 'VALIDATION_FAILED', details }),
  ]);
});

test('needs analytics.read, and an id of an event', async () => {
  const http = await startHttp();
  const [reader, other] = [
    await testKey(http.store, { permissions: ['analytics.read'] }),
    await testKey(http.store, { permissions: ['forms.read'] }),
  ];
  await open(http, reader);
  const refused = await http.request('/events/stream', { headers: other.headers });
  expect([refused.status, refused.json()['code']]).toEqual([403, 'AUTH_FORBIDDEN']);
  const wrong = await http.request('/events/stream', { headers: { ...reader.headers, 'Last-Event-ID': 'sub_1' } });
  expect([wrong.status, wrong.json()['code']]).toEqual([400, 'VALIDATION_FAILED']);
  expect((await http.request('/events/stream')).status).toBe(401);
});
