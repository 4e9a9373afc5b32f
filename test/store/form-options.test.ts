/** What options of forms keep beside a submission, and what a person's data is erased by: on both databases. */
import { expect, test } from 'vitest';
import { erasePerson, type Erased } from '../../src/accounts/erase.ts';
import { hashedAddress } from '../../src/lib/addresses.ts';
import { newId } from '../../src/lib/ids.ts';
import {
  acknowledge,
  confirmRecipient,
  isRefused,
  recipientStatuses,
  refuseMailbox,
} from '../../src/store/consents.ts';
import { giveBack, settleDelivery } from '../../src/store/messages.ts';
import { enqueue, type NewMessage } from '../../src/queue/enqueue.ts';
import { noteDue } from '../../src/store/destinations.ts';
import type { Statement } from '../../src/store/statement.ts';
import {
  armFallback,
  confirmedWith,
  dueFallbacks,
  expiredOptIns,
  insertOptIn,
  noteFailedNotification,
  putOffFallback,
  useFallback,
} from '../../src/store/form-options.ts';
import { claimDeliveries } from '../../src/store/leases.ts';
import {
  dropSubmissionContent,
  findSubmission,
  insertFile,
  insertFileChunk,
  insertSubmission,
  reducibleSubmissions,
} from '../../src/store/submissions.ts';
import { isSuppressed, selectSuppressions, suppress } from '../../src/store/suppressions.ts';
import { UnmetError, type Store } from '../../src/store/store.ts';
import type { SubmissionRow } from '../../src/store/tables.ts';
import { insertTenant } from '../../src/store/tenants.ts';
import { testClock } from '../harness/clock.ts';
import { tenantRow } from '../harness/keys.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';

const NOW = Date.UTC(2026, 0, 1);
const CLAIM = { owner: 'me', now: NOW, until: NOW + 1000, delays: '[1000]', last_delay: 0, limit: 9 };

async function submitted(store: Store, more: Partial<SubmissionRow> = {}): Promise<string> {
  const id = newId('sub', NOW);
  await store.write([
    insertSubmission({
      id,
      tenant: 'ten_a',
      form: 'example.com/contact',
      domain: 'example.com',
      revision: '',
      fields: '[["name","Ana"]]',
      control: '{}',
      ip: '',
      user_agent: '',
      referer: '',
      status: 'accepted',
      spam_score: 0,
      spam_reasons: '[{"name":"links","score":1,"detail":"https://ana.example"}]',
      environment: 'live',
      stored: null,
      accepted_at: null,
      unread: 1,
      has_files: 0,
      created_at: NOW,
      ...more,
    }),
  ]);
  return id;
}

test('one link confirms what the same client sent to the form for the mailbox, and what is expired is found', async () => {
  const store = await openTestStore();
  const about = { tenant: 'ten_a', form: 'f', mailbox: 'ana@inbox.test', client: 'hash:1', expires_at: NOW };
  const ids: string[] = [];
  for (const other of [
    {},
    {},
    { client: 'hash:2' },
    { mailbox: 'bo@inbox.test' },
    { form: 'g' },
    { tenant: 'ten_b' },
  ]) {
    const submission = await submitted(store, { status: 'pending' });
    ids.push(submission);
    await store.write([insertOptIn({ ...about, ...other, submission })]);
  }
  for (const [linked = '', other] of [ids.slice(0, 2), ids.slice(0, 2).reverse()]) {
    expect((await confirmedWith(store, linked, 20)).map(({ id }) => id)).toEqual([linked, other]);
    expect((await confirmedWith(store, linked, 1)).map(({ id }) => id)).toEqual([linked]);
  }
  expect((await expiredOptIns(store, NOW - 1, 20)).length).toBe(0);
  expect((await expiredOptIns(store, NOW, 20)).length).toBe(ids.length);
});

test('a fallback is due when mail fails or is late, is used once, and a failure meanwhile is not forgotten', async () => {
  const store = await openTestStore();
  const submission = await submitted(store);
  await store.write([armFallback({ submission, late_at: NOW + 100 })]);
  expect(await dueFallbacks(store, NOW, 9)).toEqual([]);
  await store.write(noteFailedNotification({ message: { kind: 'acknowledgment', submission }, at: NOW }));
  expect(await dueFallbacks(store, NOW, 9)).toEqual([]);
  await store.write(noteFailedNotification({ message: { kind: 'notification', submission }, at: NOW }));
  expect(await dueFallbacks(store, NOW, 9)).toMatchObject([{ submission, due_at: NOW }]);
  // Another recipient failed while somebody looked.
  await store.write(noteFailedNotification({ message: { kind: 'notification', submission }, at: NOW + 1 }));
  await store.write([putOffFallback({ submission, due_at: NOW, next: null })]);
  expect(await dueFallbacks(store, NOW + 1, 9)).toMatchObject([{ due_at: NOW + 1 }]);
  await store.write([useFallback({ submission, used_at: NOW + 2 }, 1)]);
  await expect(store.write([useFallback({ submission, used_at: NOW + 3 }, 1)])).rejects.toThrow(UnmetError);
  await store.write([armFallback({ submission, late_at: NOW })]);
  expect(await dueFallbacks(store, NOW + 9, 9)).toEqual([]);
});

test('what is not to be stored is found when its mail has arrived, and its metadata stays', async () => {
  const store = await openTestStore();
  const ids = { none: '', metadata: '', waiting: '' };
  for (const stored of ['none', 'metadata'] as const) ids[stored] = await submitted(store, { stored });
  ids.waiting = await submitted(store, { stored: 'metadata' });
  await submitted(store);
  for (const submission of Object.values(ids)) {
    await store.write(mail({ tenant: 'ten_a', submission, recipients: ['owner@inbox.test'] }));
  }
  const which = { after: '', unreached: 'sub_0', limit: 9 };
  expect(await reducibleSubmissions(store, which)).toEqual([]);
  await settleAll(store, [ids.none, ids.metadata]);
  const file = { id: 'fil_1', submission: ids.metadata, position: 0, field: 'f', filename: 'a', content_type: 'b/c' };
  await store.write([
    insertFile({ ...file, size: 3, unscanned: 0 }),
    insertFileChunk({ file: 'fil_1', seq: 0, bytes: Uint8Array.of(1, 2, 3), created_at: NOW }),
  ]);
  const found = await reducibleSubmissions(store, which);
  expect(found.map(({ id, stored }) => [id, stored]).sort()).toEqual(
    [
      [ids.none, 'none'],
      [ids.metadata, 'metadata'],
    ].sort(),
  );
  // It was asked for once more since: that mail is made of it.
  await store.write(mail({ tenant: 'ten_a', submission: ids.metadata, recipients: ['a@inbox.test'] }));
  const metadata = found.filter(({ stored }) => stored === 'metadata');
  await store.write(dropSubmissionContent(metadata));
  expect(await findSubmission(store, ids.metadata)).toMatchObject({ fields: '[["name","Ana"]]', stored: 'metadata' });
  await settleAll(store, [ids.metadata]);
  await store.write(dropSubmissionContent(metadata));
  expect(await findSubmission(store, ids.metadata)).toMatchObject({
    fields: '[]',
    control: '{}',
    spam_reasons: '[]',
    stored: 'dropped',
    form: 'example.com/contact',
  });
  expect(await store.read.selectFrom('file_chunks').select('file').execute()).toEqual([]);
  expect(await store.read.selectFrom('submission_files').select('id').execute()).toEqual([]);
});

function mail({ recipients, ...more }: Partial<NewMessage> & Pick<NewMessage, 'recipients'>): Statement[] {
  return enqueue(newMessage(recipients, more), NOW).unit;
}

/** Delivers all mail about these submissions. */
async function settleAll(store: Store, submissions: readonly string[]): Promise<void> {
  await store.write([claimDeliveries({ ...CLAIM, destination: 'inbox.test' })]);
  const rows = await store.read
    .selectFrom('deliveries')
    .innerJoin('messages', 'messages.id', 'deliveries.message')
    .select(['deliveries.id', 'deliveries.attempts', 'messages.submission'])
    .where('deliveries.state', '=', 'sending')
    .execute();
  await store.write(
    rows.map(({ id, attempts, submission }) =>
      submission !== null && submissions.includes(submission)
        ? settleDelivery({ id, attempts, owner: 'me', state: 'delivered', reply: '250 OK', at: NOW }, 1)
        : giveBack({ id, attempts, owner: 'me', due: NOW }, 1),
    ),
  );
}

async function eraseAll(store: Store, address: string, more: { tenant?: string; dryRun?: boolean } = {}) {
  const parts = { store, clock: testClock(NOW), wake: () => undefined };
  const sum: Record<string, number> = {};
  const mentions: string[] = [];
  for (let from: string | undefined, calls = 0; calls < 10; calls++) {
    const erased: Erased = await erasePerson(
      { address, tenant: more.tenant, dryRun: more.dryRun ?? false, from },
      parts,
    );
    for (const [name, count] of Object.entries(erased.counts)) sum[name] = (sum[name] ?? 0) + count;
    mentions.push(...erased.mentions);
    from = erased.next;
    if (from === undefined) break;
  }
  return { ...Object.fromEntries(Object.entries(sum).filter(([, count]) => count > 0)), mentions };
}

test('a person is erased by every spelling of the address, and nobody else', async () => {
  const store = await openTestStore();
  const field = (value: unknown) => JSON.stringify([['email', value]]);
  const own = [
    await submitted(store, { fields: field('An.Na@GMail.com') }),
    await submitted(store, { fields: field([' anna+shop@googlemail.com ', 'x']) }),
    await submitted(store, { control: '{"_replyto":"anna@gmail.com"}' }),
  ];
  const mention = await submitted(store, { fields: field('write to anna@gmail.com please') });
  const other = await submitted(store, { fields: field('hanna@gmail.com') });
  const foreign = await submitted(store, { tenant: 'ten_b', fields: field('anna@gmail.com') });
  const file = { id: 'fil_1', submission: own[0] ?? '', position: 0, field: 'f', filename: 'a', content_type: 'b/c' };
  await store.write([
    insertFile({ ...file, size: 1, unscanned: 0 }),
    insertFileChunk({ file: 'fil_1', seq: 0, bytes: Uint8Array.of(1), created_at: NOW }),
    ...mail({ tenant: 'ten_a', submission: own[0] ?? '', recipients: ['owner@inbox.test'] }),
    ...mail({ tenant: 'ten_a', kind: 'transactional', recipients: ['anna@gmail.com'] }),
    ...mail({ tenant: 'ten_a', kind: 'transactional', recipients: ['hanna@gmail.com'] }),
    ...mail({ tenant: 'ten_a', kind: 'notification', recipients: ['anna@gmail.com'] }),
    ...mail({ tenant: 'ten_b', kind: 'transactional', recipients: ['anna@gmail.com'] }),
    acknowledge({ tenant: 'ten_a', address: 'anna@gmail.com', at: NOW, since: 0 }),
    confirmRecipient({ tenant: 'ten_a', address: 'anna@gmail.com', at: NOW }),
    suppress({ tenant: 'ten_a', address: 'anna@gmail.com', reason: 'complaint', created_at: NOW }),
    suppress({ tenant: 'ten_a', address: 'an.na@gmail.com', reason: 'bounce', created_at: NOW }),
  ]);
  const expected = {
    submissions: 3,
    files: 1,
    messages: 2,
    consents: 2,
    suppressions: 2,
    kept_as_hash: 1,
    configured: 1,
    mentions: [mention],
  };
  expect(await eraseAll(store, 'an.na@gmail.com', { tenant: 'ten_a', dryRun: true })).toEqual(expected);
  expect(await findSubmission(store, own[0] ?? '')).toBeDefined();
  expect(await eraseAll(store, 'an.na@gmail.com', { tenant: 'ten_a' })).toEqual(expected);
  for (const id of own) expect(await findSubmission(store, id)).toBeUndefined();
  for (const id of [mention, other, foreign]) expect(await findSubmission(store, id)).toBeDefined();
  const left = await store.read.selectFrom('deliveries').select(['tenant', 'recipient']).orderBy('tenant').execute();
  expect(left.map(({ tenant, recipient }) => `${tenant} ${recipient}`).sort()).toEqual([
    'ten_a anna@gmail.com',
    'ten_a hanna@gmail.com',
    'ten_b anna@gmail.com',
  ]);
  const events = await store.read.selectFrom('events').select('data').where('tenant', '=', 'ten_a').execute();
  // Those of the mail that stays, to an owner and to somebody else.
  expect(events.length).toBe(2);
  expect(await store.read.selectFrom('file_chunks').select('file').execute()).toEqual([]);
  expect(await eraseAll(store, 'an.na@gmail.com', { tenant: 'ten_a' })).toEqual({ configured: 1, mentions: [mention] });

  // What was forbidden stays so, and the address stands nowhere.
  const [suppression] = await selectSuppressions(store, { tenant: 'ten_a', after: undefined, limit: 9 });
  expect(suppression).toMatchObject({ address: hashedAddress('anna@gmail.com'), reason: 'complaint' });
  expect(await isSuppressed(store, 'ten_a', 'Anna@gmail.com')).toBe(true);
  expect(await isSuppressed(store, 'ten_a', 'hanna@gmail.com')).toBe(false);
  expect(await eraseAll(store, 'anna@googlemail.com')).toMatchObject({
    submissions: 1,
    messages: 1,
    mentions: [mention],
  });
});

test('mail to an address that was erased is still withheld, and "never again" is still honoured', async () => {
  const store = await openTestStore();
  await store.write([
    insertTenant(tenantRow({ id: 'ten_a', trusted: 0 })),
    suppress({ tenant: 'ten_a', address: 'ana@inbox.test', reason: 'unsubscribe', created_at: NOW }),
    refuseMailbox({ mailbox: 'bo@inbox.test', at: NOW }),
  ]);
  await eraseAll(store, 'ana@inbox.test');
  await eraseAll(store, 'bo@inbox.test');
  const rows = await store.read.selectFrom('mailboxes').select('mailbox').execute();
  expect(rows).toEqual([{ mailbox: hashedAddress('bo@inbox.test') }]);
  expect(await isRefused(store, 'Bo+x@inbox.test')).toBe(true);
  expect(await recipientStatuses(store, 'ten_a', ['bo@inbox.test', 'cy@inbox.test'])).toEqual(
    new Map([
      ['bo@inbox.test', 'refused'],
      ['cy@inbox.test', 'pending'],
    ]),
  );
  for (const recipient of ['Ana@inbox.test', 'cy@inbox.test'])
    await store.write(mail({ tenant: 'ten_a', kind: 'transactional', recipients: [recipient] }));
  await store.write([noteDue({ name: 'inbox.test', due: NOW })]);
  const [{ rows: claimed }] = await store.write([claimDeliveries({ ...CLAIM, destination: 'inbox.test' })]);
  const suppressed = claimed.map(({ recipient, suppressed: is }) => [recipient, is]);
  expect(suppressed.sort()).toEqual([
    ['Ana@inbox.test', 1],
    ['cy@inbox.test', 0],
  ]);
});
