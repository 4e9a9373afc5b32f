/**
 * `npm run package`: what a release consists of, in dist/: for each architecture a Debian package and a tarball of the same
 * files, then a software bill of materials and the SHA-256 sums. Needs npm, GNU tar and dpkg-deb.
 *
 * Two builds of one commit are equal, byte for byte: every file has the time of the commit (or SOURCE_DATE_EPOCH), belongs to
 * root and stands in order; packages come from the lockfile.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { buildDeb } from './package/deb.ts';
import { buildTarball } from './package/tarball.ts';
import { ARCHITECTURES, buildTree, ROOT, type Architecture } from './package/tree.ts';

const { values: options } = parseArgs({
  options: {
    /** `amd64`, `arm64`; both by default. */
    arch: { type: 'string', multiple: true },
    out: { type: 'string', default: join(ROOT, 'dist') },
    /** Only the installed files, into this new folder. */
    tree: { type: 'string' },
    /** Who answers for the Debian package: `Name <address>`. */
    maintainer: { type: 'string', default: 'Nobody <nobody@localhost>' },
    /** Compresses little: for tests. */
    quick: { type: 'boolean', default: false },
  },
});

if (!/^[^<>\n]+ <[^<>@\s]+@[^<>@\s]+>$/.test(options.maintainer)) {
  throw new Error(`--maintainer must be 'Name <address>', not '${options.maintainer}'`);
}
process.umask(0o022);
const time = commitTime();
if (options.tree !== undefined) {
  const [arch = hostArchitecture()] = architectures();
  await buildTree({ folder: resolve(options.tree), arch, time });
} else {
  await buildRelease(resolve(options.out));
}

async function buildRelease(out: string): Promise<void> {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const work = mkdtempSync(join(tmpdir(), 'postern-package-'));
  try {
    for (const arch of architectures()) {
      const tree = await buildTree({ folder: join(work, arch), arch, time });
      for (const build of [buildTarball, buildDeb]) {
        console.log(build(tree, { ...options, out, time, work: join(work, `${arch}-work`) }));
      }
    }
    writeFileSync(join(out, `postern-${version()}.cdx.json`), billOfMaterials(join(work, 'postern')));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  const sums = readdirSync(out)
    .sort()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(out, name)))
          .digest('hex')}  ${name}\n`,
    );
  writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
  process.stdout.write(sums.join(''));
}

interface Bill {
  readonly serialNumber: string;
  readonly metadata: object;
  readonly components: readonly { 'bom-ref': string; properties: readonly { name: string }[] }[];
  readonly dependencies: readonly { ref: string; dependsOn: readonly string[] }[];
}

/**
 * The production packages by the lockfile, as CycloneDX; without what npm makes up at each run. (Its own --omit=dev leaves
 * out what development needs, too.)
 */
function billOfMaterials(folder: string): string {
  mkdirSync(folder, { recursive: true });
  for (const name of ['package.json', 'package-lock.json', '.npmrc']) cpSync(join(ROOT, name), join(folder, name));
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'];
  const text = execFileSync('npm', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const { serialNumber: _, ...bill } = JSON.parse(text) as Bill;
  const development = 'cdx:npm:package:development';
  const left = bill.components.filter(({ properties }) => properties.some(({ name }) => name === development));
  const refs = new Set(left.map((component) => component['bom-ref']));
  const ours = {
    ...bill,
    metadata: { ...bill.metadata, timestamp: new Date(time * 1000).toISOString() },
    components: bill.components.filter((component) => !refs.has(component['bom-ref'])),
    dependencies: bill.dependencies
      .filter(({ ref }) => !refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => !refs.has(each)) })),
  };
  return `${JSON.stringify(ours, null, 2)}\n`;
}

function architectures(): Architecture[] {
  const all = Object.keys(ARCHITECTURES) as Architecture[];
  const wanted = options.arch ?? (options.tree === undefined ? all : []);
  const unknown = wanted.find((name) => !all.some((arch) => arch === name));
  if (unknown !== undefined) throw new Error(`--arch ${unknown}: there are ${all.join(' and ')}`);
  return all.filter((arch) => wanted.includes(arch));
}

function hostArchitecture(): Architecture {
  return process.arch === 'arm64' ? 'arm64' : 'amd64';
}

function version(): string {
  const { version: text } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  return text;
}

/** In seconds. */
function commitTime(): number {
  const { SOURCE_DATE_EPOCH } = process.env;
  return Number(
    SOURCE_DATE_EPOCH ?? execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' }),
  );
}
