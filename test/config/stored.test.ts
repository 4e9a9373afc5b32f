import { describe, expect, test, vi } from 'vitest';
import type { Standing } from '../../src/config/claims.ts';
import { readHere } from '../../src/config/bundle.ts';
import { loadServer } from '../../src/config/load.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { createConfigSource } from '../../src/config/source.ts';
import type { StoredProject } from '../../src/config/stored.ts';
import { silentLog } from '../../src/lib/log.ts';
import { configFolder, memoryRevisions, projectText } from './folder.ts';
import { unclosed } from './templates.ts';

const secrets = machineSecrets({ HOME: '/root' });

interface Push {
  readonly tenant: string;
  readonly slug: string;
  readonly yaml: string;
  readonly revision?: string;
  readonly email?: string;
}

/** A folder with these files, and a database with these pushes. */
async function start(files: Record<string, string> = {}) {
  const folder = await configFolder(files);
  const server = await loadServer(folder.server, secrets);
  if (!('ok' in server)) throw new Error('server.yml');
  const rows: StoredProject[] = [];
  const texts = new Map<string, string>();
  const standings: Standing[] = [];
  const stored = {
    list: vi.fn(async () => [...rows]),
    revision: vi.fn(async (id: string) => {
      const yaml = texts.get(id);
      return yaml === undefined ? undefined : { yaml, files: {} };
    }),
    standings: async (names: readonly string[]) => standings.filter(({ name }) => names.includes(name)),
  };
  const push = ({ tenant, slug, yaml, revision = `rev_${texts.size + 1}`, email = `${tenant}@example.org` }: Push) => {
    const at = rows.findIndex((row) => row.tenant === tenant && row.slug === slug);
    texts.set(revision, yaml);
    rows.splice(at < 0 ? rows.length : at, 1, {
      tenant,
      email,
      slug,
      name: slug,
      source: 'push',
      revision,
      domains: [],
    });
  };
  const open = () =>
    createConfigSource({
      file: folder.server,
      server: server.ok,
      tenant: 'ten_operator',
      reading: { secrets, checkTemplates: unclosed },
      reader: readHere(unclosed),
      revisions: memoryRevisions(),
      stored,
      log: silentLog,
    });
  const stand = (tenant: string, status: Standing['status'], verified_at: number | null = null, created_at = 1) => {
    standings.unshift({ name: 'same.example', tenant, status, verified_at, created_at });
  };
  return { folder, stored, rows, texts, push, open, stand };
}

describe('pushed projects', () => {
  test('stand beside the files in one snapshot, slugs being their tenants’ own', async () => {
    const { push, open } = await start({ 'projects/a.yml': projectText('a', 'a.example') });
    push({ tenant: 'ten_b', slug: 'a', yaml: projectText('a', 'b.example') });
    const { projects, domains, problems } = (await open()).current();
    expect(projects.map(({ tenant, slug, source }) => `${tenant} ${slug} ${source}`)).toEqual([
      'ten_operator a file',
      'ten_b a push',
    ]);
    expect([...domains.keys()]).toEqual(['a.example', 'b.example']);
    expect(problems).toEqual([]);
  });

  test('mail their tenant where nobody else is named', async () => {
    const { push, open } = await start();
    push({
      tenant: 'ten_b',
      slug: 'b',
      yaml: projectText('b', 'b.example').replace('to: anna@example.org', 'name: X'),
    });
    const form = (await open()).current().domains.get('b.example')?.forms.get('contact');
    expect(form?.to).toEqual(['ten_b@example.org']);
  });

  test('are taken over by a refresh, which reads only what has changed', async () => {
    const { push, open, stored } = await start();
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    const source = await open();
    const told = vi.fn<() => void>();
    source.onChange(told);
    const before = source.current();
    await source.refresh();
    expect(source.current()).toBe(before);
    expect(told).not.toHaveBeenCalled();
    stored.revision.mockClear();
    push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'new.example') });
    await source.refresh();
    expect(stored.revision.mock.calls).toEqual([['rev_3']]);
    expect([...source.current().domains.keys()]).toEqual(['b.example', 'new.example']);
    expect(source.current().projects[0]).toBe(before.projects[0]);
    expect(told).toHaveBeenCalledTimes(1);
  });

  test('are taken over by a reload as well', async () => {
    const { push, open } = await start();
    const source = await open();
    const told = vi.fn<() => void>();
    source.onChange(told);
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    expect(await source.reload()).toEqual({ kind: 'unchanged' });
    expect([...source.current().domains.keys()]).toEqual(['b.example']);
    expect(told).toHaveBeenCalledTimes(1);
  });

  test('that this version does not take are out of service alone, or go on as they ran', async () => {
    const { push, open } = await start();
    const broken = projectText('b', 'b.example').replace('to:', 'too:');
    push({ tenant: 'ten_b', slug: 'b', yaml: broken });
    push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    const source = await open();
    expect([...source.current().domains.keys()]).toEqual(['c.example']);
    expect([...source.current().unread]).toEqual(['ten_b']);
    expect([...source.current().unavailable]).toEqual([['b.example', 'project b of ten_b']]);
    expect(source.current().problems[0]).toMatch(/project b of ten_b: .* out of service until it is pushed again/);
    push({ tenant: 'ten_c', slug: 'c', yaml: broken.replaceAll('b', 'c') });
    await source.refresh();
    expect(source.current().domains.get('c.example')?.project.revision).toBe('rev_2');
    expect(source.current().problems.join('\n')).toMatch(/project c of ten_c: .* its revision rev_2 goes on/);
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'c.example') });
    await source.refresh();
    expect(source.current()).toMatchObject({ problems: [] });
    expect(source.current().unavailable.size).toBe(0);
  });

  test('whose revision is gone are out of service', async () => {
    const { push, open, texts } = await start();
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    texts.clear();
    expect((await open()).current().problems.join('\n')).toContain('it is not in the database');
  });

  test('cannot read secrets of the machine, however they came into the database', async () => {
    const { push, open } = await start();
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example').replace('anna@example.org', '${HOME}') });
    const { problems } = (await open()).current();
    expect(problems.join('\n')).toContain('not followed');
    expect(problems.join('\n')).not.toContain('/root');
  });

  test('of the operator keep what they have: a file that wants the same waits until they end', async () => {
    const { push, open, rows, folder } = await start();
    push({ tenant: 'ten_operator', slug: 'b', yaml: projectText('b', 'b.example') });
    const source = await open();
    await folder.write('projects/b.yml', projectText('b', 'other.example'));
    await folder.write('projects/c.yml', projectText('c', 'b.example'));
    expect(await source.reload()).toMatchObject({ kind: 'refused' });
    expect(source.current().problems.join('\n')).toMatch(/this slug belongs to project b of ten_operator/);
    expect(source.current().problems.join('\n')).toMatch(/the domain b\.example belongs to project b of ten_operator/);
    rows.pop();
    await source.refresh();
    expect([...source.current().domains.keys()]).toEqual(['other.example', 'b.example']);
    expect(source.current().problems).toEqual([]);
  });

  test('that cannot be read leave all as it was', async () => {
    const { push, open, stored } = await start();
    const source = await open();
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'b.example') });
    stored.list.mockRejectedValueOnce(new Error('database away'));
    await expect(source.refresh()).rejects.toThrow('database away');
    expect(source.current().projects).toEqual([]);
    await source.refresh();
    expect(source.current().projects).toHaveLength(1);
  });
});

describe('projects that the API made', () => {
  test('have their domains, and everything at its default', async () => {
    const { rows, open } = await start();
    const row = { tenant: 'ten_b', email: 'b@example.org', slug: 'b', name: 'B', revision: '', source: 'api' } as const;
    rows.push({ ...row, domains: ['b.example'] });
    const source = await open();
    expect(source.current().domains.get('b.example')).toMatchObject({
      project: { source: 'api', slug: 'b' },
      config: { dkim: { selector: 'postern' } },
    });
    rows.splice(0, 1, { ...row, domains: ['b.example', 'c.example'] });
    await source.refresh();
    expect([...source.current().domains.keys()]).toEqual(['b.example', 'c.example']);
  });
});

describe('a domain that several tenants claim', () => {
  const cases: [string, (world: Awaited<ReturnType<typeof start>>) => void, string][] = [
    ['the file’s while none is verified', () => undefined, 'ten_operator'],
    ['the verified one’s', ({ stand }) => stand('ten_c', 'verified', 5), 'ten_c'],
    [
      'the verified one’s rather than the degraded one’s',
      ({ stand }) => (stand('ten_b', 'degraded', 1), stand('ten_c', 'verified', 5)),
      'ten_c',
    ],
    [
      'the degraded one’s rather than the failed one’s',
      ({ stand }) => (stand('ten_b', 'failed', 1), stand('ten_c', 'degraded', 5)),
      'ten_c',
    ],
    [
      'the failed one’s rather than a pending one’s',
      ({ stand }) => (stand('ten_operator', 'pending'), stand('ten_c', 'failed', 5)),
      'ten_c',
    ],
    [
      'the longer verified one’s',
      ({ stand }) => (stand('ten_b', 'verified', 9), stand('ten_c', 'verified', 5)),
      'ten_c',
    ],
    [
      'the older claim’s where no file has it',
      (world) => {
        world.push({ tenant: 'ten_operator', slug: 'a', yaml: projectText('a', 'same.example') });
        world.stand('ten_operator', 'pending', null, 3);
        world.stand('ten_b', 'pending', null, 2);
        world.stand('ten_c', 'pending', null, 1);
      },
      'ten_c',
    ],
  ];

  test.each(cases)('is %s', async (name, prepare, holder) => {
    const file = { 'projects/a.yml': projectText('a', 'same.example') };
    const world = await start(name.includes('no file') ? {} : file);
    world.push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'same.example') });
    world.push({ tenant: 'ten_c', slug: 'c', yaml: projectText('c', 'same.example') });
    prepare(world);
    const { domains, claims } = (await world.open()).current();
    expect(domains.get('same.example')?.project.tenant).toBe(holder);
    expect(claims.size).toBe(3);
  });

  test('passes on when a refresh finds that DNS has decided otherwise, and the operator is told of a file', async () => {
    const { push, open, stand } = await start({ 'projects/a.yml': projectText('a', 'same.example') });
    push({ tenant: 'ten_b', slug: 'b', yaml: projectText('b', 'same.example') });
    const source = await open();
    stand('ten_b', 'verified', 7);
    await source.refresh();
    expect(source.current().domains.get('same.example')?.project.tenant).toBe('ten_b');
    expect(source.current().problems.join()).toMatch(/a\.yml: the domain same\.example is served for ten_b/);
  });
});
