import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, readSources, sourceFolders } from './sources.ts';

/**
 * The map in docs/architecture.md: a table with a row for every folder of src, `| `store/migrations/` | words | `a` `b` |`
 * (src itself is `src/`), whose last cell names all of the folder's files without `.ts`.
 */
const ROW = /^\| `([a-z0-9-]+(?:\/[a-z0-9-]+)*\/)` +\|(.*)\|([^|]*)\|$/;

test('the map of docs/architecture.md names every folder and every file of src, and nothing else', () => {
  const lines = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8').split('\n');
  const listed = lines.flatMap((line) => {
    const [, folder, words, files] = ROW.exec(line) ?? [];
    if (folder === undefined) return [];
    expect(words?.trim(), `${folder} says what it is about`).not.toBe('');
    return [
      rowOf(
        folder,
        Array.from((files ?? '').matchAll(/`([^`]+)`/g), (match) => match[1] ?? ''),
      ),
    ];
  });
  const sources = readSources('src');
  const real = sourceFolders().map((folder) =>
    rowOf(
      folder === '' ? 'src/' : `${folder}/`,
      sources.filter((file) => file.folder === folder).map((file) => basename(file.path, '.ts')),
    ),
  );
  expect(listed.toSorted()).toEqual(real.toSorted());
});

function rowOf(folder: string, files: readonly string[]): string {
  return `${folder} ${files.toSorted().join(' ')}`;
}
