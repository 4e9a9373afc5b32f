/**
 * The Debian package. It starts nothing that `postern setup` has not configured; an upgrade restarts the daemon, which copies
 * its database before it migrates it. Removing it keeps the data, and purging it leaves nothing.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  type Dirent,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { ArchiveOptions } from './tarball.ts';
import type { Tree } from './tree.ts';

const PROGRAM = 'usr/lib/postern';
const DOCS = 'usr/share/doc/postern';

/** Where Debian has what stands beside the program. */
const MOVED = {
  COPYRIGHT: `${DOCS}/copyright`,
  'README.md': `${DOCS}/README.md`,
  'SECURITY.md': `${DOCS}/SECURITY.md`,
  docs: `${DOCS}/docs`,
  monitoring: `${DOCS}/monitoring`,
  'config/server.yml': `${DOCS}/examples/server.yml`,
  'config/projects': `${DOCS}/examples/projects`,
  'config/templates': `${DOCS}/examples/templates`,
  'CHANGELOG.md': `${DOCS}/CHANGELOG.md`,
  'man/postern.1': 'usr/share/man/man1/postern.1',
  'systemd/postern.service': 'usr/lib/systemd/system/postern.service',
  'systemd/postern.socket': 'usr/lib/systemd/system/postern.socket',
  'systemd/postern.sysusers': 'usr/lib/sysusers.d/postern.conf',
  'completion/postern': 'usr/share/bash-completion/completions/postern',
  'completion/_postern': 'usr/share/zsh/vendor-completions/_postern',
  'completion/postern.fish': 'usr/share/fish/vendor_completions.d/postern.fish',
} as const;
/** In `copyright` already, or empty by now. */
const DROPPED = ['LICENSE', 'man', 'systemd', 'completion'];

/** Answers the path of the new file. */
export function buildDeb(tree: Tree, { out, time, quick, work, maintainer }: ArchiveOptions): string {
  const root = join(work, 'deb');
  const program = join(root, PROGRAM);
  cpSync(tree.folder, program, { recursive: true, preserveTimestamps: true });
  for (const [from, to] of Object.entries(MOVED)) {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    renameSync(join(program, from), join(root, to));
  }
  for (const name of DROPPED) rmSync(join(program, name), { recursive: true });
  const manual = join(root, MOVED['man/postern.1']);
  writeFileSync(`${manual}.gz`, gzipSync(readFileSync(manual), { level: 9 }));
  rmSync(manual);
  const unit = join(root, MOVED['systemd/postern.service']);
  writeFileSync(unit, forDebian(readFileSync(unit, 'utf8')));
  mkdirSync(join(root, 'usr/bin'));
  symlinkSync(`../lib/postern/bin/postern`, join(root, 'usr/bin/postern'));
  writeControl(root, tree, maintainer);
  for (const path of pathsOf(root)) lutimesSync(path, time, time);
  const version = debianVersion(tree.manifest.version);
  const file = join(out, `postern_${version}_${tree.arch}.deb`);
  const compression = quick ? ['-Zgzip', '-z1'] : ['-Zxz', '--threads-max=1'];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(time) };
  execFileSync('dpkg-deb', ['--root-owner-group', ...compression, '--build', root, file], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return file;
}

/** The unit is written for /opt/postern. */
function forDebian(unit: string): string {
  return unit
    .replace(/^# docs\/install\.md .*\n/, '# Make changes with `systemctl edit postern`.\n')
    .replace('file:///opt/postern/docs/', `file:///${DOCS}/docs/`)
    .replace('/opt/postern/bin/postern', '/usr/bin/postern');
}

/** A pre-release is before the release: 1.0.0-rc.1 is 1.0.0~rc.1. */
function debianVersion(version: string): string {
  return version.replace('-', '~');
}

function writeControl(root: string, { arch, manifest }: Tree, maintainer: string): void {
  const files = pathsOf(root, (entry) => entry.isFile());
  const sums = files.map(
    (file) => `${createHash('md5').update(readFileSync(file)).digest('hex')}  ${relative(root, file)}\n`,
  );
  // As dpkg counts: whole kibibytes of each file, and one for anything else.
  const sizes = files.map((file) => Math.ceil(readFileSync(file).length / 1024));
  const installed = sizes.reduce((sum, size) => sum + size, pathsOf(root).length - files.length);
  const control = join(root, 'DEBIAN');
  cpSync(join(import.meta.dirname, 'debian'), control, { recursive: true });
  const text = readFileSync(join(control, 'control'), 'utf8');
  writeFileSync(
    join(control, 'control'),
    text
      .replace('@VERSION@', debianVersion(manifest.version))
      .replace('@ARCHITECTURE@', arch)
      .replace('@MAINTAINER@', () => maintainer)
      .replace('@SIZE@', String(installed)),
  );
  writeFileSync(join(control, 'md5sums'), sums.join(''));
  for (const name of readdirSync(control)) chmodSync(join(control, name), isScript(name) ? 0o755 : 0o644);
}

function isScript(name: string): boolean {
  return name.startsWith('post') || name.startsWith('pre');
}

/** Everything below, in order. */
function pathsOf(root: string, wanted: (entry: Dirent) => boolean = () => true): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter(wanted)
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
