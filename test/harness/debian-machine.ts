/**
 * A booted Debian 12 of the test's own: systemd as its first process, a network namespace with nothing but a loopback
 * interface, and a root file system that is thrown away. Needs root.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { startChild, untilReady } from './child.ts';
import { needPackage } from './debian.ts';

const PACKAGES = ['ca-certificates', 'curl', 'dbus', 'systemd', 'systemd-sysv'];
const FOLDER = join(tmpdir(), 'postern-debian');
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export interface DebianMachine {
  /** The process whose namespaces it has, on this machine. */
  readonly pid: number;
  /** Runs a script in its shell; what it printed, both streams mixed. */
  run(script: string): Promise<{ readonly code: number; readonly output: string }>;
  /** The same; throws when it fails. */
  succeed(script: string): Promise<string>;
}

/** Boots it, with folders of this machine under other names (read-only); it ends with the test. */
export async function bootDebian(folders: Readonly<Record<string, string>> = {}): Promise<DebianMachine> {
  needPackage('/usr/bin/systemd-nspawn', 'systemd-container');
  const args = [
    '--quiet',
    `--directory=${debianRoot()}`,
    // A file system in memory lies over the root.
    '--volatile=overlay',
    '--boot',
    '--register=no',
    '--keep-unit',
    '--private-network',
    '--link-journal=no',
    '--resolv-conf=off',
    '--console=read-only',
    ...Object.entries(folders).map(([here, there]) => `--bind-ro=${here}:${there}`),
  ];
  const nspawn = await startChild('/usr/bin/systemd-nspawn', args);
  onTestFinished(async () => {
    // Killed itself, it would leave the machine running.
    if (Number.isInteger(init())) process.kill(init(), 'SIGKILL');
    await nspawn.stop();
  });
  await untilReady(nspawn, async () => (await run('systemctl is-system-running')).output.startsWith('running'));
  return {
    pid: init(),
    run,
    async succeed(script) {
      const { code, output } = await run(script);
      if (code !== 0) throw new Error(`${script}\nends with ${code}:\n${output}`);
      return output;
    },
  };

  function init(): number {
    const children = `/proc/${nspawn.pid}/task/${nspawn.pid}/children`;
    return existsSync(children) ? Number.parseInt(readFileSync(children, 'utf8'), 10) : Number.NaN;
  }

  function run(script: string): Promise<{ code: number; output: string }> {
    const enter = ['--target', `${init()}`, '--all', '--', '/usr/bin/env', '-i', `PATH=${PATH}`, 'LC_ALL=C.UTF-8'];
    const command = [...enter, '/bin/bash', '-c', `exec 2>&1 </dev/null\n${script}`];
    return new Promise((resolve) => {
      const child = execFile('nsenter', command, (_error, output) => resolve({ code: child.exitCode ?? 1, output }));
    });
  }
}

/** The files of a minimal Debian 12, not to be changed; kept from run to run. */
export function debianRoot(): string {
  needPackage('/usr/sbin/debootstrap', 'debootstrap');
  const root = join(FOLDER, `bookworm-${PACKAGES.join('-')}`);
  if (existsSync(root)) return root;
  mkdirSync(FOLDER, { recursive: true });
  const place = mkdtempSync(join(FOLDER, '.new-'));
  try {
    const args = ['--variant=minbase', `--include=${PACKAGES.join(',')}`, 'bookworm', join(place, 'root')];
    execFileSync('debootstrap', args, { stdio: 'ignore' });
    // Another test file may have been faster.
    if (!existsSync(root)) renameSync(join(place, 'root'), root);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
  return root;
}
