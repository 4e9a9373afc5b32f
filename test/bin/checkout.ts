/** A throw-away checkout for the launcher's tests: the real bin/, a main that tells what it was given, a pretended npm. */
import { spawn, type ChildProcess } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Everything but Node and npm that the launcher may count on. */
const TOOLS = ['cat', 'cmp', 'cp', 'dirname', 'grep', 'kill', 'ln', 'mkdir', 'readlink', 'rm', 'sh', 'sleep'];

const MAIN = `
if (process.argv[2] === 'wait') {
  process.on('SIGTERM', () => { console.log('stopped'); process.exit(3); });
  setInterval(() => {}, 1000);
}
console.log(JSON.stringify({ args: process.argv.slice(2), cwd: process.cwd(), node: process.execPath, pid: process.pid,
  cache: process.env.NODE_COMPILE_CACHE, home: process.env.HOME, flags: process.execArgv }));
`;

/** What npm ci leaves: the pinned Node and npm's own record, written last. Its arguments are kept for the test to see. */
const NPM = `#!/bin/sh
echo "$@" >> npm-calls
echo "\${NODE_OPTIONS:-}" > npm-options
echo "npm: added 1 package"
rm -rf node_modules
mkdir -p node_modules/.bin
ln -s '${process.execPath}' node_modules/.bin/node
case $* in
  *--omit=dev*) echo '{}' > node_modules/.package-lock.json ;;
  *) echo '{ "dev": true }' > node_modules/.package-lock.json ;;
esac
`;

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Checkout {
  /** Its root, with a space in the path. */
  readonly root: string;
  /** A folder of programs that is the whole PATH. */
  readonly path: string;
  /** Puts a program on the PATH. */
  program(name: string, script: string): Promise<void>;
  /** Starts `bin/postern` (or `command`) and leaves it running. */
  start(args: readonly string[], options?: StartOptions): ChildProcess;
  /** Runs it to its end. */
  run(args: readonly string[], options?: StartOptions): Promise<Outcome>;
  remove(): Promise<void>;
}

export interface StartOptions {
  readonly command?: string;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly uid?: number;
}

/** A checkout as `git clone` leaves it, on a machine with the given npm (default: the pretended one). */
export async function makeCheckout(npm: string | undefined = NPM): Promise<Checkout> {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'postern launcher ')));
  const root = join(base, 'check out');
  const path = join(base, 'path');
  await chmod(base, 0o755);
  await mkdir(join(root, 'src'), { recursive: true });
  await mkdir(path);
  await cp(join(import.meta.dirname, '../../bin'), join(root, 'bin'), { recursive: true });
  await writeFile(join(root, 'src/main.ts'), MAIN);
  await writeFile(join(root, 'package.json'), '{ "type": "module" }');
  await writeFile(join(root, 'package-lock.json'), '{ "lockfileVersion": 3 }');
  await Promise.all(TOOLS.map(async (tool) => symlink(await toolPath(tool), join(path, tool))));
  const checkout: Checkout = { root, path, program, start, run, remove };
  if (npm !== '') await program('npm', npm);
  return checkout;

  async function program(name: string, script: string): Promise<void> {
    await rm(join(path, name), { force: true }); // it may be a link to the machine's own
    await writeFile(join(path, name), script, { mode: 0o755 });
  }

  function start(args: readonly string[], options: StartOptions = {}): ChildProcess {
    return spawn(options.command ?? join(root, 'bin/postern'), args, {
      cwd: options.cwd ?? base,
      env: { PATH: path, HOME: join(base, 'home'), ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    });
  }

  async function run(args: readonly string[], options: StartOptions = {}): Promise<Outcome> {
    const child = start(args, options);
    let stdout = '';
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { code, stdout, stderr };
  }

  async function remove(): Promise<void> {
    await rm(base, { recursive: true, force: true });
  }
}

async function toolPath(tool: string): Promise<string> {
  for (const folder of ['/usr/bin', '/bin']) {
    const path = await realpath(join(folder, tool)).catch(() => undefined);
    if (path !== undefined) return path;
  }
  throw new Error(`no ${tool} in /usr/bin or /bin`);
}
