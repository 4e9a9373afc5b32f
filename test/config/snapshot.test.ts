import { describe, expect, test } from 'vitest';
import { parseProject, parseServer } from '../../src/config/parse.ts';
import { buildSnapshot, type Form, type Project } from '../../src/config/snapshot.ts';
import { SERVER } from './folder.ts';

const env = { variable: () => undefined, file: () => undefined };

function project(text: string): Project {
  const result = parseProject(text, 'demo.yml', { files: {}, env });
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  return { revision: 'rev_1', slug: 'demo', tenant: 'ten_operator', source: 'file', config: result.ok };
}

function snapshotOf(...texts: string[]) {
  const server = parseServer(SERVER, 'server.yml', env);
  if (!('ok' in server)) throw new Error('server.yml');
  return buildSnapshot({ server: server.ok, projects: texts.map(project) });
}

/** The form `id` at example.com of a project with these settings. */
function form(id: string, { owner = '', settings = '', forwarding = '{}', keys = '{}' }): Form | undefined {
  const text = `project: { name: Demo, slug: demo${owner === '' ? '' : `, owner: ${owner}`} }
settings: { ${settings} }
domains: { example.com: { forwarding: ${forwarding}, forms: { ${id}: ${keys} } } }
`;
  return snapshotOf(text).domains.get('example.com')?.forms.get(id);
}

describe('the recipients of a form', () => {
  test.each([
    ['its own', 'contact', { keys: '{ to: a@x.org }', forwarding: '{ contact@example.com: b@x.org }' }, ['a@x.org']],
    [
      'where its own domain forwards it to',
      'contact',
      {
        keys: '{ to: a@example.com }',
        forwarding: '{ a@example.com: [b@example.com, c@x.org], b@example.com: d@x.org }',
      },
      ['d@x.org', 'c@x.org'],
    ],
    ['a list', 'contact', { keys: '{ to: [a@x.org, b@x.org] }' }, ['a@x.org', 'b@x.org']],
    [
      'those of its address',
      'contact',
      { forwarding: '{ contact@example.com: [b@x.org, c@x.org] }' },
      ['b@x.org', 'c@x.org'],
    ],
    [
      'those of its address in another case',
      'Contact',
      { forwarding: '{ contact@example.com: b@x.org }' },
      ['b@x.org'],
    ],
    [
      'those of the catch-all',
      'contact',
      { forwarding: "{ '*@example.com': d@x.org, x@example.com: b@x.org }" },
      ['d@x.org'],
    ],
    ['the owner', 'contact', { owner: 'o@x.org' }, ['o@x.org']],
    [
      'the owner, where its address is discarded',
      'contact',
      { owner: 'o@x.org', forwarding: '{ contact@example.com: discard }' },
      ['o@x.org'],
    ],
    [
      'the owner, where its address is rejected',
      'contact',
      { owner: 'o@x.org', forwarding: "{ contact@example.com: reject, '*@example.com': d@x.org }" },
      ['o@x.org'],
    ],
    ['the operator', 'contact', {}, ['ops@example.net']],
  ])('are %s', (_, id, parts, to) => {
    expect(form(id, parts)?.to).toEqual(to);
  });
});

describe('the rate limit of a form', () => {
  test.each([
    ['rateLimit', { keys: '{ rateLimit: 1, spam_protection: { rate_limit: 2 } }', settings: 'rate_limit: 3' }, 1],
    ['spam_protection.rate_limit', { keys: '{ spam_protection: { rate_limit: 2 } }', settings: 'rate_limit: 3' }, 2],
    ['settings.rate_limit', { settings: 'rate_limit: 3' }, 3],
    ['60', {}, 60],
  ])('is %s', (_, parts, limit) => {
    expect(form('contact', parts)?.rateLimit).toBe(limit);
  });
});

describe('a form of a collection', () => {
  /** The form `contact` of a collection `site` with these keys. */
  function collected(keys: string, collection = '', rest = ''): Form | undefined {
    const forms = `forms: { contact: ${keys} }`;
    const text = `project: { name: Demo, slug: demo, owner: o@x.org }\n${rest}\ncollections: { site: { ${collection}${forms} } }\n`;
    return snapshotOf(text).collections.get('site')?.forms.get('contact');
  }

  test('has an id of its own and mails from the host name', () => {
    expect(collected('{ email: [a@x.org, b@x.org], name: Contact }')).toMatchObject({
      id: 'c/site/contact',
      kind: 'collection',
      key: 'contact',
      name: 'Contact',
      tenant: 'ten_operator',
      domain: 'mail.example.net',
      to: ['a@x.org', 'b@x.org'],
      requireApiKey: false,
    });
  });

  test('goes to the owner where it names nobody', () => {
    expect(collected('{}')?.to).toEqual(['o@x.org']);
  });

  test('takes its rate limit and the need of a key from where they stand', () => {
    expect(collected('{}', '', 'settings: { rate_limit: 3 }')?.rateLimit).toBe(3);
    expect(collected('{ rateLimit: 2 }', '', 'settings: { rate_limit: 3 }')?.rateLimit).toBe(2);
    expect(collected('{}', 'settings: { requireApiKey: true }, ')?.requireApiKey).toBe(true);
  });

  test.each([
    ['{}', '', { origins: [], anyone: true }],
    ['{ allowed_origins: [https://b.org] }', '', { origins: ['https://b.org'], anyone: false }],
    ['{}', 'allowed_origins: [https://a.org], ', { origins: ['https://a.org'], anyone: false }],
    [
      '{ allowed_origins: [https://b.org] }',
      'allowed_origins: [https://a.org], ',
      { origins: ['https://a.org', 'https://b.org'], anyone: false },
    ],
  ])(
    'may be used from everywhere unless it, %s, or its collection (%s) lists origins',
    (keys, collection, audience) => {
      expect(collected(keys, collection)?.audience).toEqual({ domain: undefined, localhost: false, ...audience });
    },
  );
});

describe('a snapshot', () => {
  const snapshot = snapshotOf(
    'project: { name: A, slug: a }\ndomains: { Example.com: { forms: { contact: {}, jobs: { name: Jobs } } } }\n',
    'project: { name: B, slug: b }\ndomains: { example.net: {} }\n',
  );

  test('finds domains by their normal form and forms by their key', () => {
    expect([...snapshot.domains.keys()]).toEqual(['example.com', 'example.net']);
    const domain = snapshot.domains.get('example.com');
    expect(domain?.project.config.project.slug).toBe('a');
    expect(domain?.forms.get('jobs')).toMatchObject({ id: 'example.com/jobs', key: 'jobs', name: 'Jobs' });
    expect(domain?.forms.get('contact')).toMatchObject({ name: 'contact', domain: 'example.com' });
    expect(domain?.forms.get('constructor')).toBeUndefined();
  });

  test('cannot be changed', () => {
    const { domains, projects, problems } = snapshot;
    const change: (() => unknown)[] = [
      () => Object.assign(snapshot, { server: {} }),
      () => Object.assign(domains.get('example.com') ?? {}, { name: 'x' }),
      () => Object.assign(domains.get('example.com')?.forms.get('jobs') ?? {}, { name: 'x' }),
      () => Object(domains).set('x', {}),
      () => Object(domains).delete('example.com'),
      () => Object(domains.get('example.com')?.forms).clear(),
      () => Object(projects).push({}),
      () => Object(problems).push(''),
    ];
    for (const attempt of change) expect(attempt).toThrow(TypeError);
    expect(domains.size).toBe(2);
  });
});
