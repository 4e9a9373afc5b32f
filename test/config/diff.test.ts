import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { changesFromDefaults, diffConfig, writtenProject, writtenServer } from '../../src/config/diff.ts';
import { loadProjects } from '../../src/config/folder.ts';
import { parseServer } from '../../src/config/parse.ts';
import { type ServerConfig, projectSchema } from '../../src/config/schema.ts';
import { serverSchema } from '../../src/config/schema-server.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { SERVER } from './folder.ts';

function server(more: string): ServerConfig {
  const result = parseServer(SERVER + more, 'server.yml', { variable: () => undefined, file: () => undefined });
  if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
  return result.ok;
}

describe('the difference of two configurations', () => {
  test('names what came, went and changed', () => {
    const before = { a: 1, b: { c: 'x', d: [1, 2] }, e: undefined };
    const after = { a: 1, b: { c: 'y', d: [1, 3] }, e: true };
    expect(diffConfig(before, after)).toEqual([
      { op: 'change', path: 'b.c', keys: ['b', 'c'], from: 'x', to: 'y' },
      { op: 'change', path: 'b.d', keys: ['b', 'd'], from: [1, 2], to: [1, 3] },
      { op: 'add', path: 'e', keys: ['e'], from: undefined, to: true },
    ]);
    expect(diffConfig(after, { a: 1, b: { c: 'y' } }).map(({ op, path }) => `${op} ${path}`)).toEqual([
      'remove b.d',
      'remove e',
    ]);
  });

  test('is empty exactly for equal data', () => {
    const data = fc.jsonValue({ noUnicodeString: true, maxDepth: 3 });
    fc.assert(
      fc.property(data, data, (a, b) => {
        expect(diffConfig(a, structuredClone(a))).toEqual([]);
        expect(diffConfig(a, b).length > 0).toBe(JSON.stringify(sorted(a)) !== JSON.stringify(sorted(b)));
      }),
    );
  });
});

/** Maps with their keys in order, but not within lists, which are one value. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return { map: entries.map(([key, item]) => [key, sorted(item)]) };
}

test('a project means the same when it is written out and read again', async () => {
  const [example] = await loadProjects(join(import.meta.dirname, '../../config/server.yml'), {
    secrets: machineSecrets({}),
  });
  if (example === undefined || !('ok' in example.result)) throw new Error('example.yml');
  const config = example.result.ok;
  expect(projectSchema.parse(writtenProject(config))).toEqual(config);
});

describe('what differs from the defaults', () => {
  test('is the required keys and what was set to something else, in the words of the file', () => {
    const config = server('delivery: { port: 2525, concurrency: 100, retry: [60s, 2h] }\ndns: { grace: 3d }\n');
    expect(changesFromDefaults(config).map(({ path, to }) => [path, to])).toEqual([
      ['server.hostname', 'mail.example.net'],
      ['server.operator', 'ops@example.net'],
      ['delivery.port', 2525],
      ['delivery.retry', ['1m', '2h']],
    ]);
  });

  test('means the same when it is read again', () => {
    const config = server(
      'limits: { body: 1500KiB }\ndelivery: { routes: { a.example: "b:25" }, expire: { default: 90m } }\n',
    );
    expect(serverSchema.parse(writtenServer(config))).toEqual(config);
  });
});
