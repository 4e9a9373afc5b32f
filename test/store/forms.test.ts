import { expect, test } from 'vitest';
import {
  collectionsOfTenant,
  deleteCollection,
  findCollectionRow,
  insertCollection,
  forgetForms,
  formCounters,
  noteForm,
  noteForms,
  countForms,
  deleteForm,
  findForm,
  insertForm,
  listForms,
  updateForm,
} from '../../src/store/forms.ts';
import { UnmetError } from '../../src/store/store.ts';
import { countSubmission } from '../../src/store/submissions.ts';
import type { FormRow } from '../../src/store/tables.ts';
import { openTestStore } from '../harness/store.ts';

function form(id: string, more: Partial<FormRow> = {}): FormRow {
  return { id, tenant: 'ten_1', kind: 'api', name: id, domain: null, config: '{}', created_at: 1, ...more };
}

test('forms are found by id and listed by tenant and kind, newest first', async () => {
  const store = await openTestStore();
  const rows = [
    form('frm_1'),
    form('frm_2'),
    form('frm_3'),
    form('frm_4', { kind: 'instant' }),
    form('frm_5', { tenant: 'ten_2' }),
  ];
  await store.write(rows.map((row) => insertForm(row)));
  expect(await findForm(store, 'frm_4')).toEqual(rows[3]);
  for (const id of ['frm_9', 'frm_\0', '', 'x']) expect(await findForm(store, id)).toBeUndefined();
  const filter = { tenants: ['ten_1'], kind: 'api' } as const;
  const ids = async (before?: string) => (await listForms(store, { ...filter, before, limit: 2 })).map(({ id }) => id);
  expect([await ids(), await ids('frm_2'), await countForms(store, filter)]).toEqual([
    ['frm_3', 'frm_2'],
    ['frm_1'],
    3,
  ]);
  await store.write([updateForm({ ...form('frm_1'), name: 'New', config: '{"a":1}' }), deleteForm({ id: 'frm_2' })]);
  expect(await findForm(store, 'frm_1')).toMatchObject({ name: 'New', config: '{"a":1}' });
  expect(await ids()).toEqual(['frm_3', 'frm_1']);
});

test('counters know since when their forms exist, and what came in between', async () => {
  const store = await openTestStore();
  await noteForms(store, ['example.com/a', 'example.com/b'], 10);
  await noteForms(store, ['example.com/a', 'c/site/one'], 20);
  await store.write([noteForm({ form: 'frm_1', at: 30 }), countSubmission({ form: 'frm_1' })]);
  await store.write([countSubmission({ form: 'example.com/a' }), noteForm({ form: 'frm_1', at: 40 })]);
  expect([
    ...(await formCounters(store, ['example.com/a', 'example.com/b', 'c/site/one', 'frm_1', 'none'])).values(),
  ]).toEqual(
    expect.arrayContaining([
      { form: 'example.com/a', submissions: 1, created_at: 10 },
      { form: 'example.com/b', submissions: 0, created_at: 10 },
      { form: 'c/site/one', submissions: 0, created_at: 20 },
      { form: 'frm_1', submissions: 1, created_at: 30 },
    ]),
  );
  await store.write(forgetForms(['frm_1', 'c/site/one']));
  expect((await formCounters(store, ['frm_1', 'c/site/one', 'example.com/a'])).size).toBe(1);
});

test('the name of a collection is taken once on the server', async () => {
  const store = await openTestStore();
  const row = { name: 'site', tenant: 'ten_1', config: '{}', created_at: 1 };
  await store.write([insertCollection(row, 1)]);
  await expect(store.write([insertCollection({ ...row, tenant: 'ten_2' }, 1)])).rejects.toThrow(UnmetError);
  expect(await findCollectionRow(store, 'site')).toEqual(row);
  for (const name of ['none', 'a\0b', '']) expect(await findCollectionRow(store, name)).toBeUndefined();
  expect([await collectionsOfTenant(store, 'ten_1'), await collectionsOfTenant(store, 'ten_2')]).toEqual([[row], []]);
  await store.write([deleteCollection({ name: 'site' })]);
  expect(await findCollectionRow(store, 'site')).toBeUndefined();
});
