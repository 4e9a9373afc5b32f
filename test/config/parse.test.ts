import { describe, expect, test } from 'vitest';
import { parseProject, parseServer } from '../../src/config/parse.ts';
import { formatProblem } from '../../src/config/problem.ts';
import type { ProjectConfig, ServerConfig } from '../../src/config/schema.ts';
import type { SecretSource } from '../../src/config/secrets.ts';
import { leastCpuSeconds } from '../harness/cpu.ts';
import { SERVER } from './folder.ts';
import { unclosed } from './templates.ts';

const env: SecretSource = {
  variable: (name) =>
    new Map([
      ['PASSWORD', 'hunter2'],
      ['OWNER', 'owner@example.org'],
    ]).get(name),
  file: (path) => (path === '/run/credentials/postern/url' ? 'postgres://postern:hunter2@db/mail' : undefined),
};

function server(text: string): ServerConfig {
  const result = parseServer(text, 'server.yml', env);
  if (!('ok' in result)) throw new Error(result.errors.map(formatProblem).join('\n'));
  return result.ok;
}

function project(text: string, files: Readonly<Record<string, string>> = {}): ProjectConfig {
  const result = parseProject(text, 'demo.yml', { files, env, checkTemplates: unclosed });
  if (!('ok' in result)) throw new Error(result.errors.map(formatProblem).join('\n'));
  return result.ok;
}

function errorsOf(text: string): string[] {
  const result = parseProject(text, 'demo.yml', { files: {}, env });
  return 'ok' in result ? [] : result.errors.map(formatProblem);
}

const HEAD = 'project: { name: Demo, slug: demo }\n';

describe('server.yml', () => {
  test('needs two keys and has a default for every other', () => {
    const config = server(SERVER);
    expect(config.server).toMatchObject({ hostname: 'mail.example.net', operator: 'ops@example.net', watch: true });
    expect(config.delivery.retry.slice(0, 3)).toEqual([300_000, 600_000, 1_200_000]);
    expect(config.delivery.expire).toEqual({ default: 432_000_000, acknowledgment: 86_400_000, dsn: 172_800_000 });
    expect(config.limits).toMatchObject({ field: 65_536, message: 26_214_400 });
  });

  test('comes in normal form', () => {
    const config = server(`server:
  hostname: MAIL.Bücher.example
  operator: Ops@Example.NET
  http: { base_url: https://mail.example.net/ }
delivery: { routes: { Intern.Example: 'mail.intern:2525' } }
`);
    expect(config.server.hostname).toBe('mail.xn--bcher-kva.example');
    expect(config.server.operator).toBe('Ops@example.net');
    expect(config.server.http.base_url).toBe('https://mail.example.net');
    expect(config.delivery.routes['intern.example']).toBe('mail.intern:2525');
  });

  test('takes secrets from the environment and from files, within a text too', () => {
    const config = server(`${SERVER}database: { url: file:/run/credentials/postern/url }
delivery: { relay: 'smtp://user:\${PASSWORD}@relay.example.net:587' }
`);
    expect(config.database.url).toBe('postgres://postern:hunter2@db/mail');
    expect(config.delivery.relay).toBe('smtp://user:hunter2@relay.example.net:587');
  });

  test('never repeats a secret in a report', () => {
    const text = `${SERVER}database: { url: '\${PASSWORD}' }\nlog: { level: '\${PASSWORD}' }\n`;
    const result = parseServer(text, 'server.yml', env);
    const report = JSON.stringify(result);
    expect('errors' in result && result.errors).toHaveLength(2);
    expect(report).not.toContain('hunter2');
    expect(report).toContain('${PASSWORD}');
  });
});

test('what a reference in a project stands for is not repeated by any check', () => {
  const errors = errorsOf(`project: { name: Demo, slug: demo }
settings: { timezone: '\${PASSWORD}' }
domains: { example.com: { forms: { a: { from: '\${OWNER}', template: '\${PASSWORD}', to: '\${PASSWORD}' } } } }
`);
  expect(errors).toHaveLength(4);
  expect(errors.join('\n')).not.toMatch(/hunter2|owner@example\.org/);
  expect(errors.join()).toContain('expected an address at example.com, found ${OWNER}');
});

describe('what was read', () => {
  const config = project(`${HEAD}domains:
  example.com:
    forms: { contact: { to: a@example.org, fields: { email: { type: email } } } }
`);

  test('cannot be changed, at no depth', () => {
    expect(() => Object.assign(config, { project: {} })).toThrow(TypeError);
    expect(() => config.domains['example.com']?.forms['contact']?.to?.push('x@example.org')).toThrow(TypeError);
    expect(() => Object.assign(config.domains, { 'example.net': {} })).toThrow(TypeError);
  });

  test('answers nothing for names that nobody configured', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      expect(config.domains[name]).toBeUndefined();
      expect(config.templates[name]).toBeUndefined();
      expect(config.domains['example.com']?.forms['contact']?.fields[name]).toBeUndefined();
    }
  });

  test('may be named like what every object has', () => {
    const { domains } = project(`${HEAD}domains: { example.com: { forms: { constructor: { to: a@example.org } } } }\n`);
    expect(domains['example.com']?.forms['constructor']?.to).toEqual(['a@example.org']);
  });
});

describe('a project', () => {
  test('holds the text of its html_file', () => {
    const text = `${HEAD}templates: { contact: { html_file: contact.html } }\n`;
    expect(project(text, { 'contact.html': '<p>Hi</p>' }).templates['contact']?.html).toBe('<p>Hi</p>');
  });

  test('takes only a whole value as a reference, for templates hold such words themselves', () => {
    const config = project(`project: { name: Demo, slug: demo, owner: '\${OWNER}' }
templates: { a: { text: 'Costs \${PRICE}, {{ form.name }}' } }
`);
    expect(config.project.owner).toBe('owner@example.org');
    expect(config.templates['a']?.text).toBe('Costs ${PRICE}, {{ form.name }}');
  });

  test('compares addresses of its own domain without case', () => {
    const config = project(
      `${HEAD}domains: { Example.com: { forwarding: { Sales@EXAMPLE.com: Anna@Example.org } } }\n`,
    );
    expect(config.domains['example.com']?.forwarding['sales@example.com']).toEqual(['Anna@example.org']);
  });

  test('with 20,000 unknown keys is judged in linear time, every one of them', () => {
    const keys = Array.from({ length: 20_000 }, (_, index) => `rate_limit${index}: 1\n`).join('');
    expect(leastCpuSeconds(() => expect(errorsOf(HEAD + keys)).toHaveLength(20_000), 3)).toBeLessThan(3);
  });

  test('with 15,000 forwarded addresses in one chain, or in one ring, is judged in linear time', () => {
    const lines = Array.from(
      { length: 15_000 },
      (_, index) => `      a${index}@example.com: a${index + 1}@example.com\n`,
    );
    const chain = `${HEAD}domains:\n  example.com:\n    forwarding:\n${lines.join('')}`;
    const ring = `${chain}      a15000@example.com: a0@example.com\n`;
    expect(leastCpuSeconds(() => expect(errorsOf(chain)).toEqual([]), 3)).toBeLessThan(3);
    expect(leastCpuSeconds(() => expect(errorsOf(ring)).toHaveLength(1), 3)).toBeLessThan(3);
  });

  test('cannot move the cursor of a terminal that shows its errors', () => {
    const [error] = errorsOf(`${HEAD}"a\\e[2J\\nb": 1\n`);
    // oxlint-disable-next-line no-control-regex -- that is what must not be there
    expect(error).not.toMatch(/[\x00-\x1f\x7f]/);
  });
});
