/**
 * The files that a release installs: the source with its types stripped in place (so that lines and columns in a stack trace
 * are those of the source), the production packages without what only developers read, and Node itself.
 *
 * Imports nothing but Node, so that it also runs where no packages are (the Dockerfile).
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  globSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { licencesOf } from './licences.ts';

export const ROOT = join(import.meta.dirname, '../..');

/** As Debian calls them, and as Node does. */
export const ARCHITECTURES = { amd64: 'x64', arm64: 'arm64' } as const;
export type Architecture = keyof typeof ARCHITECTURES;

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

export interface Tree {
  readonly folder: string;
  readonly arch: Architecture;
  readonly manifest: Manifest;
}

export interface TreeOptions {
  /** Must not exist. */
  readonly folder: string;
  readonly arch: Architecture;
  /** Of every file, in seconds. */
  readonly time: number;
}

/** What stands in a release as it does in the repository. */
const COPIED = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'bin',
  'config',
  'docs',
  'man',
  'monitoring',
  'systemd',
];
const EXECUTABLE = new Set(['bin/node', 'bin/postern', 'bin/run']);

/** Folders at the root of a package that nobody imports from. */
const UNUSED_FOLDERS = [
  'bin',
  'test',
  'tests',
  'doc',
  'docs',
  'example',
  'examples',
  'benchmark',
  'benchmarks',
  'fixtures',
  'coverage',
];
/** Types, sources of compiled files, builds for browsers, settings of tools, and what people read. */
const UNUSED_FILES =
  /\.(?:[cm]?ts|map|md|markdown|tsbuildinfo|flow|yml|html|png|ico|svg|gyp|gypi|plist|zip)$|^\.|\.min\.js$|\.umd\.js$|\.browser\.|^eslint\.config\./;
/**
 * Of single packages: second copies in the module format that nobody here loads, and what they are compiled from. A test
 * imports all of the program from the package.
 */
const UNUSED_PARTS = [
  '@opentelemetry/api/dist/**/*.mjs',
  '@peculiar/*/build/es2015',
  'altcha-lib/dist/cjs',
  'better-sqlite3/{deps,src}',
  'encoding-japanese/encoding.js',
  'fast-xml-parser/src',
  'joi/dist',
  'liquidjs/dist/liquid.node.mjs',
  'liquidjs/node_modules',
  'mailauth/assets',
  'mailauth/node_modules/nodemailer/dist/esm',
  'mailparser/dist/cjs',
  'mailparser/node_modules/nodemailer/dist/cjs',
  'node-addon-api',
  'nodemailer/dist/cjs',
  're2js/build/index.cjs',
  'smtp-server/dist/cjs',
  'tldts/dist/es6',
  'yaml/browser',
  'zod/**/*.cjs',
  'zod/{mini,v3,v4-mini,v4/mini}',
];

/** Builds the tree. The packages are fetched by npm, for the wanted architecture. */
export async function buildTree({ folder, arch, time }: TreeOptions): Promise<Tree> {
  mkdirSync(dirname(folder), { recursive: true });
  mkdirSync(folder);
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) cpSync(join(ROOT, name), join(folder, name));
  const cpu = ARCHITECTURES[arch];
  execFileSync(
    'npm',
    ['ci', '--omit=dev', '--os=linux', `--cpu=${cpu}`, '--libc=glibc', '--prefer-offline', '--loglevel=error'],
    {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  for (const name of COPIED) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  renameSync(join(folder, `node_modules/node-linux-${cpu}/bin/node`), join(folder, 'bin/node'));
  // Before the licences are removed with the files of each package.
  writeFileSync(join(folder, 'COPYRIGHT'), licencesOf(folder));
  prune(join(folder, 'node_modules'), cpu);
  copySource(folder);
  const manifest = writeManifest(folder);
  for (const name of ['package-lock.json', '.npmrc']) rmSync(join(folder, name));
  writeCompletion(folder);
  setModes(folder, time);
  return { folder, arch, manifest };
}

function prune(modules: string, cpu: string): void {
  remove(modules, ['.bin', '.package-lock.json', `node-linux-${cpu}`]);
  for (const part of UNUSED_PARTS) {
    const found = globSync(part, { cwd: modules });
    // An upgrade has moved it: look whether it is still there under another name.
    if (found.length === 0) throw new Error(`scripts/package/tree.ts: nothing matches node_modules/${part}`);
    remove(modules, found);
  }
  const addon = `better-sqlite3/prebuilds/linux-${cpu}.node`;
  remove(
    modules,
    globSync('better-sqlite3/prebuilds/*', { cwd: modules }).filter((path) => path !== addon),
  );
  for (const manifest of globSync('**/package.json', { cwd: modules }))
    remove(join(modules, dirname(manifest)), UNUSED_FOLDERS);
  for (const entry of readdirSync(modules, { recursive: true, withFileTypes: true })) {
    if (UNUSED_FILES.test(entry.name)) remove(entry.parentPath, [entry.name]);
  }
  // Deepest first, so that a folder of empty folders goes, too.
  const folders = readdirSync(modules, { recursive: true, withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const path of folders.map((entry) => join(entry.parentPath, entry.name)).sort((a, b) => b.length - a.length)) {
    if (readdirSync(path).length === 0) remove(path, ['']);
  }
}

function remove(folder: string, names: readonly string[]): void {
  for (const name of names) rmSync(join(folder, name), { recursive: true, force: true });
}

/** `src`, as JavaScript: types become blanks, and `.ts` in imports becomes `.js`, which is as long. */
function copySource(folder: string): void {
  for (const path of globSync('src/**/*', { cwd: ROOT, withFileTypes: true })) {
    if (!path.isFile()) continue;
    const from = join(path.parentPath, path.name);
    const to = join(folder, from.slice(ROOT.length));
    mkdirSync(dirname(to), { recursive: true });
    if (!from.endsWith('.ts')) cpSync(from, to);
    else if (!from.endsWith('.d.ts'))
      writeFileSync(to.replace(/\.ts$/, '.js'), toJavaScript(readFileSync(from, 'utf8')));
  }
  const launcher = join(folder, 'bin/postern');
  writeFileSync(launcher, readFileSync(launcher, 'utf8').replace('/src/main.ts', '/src/main.js'));
}

function toJavaScript(source: string): string {
  return stripTypeScriptTypes(source, { mode: 'strip' }).replaceAll(/(['"]\.{1,2}\/[^'"\n]*)\.ts(?=['"])/g, '$1.js');
}

function writeManifest(folder: string): Manifest {
  const { name, version, description, license } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  ) as Manifest;
  const manifest = { name, version, description, license };
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify({ ...manifest, private: true, type: 'module' }, null, 2)}\n`,
  );
  return manifest;
}

/** The names are those that the shells look for. The command line has no native code, so that this Node can run it. */
function writeCompletion(folder: string): void {
  mkdirSync(join(folder, 'completion'));
  for (const [shell, name] of [
    ['bash', 'postern'],
    ['zsh', '_postern'],
    ['fish', 'postern.fish'],
  ] as const) {
    const text = execFileSync(process.execPath, [join(folder, 'src/main.js'), 'completion', shell], {
      encoding: 'utf8',
    });
    writeFileSync(join(folder, 'completion', name), text);
  }
}

/** Whatever the umask and the clock were. */
function setModes(folder: string, time: number): void {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name);
    const isProgram = entry.isDirectory() || EXECUTABLE.has(join(basename(entry.parentPath), entry.name));
    chmodSync(path, isProgram ? 0o755 : 0o644);
    lutimesSync(path, time, time);
  }
  chmodSync(folder, 0o755);
  lutimesSync(folder, time, time);
}
