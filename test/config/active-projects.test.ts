import { describe, expect, test, vi } from 'vitest';
import { checkConfig } from '../../src/config/folder.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { newId } from '../../src/lib/ids.ts';
import { insertDomain } from '../../src/store/domains.ts';
import { deleteProject, findProject, putInForce } from '../../src/store/projects.ts';
import { OPERATOR, insertTenant } from '../../src/store/tenants.ts';
import type { DomainStatus } from '../../src/store/tables.ts';
import { tenantRow } from '../harness/keys.ts';
import { openTestStore } from '../harness/store.ts';
import { configFolder, openSource, projectText } from './folder.ts';

interface Push {
  readonly tenant: string;
  readonly slug: string;
  readonly yaml: string;
}

/** A folder with these files, and a database that takes pushes. */
async function start(files: Record<string, string> = {}) {
  const folder = await configFolder(files);
  const store = await openTestStore();
  for (const id of ['ten_b', 'ten_c']) await store.write([insertTenant(tenantRow({ id, email: `${id}@example.org` }))]);
  let pushes = 0;
  const push = async ({ tenant, slug, yaml }: Push) => {
    const now = ++pushes;
    const was = (await findProject(store, tenant, slug))?.revision;
    const project = { tenant, slug, name: slug, source: 'push', machine: null, file: null, yaml, files: {} } as const;
    const [{ rows }] = await store.write(putInForce(project, { was, id: newId('rev', now) }, now));
    return rows[0]?.id;
  };
  const remove = async (tenant: string, slug: string) => {
    const row = await findProject(store, tenant, slug);
    if (row !== undefined) await store.write([deleteProject(row, 1)]);
  };
  /** What DNS says of the tenant's claim to same.example. */
  const stand = (tenant: string, status: DomainStatus) =>
    store.write([
      insertDomain({ name: 'same.example', tenant, project: 'x', token: 't', status, next_check_at: 0, created_at: 1 }),
    ]);
  return { folder, store, push, remove, stand, open: () => openSource(folder, store) };
}

describe('pushed projects', () => {
  test('stand beside the files in one snapshot, slugs being their tenants’ own', async () => {
    const { push, open } = await start({ 'projects/a.yml': projectText('a', 'a.example') });
    await push({ tenant: 'ten_b', slug: 'a', yaml: projectText('a', 'b.example') });
    const { projects, domains, problems } = (await open()).current();
    expect(projects.map(({ tenant, slug, source }) => `${tenant} ${slug} ${source}`)).toEqual([
      'ten_b a push',
      'ten_operator a file',
    ]);
    expect([...domains.keys()]).toEqual(['b.example', 'a.example']);
    expect(problems).toEqual([]);
  });

  test('mail their tenant where nobody else is named', async () => {
    const { push, open } = await start();
    await push({
      tenant: 'ten_b',
      slug: 'b',
      yaml: projectText('b', 'b.example').replace('to: anna@example.org', 'name: X'),
    });
    const form = (await open()).current().domains.get('b.example')?.forms.get('contact');
    expect(form?.to).toEqual(['ten_b@example.org']);
  });

  test('are taken over by a refresh, which reads only what has changed', async () => {
    const { push, open } = await start();
    await push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    await push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    const source = await open();
    const told = vi.fn<() => void>();
    source.onChange(told);
    const before = source.current();
    await source.refresh();
    expect(source.current()).toBe(before);
    expect(told).not.toHaveBeenCalled();
    await push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'new.example') });
    await source.refresh();
    expect([...source.current().domains.keys()]).toEqual(['b.example', 'new.example']);
    expect(source.current().projects[0]).toBe(before.projects[0]);
    expect(told).toHaveBeenCalledTimes(1);
  });

  test('are taken over by a reload as well', async () => {
    const { push, open } = await start();
    const source = await open();
    const told = vi.fn<() => void>();
    source.onChange(told);
    await push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    expect([...source.current().domains.keys()]).toEqual(['b.example']);
    expect(told).toHaveBeenCalledTimes(1);
  });

  test('that this version does not take are out of service alone, or go on as they ran', async () => {
    const { push, open } = await start();
    const broken = projectText('b', 'b.example').replace('to:', 'too:');
    await push({ tenant: 'ten_b', slug: 'b', yaml: broken });
    const good = await push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    const source = await open();
    expect([...source.current().domains.keys()]).toEqual(['c.example']);
    expect([...source.current().unread]).toEqual(['ten_b']);
    expect([...source.current().unavailable]).toEqual([['b.example', 'project b of ten_b']]);
    expect(source.current().problems[0]).toMatch(/project b of ten_b: .* out of service until it is pushed again/);
    await push({ tenant: 'ten_c', slug: 'c', yaml: broken.replaceAll('b', 'c') });
    await source.refresh();
    expect(source.current().domains.get('c.example')?.project.revision).toBe(good);
    expect(source.current().problems.join('\n')).toMatch(`its revision ${good} stays active`);
    await push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    await push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    await source.refresh();
    expect(source.current()).toMatchObject({ problems: [] });
    expect(source.current().unavailable.size).toBe(0);
  });

  test('cannot read secrets of the machine, however they came into the database', async () => {
    const { push, open } = await start();
    await push({
      tenant: 'ten_b',
      slug: 'b',
      yaml: projectText('b', 'b.example').replace('anna@example.org', '${HOME}'),
    });
    const { problems } = (await open()).current();
    expect(problems.join('\n')).toContain('not resolved');
    expect(problems.join('\n')).not.toContain('/root');
  });

  test('of the operator keep their domains: a file that wants one waits until they end; one of the same slug replaces them', async () => {
    const { push, open, remove, folder } = await start();
    await push({ tenant: OPERATOR, slug: 'b', yaml: projectText('b', 'b.example') });
    const source = await open();
    await folder.write('projects/c.yml', projectText('c', 'b.example'));
    expect(await source.reload()).toMatchObject({ kind: 'refused' });
    expect(source.current().problems.join('\n')).toMatch(/the domain b\.example belongs to the project b/);
    await remove(OPERATOR, 'b');
    await source.refresh();
    expect(source.current().domains.get('b.example')?.project.slug).toBe('c');
    await push({ tenant: OPERATOR, slug: 'd', yaml: projectText('d', 'd.example') });
    await folder.write('projects/d.yml', projectText('d', 'other.example'));
    await source.reload();
    expect([...source.current().domains.keys()]).toEqual(['other.example', 'b.example']);
    expect(source.current().problems).toEqual([]);
  });
});

describe('a domain that several tenants claim', () => {
  const cases: [string, readonly (readonly [string, DomainStatus])[], string][] = [
    ['the first project’s while nobody owns it', [['ten_c', 'pending']], 'ten_b'],
    ['the owner’s', [['ten_c', 'verified']], 'ten_c'],
    [
      'the owner’s while its records are broken',
      [
        ['ten_b', 'pending'],
        ['ten_c', 'failed'],
      ],
      'ten_c',
    ],
  ];

  test.each(cases)('is served as %s', async (_, standings, owner) => {
    const { push, stand, open } = await start();
    for (const [tenant, status] of standings) await stand(tenant, status);
    for (const tenant of ['ten_b', 'ten_c']) await push({ tenant, slug: 'x', yaml: projectText('x', 'same.example') });
    const { domains, claims } = (await open()).current();
    expect(domains.get('same.example')?.project.tenant).toBe(owner);
    expect(claims.size).toBe(2);
  });

  test('passes on at a refresh; of a file the daemon and the check of the files say the same', async () => {
    const { push, open, stand, folder } = await start({ 'projects/a.yml': projectText('a', 'same.example') });
    const source = await open();
    expect(await source.check()).toMatchObject({ warnings: [] });
    await push({ tenant: 'ten_b', slug: 'x', yaml: projectText('x', 'same.example') });
    await stand('ten_b', 'verified');
    await source.refresh();
    expect(source.current().domains.get('same.example')?.project.tenant).toBe('ten_b');
    expect((await source.check()).warnings.join()).toMatch(
      /a\.yml:3:3: domains\.same\.example: the domain same\.example is owned by another account/,
    );
    expect(await checkConfig(folder.server, { secrets: machineSecrets({}) })).toMatchObject({ projects: 1 });
  });
});
