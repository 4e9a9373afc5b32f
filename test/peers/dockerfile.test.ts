/**
 * The image of the Dockerfile, built and run without an engine: the first stage by this machine's npm, the second in a root of
 * Debian. It runs as Docker would run it: its user, its environment, its entry point, and a root that is read-only but for
 * what compose.yaml mounts; by itself, and by the steps of docs/install.md, up to a form post that arrives.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { parseCopy, readDockerfile, wordsOf, type Stage } from '../../scripts/dockerfile.ts';
import { startChild, untilReady } from '../harness/child.ts';
import { bootDebian, debianRoot, type DebianMachine } from '../harness/debian-machine.ts';
import { addressOf, real, startInternet } from '../harness/internet.ts';
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
  // What Docker mounts has a place there.
  mkdirSync(join(image, 'etc/postern'));
  writeFileSync(join(image, 'etc/resolv.conf'), '');
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
  const inside = ['--target', String(daemon.pid), '--mount', '--net', '--root', '--', ...healthCheck()];
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

function healthCheck(): string[] {
  return list(wordsOf(last, 'HEALTHCHECK').replace(/^.*? CMD /, ''));
}

test('its steps lead to a delivered form post, signed, over HTTPS', async () => {
  const [section = ''] = readFileSync(join(ROOT, 'docs/install.md'), 'utf8').split('## Docker\n').slice(1);
  const files = Array.from(section.matchAll(/`(\/etc\/postern\/\S+\.yml)`:\n\n```yaml\n([^]*?)```/g));
  expect(files.map(([, path]) => path)).toEqual(['/etc/postern/server.yml', '/etc/postern/projects/example-com.yml']);
  const blocks = Array.from(section.matchAll(/```sh\n([^]*?)```/g), ([, block = '']) => block);
  const commands = blocks.flatMap((block) => block.trimEnd().split(/(?<!\\)\n/));
  const steps = commands.slice(0, 1 + commands.findIndex((command) => command.includes('/contact')));
  expect(steps.length).toBeLessThanOrEqual(6);

  const machine = await bootDebian({ [image]: IMAGE });
  const internet = await startInternet(machine, {
    zone: real(`mail.example.net. A ${addressOf('machine')}
example.net. MX 10 mx.example.net.
mx.example.net. A ${addressOf('mail')}`),
    downloads: { host: 'downloads.example.org', files: [] },
  });
  // As Docker does for a container.
  const sysctl = ['sysctl', '-qw', 'net.ipv4.ip_unprivileged_port_start=0'];
  execFileSync('nsenter', ['--net', '--target', `${machine.pid}`, '--', ...sysctl]);
  for (const [, path = '', text = ''] of files) {
    await machine.succeed(`mkdir -p ${dirname(path)}\ncat > ${path} <<'EOF'\n${real(text)}EOF`);
  }
  for (const step of steps) {
    if (step.startsWith('curl')) await internet.run(real(step));
    else await machine.succeed(`cd /root\n${real(await asDocker(machine, step))}`);
    if (step.includes('records.zone')) await internet.publish(await machine.succeed('cat /root/records.zone'));
  }
  const [mail] = await internet.mail.untilMessages(1);
  const source = mail?.raw.toString() ?? '';
  expect(mail?.recipient).toBe(real('you@example.net'));
  expect(source).toContain('Is this thing on?');
  expect(source).toMatch(new RegExp(`^DKIM-Signature: [^]*?\\bd=${real('example.com')};`, 'm'));
  expect(await machine.succeed(await inContainer(machine, 'postern doctor || true'))).toMatch(
    /^ok +certificate +mail\.exampel\.net, until /m,
  );
});

const IMAGE = '/image';
const SERVICE = 'container.service';

/** What a command of Docker does, as a script for the machine. */
async function asDocker(machine: DebianMachine, step: string): Promise<string> {
  const [, inside] = /^docker compose exec postern (.*)$/.exec(step) ?? [];
  if (inside !== undefined) return inContainer(machine, inside);
  if (!step.startsWith('docker compose up ')) return step;
  const { volumes, tmpfs } = readCompose('compose.yaml').services['postern'] ?? { volumes: [], tmpfs: [] };
  const mounts = volumes.map((volume) => {
    const [from = '', to = ''] = volume.split(':');
    return from.startsWith('/')
      ? `mount --bind ${from} ${IMAGE}${to}`
      : `mkdir -p /srv/${from}; chown ${wordsOf(last, 'USER')} /srv/${from}; mount --bind /srv/${from} ${IMAGE}${to}`;
  });
  const command = [...list(wordsOf(last, 'ENTRYPOINT')), ...list(wordsOf(last, 'CMD'))].join(' ');
  const script = [
    ...mounts,
    ...tmpfs.map((each) => {
      const [path = '', options = 'mode=1777'] = each.split(':');
      return `mount -t tmpfs -o ${options} tmpfs ${IMAGE}${path}`;
    }),
    // Docker writes the first; the second is the certificate authority out there.
    `mount --bind /etc/resolv.conf ${IMAGE}/etc/resolv.conf`,
    `mount --bind /etc/ssl/certs ${IMAGE}/etc/ssl/certs`,
    `mount -t proc proc ${IMAGE}/proc`,
    `exec env -i PATH=${PATH} ${wordsOf(last, 'ENV')} chroot --userspec=${wordsOf(last, 'USER')} ${IMAGE} ${command}`,
  ].join('\n');
  const health = healthCheck().map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`);
  return `cat > /root/container <<'EOF'
${script}
EOF
systemd-run --quiet --unit=${SERVICE} unshare --mount sh -e /root/container
until nsenter --target $(systemctl show --property=MainPID --value ${SERVICE}) --mount --root -- ${health.join(' ')}; do
  systemctl is-active --quiet ${SERVICE} || exit 1
  sleep 0.2
done`;
}

/** The script that runs a command in the container. */
async function inContainer(machine: DebianMachine, command: string): Promise<string> {
  const pid = (await machine.succeed(`systemctl show --property=MainPID --value ${SERVICE}`)).trim();
  const enter = `nsenter --target ${pid} --mount -- chroot --userspec=${wordsOf(last, 'USER')} ${IMAGE}`;
  return `${enter} env -i PATH=${PATH} ${wordsOf(last, 'ENV')} ${command}`;
}

function list(words: string): string[] {
  return JSON.parse(words) as string[];
}
