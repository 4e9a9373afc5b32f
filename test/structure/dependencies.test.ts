import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ROOT, readSources } from './sources.ts';

/** A package under another name counts by its version; what is overridden within one package is not a version. */
const versions = z
  .record(z.string(), z.unknown())
  .default({})
  .transform((all) =>
    Object.fromEntries(
      Object.entries(all).flatMap(([name, version]) =>
        typeof version === 'string' ? [[name, version.replace(/^npm:[^@]+@/, '')] as const] : [],
      ),
    ),
  );
const manifest = z
  .object({
    dependencies: versions,
    devDependencies: versions,
    optionalDependencies: versions,
    overrides: versions,
  })
  .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));

const wanted = {
  ...manifest.dependencies,
  ...manifest.devDependencies,
  ...manifest.optionalDependencies,
  ...manifest.overrides,
};

test('docs/dependencies.md lists every package of package.json at its version with a reason, and no other', () => {
  const rows = readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8').matchAll(
    /^\| ((?:`[^`]+`(?:, )?)+) +\| (\d\S*) +\| (\S.*) \|$/gm,
  );
  const listed = Array.from(rows).flatMap(([, names = '', version = '']) =>
    Array.from(names.matchAll(/`([^`]+)`/g), ([, name = '']) => [name, version]),
  );
  expect(Object.fromEntries(listed)).toEqual(wanted);
});

test('its table of imports says which folders of src import which package, and what nobody imports', () => {
  const page = readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8');
  const table = page.split(/^## /m).find((section) => section.startsWith('Who imports what')) ?? '';
  const listed = Array.from(table.matchAll(/^\| `([^`]+)` +\| (\S.*?) +\|$/gm), ([, name = '', folders = '']) => [
    name,
    folders,
  ]);
  const found = new Map<string, Set<string>>(Object.keys(manifest.dependencies).map((name) => [name, new Set()]));
  for (const { packages, folder, path } of readSources('src')) {
    for (const specifier of packages.filter((each) => !each.startsWith('node:'))) {
      const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
      found.get(name)?.add(`\`${folder === '' ? path.slice('src/'.length) : `${folder.split('/')[0]}/`}\``);
    }
  }
  const expected = Array.from(found, ([name, folders]) => [name, [...folders].toSorted().join(', ') || 'nothing']);
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(expected));
});

test('every version is exact', () => {
  expect(Object.entries(wanted).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});

test('the lockfile has a version and a checksum for each package, and names no registry', () => {
  const lock = z
    .object({
      packages: z.record(
        z.string(),
        z.object({ version: z.string(), integrity: z.string().optional(), resolved: z.string().optional() }),
      ),
    })
    .parse(JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')));
  const entries = Object.entries(lock.packages).filter(([path]) => path !== '');
  expect(entries.filter(([, entry]) => entry.integrity === undefined).map(([path]) => path)).toEqual([]);
  expect(entries.filter(([, entry]) => entry.resolved !== undefined).map(([path]) => path)).toEqual([]);
});
