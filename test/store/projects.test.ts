import { expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import {
  countProjects,
  deleteProject,
  findProject,
  forgetProjectFiles,
  insertProjectFile,
  listProjects,
  loadedFiles,
  putInForce,
  revisionWith,
  setFileMissing,
  storedProjects,
  type ProjectSource,
  findRevisionOf,
  revisionsOf,
} from '../../src/store/projects.ts';
import { saveOperator, insertTenant } from '../../src/store/tenants.ts';
import { UnmetError, type Store } from '../../src/store/store.ts';
import { tenantRow } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';

const PUSH: ProjectSource = {
  tenant: 'ten_a',
  slug: 'a',
  name: 'A',
  source: 'push',
  machine: null,
  file: null,
  yaml: 'a: 1',
  files: {},
};

async function open(): Promise<Store> {
  const store = await openTestStore();
  await saveOperator(store, 'ops@example.net', 1);
  await store.write([insertTenant(tenantRow({ email: 'a@example.org' }))]);
  return store;
}

async function put(store: Store, project: Partial<ProjectSource>, was: string | undefined, now: number) {
  const [{ rows }] = await store.write(putInForce({ ...PUSH, ...project }, { was, id: newId('rev', now) }, now));
  return rows[0]?.id ?? '';
}

test('what is deployed is listed with its tenant’s address; the same content is the same revision', async () => {
  const store = await open();
  const first = await put(store, {}, undefined, 10);
  const second = await put(store, { yaml: 'a: 2', name: 'B' }, first, 20);
  expect(second).not.toBe(first);
  expect(await storedProjects(store)).toMatchObject([
    { tenant: 'ten_a', slug: 'a', name: 'B', source: 'push', revision: second, email: 'a@example.org' },
  ]);
  expect(await revisionWith(store, PUSH)).toBe(first);
  expect(await revisionWith(store, { ...PUSH, yaml: 'a: 3' })).toBeUndefined();
  expect(await put(store, {}, second, 30)).toBe(first);
  expect((await revisionsOf(store, PUSH.tenant, PUSH.slug)).map(({ id }) => id)).toEqual([first, second]);
  expect(await findRevisionOf(store, PUSH, second)).toMatchObject({ yaml: 'a: 2' });
  expect(await findRevisionOf(store, { ...PUSH, tenant: 'ten_b' }, second)).toBeUndefined();
});

test('of two that replace the same revision one is told to look again, and nothing of it is kept', async () => {
  const store = await open();
  await expect(put(store, {}, 'rev_none', 5)).rejects.toThrow(UnmetError);
  const first = await put(store, {}, undefined, 10);
  await expect(put(store, { yaml: 'b' }, undefined, 20)).rejects.toThrow(UnmetError);
  const outcomes = await Promise.allSettled([
    put(store, { yaml: 'c' }, first, 30),
    put(store, { yaml: 'd' }, first, 30),
  ]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(await revisionsOf(store, PUSH.tenant, PUSH.slug)).toHaveLength(2);
});

test('a file replaces what was pushed and is replaced by no push', async () => {
  const store = await open();
  const file = { source: 'file', machine: 'mx1', file: '/etc/postern/projects/a.yml', yaml: 'a: 2' } as const;
  const first = await put(store, {}, undefined, 10);
  const second = await put(store, file, first, 20);
  expect(await findProject(store, 'ten_a', 'a')).toMatchObject({ source: 'file', machine: 'mx1', revision: second });
  await expect(put(store, {}, second, 30)).rejects.toThrow(UnmetError);
  await store.write([setFileMissing({ tenant: 'ten_a', slug: 'a', file_missing: 1 })]);
  expect(await findProject(store, 'ten_a', 'a')).toMatchObject({ file_missing: 1 });
  await put(store, { ...file, yaml: 'a: 3' }, second, 40);
  expect(await findProject(store, 'ten_a', 'a')).toMatchObject({ file_missing: 0 });
});

test('what a machine loaded is known by its file, until it is forgotten', async () => {
  const store = await open();
  const loaded = { machine: 'mx1', file: '/a.yml', slug: 'a', hash: 'x', loaded_at: 1 };
  await store.write([insertProjectFile(loaded), insertProjectFile({ ...loaded, machine: 'mx2' })]);
  await store.write([insertProjectFile({ ...loaded, hash: 'y', loaded_at: 2 })]);
  expect(await loadedFiles(store, 'mx1')).toEqual([{ ...loaded, hash: 'y', loaded_at: 2 }]);
  await store.write([forgetProjectFiles({ slug: 'a' })]);
  expect(await loadedFiles(store, 'mx2')).toEqual([]);
});

test('lists are one tenant’s, newest first', async () => {
  const store = await open();
  for (const [at, slug] of ['x', 'y', 'z'].entries()) await put(store, { slug }, undefined, at + 1);
  const slugs = async (filter: object, page = { before: undefined as string | undefined, limit: 10 }) =>
    (await listProjects(store, { tenants: ['ten_a'], ...filter }, page)).map(({ slug }) => slug);
  expect(await slugs({})).toEqual(['z', 'y', 'x']);
  const before = (await findProject(store, 'ten_a', 'z'))?.id;
  expect(await slugs({}, { before, limit: 1 })).toEqual(['y']);
  expect(await slugs({ slugs: ['x', 'gone'] })).toEqual(['x']);
  expect(await slugs({ slugs: [] })).toEqual([]);
  expect(await countProjects(store, { tenants: ['ten_a'] })).toBe(3);
  expect(await countProjects(store, { tenants: ['ten_b'] })).toBe(0);
});

test('a project that has changed since it was read is not deleted', async () => {
  const store = await open();
  const first = await put(store, {}, undefined, 10);
  const row = await findProject(store, 'ten_a', 'a');
  if (row === undefined) throw new Error('no project');
  await put(store, { yaml: 'a: 2' }, first, 20);
  await expect(store.write([deleteProject(row, 1)])).rejects.toThrow(UnmetError);
  const now = await findProject(store, 'ten_a', 'a');
  if (now !== undefined) await store.write([deleteProject(now, 1)]);
  expect(await storedProjects(store)).toEqual([]);
});
