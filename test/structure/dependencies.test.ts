import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { ROOT } from './sources.ts';

const versions = z.record(z.string(), z.string()).default({});
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
