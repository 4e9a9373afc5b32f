import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { apiClient, type Client } from '../../harness/api.ts';
import { startTestWorld } from '../../harness/daemon.ts';

const YAML = `project: { name: Shop, slug: shop, owner: shop@inbox.test }
domains:
  shop.test:
    forms:
      contact: { name: Contact, to: shop@inbox.test, template: mine }
templates:
  mine: { subject: "Shop: {{ form.name }}", html_file: templates/mine.html }
`;
const FILES = { 'templates/mine.html': '<p>Hello {{ form.name }}</p>' };

async function revisionOf(client: Client, slug: string): Promise<unknown> {
  const { body } = await client.ask('GET', `/projects/${slug}`);
  return (body as { revision: unknown }).revision;
}

describe('projects', () => {
  test('are made with a slug of their own, listed, shown and ended by their tenant alone', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const ben = await apiClient(world);
    const made = await ana.ask('POST', '/projects', { name: 'Müller & Söhne' });
    expect(made).toMatchObject({ status: 200, body: { slug: 'muller-sohne', source: 'api' } });
    expect((made.body as { id: string }).id).toMatch(/^prj_[0-9a-z]{26}$/);
    expect((await ana.ask('POST', '/projects', { name: 'Müller & Söhne' })).body).toMatchObject({
      slug: 'muller-sohne-2',
    });
    expect(await ana.ask('POST', '/projects', { name: 'X', slug: 'muller-sohne' })).toMatchObject({
      status: 409,
      body: { code: 'CONFLICT' },
    });
    expect(await ana.ask('POST', '/projects', { name: 'X', slug: 'No Slug' })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'slug' }] },
    });
    expect((await ben.ask('POST', '/projects', { name: '日本' })).body).toMatchObject({ slug: 'project' });
    expect(await ana.ask('GET', '/v1/projects?limit=1')).toMatchObject({
      status: 200,
      body: { count: 2, projects: [{ slug: 'muller-sohne-2' }], next_cursor: expect.stringMatching(/^prj_/) },
    });
    expect(await ben.ask('GET', '/projects/muller-sohne')).toMatchObject({ status: 404, body: { code: 'NOT_FOUND' } });
    expect((await ben.ask('DELETE', '/projects/muller-sohne')).status).toBe(404);
    expect((await ben.ask('GET', '/projects/muller-sohne/config')).status).toBe(404);
    expect(await ana.ask('DELETE', '/projects/muller-sohne')).toMatchObject({ body: { slug: 'muller-sohne' } });
    expect((await ana.ask('GET', '/projects/muller-sohne')).status).toBe(404);
  });

  test('that a file manages are shown, and changed in the file alone', async () => {
    const world = await startTestWorld();
    const operator = await apiClient(world, { tenant: OPERATOR });
    expect((await operator.ask('GET', '/projects')).body).toMatchObject({
      projects: [
        {
          slug: 'site',
          source: 'file',
          managed_by: { file: join(world.folder, 'projects/site.yml'), machine: hostname() },
        },
      ],
    });
    expect((await operator.ask('GET', '/projects/site/config')).body).toMatchObject({
      config: expect.stringContaining('slug: site'),
      revisions: [{ current: true }],
    });
    const refused = { status: 409, body: { code: 'CONFLICT', error: expect.stringContaining('site.yml on ') } };
    const config = YAML.replaceAll('shop', 'site');
    expect(await operator.ask('PUT', '/projects/site/config', { config, files: FILES })).toMatchObject(refused);
    expect(await operator.ask('POST', '/projects/site/rollback', { revision: 'rev_1' })).toMatchObject(refused);
    expect(await operator.ask('DELETE', '/projects/site')).toMatchObject(refused);
    expect(await operator.ask('POST', '/projects', { name: 'Site' })).toMatchObject({ body: { slug: 'site-2' } });
    await rm(join(world.folder, 'projects/site.yml'));
    await world.daemon.reload();
    expect((await operator.ask('GET', '/projects/site')).body).toMatchObject({ source: 'file', file_missing: true });
    expect(await operator.ask('PUT', '/projects/site/config', { config, files: FILES })).toMatchObject(refused);
    expect(world.daemon.snapshot().domains.has('example.test')).toBe(true);
    expect(await operator.ask('DELETE', '/projects/site')).toMatchObject({ status: 200 });
    expect(world.daemon.snapshot().domains.has('example.test')).toBe(false);
    const stranger = await apiClient(world);
    expect((await stranger.ask('GET', '/projects/site')).status).toBe(404);
    expect((await stranger.ask('POST', '/projects', { name: 'Site' })).body).toMatchObject({ slug: 'site' });
  });

  test('that a key with domain restrictions may not touch are not shown to it, and refused', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    const config = YAML.replaceAll('shop', 'other');
    await ana.ask('PUT', '/projects/other/config', { config, files: FILES });
    const narrow = await apiClient(world, {
      tenant: ana.tenant,
      restrictions: { domain_restrictions: ['shop.test'] },
    });
    expect((await narrow.ask('GET', '/projects')).body).toMatchObject({ count: 1, projects: [{ slug: 'shop' }] });
    expect((await narrow.ask('GET', '/projects/other')).status).toBe(404);
    expect((await narrow.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES })).status).toBe(200);
    const wider = YAML.replace('domains:\n', 'domains:\n  new.test: {}\n');
    const forbidden = { status: 403, body: { code: 'AUTH_DOMAIN_NOT_ALLOWED' } };
    expect(await narrow.ask('PUT', '/projects/shop/config', { config: wider, files: FILES })).toMatchObject(forbidden);
    expect(await narrow.ask('PUT', '/projects/other/config', { config, files: FILES })).toMatchObject(forbidden);
    expect(await narrow.ask('DELETE', '/projects/other')).toMatchObject(forbidden);
    expect(await narrow.ask('POST', '/projects', { name: 'X' })).toMatchObject(forbidden);
    // What belongs to no domain, or is told of the whole project, lies outside.
    for (const outside of [
      'collections: { theirs: { forms: { one: { email: thief@evil.test } } } }\n',
      'webhooks: [{ url: https://evil.example/hook }]\n',
    ]) {
      expect(
        await narrow.ask('PUT', '/projects/shop/config', { config: YAML + outside, files: FILES }),
        outside,
      ).toMatchObject(forbidden);
    }
    const hooked = `${YAML}webhooks: [{ url: https://hooks.example/x }]\n`;
    expect((await ana.ask('PUT', '/projects/shop/config', { config: hooked, files: FILES })).status).toBe(200);
    expect(await narrow.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES })).toMatchObject(forbidden);
    expect(await narrow.ask('GET', '/projects/shop/config')).toMatchObject(forbidden);
    expect(await narrow.ask('DELETE', '/projects/shop')).toMatchObject(forbidden);
  });
});

describe('a push', () => {
  test('names its files by their paths, however they are written', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const [[name, html] = ['', '']] = Object.entries(FILES);
    const push = (files: object) => ana.ask('PUT', '/projects/shop/config?dry_run=true', { config: YAML, files });
    expect(await push({ [`./${name}`]: html })).toMatchObject({ status: 200, body: { warnings: [] } });
    expect(await push({ [`./${name}`]: html, [name]: html })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'files', message: expect.stringContaining('each file once') }] },
    });
  });

  test('is dry at first, then active, and the same again changes nothing', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const dry = await ana.ask('PUT', '/projects/shop/config?dry_run=true', { config: YAML, files: FILES });
    expect(dry).toMatchObject({ status: 200, body: { revision: null, warnings: [] } });
    expect(dry.body).toMatchObject({
      changes: expect.arrayContaining([expect.objectContaining({ op: 'add', path: 'project', from: null })]),
    });
    expect((await ana.ask('GET', '/projects/shop')).status).toBe(404);

    const pushed = await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    expect(pushed).toMatchObject({ status: 200, body: { revision: expect.stringMatching(/^rev_/) } });
    expect((await ana.ask('GET', '/projects/shop')).body).toMatchObject({ name: 'Shop', source: 'push' });
    expect(world.daemon.snapshot().domains.get('shop.test')?.project.tenant).toBe(ana.tenant);
    expect((await ana.ask('GET', '/projects/shop/config')).body).toMatchObject({ config: YAML, files: FILES });
    const again = await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    expect(again.body).toEqual({ ...(pushed.body as object), changes: [] });

    const changed = YAML.replace('name: Contact', 'name: Write to us, rateLimit: 5');
    expect((await ana.ask('PUT', '/projects/shop/config', { config: changed, files: FILES })).body).toMatchObject({
      changes: [
        { op: 'change', path: 'domains.shop.test.forms.contact.name', from: 'Contact', to: 'Write to us' },
        { op: 'add', path: 'domains.shop.test.forms.contact.rateLimit', from: null, to: 5 },
      ],
    });
    const events = await world.daemon.store.read.selectFrom('events').selectAll().orderBy('id').execute();
    const told = events.filter(({ type }) => type === 'config.pushed');
    expect(told.map(({ tenant }) => tenant)).toEqual([ana.tenant, ana.tenant]);
    expect(told.map(({ data }) => JSON.parse(data) as unknown)).toContainEqual({
      project: 'shop',
      revision: await revisionOf(ana, 'shop'),
      changes: [
        { op: 'change', path: 'domains.shop.test.forms.contact.name' },
        { op: 'add', path: 'domains.shop.test.forms.contact.rateLimit' },
      ],
      count: 2,
    });
  });

  test('that is not valid is told with path, line and column, and changes nothing', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    const before = await revisionOf(ana, 'shop');
    const config = YAML.replace('template: mine', 'template: mine, rateLimit: many');
    expect(await ana.ask('PUT', '/projects/shop/config', { config, files: FILES })).toMatchObject({
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        details: [
          { path: 'domains.shop.test.forms.contact.rateLimit', message: expect.any(String), line: 5, column: 81 },
        ],
      },
    });
    expect(await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: {} })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'templates.mine.html_file', line: 7 }] },
    });
    expect(await ana.ask('PUT', '/projects/other/config', { config: YAML, files: FILES })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'project.slug', line: 1 }] },
    });
    const syntax = await ana.ask('PUT', '/projects/shop/config', { config: 'project: {', files: {} });
    expect(syntax).toMatchObject({ status: 400, body: { details: [{ line: 1 }] } });
    expect(await revisionOf(ana, 'shop')).toBe(before);
  });

  test.each([
    ['an environment variable', '${HOME}'],
    ['a file of the machine', 'file:/etc/passwd'],
  ])('cannot read %s', async (_, reference) => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const config = YAML.replace('"Shop: {{ form.name }}"', `"${reference}"`);
    const answer = await ana.ask('PUT', '/projects/shop/config', { config, files: FILES });
    expect(answer).toMatchObject({
      status: 400,
      body: { details: [{ path: 'templates.mine.subject', message: expect.stringContaining('not resolved') }] },
    });
    expect(JSON.stringify(answer.body)).not.toContain('root:');
  });

  test.each([
    ['a file outside the bundle', { '../templates/mine.html': 'x' }, 400, 'files'],
    ['an absolute file', { '/etc/passwd': 'x' }, 400, 'files'],
    ['too many files', Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`f${i}`, ''])), 400, 'files'],
    ['too large files', { 'a.html': 'x'.repeat(5 * 1024 * 1024 + 1) }, 400, 'files'],
    ['a body that is too large', { 'a.html': 'x'.repeat(13 * 1024 * 1024) }, 413, ''],
  ])('of %s is refused', async (_, files, status, path) => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const answer = await ana.ask('PUT', '/projects/shop/config', { config: YAML, files });
    expect(answer.status).toBe(status);
    expect(JSON.stringify(answer.body)).toContain(path);
  });

  test('claims no domain and no collection of another project of the tenant, nor the server’s own name', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const collection = `${YAML}collections: { leads: { forms: { a: { email: a@inbox.test } } } }\n`;
    await ana.ask('PUT', '/projects/shop/config', { config: collection, files: FILES });
    const second = YAML.replace('slug: shop', 'slug: second');
    expect(await ana.ask('PUT', '/projects/second/config', { config: second, files: FILES })).toMatchObject({
      status: 409,
      body: { details: [{ path: 'domains.shop.test', line: 3, message: 'the domain belongs to the project shop' }] },
    });
    const ben = await apiClient(world);
    expect(await ben.ask('PUT', '/projects/shop/config', { config: collection, files: FILES })).toMatchObject({
      status: 409,
      body: { details: [{ path: 'collections.leads' }] },
    });
    const host = YAML.replace('shop.test', 'mail.postern.test');
    expect(await ben.ask('PUT', '/projects/shop/config', { config: host, files: FILES })).toMatchObject({
      status: 409,
      body: { details: [{ path: 'domains.mail.postern.test' }] },
    });
  });

  test('beside others at the same moment leaves one of them active, whole', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        ana.ask('PUT', '/projects/shop/config', {
          config: YAML.replace('name: Contact', `name: No ${i}`),
          files: FILES,
        }),
      ),
    );
    expect(answers.map(({ status }) => status).every((status) => status === 200 || status === 409)).toBe(true);
    const { body } = await ana.ask('GET', '/projects/shop/config');
    const { config, revision } = body as { config: string; revision: string };
    const inForce = world.daemon.snapshot().domains.get('shop.test');
    expect(inForce?.project.revision).toBe(revision);
    expect(config).toContain(`name: ${inForce?.forms.get('contact')?.name}`);
    const won = answers.filter((answer) => (answer.body as { revision?: string }).revision === revision);
    expect(won).toHaveLength(1);
  });

  test('that was planned against another revision than the active one changes nothing', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const conflict = { status: 409, body: { code: 'CONFLICT', error: expect.stringContaining('in the meantime') } };
    const put = (config: string, base_revision: string | null, query = '') =>
      ana.ask('PUT', `/projects/shop/config${query}`, { config, files: FILES, base_revision });
    expect(await put(YAML, 'rev_1')).toMatchObject(conflict);
    expect((await put(YAML, null)).status).toBe(200);
    const first = (await revisionOf(ana, 'shop')) as string;
    const second = YAML.replace('name: Contact', 'name: Second');
    expect(await put(second, null)).toMatchObject(conflict);
    expect(await put(second, null, '?dry_run=true')).toMatchObject(conflict);
    expect((await put(second, first)).status).toBe(200);
    const back = (base_revision: string | null) =>
      ana.ask('POST', '/projects/shop/rollback', { revision: first, base_revision });
    expect(await back(first)).toMatchObject(conflict);
    expect((await back((await revisionOf(ana, 'shop')) as string)).status).toBe(200);
  });

  test('stays to be seen when another has replaced it, by those who may see all of it', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    const wide = YAML.replace('domains:\n', 'domains:\n  other.test: {}\n');
    await ana.ask('PUT', '/projects/shop/config', { config: wide, files: FILES });
    const first = (await revisionOf(ana, 'shop')) as string;
    await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    expect(await ana.ask('GET', `/projects/shop/config?revision=${first}`)).toMatchObject({
      status: 200,
      body: { config: wide, files: FILES, revision: first, revisions: [{ current: true }, { id: first }] },
    });
    expect((await ana.ask('GET', '/projects/shop/config?revision=rev_1')).status).toBe(404);
    const restrictions = { domain_restrictions: ['shop.test'] };
    const narrow = await apiClient(world, { tenant: ana.tenant, restrictions });
    expect((await narrow.ask('GET', '/projects/shop/config')).status).toBe(200);
    expect((await narrow.ask('GET', `/projects/shop/config?revision=${first}`)).status).toBe(403);
  });

  test('can be rolled back to any revision of its own project, and no other', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    const first = await revisionOf(ana, 'shop');
    const config = YAML.replace('name: Contact', 'name: Second');
    await ana.ask('PUT', '/projects/shop/config', { config, files: FILES });
    const ben = await apiClient(world);
    await ben.ask('PUT', '/projects/shop/config', { config: YAML.replaceAll('shop.test', 'ben.test'), files: FILES });
    expect((await ben.ask('POST', '/projects/shop/rollback', { revision: first as string })).status).toBe(404);
    expect(await ana.ask('POST', '/projects/shop/rollback', { revision: first as string })).toMatchObject({
      status: 200,
      body: { revision: first, changes: [{ path: 'domains.shop.test.forms.contact.name', to: 'Contact' }] },
    });
    expect(world.daemon.snapshot().domains.get('shop.test')?.forms.get('contact')?.name).toBe('Contact');
    expect((await ana.ask('GET', '/projects/shop/config')).body).toMatchObject({
      revision: first,
      revisions: [{ id: first, current: true }, { current: false }],
    });
  });

  test('outlives the daemon’s start, and makes a project of the API one with a configuration', async () => {
    const world = await startTestWorld();
    const ana = await apiClient(world);
    await ana.ask('POST', '/projects', { name: 'Shop' });
    await ana.ask('POST', '/domains', { domain: 'old.test', project: 'shop' });
    const pushed = await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
    expect(pushed.body).toMatchObject({
      changes: expect.arrayContaining([expect.objectContaining({ op: 'remove', path: 'domains.old.test' })]),
    });
    expect((await ana.ask('GET', '/domains/old.test')).status).toBe(404);
    expect(await world.daemon.reload()).toMatchObject({ kind: 'unchanged' });
    expect([...world.daemon.snapshot().domains.keys()]).toEqual(['example.test', 'shop.test']);
  });
});

test('revisions are listed with their author and size, and compared', async () => {
  const world = await startTestWorld();
  const ana = await apiClient(world);
  const ben = await apiClient(world);
  await ana.ask('PUT', '/projects/shop/config', { config: YAML, files: FILES });
  const first = String(await revisionOf(ana, 'shop'));
  await ana.ask('PUT', '/projects/shop/config', {
    config: YAML.replace('name: Contact', 'name: Ask us'),
    files: FILES,
  });
  const second = await revisionOf(ana, 'shop');
  const page = await ana.ask('GET', '/projects/shop/revisions?limit=1');
  expect(page).toMatchObject({
    status: 200,
    body: {
      count: 2,
      revisions: [
        {
          id: second,
          current: true,
          size: Buffer.byteLength(YAML) - 1 + 28,
          author: { kind: 'key', id: expect.stringMatching(/^key_/) },
        },
      ],
    },
  });
  const { next_cursor } = page.body as { next_cursor: string };
  expect((await ana.ask('GET', `/projects/shop/revisions?cursor=${next_cursor}`)).body).toMatchObject({
    revisions: [{ id: first, current: false }],
    next_cursor: null,
  });
  const change = { op: 'change', path: 'domains.shop.test.forms.contact.name', from: 'Ask us', to: 'Contact' };
  expect((await ana.ask('GET', `/projects/shop/revisions/${first}/changes`)).body).toMatchObject({
    from: second,
    to: first,
    changes: [change],
  });
  expect((await ana.ask('GET', `/projects/shop/revisions/${first}/changes?from=${first}`)).body).toMatchObject({
    changes: [],
  });
  expect((await ana.ask('GET', '/projects/shop/revisions/rev_1/changes')).status).toBe(404);
  for (const path of ['revisions', `revisions/${first}/changes`])
    expect((await ben.ask('GET', `/projects/shop/${path}`)).status).toBe(404);
  const operator = await apiClient(world, { tenant: OPERATOR });
  expect((await operator.ask('GET', '/projects/site/revisions')).body).toMatchObject({
    revisions: [{ author: { kind: 'file', name: expect.stringContaining('site.yml') } }],
  });
});
