import { expect, test } from 'vitest';
import { newId } from '../../src/lib/ids.ts';
import { insertDomain } from '../../src/store/domains.ts';
import {
  countProjects,
  deleteProject,
  findProject,
  insertApiProject,
  listProjects,
  putInForce,
  revisionWith,
  storedProjects,
  type ProjectSource,
} from '../../src/store/projects.ts';
import { findRevisionOf, OPERATOR, revisionsOf, saveOperator, saveRevision } from '../../src/store/revisions.ts';
import { UnmetError, type Store } from '../../src/store/store.ts';
import { insertTenant } from '../../src/store/tenants.ts';
import { openTestStore } from '../harness/store.ts';

const PUSH: ProjectSource = {
  tenant: 'ten_a',
  slug: 'a',
  name: 'A',
  source: 'push',
  file: '',
  yaml: 'a: 1',
  files: {},
};

async function open(): Promise<Store> {
  const store = await openTestStore();
  const row = {
    name: 'T',
    plan: 'free',
    requests_per_hour: null,
    messages_per_hour: null,
    messages_per_day: null,
    suspended: 0,
    trusted: 1,
    confirmed_at: 1,
    created_at: 1,
  };
  await saveOperator(store, 'ops@example.net', 1);
  await store.write([insertTenant({ ...row, id: 'ten_a', email: 'a@example.org' })]);
  return store;
}

async function put(store: Store, project: Partial<ProjectSource>, was: string | undefined, now: number) {
  const [{ rows }] = await store.write(putInForce({ ...PUSH, ...project }, { was, id: newId('rev', now) }, now));
  return rows[0]?.id ?? '';
}

test('what is put in force is listed with its tenant’s address; the same content is the same revision', async () => {
  const store = await open();
  const first = await put(store, {}, undefined, 10);
  const second = await put(store, { yaml: 'a: 2', name: 'B' }, first, 20);
  expect(second).not.toBe(first);
  expect(await storedProjects(store)).toMatchObject([
    { tenant: 'ten_a', slug: 'a', name: 'B', source: 'push', revision: second, email: 'a@example.org', domains: [] },
  ]);
  expect(await revisionWith(store, PUSH)).toBe(first);
  expect(await revisionWith(store, { ...PUSH, yaml: 'a: 3' })).toBeUndefined();
  expect(await put(store, {}, second, 30)).toBe(first);
  expect((await revisionsOf(store, PUSH)).map(({ id }) => id)).toEqual([first, second]);
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
  expect(await revisionsOf(store, PUSH)).toHaveLength(2);
});

test('a file takes no row from a project that lives here, and gives its own to one that is pushed', async () => {
  const store = await open();
  const file = { ...PUSH, tenant: OPERATOR, source: 'file', file: 'projects/a.yml' } as const;
  await saveRevision(store, file, 10);
  expect(await saveRevision(store, { ...file, yaml: 'a: 2' }, 20)).toMatch(/^rev_/);
  const row = await findProject(store, OPERATOR, 'a');
  expect(await storedProjects(store)).toEqual([]);
  await put(store, { tenant: OPERATOR }, undefined, 30);
  expect(await findProject(store, OPERATOR, 'a')).toMatchObject({ id: row?.id, source: 'push' });
  await expect(saveRevision(store, file, 40)).rejects.toThrow(UnmetError);
});

test('lists are one tenant’s, newest first, without what lay on disk once', async () => {
  const store = await open();
  const made = { tenant: 'ten_a', name: 'X' };
  for (const [at, slug] of ['x', 'y', 'z'].entries())
    await store.write([insertApiProject({ ...made, id: `prj_${at}`, slug, created_at: at }, 1)]);
  await saveRevision(store, { ...PUSH, slug: 'gone', source: 'file', file: 'projects/gone.yml' }, 10);
  await saveRevision(store, { ...PUSH, slug: 'here', source: 'file', file: 'projects/here.yml' }, 10);
  const slugs = async (filter: object, page = { before: undefined as string | undefined, limit: 10 }) =>
    (await listProjects(store, { tenants: ['ten_a'], onDisk: ['here'], ...filter }, page))
      .map(({ slug }) => slug)
      .sort();
  expect(await slugs({})).toEqual(['here', 'x', 'y', 'z']);
  expect(await slugs({}, { before: 'prj_2', limit: 1 })).toEqual(['y']);
  expect(await slugs({ slugs: ['x', 'gone'] })).toEqual(['x']);
  expect(await slugs({ slugs: [] })).toEqual([]);
  expect(await countProjects(store, { tenants: ['ten_a'], onDisk: [] })).toBe(3);
  expect(await countProjects(store, { tenants: ['ten_b'], onDisk: [] })).toBe(0);
});

test('a project that the API made has the domains of its rows, until it ends', async () => {
  const store = await open();
  const project = { id: 'prj_1', tenant: 'ten_a', slug: 'a', name: 'A', created_at: 1 };
  await store.write([insertApiProject(project, 1)]);
  await expect(store.write([insertApiProject({ ...project, id: 'prj_2' }, 1)])).rejects.toThrow(UnmetError);
  const domain = { tenant: 'ten_a', token: 't', status: 'pending', next_check_at: 0, created_at: 1 } as const;
  await store.write([
    insertDomain({ ...domain, name: 'b.example', project: 'a' }),
    insertDomain({ ...domain, name: 'a.example', project: 'a' }),
    insertDomain({ ...domain, name: 'c.example', project: 'other' }),
    insertDomain({ ...domain, tenant: 'ten_b', name: 'd.example', project: 'a' }),
  ]);
  expect(await storedProjects(store)).toMatchObject([{ domains: ['a.example', 'b.example'] }]);
  const [revision] = [await put(store, {}, '', 10)];
  expect(await storedProjects(store)).toMatchObject([{ source: 'push', domains: [] }]);
  await expect(store.write([deleteProject({ id: 'prj_1', revision: '' }, 1)])).rejects.toThrow(UnmetError);
  await store.write([deleteProject({ id: 'prj_1', revision }, 1)]);
  expect(await storedProjects(store)).toEqual([]);
});
