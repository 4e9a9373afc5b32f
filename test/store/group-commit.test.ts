/** Units that are written at once share a commit; what becomes of one is nobody else's matter. */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import { findDestination, noteDue } from '../../src/store/destinations.ts';
import { recordEvent } from '../../src/store/events.ts';
import { claimDeliveries } from '../../src/store/leases.ts';
import {
  deferDelivery,
  deliveriesOfMessage,
  findDelivery,
  findMessages,
  keepAttachments,
  readAttachment,
  settleDelivery,
} from '../../src/store/messages.ts';
import { insertToken } from '../../src/store/secrets.ts';
import { insertInto } from '../../src/store/statement.ts';
import { countSubmission, insertSubmission, submissionsOf } from '../../src/store/submissions.ts';
import { StoreError, UnmetError, type Store } from '../../src/store/store.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const insertSecret = insertInto('secrets');

function secret(name: string, value = 'x') {
  return insertSecret({ name, value, created_at: 1 });
}

async function secrets(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('secrets').select('name').orderBy('name').execute();
  return rows.map(({ name }) => name);
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${i}`.padStart(3, '0'));
}

test.for([['the first', 0] as const, ['one among them', 17] as const, ['the last', 39] as const])(
  'of forty that are alike %s fails alone, and whole',
  async ([, which]) => {
    const store = await openTestStore();
    const names = numbered(40);
    await store.write([secret(`${names[which]} taken`)]);
    const outcomes = await Promise.allSettled(
      names.map((name) => store.write([secret(name), secret(`${name} taken`)])),
    );
    const failed = outcomes.flatMap((outcome, i) => (outcome.status === 'rejected' ? [i] : []));
    expect(failed).toEqual([which]);
    expect(outcomes[which]).toMatchObject({ reason: expect.any(StoreError) });
    const rest = names.filter((_, i) => i !== which);
    expect(await secrets(store)).toEqual([...rest, ...names.map((name) => `${name} taken`)].sort());
  },
);

test('of tries that end at once those whose lease is lost are unmet, and the others are over', async () => {
  const store = await openTestStore();
  const sent = Array.from({ length: 24 }, (_, i) => enqueue(newMessage(`a${i}@example.test`), 1));
  await Promise.all(sent.map(({ unit }) => store.write(unit)));
  const claim = {
    destination: 'example.test',
    now: 1,
    owner: 'us',
    until: 10,
    delays: '[5]',
    last_delay: 0,
    limit: 24,
  };
  const [{ rows }] = await store.write([claimDeliveries(claim)]);
  expect(rows.length).toBe(24);
  const isLost = (i: number) => i % 10 === 3;
  const outcomes = await Promise.allSettled(
    rows.map(({ id }, i) => {
      const lease = { id, owner: isLost(i) ? 'another' : 'us', attempts: 1 };
      // Two kinds of ends, which are written beside each other.
      return i % 2 === 0
        ? store.write([settleDelivery({ ...lease, state: 'delivered', reply: `250 ${i}`, at: 7 }, 1)])
        : store.write([deferDelivery({ ...lease, reply: `450 ${i}`, due: 9 }, 1)]);
    }),
  );
  for (const [i, outcome] of outcomes.entries()) {
    expect(await findDelivery(store, rows[i]?.id ?? '')).toMatchObject(
      isLost(i)
        ? { state: 'sending', lease_owner: 'us' }
        : i % 2 === 0
          ? { state: 'delivered', last_reply: `250 ${i}`, settled_at: 7, lease_owner: null }
          : { state: 'deferred', last_reply: `450 ${i}`, next_attempt_at: 9, lease_owner: null },
    );
    if (isLost(i)) expect(outcome).toMatchObject({ reason: expect.any(UnmetError) });
    else expect(outcome).toMatchObject({ value: [{ changes: 1 }] });
  }
});

test('messages that are enqueued at once are whole, and their destinations are due with the first', async () => {
  const store = await openTestStore();
  const sent = Array.from({ length: 30 }, (_, i) =>
    enqueue(newMessage([`a${i}@one.test`, `b${i}@two.test`], { source: { text: `“${i}”\\ud83d \t'` } }), 100 - i),
  );
  await Promise.all(sent.map(({ unit }) => store.write(unit)));
  const ids = sent.map(({ id }) => id);
  const messages = await findMessages(store, ids);
  expect(ids.map((id) => messages.get(id)?.source)).toEqual(
    sent.map((_, i) => JSON.stringify({ text: `“${i}”\\ud83d \t'` })),
  );
  for (const id of ids) expect((await deliveriesOfMessage(store, id)).length).toBe(2);
  for (const name of ['one.test', 'two.test']) {
    expect(await findDestination(store, name)).toMatchObject({ next_due_at: 71, failures: 0 });
  }
});

test('a destination is due with the earliest of what is noted at once, and what is counted at once is counted', async () => {
  const store = await openTestStore();
  const dues = [50, 20, 90, 30];
  await Promise.all(dues.map((due) => store.write([noteDue({ name: 'a.test', due })])));
  expect(await findDestination(store, 'a.test')).toMatchObject({ next_due_at: 20 });
  const forms = ['a.test/one', 'b.test/two', 'a.test/one', 'c.test/three'];
  const counted = Array.from({ length: 80 }, (_, i) => forms[i % 4] ?? '');
  await Promise.all(counted.map((form) => store.write([countSubmission({ form })])));
  expect(await Promise.all([...new Set(forms)].map((form) => submissionsOf(store, form)))).toEqual([40, 20, 20]);
});

test('text that is no Unicode and bytes are written as when they come alone', async () => {
  const store = await openTestStore();
  const lone = 'half of a \ud83d';
  const sent = Array.from({ length: 9 }, (_, i) => enqueue(newMessage(`a${i}@one.test`), 1));
  await store.write([secret('alone', lone)]);
  await Promise.all([
    ...numbered(9).map((name, i) => store.write([secret(name, i === 4 ? lone : 'whole')])),
    ...sent.map(({ id, unit }, i) =>
      store.write([...unit, ...keepAttachments(id, [[{ bytes: Buffer.from([i, 0, 255]) }]])]),
    ),
  ]);
  const rows = await store.read.selectFrom('secrets').selectAll().orderBy('name').execute();
  const alone = rows.find(({ name }) => name === 'alone')?.value;
  expect(rows.map(({ value }) => value)).toEqual([...numbered(9).map((_, i) => (i === 4 ? alone : 'whole')), alone]);
  for (const [i, { id }] of sent.entries())
    expect(await readAttachment(store, id, 0)).toEqual(Buffer.from([i, 0, 255]));
});

test('the same statement twice in a unit, and a unit of none', async () => {
  const store = await openTestStore();
  const same = countSubmission({ form: 'a.test/one' });
  await store.write([same, same]);
  expect(await submissionsOf(store, 'a.test/one')).toBe(2);
  expect(await store.write([])).toEqual([]);
  const token = { kind: 'recipient', tenant: 'ten_a', subject: 'a', expires_at: 1, created_at: 1 } as const;
  const outcomes = await store.write([insertToken({ ...token, hash: 'a' }), insertToken({ ...token, hash: 'b' })]);
  expect(outcomes.map(({ changes }) => changes)).toEqual([1, 1]);
});

test('events of submissions that happen at once are of their forms, and share few transactions', async () => {
  const store = await openTestStore();
  const submissions = Array.from({ length: 50 }, (_, i) => submissionRow(1, { form: `example.test/form${i % 3}` }));
  await store.write(submissions.map((row) => insertSubmission(row)));
  const before = await transactions(store);
  await Promise.all(
    submissions.map(({ id, tenant }, i) =>
      store.write([recordEvent({ type: 'email.delivered', tenant, at: i, data: { i }, submission: id })]),
    ),
  );
  if (store.dialect === 'postgres') expect((await transactions(store)) - before).toBeLessThan(10);
  const events = await store.read.selectFrom('events').select(['submission', 'form', 'data', 'created_at']).execute();
  expect(new Map(events.map(({ submission, ...event }) => [submission, event]))).toEqual(
    new Map(submissions.map(({ id, form }, i) => [id, { form, data: `{"i":${i}}`, created_at: i }])),
  );
});

/** How many transactions have written so far; 0 on SQLite. */
async function transactions(store: Store): Promise<number> {
  if (store.dialect === 'sqlite') return 0;
  const { rows } = await sql<{ count: string }>`select pg_snapshot_xmax(pg_current_snapshot())::text as count`.execute(
    store.read,
  );
  return Number(rows[0]?.count);
}
