/**
 * Every route of the API, as its own document has it, against everybody who may not: with no key, keys that are not valid
 * any more, another tenant's key, and bodies of the wrong shape. Who may with which permission: api/permissions.test.ts.
 */
import { describe, expect, test } from 'vitest';
import { PERMISSIONS, type Permission } from '../../src/lib/permission-names.ts';
import { OPERATOR } from '../../src/store/tenants.ts';
import { startTestWorld } from '../harness/daemon.ts';
import { testKey, type TestKey, type TestKeySettings } from '../harness/keys.ts';

const UNKNOWN_KEY = 'svc_sk_live_0000000000000000000000000000';

interface Operation {
  readonly method: string;
  /** `/projects/{slug}` */
  readonly path: string;
  readonly permission: Permission | 'any';
  readonly body: Schema | undefined;
  readonly restricted: boolean;
}

interface Schema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>;
}

interface Answered {
  readonly status: number;
  readonly json: Record<string, unknown>;
  readonly headers: Headers;
}

interface Walk {
  readonly operations: readonly Operation[];
  readonly key: (settings?: TestKeySettings) => Promise<TestKey>;
  readonly ask: (operation: Operation, asked?: Asked) => Promise<Answered>;
  /** Things of the operator's tenant, by the path that names them. */
  readonly things: Readonly<Record<string, string>>;
  /** All that the operator's tenant has, but for what happens by itself. */
  readonly dump: () => Promise<unknown>;
}

interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** In place of the parameters of the path; default: the operator's own things. */
  readonly params?: 'own' | 'none';
}

let spelling = 0;

async function walk(): Promise<Walk> {
  // Each request is from an address of its own: one that shows wrong keys again and again is answered slowly.
  const http = { listen: ['127.0.0.1:0'], trusted_proxies: ['127.0.0.1'] };
  const world = await startTestWorld({ server: { server: { http }, webhooks: { allow_private_networks: true } } });
  const { store } = world.daemon;
  const document = (await (await fetch(`${world.url}/openapi.json`)).json()) as Document;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]): Operation[] => {
      const permission = operation['x-permission'];
      if (permission === undefined) return [];
      const body = operation.requestBody?.content['application/json']?.schema;
      const restricted = operation.description.includes('restricted to domains');
      return [{ method: method.toUpperCase(), path, permission, body, restricted }];
    }),
  );
  const things: Record<string, string> = {};

  async function ask(
    { method, path }: Operation,
    { headers = {}, body, params = 'own' }: Asked = {},
  ): Promise<Answered> {
    const prefix = ['', '/api', '/v1'][spelling++ % 3] ?? '';
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      params === 'none' ? 'x' : encodeURIComponent(things[`${path.split('/')[1]}.${name}`] ?? 'x'),
    );
    const type = body === undefined ? {} : { 'Content-Type': 'application/json' };
    const response = await fetch(world.url + prefix + target, {
      method,
      headers: { ...type, 'X-Forwarded-For': `198.18.${spelling >> 8}.${spelling & 255}`, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    const text = await response.text();
    const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
    return { status: response.status, json, headers: response.headers };
  }

  const key = (settings: TestKeySettings = {}) => testKey(store, settings);
  const owner = await key({ tenant: OPERATOR });

  async function make(path: string, body: object): Promise<Record<string, unknown>> {
    const response = await fetch(world.url + path, {
      method: 'POST',
      headers: { ...owner.headers, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    const json = (await response.json()) as Record<string, unknown>;
    if (response.status !== 200) throw new Error(`${path}: ${JSON.stringify(json)}`);
    return json;
  }

  const project = await make('/projects', { name: 'Walkers project' });
  things['projects.slug'] = String(project['slug']);
  await make('/domains', { domain: 'walked.example', project: project['slug'] });
  things['domains.domain'] = 'walked.example';
  const form = await make('/forms', { name: 'Walked', to: 'owner@inbox.test', subject: 'Walked' });
  things['forms.id'] = things['forms.form'] = String(form['id']);
  const instant = await make('/instant/forms', { name: 'Walked', email: 'owner@inbox.test' });
  things['instant.id'] = String(instant['id']);
  await make('/collections', {
    name: 'strollers',
    title: 'Walked',
    settings: {},
    forms: { one: { email: 'owner@inbox.test' } },
  });
  things['collections.name'] = 'strollers';
  const submitted = await fetch(`${world.url}/f/${things['forms.id']}`, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    body: new URLSearchParams({ message: 'Hello' }),
  });
  things['submissions.id'] = ((await submitted.json()) as { id: string }).id;
  const mail = await make('/email/send', {
    from: 'walk@example.test',
    to: 'owner@inbox.test',
    subject: 'Hi',
    html: '<p>Hello</p>',
  });
  things['email.id'] = things['emails.id'] = things['messages.id'] = String(mail['id']);
  await make('/suppressions', { address: 'gone@inbox.test' });
  things['suppressions.address'] = 'gone@inbox.test';
  const hook = await make('/webhooks', {
    url: 'http://127.0.0.1:9/hook',
    // One that does not happen here: a delivery would change the webhook in the background.
    events: ['domain.failed'],
    description: 'Walked',
  });
  things['webhooks.id'] = String(hook['id']);
  things['api-keys.id'] = (await key({ tenant: OPERATOR })).id;

  async function dump(): Promise<unknown> {
    const tables = [
      'projects',
      'config_revisions',
      'submissions',
      'forms',
      'collections',
      'webhooks',
      'suppressions',
    ] as const;
    const rows = await Promise.all(
      tables.map((table) => store.read.selectFrom(table).selectAll().where('tenant', '=', OPERATOR).execute()),
    );
    const domains = store.read
      .selectFrom('domains')
      .select(['name', 'project', 'token'])
      .where('tenant', '=', OPERATOR);
    const keys = store.read.selectFrom('api_keys').select(['id', 'revoked_at']).where('tenant', '=', OPERATOR);
    const mails = store.read.selectFrom('messages').select(['id', 'expires_at']).where('tenant', '=', OPERATOR);
    return [...rows, await domains.execute(), await keys.execute(), await mails.execute()];
  }
  return { operations, key, ask, things, dump };
}

interface Document {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        'x-permission'?: Permission | 'any';
        description: string;
        requestBody?: { content: Record<string, { schema: Schema }> };
      }
    >
  >;
}

/** Shape A, and nothing that an error of another kind would have. */
function expectRefusal(
  { status, json, headers }: Answered,
  where: string,
  expected: [status: number, code: string],
): void {
  expect([status, json['code']], where).toEqual(expected);
  expect(json, where).toMatchObject({
    error: expect.stringMatching(/\w+ \w+/),
    request_id: headers.get('x-request-id'),
  });
  for (const name of ['limit', 'remaining', 'reset']) {
    expect(headers.get(`x-ratelimit-${name}`), where).toMatch(/^\d+$/);
  }
}

describe('every route of the API', () => {
  test('refuses whoever is not known, or is known no more', async () => {
    const { operations, key, ask } = await walk();
    const cases: [headers: Record<string, string>, expected: [number, string]][] = [
      [{}, [401, 'AUTH_MISSING_KEY']],
      [{ 'X-Api-Key': 'svc_sk_live_mistyped' }, [401, 'AUTH_INVALID_KEY']],
      [{ 'Service-Api-Key': UNKNOWN_KEY }, [401, 'AUTH_INVALID_KEY']],
      [(await key({ expired: true, permissions: PERMISSIONS })).headers, [401, 'AUTH_EXPIRED_KEY']],
      [(await key({ revoked: true, permissions: PERMISSIONS })).headers, [401, 'AUTH_REVOKED_KEY']],
      [
        (await key({ permissions: PERMISSIONS, restrictions: { ip_whitelist: ['192.0.2.0/24'] } })).headers,
        [403, 'AUTH_IP_NOT_ALLOWED'],
      ],
      [{ 'X-Api-Key': 'a', 'Service-Api-Key': 'b' }, [400, 'AUTH_AMBIGUOUS']],
    ];
    expect(operations.length).toBeGreaterThan(50);
    for (const operation of operations) {
      for (const [headers, expected] of cases) {
        const where = `${operation.method} ${operation.path} ${expected[1]}`;
        expectRefusal(await ask(operation, { headers }), where, expected);
      }
    }
  });

  test('shows and changes nothing of another tenant', async () => {
    const { operations, key, ask, things } = await walk();
    const { headers } = await key({ account: { requests_per_hour: 1_000_000, plan: 'enterprise' } });
    const named = operations.filter(({ path, permission }) => path.includes('{') && permission !== 'admin');
    expect(named.length).toBeGreaterThan(20);
    for (const operation of named) {
      const where = `${operation.method} ${operation.path}`;
      const body = VALID[where];
      if (CREATES.has(where)) continue;
      const answer = await ask(operation, { headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      expect([answer.status, answer.json['code']], `${where}: ${JSON.stringify(answer.json)}`).toEqual([
        404,
        expect.stringMatching(/^(?:\w+_)?NOT_FOUND$/),
      ]);
      // Nothing in the words tells more than the request itself said.
      const told = JSON.stringify(answer.json);
      for (const [name, value] of Object.entries(things)) {
        if (value !== things[`${operation.path.split('/')[1]}.${name.split('.')[1]}`])
          expect(told, where).not.toContain(value);
      }
    }
  });

  test('keeps keys that are restricted to a domain from what belongs to none', async () => {
    const { operations, key, ask } = await walk();
    const { headers } = await key({
      permissions: PERMISSIONS,
      restrictions: { domain_restrictions: ['only.example'] },
    });
    for (const operation of operations.filter(({ restricted }) => restricted)) {
      const where = `${operation.method} ${operation.path}`;
      expectRefusal(await ask(operation, { headers }), where, [403, 'AUTH_DOMAIN_NOT_ALLOWED']);
    }
  });

  test.each([
    ['live', 200],
    ['test', 403],
  ] as const)(
    'by a %s key: what is live is read and changed, or only its configuration read',
    async (environment, ok) => {
      const { operations, key, ask, dump } = await walk();
      const { headers } = await key({ tenant: OPERATOR, permissions: PERMISSIONS, environment });
      const before = await dump();
      const named = operations.filter(({ path, permission }) => path.includes('{') || permission === 'admin');
      expect(named.length).toBeGreaterThan(40);
      for (const operation of environment === 'test' ? named : named.filter(({ method }) => method === 'GET')) {
        const where = `${operation.method} ${operation.path}`;
        const body = operation.body === undefined ? undefined : JSON.stringify(VALID[where] ?? {});
        const answer = await ask(operation, { headers, ...(body === undefined ? {} : { body }) });
        const told = `${where}: ${answer.status} ${JSON.stringify(answer.json)}`;
        if (operation.permission !== 'admin' && (LIVE_FOR_ALL.has(where) || environment === 'live')) {
          // What a file, or the source of a mail that has left, is asked for is not there for anybody.
          expect([200, 404], told).toContain(answer.status);
          if (ok === 403) expect(answer.status, told).toBe(200);
        } else if (environment === 'test' && !UNKNOWN_TO_ALL.has(where)) {
          expectRefusal(answer, told, [403, 'AUTH_TEST_KEY']);
        }
      }
      expect(await dump()).toEqual(before);
    },
  );

  test('says what is wrong with a body of the wrong shape', async () => {
    const { operations, key, ask } = await walk();
    const { headers } = await key({ tenant: OPERATOR, permissions: PERMISSIONS });
    for (const operation of operations.filter(({ body }) => body !== undefined)) {
      const where = `${operation.method} ${operation.path}`;
      const wrong = Object.entries(operation.body?.properties ?? {}).map(([name, { type }]) =>
        JSON.stringify({ [name]: type === 'object' ? 7 : { wrong: [] } }),
      );
      for (const body of ['{', '[]', '"text"', 'null', '{"no_such_member":1}', '{"__proto__":{}}', ...wrong]) {
        const answer = await ask(operation, { headers, body });
        const expected = /^(?:[{]"|\[)/.test(body) ? 'VALIDATION_FAILED' : 'BODY_MALFORMED';
        expectRefusal(answer, `${where} ${body}`, [400, expected]);
        if (expected === 'VALIDATION_FAILED') {
          expect(answer.json['details'], `${where} ${body}`).toEqual(
            expect.arrayContaining([{ path: expect.any(String), message: expect.stringMatching(/\w+ \w+/) }]),
          );
        }
      }
      const untyped = await ask(operation, { headers: { ...headers, 'Content-Type': 'text/xml' }, body: '<a/>' });
      expectRefusal(untyped, `${where} XML`, [415, 'UNSUPPORTED_MEDIA_TYPE']);
    }
  });
});

/** Bodies that pass, where a route would else refuse the body before it looks for the thing. */
const VALID: Readonly<Record<string, object>> = {
  'PATCH /forms/{id}': { name: 'Mine' },
  'PATCH /instant/forms/{id}': { name: 'Mine' },
  'POST /projects/{slug}/rollback': { revision: 'rev_00000000000000000000000000' },
  'PATCH /webhooks/{id}': { description: 'Mine' },
  'POST /webhooks/{id}/replay': { since: '2030-01-01T00:00:00Z' },
  'PUT /projects/{slug}/config': { config: 'project: { name: Mine, slug: walkers-project }\n' },
  'PATCH /emails/{id}': { scheduled_at: '2099-01-01T00:00:00.000Z' },
};

/** What a test key reads of the live account. */
const LIVE_FOR_ALL = new Set([
  'GET /projects/{slug}/revisions',
  'GET /forms/{id}/snippets',
  'POST /forms/{id}/preview',
  'GET /projects/{slug}',
  'GET /projects/{slug}/config',
  'GET /domains/{domain}',
  'GET /domains/{domain}/zone',
  'GET /domains/{domain}/forwarding',
  'GET /forms/{id}',
  'GET /forms/{form}/submissions',
  'GET /forms/{form}/submissions/export',
  'GET /collections/{name}',
  'GET /instant/forms/{id}',
]);

/** The submission has no file, of mail that has left there is no source, and the webhook has no delivery. */
const UNKNOWN_TO_ALL = new Set([
  'GET /submissions/{id}/files/{file}',
  'GET /email/{id}/source',
  'GET /projects/{slug}/revisions/{revision}/changes',
  'GET /webhooks/{id}/deliveries/{delivery}',
  'POST /webhooks/{id}/deliveries/{delivery}/replay',
]);

/** Here a name that the other tenant has is a new one. */
const CREATES = new Set(['PUT /projects/{slug}/config']);
