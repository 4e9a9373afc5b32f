import { expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { insertAttempt, recentAttemptsAt, recentAttemptsTo, deliveriesOfMessage } from '../../src/store/messages.ts';
import {
  recordEvent,
  eventsOfMessages,
  eventsOfRequest,
  eventsOfSubmission,
  findEvent,
} from '../../src/store/events.ts';
import { suppress, suppressionsOf } from '../../src/store/suppressions.ts';
import { enqueueForWebhook, postsOfEvents } from '../../src/store/webhook-deliveries.ts';
import { insertWebhook } from '../../src/store/webhooks.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 1);

test('events are found by the request that caused them, by their submission and by their messages', async () => {
  const store = await openTestStore();
  const [request, submission] = [newId('req', NOW), newId('sub', NOW)];
  const message = { kind: 'transactional', tenant: 'ten_a', domain: 'example.com', submission: null } as const;
  const { id, unit } = enqueue({ ...message, source: {}, recipients: ['a@inbox.test'], ttl: 1000, request }, NOW + 5);
  const about = { tenant: 'ten_a', data: {}, submission } as const;
  await store.write([
    ...unit,
    recordEvent({ ...about, type: 'submission.accepted', at: NOW + 9, request }),
    recordEvent({ ...about, type: 'submission.accepted', at: NOW, request: newId('req', NOW) }),
    // Nobody's request lasts that long: ids are not looked through further.
    recordEvent({ ...about, type: 'submission.accepted', at: NOW + 3_600_000, request }),
  ]);
  const events = await eventsOfRequest(store, request);
  expect(events.map(({ type, request: by }) => [type, by])).toEqual([
    ['email.queued', request],
    ['submission.accepted', request],
  ]);
  expect(await findEvent(store, events[0]?.id ?? '')).toEqual(events[0]);
  expect(await eventsOfMessages(store, [id, 'msg_other'])).toEqual(events.slice(0, 1));
  const own = { id: submission, tenant: 'ten_a', created_at: NOW + 9, accepted_at: null };
  expect(await eventsOfSubmission(store, own)).toEqual(events.slice(1));
  expect(await eventsOfSubmission(store, { ...own, tenant: 'ten_b' })).toEqual([]);
});

test('posts are found by their events, at the webhooks of the tenant', async () => {
  const store = await openTestStore();
  const hook = {
    url: 'https://example.com/hook',
    events: '[]',
    description: '',
    secret: 'whsec_x',
    project: null,
    form: '',
    created_at: NOW,
  };
  const tell = (name: string, event: string) =>
    enqueueForWebhook(
      { id: `whk_${name}`, tenant: `ten_${name}`, url: hook.url, environment: 'live' },
      [{ id: newId('whd', NOW), event }],
      NOW,
    );
  await store.write([
    insertWebhook({ ...hook, id: 'whk_a', tenant: 'ten_a' }),
    insertWebhook({ ...hook, id: 'whk_b', tenant: 'ten_b' }),
    ...['a', 'b'].flatMap((name) => tell(name, 'evt_1')),
    ...tell('a', 'evt_2'),
  ]);
  expect(await postsOfEvents(store, 'ten_a', ['evt_1', 'evt_3'])).toMatchObject([
    { webhook: 'whk_a', event: 'evt_1', url: 'https://example.com/hook', state: 'pending' },
  ]);
});

test('the last attempts to an address, whatever its case, and to its destination', async () => {
  const store = await openTestStore();
  const message = { kind: 'transactional', tenant: 'ten_a', domain: 'example.com', submission: null } as const;
  const recipients = ['Ana@inbox.test', 'bob@inbox.test', 'ana@other.test'];
  const { id, unit } = enqueue({ ...message, source: {}, recipients, ttl: 1000 }, NOW);
  await store.write(unit);
  const rows = await deliveriesOfMessage(store, id);
  const common = { host: 'mx.test', address: '192.0.2.1', tls: null, outcome: 'deferred' } as const;
  await store.write(
    rows.flatMap(({ id: delivery, recipient }) =>
      [1, 2].map((number) =>
        insertAttempt({ ...common, delivery, number, at: NOW + number, reply: `${recipient} ${number}` }),
      ),
    ),
  );
  expect((await recentAttemptsTo(store, 'ANA@inbox.test', { limit: 5 })).map(({ reply }) => reply)).toEqual([
    'Ana@inbox.test 2',
    'Ana@inbox.test 1',
  ]);
  const there = await recentAttemptsAt(store, 'inbox.test', { limit: 2 });
  expect(there.map(({ reply }) => reply).sort()).toEqual(['Ana@inbox.test 2', 'bob@inbox.test 2']);
  expect(there[0]).toMatchObject({ message: id });
});

test('an address is found on every list that it is on', async () => {
  const store = await openTestStore();
  const row = { address: 'Ana@inbox.test', reason: 'bounce', created_at: NOW } as const;
  await store.write([
    suppress({ ...row, tenant: 'ten_b' }),
    suppress({ ...row, tenant: 'ten_a' }),
    suppress({ ...row, tenant: 'ten_a', address: 'bob@inbox.test' }),
  ]);
  expect((await suppressionsOf(store, 'ANA@inbox.test')).map(({ tenant }) => tenant)).toEqual(['ten_a', 'ten_b']);
});
