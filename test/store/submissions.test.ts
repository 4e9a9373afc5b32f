import { expect, test } from 'vitest';
import { acknowledge, forgetAcknowledged } from '../../src/store/consents.ts';
import { insertDomain } from '../../src/store/domains.ts';
import {
  countSubmission,
  findSubmission,
  insertSubmission,
  submissionsOf,
  submissionToMail,
} from '../../src/store/submissions.ts';
import { UnmetError } from '../../src/store/store.ts';
import { openTestStore } from '../harness/store.ts';
import { submissionRow } from '../harness/submissions.ts';

const row = submissionRow(1, { id: 'sub_1', fields: JSON.stringify([['name', 'A\0B \ud800 ☃']]) });

test('a submission is read back as it was written, whatever was typed', async () => {
  const store = await openTestStore();
  await store.write([insertSubmission(row)]);
  const found = await findSubmission(store, 'sub_1');
  expect(found).toEqual(row);
  expect(JSON.parse(found?.fields ?? '')).toEqual([['name', 'A\0B \ud800 ☃']]);
  expect(await findSubmission(store, 'sub_2')).toBeUndefined();
});

test('what a mail needs to know of a submission is read in one look', async () => {
  const store = await openTestStore();
  await store.write([insertSubmission(row)]);
  expect(await submissionToMail(store, 'sub_1')).toEqual({ ...row, domain_status: null });
  const domain = { name: row.domain, tenant: row.tenant, project: 'p', token: 't', next_check_at: 0, created_at: 1 };
  await store.write([
    insertDomain({ ...domain, status: 'verified' }),
    insertDomain({ ...domain, tenant: 'ten_other', status: 'failed' }),
  ]);
  expect(await submissionToMail(store, 'sub_1')).toEqual({ ...row, domain_status: 'verified' });
  expect(await submissionToMail(store, 'sub_2')).toBeUndefined();
});

test('a form counts its submissions, and one without any has none', async () => {
  const store = await openTestStore();
  await Promise.all(Array.from({ length: 25 }, () => store.write([countSubmission({ form: row.form })])));
  expect(await submissionsOf(store, row.form)).toBe(25);
  expect(await submissionsOf(store, 'example.com/other')).toBe(0);
});

test('an address is acknowledged once in the time, by any form of the tenant, and that holds its unit', async () => {
  const store = await openTestStore();
  const note = { tenant: 'ten_1', address: 'ana@example.org', at: 1000, since: 0 };
  await store.write([acknowledge(note, 1)]);
  const again = store.write([insertSubmission(row), acknowledge({ ...note, at: 1500, since: 500 }, 1)]);
  await expect(again).rejects.toThrow(UnmetError);
  expect(await findSubmission(store, 'sub_1')).toBeUndefined();
  await store.write([acknowledge({ ...note, tenant: 'ten_2', at: 1500, since: 500 }, 1)]);
  await store.write([acknowledge({ ...note, at: 2000, since: 1000 }, 1)]);
  await store.write([forgetAcknowledged({ before: 1600 })]);
  expect(await store.read.selectFrom('acknowledged').selectAll().execute()).toEqual([
    { tenant: 'ten_1', address: 'ana@example.org', at: 2000 },
  ]);
});

test('of many at once for one address one is acknowledged', async () => {
  const store = await openTestStore();
  const units = Array.from({ length: 10 }, () =>
    store.write([acknowledge({ tenant: 't', address: 'ana@example.org', at: 1000, since: 0 }, 1)]),
  );
  const outcomes = await Promise.allSettled(units);
  expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBe(1);
});
