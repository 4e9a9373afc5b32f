/** Which submissions go, and what goes with them. */
import { expect, onTestFinished, test } from 'vitest';
import { createLimits } from '../../src/accounts/rate-limits.ts';
import type { Snapshot } from '../../src/config/snapshot.ts';
import { fileStatements } from '../../src/forms/accept.ts';
import { forgetOldSubmissions } from '../../src/forms/retention.ts';
import { resendSubmission } from '../../src/forms/release.ts';
import { silentLog } from '../../src/lib/log.ts';
import { newId } from '../../src/lib/ids.ts';
import { enqueue } from '../../src/queue/enqueue.ts';
import { recordEvent } from '../../src/store/events.ts';
import { insertFileChunk, findSubmission, insertSubmission } from '../../src/store/submissions.ts';
import { insertForm } from '../../src/store/forms.ts';
import { storeBody } from '../../src/store/messages.ts';
import type { Store } from '../../src/store/store.ts';
import type { DeliveryState } from '../../src/store/tables.ts';
import { disableWebhook, insertWebhook, moveCursors } from '../../src/store/webhooks.ts';
import { enqueueForWebhook } from '../../src/store/webhook-deliveries.ts';
import { testClock } from '../harness/clock.ts';
import { testConsent } from '../harness/consent.ts';
import { settle } from '../harness/settle.ts';
import { openTestStore } from '../harness/store.ts';
import { snapshotOf, upload, type WorldConfig } from './world.ts';

const DAY = 86_400_000;
const MINUTE = 60_000;
const TENANT = 'ten_operator';

async function start(config: WorldConfig = {}) {
  const store = await openTestStore();
  const clock = testClock();
  let snapshot = snapshotOf(config);
  const forget = forgetOldSubmissions({ store, clock, snapshot: () => snapshot });

  /** A submission with a file, and with a notification in this state; answers their ids. */
  async function submit(state: DeliveryState | 'spam', form = 'example.com/contact') {
    const now = clock.now();
    const id = newId('sub', now);
    const row = { id, tenant: TENANT, form, domain: 'example.com', revision: '', fields: '[]', control: '{}' };
    const from = {
      ip: '',
      user_agent: '',
      referer: '',
      spam_score: 0,
      spam_reasons: '[]',
      environment: 'live',
      unread: 1,
      has_files: 0,
    } as const;
    const status = state === 'spam' ? 'spam' : 'accepted';
    const file = newId('fil', now);
    await store.write([
      insertSubmission({ ...row, ...from, status, created_at: now }),
      ...fileStatements(id, [{ ...upload({ id: file }), last: { bytes: Uint8Array.of(1) } }], now),
      recordEvent({ type: 'submission.accepted', tenant: TENANT, at: now, data: {}, submission: id }),
    ]);
    if (state === 'spam') return { id, message: undefined };
    const about = { tenant: TENANT, submission: id, domain: 'example.com', source: {}, ttl: DAY };
    const mail = enqueue({ ...about, kind: 'notification', recipients: ['ana@example.org'] }, now);
    const body = { sender: '', encoding: '7bit', size: 1, content: [{ bytes: Uint8Array.of(1) }] } as const;
    await store.write([...mail.unit, ...storeBody(mail.id, body)]);
    await settle(store, { message: mail.id, state, at: now });
    return { id, message: mail.id };
  }

  return {
    store,
    clock,
    submit,
    reload(change: (snapshot: Snapshot) => Snapshot) {
      snapshot = change(snapshot);
    },
    /** The round after this one, to its end. */
    async forget() {
      clock.advance(MINUTE);
      await forget();
    },
    kept: async () =>
      (await store.read.selectFrom('submissions').select('id').orderBy('id').execute()).map(({ id }) => id),
    count: async (table: 'submission_files' | 'file_chunks' | 'message_chunks' | 'messages' | 'deliveries') =>
      (
        await store.read
          .selectFrom(table)
          .select(({ fn }) => fn.countAll().as('count'))
          .execute()
      ).map(({ count }) => Number(count))[0],
  };
}

test('what is old goes with its file and what its mail says; who got that mail stays to be seen', async () => {
  const { submit, clock, forget, kept, count } = await start();
  await submit('delivered');
  clock.advance(90 * DAY - 2 * MINUTE);
  const young = await submit('delivered');
  await forget();
  expect(await kept()).toHaveLength(2);
  clock.advance(2 * MINUTE);
  await forget();
  expect(await kept()).toEqual([young.id]);
  expect([await count('submission_files'), await count('file_chunks'), await count('message_chunks')]).toEqual([
    1, 1, 1,
  ]);
  expect([await count('messages'), await count('deliveries')]).toEqual([2, 2]);
});

test.each(['queued', 'sending', 'deferred'] as const)(
  'nothing goes whose mail is %s, however old it is',
  async (state) => {
    const { submit, store, clock, forget, kept, count } = await start();
    const { id, message = '' } = await submit(state);
    clock.advance(400 * DAY);
    await forget();
    expect(await kept()).toEqual([id]);
    expect([await count('file_chunks'), await count('message_chunks')]).toEqual([1, 1]);
    await settle(store, { message, state: 'expired', at: clock.now() });
    await forget();
    expect(await kept()).toEqual([]);
    expect([await count('file_chunks'), await count('message_chunks')]).toEqual([0, 0]);
  },
);

test('0: what arrived goes at once; what reached nobody stays a week', async () => {
  const { submit, clock, forget, kept } = await start({ server: { retention: { submissions: 0 } } });
  await submit('delivered');
  await submit('captured');
  const rest = [await submit('bounced'), await submit('spam'), await submit('deferred')].map(({ id }) => id);
  await forget();
  expect(await kept()).toEqual(rest.toSorted());
  clock.advance(7 * DAY);
  await forget();
  expect(await kept()).toEqual(rest.slice(2));
});

test('a form has the last word, and so has one that the API made; forever is for ever', async () => {
  const { submit, store, clock, forget, kept } = await start({
    form: { retention: 'forever' },
    forms: { brief: { retention: '1d' } },
  });
  const form = { id: newId('frm', clock.now()), tenant: TENANT, kind: 'api', name: 'Own', domain: null } as const;
  const config = JSON.stringify({ to: 'ana@example.org', retention: '2d' });
  await store.write([insertForm({ ...form, config, created_at: 1 })]);
  const forever = await submit('delivered');
  await submit('delivered', 'example.com/brief');
  const own = await submit('delivered', form.id);
  const gone = await submit('delivered', 'example.com/gone');
  clock.advance(DAY);
  await forget();
  expect(await kept()).toEqual([forever.id, own.id, gone.id].toSorted());
  clock.advance(DAY);
  await forget();
  expect(await kept()).toEqual([forever.id, gone.id].toSorted());
  clock.advance(4000 * DAY);
  await forget();
  expect(await kept()).toEqual([forever.id]);
});

test('where a project that may say how long cannot be read, all is kept until it can', async () => {
  const { submit, clock, forget, kept, reload } = await start();
  const { id } = await submit('delivered', 'other.example/contact');
  reload((snapshot) => ({ ...snapshot, unread: new Set([TENANT]) }));
  clock.advance(400 * DAY);
  await forget();
  expect(await kept()).toEqual([id]);
  reload((snapshot) => ({ ...snapshot, unread: new Set() }));
  await forget();
  expect(await kept()).toEqual([]);
});

test('a webhook is told first, unless it is disabled', async () => {
  const { submit, store, clock, forget, kept } = await start({ server: { retention: { submissions: 0 } } });
  const webhook = { id: newId('whk', clock.now()), tenant: TENANT, project: null, form: '', url: 'https://hook.test/' };
  await store.write([
    insertWebhook({ ...webhook, events: '[]', description: '', secret: 's', created_at: clock.now() }),
  ]);
  const { id } = await submit('delivered');
  await forget();
  // Nobody has looked for events yet.
  expect(await kept()).toEqual([id]);
  const [event] = await store.read.selectFrom('events').select('id').where('submission', '=', id).execute();
  clock.advance(10 * MINUTE);
  await store.write([
    ...enqueueForWebhook({ ...webhook, environment: 'live' }, [{ id: 'whd_1', event: event?.id ?? '' }], clock.now()),
    moveCursors({ now: clock.now() }),
  ]);
  await forget();
  expect(await kept()).toEqual([id]);
  await store.write([disableWebhook({ id: webhook.id, tenant: TENANT, reason: 'gone' })]);
  await forget();
  expect(await kept()).toEqual([]);
});

test('of many, all go in one round, and another form is not passed over', async () => {
  const { store, clock, forget, kept, submit } = await start();
  const now = clock.now();
  const row = {
    tenant: TENANT,
    domain: 'example.com',
    revision: '',
    fields: '[]',
    control: '{}',
    ip: '',
    user_agent: '',
  };
  const more = {
    referer: '',
    status: 'accepted',
    spam_score: 0,
    spam_reasons: '[]',
    environment: 'live',
    unread: 1,
    has_files: 0,
  } as const;
  const form = 'example.com/a';
  const rows = Array.from({ length: 1200 }, () => ({ ...row, ...more, form, id: newId('sub', now), created_at: now }));
  await store.write(rows.map((each) => insertSubmission(each)));
  await submit('delivered', 'example.com/b');
  clock.advance(90 * DAY);
  await forget();
  expect(await kept()).toEqual([]);
});

test('large files go a few at a time', async () => {
  const { store, clock, submit } = await start();
  const { id } = await submit('delivered');
  const { id: other } = await submit('delivered');
  for (const submission of [id, other]) {
    const file = newId('fil', clock.now());
    const size = 12 * 1024 * 1024;
    const kept = { ...upload({ id: file, size, pieces: 1 }), last: { bytes: Uint8Array.of(1) } };
    await store.write(fileStatements(submission, [kept], clock.now()));
    await store.write([insertFileChunk({ file, seq: 0, bytes: Uint8Array.of(1), created_at: clock.now() })]);
  }
  const units: number[] = [];
  const write = store.write.bind(store);
  const spied = { ...store, write: (unit: Parameters<typeof write>[0]) => (units.push(unit.length), write(unit)) };
  clock.advance(91 * DAY);
  const snapshot = snapshotOf();
  await forgetOldSubmissions({ store: spied as Store, clock, snapshot: () => snapshot })();
  expect(units).toHaveLength(2);
});

test('who asks for a mail about one that has just gone is told so, and no mail is made', async () => {
  const { store, clock, submit, forget } = await start();
  const { id } = await submit('delivered');
  const row = await findSubmission(store, id);
  clock.advance(91 * DAY);
  await forget();
  if (row === undefined) throw new Error('it was never there');
  const limits = await createLimits({ store, clock, log: silentLog });
  onTestFinished(() => limits.close());
  const consent = testConsent({ store, clock, limits, config: () => snapshotOf().server });
  const parts = {
    store,
    clock,
    consent,
    wake() {},
    revisionOf: () => Promise.resolve(undefined),
    learning: { learn: () => Promise.reject(new Error('nothing is decided here')) },
  };
  const decision = { snapshot: snapshotOf(), environment: 'live' } as const;
  expect(await resendSubmission(row, decision, parts)).toEqual({ kind: 'submission-gone' });
  expect(await store.read.selectFrom('messages').select('id').execute()).toHaveLength(1);
});
