/** What lies in config/ is right: it is what a new operator begins with. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { changesFromDefaults, writtenServer } from '../../src/config/diff.ts';
import { jsonSchema } from '../../src/config/schema.ts';
import { loadProjects, loadServer } from '../../src/config/folder.ts';
import { machineSecrets } from '../../src/config/secrets.ts';
import { checkTemplates } from '../../src/templates/engine.ts';

const CONFIG = join(import.meta.dirname, '../../config');
const SERVER = join(CONFIG, 'server.yml');
const secrets = machineSecrets({});

describe('config/server.yml', () => {
  test('holds every key with its default', async () => {
    const result = await loadServer(SERVER, secrets);
    if (!('ok' in result)) throw new Error(JSON.stringify(result.errors));
    expect(changesFromDefaults(result.ok).map(({ path }) => path)).toEqual(['server.hostname', 'server.operator']);
    const written: unknown = parse(await readFile(SERVER, 'utf8'));
    expect(keysOf(written)).toEqual(keysOf(writtenServer(result.ok)));
  });

  test('says above each key, or that of its group, why it is so', async () => {
    const lines = (await readFile(SERVER, 'utf8')).split('\n');
    const bare = lines.filter((line, index) => {
      const indent = /^ +/.exec(line)?.[0].length ?? 0;
      const above = lines[index - 1] ?? '';
      return indent > 0 && /^ +\w+: \S/.test(line) && !/^ +(#|\w+: \S)/.test(above);
    });
    expect(bare).toEqual([]);
  });
});

test('config/projects holds no error and nothing to warn of', async () => {
  const projects = await loadProjects(SERVER, { secrets, checkTemplates });
  expect(projects.map(({ file }) => file)).toEqual(['projects/example.yml']);
  expect(projects[0]?.result).toMatchObject({ ok: {}, warnings: [] });
});

describe.each(['server', 'project'] as const)('config/%s.schema.json', (kind) => {
  test('is what `postern config schema` writes', async () => {
    expect(JSON.parse(await readFile(join(CONFIG, `${kind}.schema.json`), 'utf8'))).toEqual(jsonSchema(kind));
  });

  test('describes every key', () => {
    expect(undescribed(jsonSchema(kind), kind)).toEqual([]);
  });
});

test('the examples name their schema', async () => {
  for (const [file, schema] of [
    ['server.yml', './server.schema.json'],
    ['projects/example.yml', '../project.schema.json'],
  ]) {
    const [first] = (await readFile(join(CONFIG, file ?? ''), 'utf8')).split('\n');
    expect(first).toBe(`# yaml-language-server: $schema=${schema}`);
  }
});

function keysOf(data: unknown, path = ''): string[] {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return [path];
  const keys = Object.entries(data).flatMap(([key, value]) => keysOf(value, `${path}.${key}`));
  return keys.length === 0 ? [path] : keys;
}

/** Paths of properties without a description. */
function undescribed(schema: unknown, path: string): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]: [string, unknown]) => {
    if (key !== 'properties' || typeof value !== 'object' || value === null) return undescribed(value, path);
    return Object.entries(value).flatMap(([name, property]: [string, unknown]) => {
      const here = `${path}.${name}`;
      const described = typeof property === 'object' && property !== null && 'description' in property;
      return [...(described ? [] : [here]), ...undescribed(property, here)];
    });
  });
}
