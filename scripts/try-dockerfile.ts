/**
 * Runs the steps of the Dockerfile where no engine is at hand, as root on Linux:
 *   sh bin/run scripts/try-dockerfile.ts BASE FOLDER
 * BASE is a root file system with Node and npm in it, as the image that FROM names would be (debootstrap, and the pinned
 * Node); FOLDER, which must not exist, gets one root per stage. The last one is then run as the image would be: its user, its
 * environment, its entry point, a read-only root but for what `docker run` mounts, until its health check is well.
 */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseCopy, readDockerfile, wordsOf, type Stage } from './dockerfile.ts';

const ROOT = join(import.meta.dirname, '..');
const [base = '', folder = ''] = process.argv.slice(2);
if (base === '' || folder === '' || existsSync(folder)) {
  console.error('usage: try-dockerfile BASE FOLDER   (FOLDER must not exist)');
  process.exit(2);
}
mkdirSync(folder, { recursive: true });

const stages = readDockerfile();
const roots = new Map<string, string>();
for (const [index, stage] of stages.entries()) build(stage, join(folder, stage.name || `stage-${index}`));
const last = stages.at(-1);
if (last !== undefined) await tryImage(last, join(folder, `stage-${stages.length - 1}`));

function build(stage: Stage, root: string): void {
  execFileSync('cp', ['-a', base, root]);
  roots.set(stage.name, root);
  let workdir = '/';
  for (const { name, words } of stage.instructions) {
    console.log(`${name} ${words}`);
    if (name === 'WORKDIR') mkdirSync(join(root, (workdir = words)), { recursive: true });
    else if (name === 'RUN') inRoot(root, ['sh', '-c', `cd ${workdir} && ${words}`]);
    else if (name === 'COPY') copy(words, join(root, workdir));
  }
}

function copy(words: string, workdir: string): void {
  const { from, sources, target } = parseCopy(words);
  for (const source of sources) {
    const path = join(from === undefined ? ROOT : (roots.get(from) ?? ''), source);
    const to = target.endsWith('/') ? join(workdir, target, source) : join(workdir, target);
    cpSync(path, to, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
  }
}

function inRoot(root: string, command: readonly string[]): void {
  execFileSync('chroot', [root, ...command], { stdio: 'inherit', env: { ...process.env, HOME: '/root' } });
}

async function tryImage(stage: Stage, root: string): Promise<void> {
  mkdirSync(join(root, 'etc/postern'), { recursive: true });
  writeFileSync(
    join(root, 'etc/postern/server.yml'),
    'server:\n  hostname: mail.example.net\n  operator: ops@example.net\n' +
      "  http: { listen: ['127.0.0.1:8098'] }\n  smtp: { listen: ['127.0.0.1:2598'] }\n",
  );
  const [user = '', group = ''] = wordsOf(stage, 'USER').split(':');
  const command = [...list(wordsOf(stage, 'ENTRYPOINT')), ...list(wordsOf(stage, 'CMD'))];
  const health = list(wordsOf(stage, 'HEALTHCHECK').replace(/^.*? CMD /, ''));
  const env = Object.fromEntries(
    wordsOf(stage, 'ENV')
      .split(' ')
      .map((pair): [string, string] => [pair.split('=')[0] ?? '', pair.split('=')[1] ?? '']),
  );
  // A mount namespace of its own; what is read-only there stays as it is here.
  const mounts = [
    `mount --bind ${root} ${root}`,
    `for kept in var/lib/postern run/postern; do mount --bind ${root}/$kept ${root}/$kept; done`,
    `mount -t tmpfs tmpfs ${root}/tmp`,
    `mount -t proc proc ${root}/proc`,
    `mount -o remount,bind,ro ${root}`,
    `exec chroot --userspec=${user}:${group} ${root} "$@"`,
  ];
  const enter = ['--mount', 'sh', '-ec', mounts.join('; '), 'sh'];
  const path = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };
  const daemon = spawn('unshare', [...enter, ...command], { env: { ...path, ...env }, stdio: 'inherit' });
  const ended = new Promise<number | null>((resolve) => daemon.once('exit', resolve));
  for (let second = 0; !isWell(); second++) {
    if (daemon.exitCode !== null || second > 60) throw new Error('the image does not get well');
    await sleep(1000);
  }
  console.log('HEALTHCHECK is well');
  daemon.kill('SIGTERM');
  console.log(`ended with ${await ended}`);

  function isWell(): boolean {
    try {
      execFileSync('chroot', [`--userspec=${user}:${group}`, root, ...health], { env: path, stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }
}

function list(words: string): string[] {
  return JSON.parse(words) as string[];
}
