import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, sourceFolders } from './sources.ts';

/** The map in docs/architecture.md: a table with a row for every folder of src, `| `store/migrations/` | words |` (src itself is `src/`). */
const ROW = /^\| `([a-z0-9-]+(?:\/[a-z0-9-]+)*\/)` +\| +(\S.*) +\|$/;

test('the map of docs/architecture.md says of every folder of src what it is about, and names nothing else', () => {
  const lines = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8').split('\n');
  const listed = lines.flatMap((line) => ROW.exec(line)?.[1] ?? []);
  const real = sourceFolders().map((folder) => (folder === '' ? 'src/' : `${folder}/`));
  expect(listed.toSorted()).toEqual(real.toSorted());
});
