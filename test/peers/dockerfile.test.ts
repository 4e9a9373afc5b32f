/**
 * The image of the Dockerfile, built and run without an engine: the first stage by this machine's npm, the second in a root of
 * Debian. It runs as Docker would run it: its user, its environment, its entry point, and a root that is read-only but for
 * what compose.yaml mounts.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { parseCopy, readDockerfile, wordsOf, type Stage } from '../../scripts/dockerfile.ts';
import { startChild, untilReady } from '../harness/child.ts';
import { debianRoot } from '../harness/debian-machine.ts';
import { readCompose } from '../structure/compose.ts';

const ROOT = join(import.meta.dirname, '../..');
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const stages = readDockerfile();
const [first, last] = stages;

let work: string;
let image: string;

beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), 'postern-test-'));
  image = join(work, 'image');
  const built = join(work, 'built');
  runHere(first, built);
  execFileSync('cp', ['-a', debianRoot(), image]);
  runThere(last, built);
}, 600_000);

afterAll(() => rmSync(work, { recursive: true, force: true }));

/** The stage that builds; /opt/postern is a folder of the test. */
function runHere(stage: Stage | undefined, opt: string): void {
  const context = join(work, 'context');
  mkdirSync(context);
  for (const { name, words } of stage?.instructions ?? []) {
    if (name === 'COPY') copy(words, { from: ROOT, to: context });
    if (name !== 'RUN') continue;
    const script = words.replace('/opt/postern', opt).replace(/^node /, `'${process.execPath}' `);
    execFileSync('sh', ['-c', script], {
      cwd: context,
      env: { ...process.env, SOURCE_DATE_EPOCH: '0' },
      stdio: 'inherit',
    });
  }
}

function runThere(stage: Stage | undefined, built: string): void {
  for (const { name, words } of stage?.instructions ?? []) {
    if (name === 'COPY') cpSync(built, join(image, parseCopy(words).target), { recursive: true });
    if (name === 'RUN') execFileSync('chroot', [image, 'sh', '-c', words], { env: { PATH }, stdio: 'inherit' });
  }
}

function copy(words: string, { from, to }: { from: string; to: string }): void {
  const { sources, target } = parseCopy(words);
  for (const source of sources) {
    const place = target.endsWith('/') ? join(to, target, source) : join(to, target);
    mkdirSync(dirname(place), { recursive: true });
    cpSync(join(from, source), place, { recursive: true });
  }
}

test('it starts as its user, gets well by its own health check, and ends when it is asked to', async () => {
  mkdirSync(join(image, 'etc/postern'), { recursive: true });
  const ports = "http: { listen: ['127.0.0.1:8098'] }, smtp: { listen: ['127.0.0.1:2598'] }";
  writeFileSync(
    join(image, 'etc/postern/server.yml'),
    `server: { hostname: mail.example.net, operator: ops@example.net, ${ports} }\ntls: { mode: 'off' }\n`,
  );
  const command = [...list(wordsOf(last, 'ENTRYPOINT')), ...list(wordsOf(last, 'CMD'))];
  const env = Object.fromEntries(
    wordsOf(last, 'ENV')
      .split(' ')
      .map((pair): [string, string] => [pair.split('=')[0] ?? '', pair.split('=')[1] ?? '']),
  );
  const daemon = await startChild('unshare', ['--mount', '--net', 'sh', '-ec', entering(), 'sh', ...command], {
    env: { PATH, ...env },
  });
  onTestFinished(() => daemon.stop('SIGKILL'));
  const health = list(wordsOf(last, 'HEALTHCHECK').replace(/^.*? CMD /, ''));
  const inside = ['--target', String(daemon.pid), '--mount', '--net', '--root', '--', ...health];
  await untilReady(daemon, () => spawnSync('nsenter', inside, { env: { PATH } }).status === 0);
  const [uid] = wordsOf(last, 'USER').split(':');
  expect(execFileSync('ps', ['-o', 'uid=', '-p', String(daemon.pid)], { encoding: 'utf8' }).trim()).toBe(uid);
  await daemon.stop('SIGTERM');
  expect(await daemon.ended).toBe(0);
  expect(existsSync(join(image, 'var/lib/postern/postern.db'))).toBe(true);
});

/** A mount namespace of its own, and what `docker compose` would mount in it. */
function entering(): string {
  const { volumes, tmpfs } = readCompose('compose.yaml').services['postern'] ?? { volumes: [], tmpfs: [] };
  const kept = volumes.map((volume) => volume.split(':')).filter(([, , mode]) => mode !== 'ro');
  return [
    `mount --bind ${image} ${image}`,
    ...kept.map(([, path = '']) => `mount --bind ${image}${path} ${image}${path}`),
    ...tmpfs.map((each) => {
      const [path = '', options = 'mode=1777'] = each.split(':');
      return `mount -t tmpfs -o ${options} tmpfs ${image}${path}`;
    }),
    `mount -t proc proc ${image}/proc`,
    `mount -o remount,bind,ro ${image}`,
    'ip link set lo up',
    `exec chroot --userspec=${wordsOf(last, 'USER')} ${image} "$@"`,
  ].join('\n');
}

function list(words: string): string[] {
  return JSON.parse(words) as string[];
}
