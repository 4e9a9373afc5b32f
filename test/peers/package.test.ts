/** The packages of a release, built as `npm run package` does, and one of them in a booted Debian: installed, upgraded, removed, purged. */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { bootDebian, type DebianMachine } from '../harness/debian-machine.ts';
import { needPackage } from '../harness/debian.ts';

const ROOT = join(import.meta.dirname, '../..');
const TIME = 1_790_000_000;
const MAX_BYTES = 160_000_000;
const { version: VERSION, dependencies: DEPENDENCIES } = z
  .object({ version: z.string(), dependencies: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
const NEXT = '99.0.0-rc.1';
const THIS_DEB = `postern_${VERSION}_amd64.deb`;
const NEXT_DEB = 'postern_99.0.0~rc.1_amd64.deb';

const MAINTAINER = 'Ana Example <ana@example.org>';

let work: string;
/** Of this checkout; of a copy of it, built under other circumstances; of a copy that is the next version. */
let releases: { readonly first: string; readonly second: string; readonly next: string };

beforeAll(() => {
  needPackage('/usr/bin/dpkg-deb', 'dpkg');
  work = mkdtempSync(join(tmpdir(), 'postern-test-'));
  releases = { first: join(work, 'first'), second: join(work, 'second'), next: join(work, 'next') };
  build(ROOT, { out: releases.first, args: ['--maintainer', MAINTAINER] });
  const copy = copyCheckout('another place');
  build(copy, {
    out: releases.second,
    args: ['--arch', 'amd64', '--maintainer', MAINTAINER],
    umask: '077',
    env: { TZ: 'Asia/Kathmandu', LC_ALL: 'C.UTF-8' },
  });
  makeNextVersion(copy);
  build(copy, { out: releases.next, args: ['--arch', 'amd64'] });
}, 900_000);

afterAll(() => rmSync(work, { recursive: true, force: true }));

interface Build {
  readonly out: string;
  readonly args?: readonly string[];
  readonly umask?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function build(checkout: string, { out, args = [], umask = '022', env = {} }: Build): void {
  const script = [join(checkout, 'scripts/package.ts'), '--quick', '--out', out, ...args];
  const command = [process.execPath, '--disable-warning=ExperimentalWarning', ...script];
  execFileSync('sh', ['-c', `umask ${umask}; exec "$@"`, 'sh', ...command], {
    cwd: checkout,
    env: { ...process.env, ...env, SOURCE_DATE_EPOCH: String(TIME) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** What a clone has, with files of another time. */
function copyCheckout(name: string): string {
  const folder = join(work, name);
  const left = new Set(['.git', 'node_modules', 'dist', '.postern']);
  mkdirSync(folder);
  for (const entry of readdirSync(ROOT)) {
    if (!left.has(entry)) cpSync(join(ROOT, entry), join(folder, entry), { recursive: true });
  }
  return folder;
}

/** Its database has one table more. */
function makeNextVersion(folder: string): void {
  edit(join(folder, 'package.json'), `"version": "${VERSION}"`, `"version": "${NEXT}"`);
  const migration = "{ up: (db) => db.schema.createTable('later').addColumn('id', 'integer').execute() }";
  edit(join(folder, 'src/store/migrations/index.ts'), '  };\n}', `    '9999-later': ${migration},\n  };\n}`);
}

function edit(file: string, from: string, to: string): void {
  const text = readFileSync(file, 'utf8');
  if (!text.includes(from)) throw new Error(`${file} has no ${from}`);
  writeFileSync(file, text.replace(from, to));
}

/** A package's files, unpacked. */
function unpack(arch: 'amd64' | 'arm64'): string {
  const folder = join(work, arch);
  mkdirSync(folder, { recursive: true });
  execFileSync('dpkg-deb', ['-x', join(releases.first, `postern_${VERSION}_${arch}.deb`), folder]);
  return folder;
}

describe('the files of a release', () => {
  test('are byte for byte the same, whoever builds them, where and when', () => {
    const names = readdirSync(releases.first);
    expect(names).toEqual([
      'SHA256SUMS',
      `postern-${VERSION}-linux-amd64.tar.gz`,
      `postern-${VERSION}-linux-arm64.tar.gz`,
      `postern-${VERSION}.cdx.json`,
      THIS_DEB,
      `postern_${VERSION}_arm64.deb`,
    ]);
    for (const name of names.filter((name) => !/arm64|SUMS/.test(name)))
      execFileSync('cmp', [join(releases.first, name), join(releases.second, name)]);
    execFileSync('sha256sum', ['--check', '--strict', '--status', 'SHA256SUMS'], { cwd: releases.first });
  });

  test('are 160 MB at most when they are installed', () => {
    for (const arch of ['amd64', 'arm64'] as const) {
      const file = join(releases.first, `postern_${VERSION}_${arch}.deb`);
      expect(execFileSync('dpkg-deb', ['--field', file, 'Maintainer'], { encoding: 'utf8' }).trim()).toBe(MAINTAINER);
      const kibibytes = execFileSync('dpkg-deb', ['--field', file, 'Installed-Size'], { encoding: 'utf8' });
      expect(Number(kibibytes) * 1024, arch).toBeLessThanOrEqual(MAX_BYTES);
    }
  });

  test('name every production package in the bill of materials and in the licences', () => {
    const bill = z
      .object({ components: z.array(z.object({ name: z.string(), version: z.string() })) })
      .parse(JSON.parse(readFileSync(join(releases.first, `postern-${VERSION}.cdx.json`), 'utf8')));
    const licences = readFileSync(join(unpack('amd64'), 'usr/share/doc/postern/copyright'), 'utf8');
    for (const [name, version] of Object.entries(DEPENDENCIES)) {
      expect(bill.components).toContainEqual({ name, version });
      expect(licences).toContain(`\nComment: ${name} ${version}\n`);
    }
    expect(licences).toContain('\nComment: Node.js ');
    expect(bill.components.filter(({ name }) => name === 'vitest')).toEqual([]);
  });

  test.each([
    ['amd64', 62],
    ['arm64', 183],
  ] as const)('have native code for %s alone, and nothing that only developers read', (arch, machine) => {
    const program = join(unpack(arch), 'usr/lib/postern');
    const native = globSync('{bin/node,node_modules/**/*.node}', { cwd: program });
    expect(native).toHaveLength(2);
    for (const path of native) expect(readFileSync(join(program, path)).readUInt16LE(18), path).toBe(machine);
    const unwanted = globSync('**/{*.map,*.d.ts,*.d.cts,test,tests,README.md}', { cwd: program });
    expect(unwanted).toEqual([]);
  });

  test('have each line of the source where it was', () => {
    const program = join(unpack('amd64'), 'usr/lib/postern');
    const files = globSync('src/**/*.ts', { cwd: ROOT, exclude: ['**/*.d.ts'] });
    expect(files.length).toBeGreaterThan(300);
    for (const file of files) {
      const [source = '', built = ''] = [join(ROOT, file), join(program, file.replace(/\.ts$/, '.js'))].map((path) =>
        readFileSync(path, 'utf8'),
      );
      expect(
        built.split('\n').map((line) => line.length),
        file,
      ).toEqual(source.split('\n').map((line) => line.length));
    }
  });

  test('have all that the program imports', () => {
    const program = join(unpack('amd64'), 'usr/lib/postern');
    // Those of threads and processes do their work at once; the console runs in a browser.
    const modules = globSync('src/**/*.js', { cwd: program }).filter(
      (path) => !/main\.js$|-(?:thread|process)\.js$|^src\/console\//.test(path),
    );
    // What is imported when it is first needed.
    const late = modules.flatMap((path) =>
      Array.from(readFileSync(join(program, path), 'utf8').matchAll(/\bimport\('([^'.][^']*)'\)/g), ([, name]) => name),
    );
    expect(late.length).toBeGreaterThan(2);
    const all = [...modules.map((path) => `./${path}`), ...late];
    const script = `for (const name of ${JSON.stringify(all)}) await import(name); console.log('all')`;
    const node = join(program, 'bin/node');
    expect(execFileSync(node, ['--input-type=module', '-e', script], { cwd: program, encoding: 'utf8' })).toBe('all\n');
    // Reading the files of the console, and those of the packages that it uses.
    const exchange = { path: '/console', snapshot: { server: { server: { console: { enabled: true } } } } };
    const page = `const { createConsole } = await import('./src/http/console.js'); console.log(createConsole()(${JSON.stringify(exchange)}).body)`;
    const shown = execFileSync(node, ['--input-type=module', '-e', page], { cwd: program, encoding: 'utf8' });
    expect(shown.match(/rel="modulepreload" href="\/console\/[0-9a-f]{16}\//g)?.length).toBeGreaterThan(10);
  });
});

describe('in Debian', () => {
  const CONFIGURATION = `server:
  hostname: mail.example.net
  operator: you@example.net
tls: { mode: 'off' }
dns: { servers: ['127.0.0.1'] }
delivery: { retry: [1h] }
`;

  /** As `postern setup` does: a configuration, and the unit enabled. */
  async function configure(machine: DebianMachine): Promise<void> {
    await machine.succeed(`install -o root -g postern -m 0640 /dev/stdin /etc/postern/server.yml <<'EOF'
${CONFIGURATION}EOF
systemctl enable --now postern.service`);
  }

  /** To the operator; nobody is there to take it, so that it stays in the queue. */
  async function sendMail(machine: DebianMachine): Promise<void> {
    const lines = ['EHLO client.example', 'MAIL FROM:<>', 'RCPT TO:<postmaster@mail.example.net>', 'DATA'];
    const dialogue = [...lines, 'From: <ada@client.example>\\r\\nSubject: Kept\\r\\n\\r\\nHello\\r\\n.', 'QUIT'].map(
      (line) => `sleep 1; printf '${line}\\r\\n' >&3`,
    );
    const output = await machine.succeed(`exec 3<>/dev/tcp/127.0.0.1/25\n${dialogue.join('\n')}\ntimeout 30 cat <&3`);
    expect(output).toMatch(/^250 .* accepted as inb_/m);
  }

  async function queued(machine: DebianMachine): Promise<string[]> {
    const output = await machine.succeed('postern queue list --json');
    return z
      .object({ deliveries: z.array(z.object({ id: z.string() })) })
      .parse(JSON.parse(output))
      .deliveries.map(({ id }) => id);
  }

  test('it installs, waits for its set-up, upgrades with a copy of the database, and is removed without its data', async () => {
    const machine = await bootDebian({ [releases.first]: '/mnt/first', [releases.next]: '/mnt/next' });
    const installed = await machine.succeed(`dpkg -i /mnt/first/${THIS_DEB}`);
    expect(installed).toContain('to configure and start it, run: postern setup you@example.com');
    expect(await machine.succeed('postern --version')).toBe(`${VERSION}\n`);
    expect(await machine.succeed("stat -c '%U:%G %a' /etc/postern /var/lib/postern")).toBe(
      'root:postern 750\npostern:postern 700\n',
    );
    const { output: state } = await machine.run(
      'systemctl is-enabled postern.service; systemctl is-active postern.service',
    );
    expect(state).toBe('disabled\ninactive\n');

    await configure(machine);
    await sendMail(machine);
    const before = await queued(machine);
    expect(before).toHaveLength(1);

    await machine.succeed(`dpkg -i /mnt/next/${NEXT_DEB}`);
    expect(await machine.succeed('systemctl is-active postern.service')).toBe('active\n');
    expect(
      await machine.succeed('readlink /proc/$(systemctl show --value --property MainPID postern)/exe'),
    ).not.toContain('deleted');
    expect(await machine.succeed('postern --version')).toBe(`${NEXT}\n`);
    expect(await queued(machine)).toEqual(before);
    expect(await machine.succeed('ls /var/lib/postern')).toMatch(/^postern\.db\.before-migration-\d/m);

    // The version before does not open what this one has migrated; dpkg says so and goes on.
    expect(await machine.succeed(`dpkg -i /mnt/first/${THIS_DEB}`)).toContain(
      'the service did not start. To see why, run: journalctl -u postern',
    );
    await machine.succeed(`dpkg -i /mnt/next/${NEXT_DEB}`);

    await machine.succeed('dpkg --remove postern');
    expect((await machine.run('systemctl is-active postern.service')).output).toBe('inactive\n');
    await machine.succeed('test -e /etc/postern/server.yml -a -e /var/lib/postern/postern.db -a ! -e /usr/lib/postern');
    // Installed again, it goes on.
    await machine.succeed(`dpkg -i /mnt/next/${NEXT_DEB}`);
    expect(await queued(machine)).toEqual(before);

    await machine.succeed('dpkg --purge postern');
    expect((await machine.run('id postern')).output).toContain('no such user');
    const left = await machine.succeed(
      "find / -xdev -name '*postern*' -not -path '/var/log/*' -not -path '/var/lib/dpkg/*' -not -path '/mnt/*'",
    );
    expect(left).toBe('');
  });

  test('the tarball runs from /opt', async () => {
    const machine = await bootDebian({ [releases.first]: '/mnt/first' });
    await machine.succeed(`tar -xzf /mnt/first/postern-${VERSION}-linux-amd64.tar.gz -C /opt
ln -s postern-${VERSION} /opt/postern
systemd-sysusers /opt/postern/systemd/postern.sysusers
install -d -o root -g postern -m 0750 /etc/postern
install -m 0644 /opt/postern/systemd/postern.service /etc/systemd/system/
ln -s /opt/postern/bin/postern /usr/local/bin/postern`);
    await configure(machine);
    await sendMail(machine);
    expect(await queued(machine)).toHaveLength(1);
  });
});
