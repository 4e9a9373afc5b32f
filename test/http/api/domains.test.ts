import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { OPERATOR } from '../../../src/store/tenants.ts';
import { apiClient, type Client } from '../../harness/api.ts';
import { startTestWorld, type TestWorld } from '../../harness/daemon.ts';
import { testKey } from '../../harness/keys.ts';

interface Shown {
  readonly status: string;
  readonly records: readonly {
    readonly purpose: string;
    readonly type: 'TXT';
    readonly name: string;
    readonly value: string;
    readonly required: boolean;
    readonly status: string;
  }[];
  readonly keys: readonly object[];
}

async function show(client: Client, domain: string): Promise<Shown> {
  const { body } = await client.ask('GET', `/domains/${domain}`);
  return body as Shown;
}

async function wanted(client: Client, domain: string) {
  return (await show(client, domain)).records.filter(({ required }) => required);
}

async function withProject(world: TestWorld): Promise<Client> {
  const client = await apiClient(world);
  await client.ask('POST', '/projects', { name: 'Site' });
  return client;
}

test('a domain is added, told what to publish, verified, and taken away', async () => {
  const world = await startTestWorld();
  const ana = await withProject(world);
  const added = await ana.ask('POST', '/domains', { domain: 'Bücher.Example', project: 'site' });
  expect(added.status).toBe(200);
  expect(added.body).toEqual({
    domain: 'xn--bcher-kva.example',
    project: 'site',
    environment: 'live',
    verified: false,
    status: 'pending',
    reason: null,
    checked_at: null,
    verified_at: null,
    records: [
      {
        purpose: 'ownership',
        type: 'TXT',
        name: '_postern.xn--bcher-kva.example',
        value: expect.stringMatching(/^postern-verification=[0-9a-f]{32}$/),
        required: true,
        status: 'unknown',
        found: [],
      },
      {
        purpose: 'dkim',
        type: 'TXT',
        name: 'postern._domainkey.xn--bcher-kva.example',
        value: expect.stringMatching(/^v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]{300,}$/),
        required: true,
        status: 'unknown',
        found: [],
      },
      expect.objectContaining({ purpose: 'spf', required: false }),
      expect.objectContaining({ purpose: 'dmarc', required: false }),
    ],
    keys: [
      expect.objectContaining({
        selector: 'postern',
        algorithm: 'rsa',
        state: 'active',
        advice: 'This key signs mail.',
      }),
    ],
  });
  // The daemon may have looked meanwhile: what is to be published is the same.
  const again = await ana.ask('POST', '/domains', { domain: 'bücher.example', project: 'site' });
  const { keys, records } = added.body as Shown;
  const published = records.map(({ name, type, value }) => expect.objectContaining({ name, type, value }));
  expect(again).toMatchObject({ status: 200, body: { status: 'pending', keys, records: published } });

  const before = await ana.ask('POST', '/domains/xn--bcher-kva.example/verify', {});
  expect(before.body).toMatchObject({ verified: false, checked_at: expect.stringMatching(/Z$/) });
  expect(before.body).toMatchObject({ records: [{ status: 'missing' }, { status: 'missing' }, {}, {}] });
  world.dns.set(await wanted(ana, 'xn--bcher-kva.example'));
  expect((await ana.ask('POST', `/domains/${encodeURIComponent('BÜCHER.example')}/verify`)).body).toMatchObject({
    verified: true,
    status: 'verified',
    verified_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
    records: [{ status: 'ok' }, { status: 'ok', found: [expect.stringContaining('p=')] }, {}, {}],
  });
  expect(world.daemon.domains.status('xn--bcher-kva.example')).toBe('verified');
  expect(await ana.ask('DELETE', '/domains/bücher.example')).toMatchObject({ status: 200, body: { verified: true } });
  expect((await ana.ask('GET', '/domains/bücher.example')).status).toBe(404);
  expect(world.daemon.snapshot().domains.has('xn--bcher-kva.example')).toBe(false);
});

test('a check that is asked for its progress shows each record as it is looked up, and then the domain', async () => {
  const world = await startTestWorld();
  const ana = await withProject(world);
  await ana.ask('POST', '/domains', { domain: 'slow.test', project: 'site' });
  const records = await wanted(ana, 'slow.test');
  // Given up after seconds, when the others have long been found.
  world.dns.set([...world.publicZone, ...records, { name: '_dmarc.slow.test', fault: 'SILENT' }]);
  const { headers } = await testKey(world.daemon.store, { tenant: ana.tenant });
  const lines = { ...headers, Accept: 'application/x-ndjson' };
  const answer = await fetch(`${world.url}/domains/slow.test/verify`, { method: 'POST', headers: lines });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  const read: Shown[] = [];
  const found: string[] = [];
  const before: string[] = [];
  for await (const line of createInterface(Readable.fromWeb(answer.body as ReadableStream))) {
    const { record, domain } = JSON.parse(line) as { record?: Shown['records'][number]; domain?: Shown };
    if (record !== undefined) found.push(`${record.purpose} ${record.status}`);
    if (record?.purpose === 'ownership') before.push((await show(ana, 'slow.test')).status);
    if (domain !== undefined) read.push(domain);
  }
  // The line came while the check was not over.
  expect(before).toEqual(['pending']);
  expect(found.toSorted()).toEqual(['dkim ok', 'dmarc unknown', 'ownership ok', 'spf missing']);
  expect(found.at(-1)).toBe('dmarc unknown');
  expect(read).toEqual([await show(ana, 'slow.test')]);
  expect(read).toMatchObject([{ status: 'verified' }]);

  const unknown = await fetch(`${world.url}/domains/other.test/verify`, { method: 'POST', headers: lines });
  expect([unknown.status, await unknown.json()]).toMatchObject([404, { code: 'DOMAIN_NOT_FOUND' }]);
});

test('a check goes on although the client that asked for its progress goes', async () => {
  const world = await startTestWorld();
  const ana = await withProject(world);
  await ana.ask('POST', '/domains', { domain: 'slow.test', project: 'site' });
  const records = await wanted(ana, 'slow.test');
  world.dns.set([...world.publicZone, ...records, { name: '_dmarc.slow.test', fault: 'SILENT' }]);
  const { headers } = await testKey(world.daemon.store, { tenant: ana.tenant });
  const gone = new AbortController();
  const lines = { ...headers, Accept: 'application/x-ndjson' };
  const init = { method: 'POST', headers: lines, signal: gone.signal };
  const answer = await fetch(`${world.url}/domains/slow.test/verify`, init);
  await answer.body?.getReader().read();
  gone.abort();
  // By the store, which counts no requests.
  await expect.poll(() => world.daemon.domains.status('slow.test')).toBe('verified');
});

test('what cannot be added says why', async () => {
  const world = await startTestWorld();
  const ana = await withProject(world);
  await ana.ask('POST', '/projects', { name: 'Second' });
  await ana.ask('POST', '/domains', { domain: 'a.test', project: 'site' });
  const config = 'project: { name: Yaml, slug: yaml }\ndomains: { y.test: {} }\n';
  await ana.ask('PUT', '/projects/yaml/config', { config });
  const cases: [object, number, string][] = [
    [{ domain: 'no domain', project: 'site' }, 400, 'domain'],
    [{ domain: 'b.test' }, 400, 'project'],
    [{ domain: 'b.test', project: 'none' }, 404, 'no project none'],
    [{ domain: 'a.test', project: 'second' }, 409, 'belongs to the project site'],
    [{ domain: 'mail.postern.test', project: 'site' }, 409, 'the server itself'],
  ];
  for (const [body, status, words] of cases) {
    const answer = await ana.ask('POST', '/domains', body);
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([status, expect.stringContaining(words)]);
  }
  expect((await ana.ask('POST', '/domains', { domain: 'Y.test', project: 'yaml' })).body).toMatchObject({
    domain: 'y.test',
    project: 'yaml',
  });
  const operator = await apiClient(world, { tenant: OPERATOR });
  const managed = { status: 409, body: { error: expect.stringMatching(/^The file \/.*site\.yml on .+ manages/) } };
  expect(await operator.ask('DELETE', '/domains/example.test')).toMatchObject(managed);
  expect(await operator.ask('POST', '/domains', { domain: 'b.test', project: 'site' })).toMatchObject(managed);
});

test('a domain that is added or removed changes the document of its project, which keeps what else it says', async () => {
  const world = await startTestWorld();
  const ana = await apiClient(world);
  const config =
    '# Ours\nproject: { name: Yaml, slug: yaml }\ndomains:\n  y.test: { forms: { contact: { to: a@inbox.test } } } # first\n';
  await ana.ask('PUT', '/projects/yaml/config', { config });
  expect(await ana.ask('POST', '/domains', { domain: 'B.test', project: 'yaml' })).toMatchObject({ status: 200 });
  const document = async () => ((await ana.ask('GET', '/projects/yaml/config')).body as { config: string }).config;
  expect(await document()).toBe(`${config}  b.test: {}\n`);
  expect(world.daemon.snapshot().domains.get('y.test')?.forms.size).toBe(1);
  expect(await ana.ask('DELETE', '/domains/b.test')).toMatchObject({ status: 200, body: { domain: 'b.test' } });
  expect(await document()).toBe(config);
  const { body } = await ana.ask('GET', '/projects/yaml/config');
  expect(body).toMatchObject({ revisions: [{ current: true }, { current: false }] });
  expect((await ana.ask('DELETE', '/domains/y.test')).status).toBe(200);
  expect(await document()).toBe('# Ours\nproject: { name: Yaml, slug: yaml }\n');
});

test('lists go by name, page by page, and show a key with restrictions its own domains alone', async () => {
  const world = await startTestWorld();
  const ana = await withProject(world);
  for (const domain of ['c.test', 'a.test', 'b.test']) await ana.ask('POST', '/domains', { domain, project: 'site' });
  const first = await ana.ask('GET', '/domains?limit=2');
  expect(first.body).toMatchObject({ domains: [{ domain: 'a.test' }, { domain: 'b.test' }], count: 3 });
  const { next_cursor } = first.body as { next_cursor: string };
  expect((await ana.ask('GET', `/domains?limit=2&cursor=${next_cursor}`)).body).toMatchObject({
    domains: [{ domain: 'c.test' }],
    count: 3,
    next_cursor: null,
  });
  const restrictions = { domain_restrictions: ['b.test'] };
  const narrow = await apiClient(world, { tenant: ana.tenant, restrictions });
  expect((await narrow.ask('GET', '/domains')).body).toMatchObject({ domains: [{ domain: 'b.test' }], count: 1 });
  expect((await narrow.ask('GET', '/domains/a.test')).status).toBe(403);
  const ben = await apiClient(world);
  expect((await ben.ask('GET', '/domains')).body).toMatchObject({ domains: [], count: 0 });
  expect(await ben.ask('GET', '/domains/a.test')).toMatchObject({ status: 404, body: { code: 'DOMAIN_NOT_FOUND' } });
  expect((await ben.ask('POST', '/domains/a.test/verify')).status).toBe(404);
});

test('the first of two tenants whose records are right owns the domain, until the operator moves it', async () => {
  const world = await startTestWorld();
  const [ana, ben] = [await withProject(world), await withProject(world)];
  await ana.ask('POST', '/domains', { domain: 'moving.test', project: 'site' });
  await ben.ask('POST', '/domains', { domain: 'moving.test', project: 'site' });
  const [anas, bens] = [await wanted(ana, 'moving.test'), await wanted(ben, 'moving.test')];
  const names = new Set([...anas, ...bens].map(({ name }) => name));
  expect(names.size).toBe(3);
  const owner = (): unknown => world.daemon.snapshot().domains.get('moving.test')?.project.tenant;

  world.dns.set(bens);
  expect((await ben.ask('POST', '/domains/moving.test/verify')).body).toMatchObject({
    status: 'verified',
    reason: null,
  });
  expect(owner()).toBe(ben.tenant);
  world.dns.set(anas);
  await ben.ask('POST', '/domains/moving.test/verify');
  const pending = { status: 'pending', reason: 'owned by another account' };
  expect((await ana.ask('POST', '/domains/moving.test/verify')).body).toMatchObject({
    ...pending,
    records: [{ status: 'ok' }, { status: 'ok' }, {}, {}],
  });
  expect(owner()).toBe(ben.tenant);

  const move = { tenant: ana.tenant };
  expect((await ben.ask('POST', '/admin/domains/moving.test/move', move)).status).toBe(403);
  const operator = await apiClient(world, { tenant: OPERATOR, permissions: ['admin'] });
  expect(await operator.ask('POST', '/admin/domains/other.test/move', move)).toMatchObject({ status: 404 });
  expect(await operator.ask('POST', '/admin/domains/Moving.test/move', move)).toMatchObject({
    status: 200,
    body: { domain: 'moving.test', tenant: ana.tenant, project: 'site', status: 'verified' },
  });
  expect(owner()).toBe(ana.tenant);
  expect(await show(ben, 'moving.test')).toMatchObject(pending);
});
