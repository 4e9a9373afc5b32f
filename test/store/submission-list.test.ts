import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { enqueue } from '../../src/queue/enqueue.ts';
import {
  insertFile,
  insertFileChunk,
  countSubmission,
  findSubmission,
  insertSubmission,
  dropSubmissionContent,
  markSubmission,
  noteToIndex,
  removeSubmission,
  submissionsOf,
  uncountSubmission,
} from '../../src/store/submissions.ts';
import { insertForm } from '../../src/store/forms.ts';
import { endWaiting } from '../../src/store/messages.ts';
import { indexSome, mergeSome } from '../../src/store/search.ts';
import { UnmetError } from '../../src/store/store.ts';
import {
  countInbox,
  countSubmissions,
  deliveriesOfSubmission,
  listSubmissions,
  MAX_COUNT,
  MAX_UNREAD_OF_FORM,
  partsOf,
  SEARCHED,
  type SubmissionFilter,
} from '../../src/store/submission-list.ts';
import type { SubmissionRow } from '../../src/store/tables.ts';
import { newMessage } from '../harness/queue.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const START = Date.UTC(2026, 0, 1);
const FORM = { tenant: 'ten_1', form: 'example.com/contact' };

function rowAt(minute: number, more: Partial<SubmissionRow> = {}): SubmissionRow {
  return submissionRow(START + minute * 60_000, { fields: '[["name","Ana"]]', ...more });
}

test('lists hold what the filter says, newest first, and counts agree with them', async () => {
  const store = await openTestStore();
  const rows = [0, 1, 2, 3, 4].map((minute) => rowAt(minute, minute % 2 === 1 ? { status: 'spam' } : {}));
  const foreign = [rowAt(1, { tenant: 'ten_2' }), rowAt(2, { form: 'example.com/other' })];
  await store.write([...rows, ...foreign].map((row) => insertSubmission(row)));
  const ids = rows.map(({ id }) => id);
  const cases: [Partial<SubmissionFilter>, number[]][] = [
    [{}, [4, 3, 2, 1, 0]],
    [{ status: 'spam' }, [3, 1]],
    [{ status: 'accepted' }, [4, 2, 0]],
    [{ from: START + 60_000, until: START + 180_000 }, [2, 1]],
    [{ status: 'accepted', from: START + 60_000 }, [4, 2]],
    [{ form: 'example.com/never' }, []],
  ];
  for (const [more, expected] of cases) {
    const filter = { ...FORM, ...more };
    const { rows: found, next } = await listSubmissions(store, filter, { limit: 10 });
    expect([more, found.map(({ id }) => ids.indexOf(id)), next]).toEqual([more, expected, null]);
    expect(await countSubmissions(store, filter)).toEqual({ count: expected.length, isMore: false });
  }
  const first = await listSubmissions(store, FORM, { limit: 2 });
  const second = await listSubmissions(store, FORM, { limit: 3, before: first.next ?? undefined });
  expect([...first.rows, ...second.rows].map(({ id }) => ids.indexOf(id))).toEqual([4, 3, 2, 1, 0]);
  expect(second.next).toBeNull();
});

test('pages of all forms, whatever they are asked for, are those of a list that was sorted', async () => {
  const store = await openTestStore();
  const forms = ['example.com/a', 'example.com/b', 'example.net/a', 'frm_1', 'c/x/y'];
  const statuses = ['accepted', 'spam', 'pending'] as const;
  const rows = Array.from({ length: 240 }, (_, i) => {
    const form = forms[i % 5] ?? '';
    const domain = form.startsWith('example') ? (form.split('/')[0] ?? '') : 'mail.example';
    const flags = { unread: (i >> 2) % 2, has_files: i % 11 === 0 ? 1 : 0 };
    return rowAt(i, { form, domain, status: statuses[(i * 7) % 10 > 5 ? i % 3 : 0] ?? 'accepted', ...flags });
  });
  await store.write([...rows, rowAt(3, { tenant: 'ten_2' })].map((row) => insertSubmission(row)));
  for (const form of [undefined, 'example.com/b', 'frm_none']) {
    for (const status of [undefined, ...statuses]) {
      for (const unread of [undefined, true, false]) {
        for (const files of [undefined, true]) {
          for (const isWanted of [undefined, (id: string) => id.startsWith('example.com')]) {
            const from = START + 20 * 60_000;
            const filter = { tenant: 'ten_1', form, status, unread, files, isWanted, from };
            const wanted = rows.filter(
              (row) =>
                row.created_at >= from &&
                (form === undefined || row.form === form) &&
                (status === undefined || row.status === status) &&
                (unread === undefined || (row.unread === 1) === unread) &&
                (files === undefined || row.has_files === 1) &&
                (isWanted?.(row.form) ?? true),
            );
            const ids: string[] = [];
            for (let before: string | undefined; ;) {
              const page = await listSubmissions(store, filter, { before, limit: 17 });
              ids.push(...page.rows.map(({ id }) => id));
              if (page.next === null) break;
              before = page.next;
            }
            expect(ids).toEqual(wanted.map(({ id }) => id).reverse());
            expect(await countSubmissions(store, filter)).toEqual({ count: wanted.length, isMore: false });
          }
        }
      }
    }
  }
});

test('counts end where they say', async () => {
  const store = await openTestStore();
  const rows = Array.from({ length: MAX_COUNT + 5 }, (_, i) => rowAt(i));
  await store.write(rows.map((row) => insertSubmission(row)));
  await store.write([insertSubmission(rowAt(3, { form: 'example.com/other', unread: 0, status: 'spam' }))]);
  expect(await countSubmissions(store, { tenant: 'ten_1' })).toEqual({ count: MAX_COUNT, isMore: true });
  const spam = { tenant: 'ten_1', status: 'spam' } as const;
  expect(await countSubmissions(store, spam)).toEqual({ count: 1, isMore: false });
  expect(await countInbox(store, { tenant: 'ten_1' })).toEqual({
    all: MAX_COUNT,
    unread: MAX_COUNT,
    spam: 1,
    pending: 0,
    by_form: [{ form: FORM.form, unread: MAX_UNREAD_OF_FORM }],
  });
});

/** Texts, what is sought, and which of them it finds: newest first. */
const SEARCHES: readonly (readonly [string, readonly string[]])[] = [
  ['müller', ['MÜLLER', 'Müller']],
  ['muller', ['MÜLLER', 'Müller']],
  ['mül', ['MÜLLER', 'Müller']],
  ['50%', ['50% off', '500']],
  ['50% off', ['50% off']],
  ['off 50', ['50% off']],
  ['nna', []],
  ['anna@example.com', ['anna.b@example.com']],
  ['name', ['anna.b@example.com', 'line\nbreak', '京都大学', 'Жук', '500', '50% off', 'MÜLLER', 'Müller']],
  ['BREAK', ['line\nbreak']],
  ['жУК', ['Жук']],
  ['大学', ['京都大学']],
  ['"*) OR ("', []],
  ['%', []],
  ['nobody', []],
];

test('words are found whatever their case and accents, before they are indexed and after', async () => {
  const store = await openTestStore();
  const texts = ['Müller', 'MÜLLER', '50% off', '500', 'Жук', '京都大学', 'line\nbreak', 'anna.b@example.com'];
  const rows = texts.map((text, i) =>
    rowAt(i, { fields: JSON.stringify([['name', text]]), form: `example.com/${i % 2}` }),
  );
  const foreign = rowAt(9, { fields: '[["name","Müller"]]', tenant: 'ten_2' });
  await store.write([...rows, foreign].flatMap((row) => [insertSubmission(row), noteToIndex({ submission: row.id })]));
  for (const state of ['waiting', 'partly indexed', 'indexed']) {
    if (state !== 'waiting') await indexSome(store, state === 'indexed' ? 100 : 4);
    for (const [text, expected] of SEARCHES) {
      const filter = { tenant: 'ten_1', text };
      const { rows: found, next } = await listSubmissions(store, filter, { limit: 10 });
      const names = found.map(({ fields }) => (JSON.parse(fields) as [[string, string]])[0][1]);
      expect([state, text, names.sort(), next]).toEqual([state, text, expected.toSorted(), null]);
      expect(await countSubmissions(store, filter)).toEqual({ count: expected.length, isMore: false });
      const [first] = (await listSubmissions(store, filter, { limit: 1 })).rows;
      expect(first?.id).toBe(found[0]?.id);
    }
    const ofForm = { tenant: 'ten_1', form: 'example.com/0', text: 'muller' };
    expect((await listSubmissions(store, ofForm, { limit: 10 })).rows.map(({ id }) => id)).toEqual([rows[0]?.id]);
    const spam = { tenant: 'ten_1', status: 'spam', text: 'muller' } as const;
    expect((await listSubmissions(store, spam, { limit: 10 })).rows).toEqual([]);
  }
});

test('a search goes from page to page, through what is indexed and what is not', async () => {
  const store = await openTestStore();
  const rows = Array.from({ length: 60 }, (_, i) =>
    rowAt(Math.floor(i / 5), { fields: JSON.stringify([['name', i % 3 === 0 ? 'needle' : 'hay']]) }),
  );
  await store.write(rows.flatMap((row) => [insertSubmission(row), noteToIndex({ submission: row.id })]));
  await indexSome(store, 40);
  const wanted = rows.filter((_, i) => i % 3 === 0).map(({ id }) => id);
  const ids: string[] = [];
  for (let before: string | undefined; ;) {
    const page = await listSubmissions(store, { tenant: 'ten_1', text: 'need' }, { before, limit: 3 });
    ids.push(...page.rows.map(({ id }) => id));
    if (page.next === null) break;
    before = page.next;
  }
  expect(ids).toEqual(wanted.sort().reverse());
});

test('a search with a filter goes on behind those that it let through none of', async () => {
  const store = await openTestStore();
  const rows = Array.from({ length: 2 * SEARCHED + 50 }, (_, i) => rowAt(i, { status: i < 40 ? 'accepted' : 'spam' }));
  await store.write(rows.flatMap((row) => [insertSubmission(row), noteToIndex({ submission: row.id })]));
  while ((await indexSome(store, 500)) > 0);
  const ids: string[] = [];
  for (const text of ['ana', 'name an']) {
    for (let before: string | undefined; ;) {
      const page = await listSubmissions(store, { tenant: 'ten_1', status: 'accepted', text }, { before, limit: 30 });
      ids.push(...page.rows.map(({ id }) => id));
      if (page.next === null) break;
      before = page.next;
    }
  }
  const wanted = rows
    .slice(0, 40)
    .map(({ id }) => id)
    .reverse();
  expect(ids).toEqual([...wanted, ...wanted]);
});

test('the parts of the index on SQLite are merged when that is asked for, and what is in them is found', async () => {
  const store = await openTestStore();
  async function parts(): Promise<number> {
    if (store.dialect === 'postgres') return 1;
    const { rows } = await sql<{
      parts: number;
    }>`select count(distinct segid) as parts from submission_index_idx`.execute(store.read);
    return rows[0]?.parts ?? 0;
  }
  while (await mergeSome(store));
  const before = await parts();
  const rows = Array.from({ length: 120 }, (_, i) => rowAt(i));
  await store.write(rows.flatMap((row) => [insertSubmission(row), noteToIndex({ submission: row.id })]));
  while ((await indexSome(store, 10)) > 0);
  expect(await parts()).toBe(store.dialect === 'sqlite' ? before + 12 : 1);
  const found = { count: 120, isMore: false };
  expect(await countSubmissions(store, { tenant: 'ten_1', text: 'ana' })).toEqual(found);
  let steps = 0;
  while (await mergeSome(store)) steps++;
  expect(steps > 0).toBe(store.dialect === 'sqlite');
  expect(await parts()).toBeLessThan(before + 4);
  expect(await countSubmissions(store, { tenant: 'ten_1', text: 'ana' })).toEqual(found);
});

test('what is removed or dropped is found no more', async () => {
  const store = await openTestStore();
  const rows = [rowAt(0), rowAt(1), rowAt(2)];
  const [removed, dropped, kept] = rows.map(({ id }) => id);
  await store.write(rows.flatMap((row) => [insertSubmission(row), noteToIndex({ submission: row.id })]));
  expect(await indexSome(store, 10)).toBe(3);
  expect(await indexSome(store, 10)).toBe(0);
  await store.write([
    ...removeSubmission(removed ?? ''),
    ...dropSubmissionContent([{ id: dropped ?? '', files: [], bytes: 0 }]),
  ]);
  const { rows: found } = await listSubmissions(store, { tenant: 'ten_1', text: 'ana' }, { limit: 10 });
  expect(found.map(({ id }) => id)).toEqual([kept]);
  // One that goes before it is indexed.
  const late = rowAt(3);
  await store.write([insertSubmission(late), noteToIndex({ submission: late.id })]);
  await store.write(removeSubmission(late.id));
  expect(await indexSome(store, 10)).toBe(1);
  expect(await countSubmissions(store, { tenant: 'ten_1', text: 'ana' })).toEqual({ count: 1, isMore: false });
});

test('those of instant forms are of this tenant’s instant forms', async () => {
  const store = await openTestStore();
  const made = { name: 'F', domain: null, config: '{}', created_at: 1 };
  await store.write([
    insertForm({ id: 'frm_1', tenant: 'ten_1', kind: 'instant', ...made }),
    insertForm({ id: 'frm_2', tenant: 'ten_1', kind: 'instant', ...made }),
    insertForm({ id: 'frm_3', tenant: 'ten_1', kind: 'api', ...made }),
    insertForm({ id: 'frm_4', tenant: 'ten_2', kind: 'instant', ...made }),
    ...['frm_1', 'frm_2', 'frm_3', 'frm_4'].map((form, i) =>
      insertSubmission(rowAt(i, { form, tenant: form === 'frm_4' ? 'ten_2' : 'ten_1' })),
    ),
  ]);
  const filter = { tenant: 'ten_1', form: { kind: 'instant' } } as const;
  const { rows } = await listSubmissions(store, filter, { limit: 10 });
  expect(rows.map(({ form }) => form)).toEqual(['frm_2', 'frm_1']);
  expect((await countSubmissions(store, filter)).count).toBe(2);
});

test('a mark changes one row once, and the count goes down to nothing and no further', async () => {
  const store = await openTestStore();
  const row = rowAt(0);
  await store.write([insertSubmission(row), countSubmission({ form: row.form })]);
  const marks = [1, 2, 3].map(() => store.write([markSubmission({ id: row.id, from: 'accepted', status: 'spam' }, 1)]));
  const outcomes = await Promise.allSettled(marks);
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  await store.write([uncountSubmission({ form: row.form }), uncountSubmission({ form: row.form })]);
  expect(await submissionsOf(store, row.form)).toBe(0);
});

test('a submission is removed with all that is its own, not before its mail is settled', async () => {
  const store = await openTestStore();
  const [row, other] = [rowAt(0), rowAt(1)];
  const file = {
    id: 'fil_1',
    submission: row.id,
    position: 0,
    field: 'f',
    filename: 'a',
    content_type: 'b/c',
    unscanned: 0,
    size: 1,
  };
  const message = enqueue(newMessage('a@example.org', { submission: row.id, kind: 'notification' }), START);
  const bytes = Uint8Array.of(1);
  await store.write([
    insertSubmission(row),
    insertSubmission(other),
    insertFile(file),
    insertFileChunk({ file: 'fil_1', seq: 0, bytes, created_at: 1 }),
    insertFile({ ...file, id: 'fil_2', submission: other.id }),
    insertFileChunk({ file: 'fil_2', seq: 0, bytes, created_at: 1 }),
    ...message.unit,
  ]);
  const parts = await partsOf(store, [row, other]);
  expect(parts(row.id)).toMatchObject({ files: [{ id: 'fil_1' }], messages: [message.id] });
  expect(parts(other.id)).toMatchObject({ files: [{ id: 'fil_2' }], messages: [] });
  await expect(store.write(removeSubmission(row.id))).rejects.toThrow(UnmetError);
  expect(await findSubmission(store, row.id)).toEqual(row);

  const [delivery] = await deliveriesOfSubmission(store, row.id);
  expect(delivery).toMatchObject({ kind: 'notification', state: 'queued', destination: 'example.org' });
  await store.write([endWaiting({ id: delivery?.id ?? '', state: 'cancelled', reply: 'x', at: 1 })]);
  await store.write(removeSubmission(row.id));
  expect(await store.read.selectFrom('submissions').select('id').execute()).toEqual([{ id: other.id }]);
  expect(await store.read.selectFrom('submission_files').select('id').execute()).toEqual([{ id: 'fil_2' }]);
  expect(await store.read.selectFrom('file_chunks').select('file').execute()).toEqual([{ file: 'fil_2' }]);
  expect(await store.read.selectFrom('messages').select('body').execute()).toEqual([{ body: 'dropped' }]);
});
