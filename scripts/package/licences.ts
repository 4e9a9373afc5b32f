/** Who has written what a release contains, and under which licence: the file `copyright` of the Debian package (its format 1.0). */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Part {
  /** Relative to the tree. */
  readonly path: string;
  readonly name: string;
  readonly licence: string;
  readonly text: string;
}

/** Throws where a package names no licence: somebody has to look. */
export function licencesOf(folder: string): string {
  const own: Part = { path: '*', name: 'Postern', licence: 'MIT', text: licenceText(folder) };
  const packages = globSync('node_modules/**/package.json', { cwd: folder })
    .sort()
    .map((file): Part | undefined => partOf(folder, file))
    .filter((part) => part !== undefined);
  const header = 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Postern\n';
  return [header, ...[own, ...packages].map(paragraph)].join('\n');
}

/** Undefined for what is no package, but a folder in one that says of which format its modules are. */
function partOf(folder: string, file: string): Part | undefined {
  const manifest = JSON.parse(readFileSync(join(folder, file), 'utf8')) as {
    name?: string;
    version?: string;
    license?: string;
  };
  const { name, version, license } = manifest;
  const path = dirname(file);
  if (!/node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path)) return undefined;
  if (license === undefined) throw new Error(`${file} names no licence`);
  const text = licenceText(join(folder, path));
  // Node is installed as one file.
  const isNode = path.startsWith('node_modules/node-linux-');
  return {
    path: isNode ? 'bin/node' : `${path}/*`,
    name: isNode ? `Node.js ${version}` : `${name} ${version}`,
    licence: license,
    text,
  };
}

/** The package's own words; some have none and only name the licence. */
function licenceText(folder: string): string {
  const names = globSync(['{LICENSE,LICENCE,License,license,COPYING}*', 'NOTICE*'], { cwd: folder }).sort();
  return names.map((name) => readFileSync(join(folder, name), 'utf8').trim()).join('\n\n');
}

function paragraph({ path, name, licence, text }: Part): string {
  const lines = text.split(/\r?\n/).map((line) => line.trimEnd());
  const holders = [...new Set(lines.map((line) => line.trim()).filter((line) => /^(?:copyright|\(c\)|©)/i.test(line)))];
  return [
    `Files: ${path}`,
    `Comment: ${name}`,
    `Copyright: ${(holders.length === 0 ? [`the authors of ${name}`] : holders).join('\n ')}`,
    `License: ${licence.replaceAll(/[()]/g, '').replaceAll(' OR ', ' or ').replaceAll(' AND ', ' and ')}`,
    ...lines.filter((line, index) => line !== '' || index > 0).map((line) => ` ${line === '' ? '.' : line}`),
    '',
  ].join('\n');
}
