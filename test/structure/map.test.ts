import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, sourceFolders } from './sources.ts';

/** A folder in the list of docs/architecture.md, which says what it is for: "- `store/migrations/` has …". */
const ITEM = /^ *- `([a-z0-9-]+(?:\/[a-z0-9-]+)*\/)` \S/;

test('docs/architecture.md says of every folder of src what it is for, and names no other', () => {
  const lines = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8').split('\n');
  const listed = lines.flatMap((line) => ITEM.exec(line)?.[1] ?? []);
  const real = sourceFolders().map((folder) => (folder === '' ? 'src/' : `${folder}/`));
  expect(listed.toSorted()).toEqual(real.toSorted());
});
