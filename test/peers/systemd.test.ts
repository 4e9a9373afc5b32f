/** The units by systemd's own judgement, and the word that systemd-notify passes on. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { startChild, until } from '../harness/child.ts';
import { needPackage } from '../harness/debian.ts';
import { temporaryFolder } from '../harness/store.ts';

const ROOT = join(import.meta.dirname, '../..');

beforeAll(() => {
  needPackage('/usr/bin/systemd-analyze', 'systemd');
  needPackage('/usr/bin/python3', 'python3-minimal');
});

/** The units in a folder of their own, for a program that is where this checkout is. */
async function units(): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['postern.service', 'postern.socket']) {
    const text = await readFile(join(ROOT, 'systemd', name), 'utf8');
    await writeFile(join(folder, name), text.replaceAll('/opt/postern', ROOT));
  }
  return folder;
}

test('systemd finds nothing to say against the units', async () => {
  const folder = await units();
  const files = ['postern.service', 'postern.socket'].map((name) => join(folder, name));
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' });
  // Units of the machine itself may be wrong.
  expect(stderr.split('\n').filter((line) => line.includes('postern'))).toEqual([]);
  expect(status).toBe(0);
});

test('the service is exposed by 1.6 at most', async () => {
  const service = join(await units(), 'postern.service');
  const args = ['security', '--offline=true', '--threshold=16', '--no-pager', service];
  const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  expect(stdout).toMatch(/Overall exposure level for postern\.service: \d\.\d/);
  expect(status).toBe(0);
});

test('the sockets are the defaults of server.yml', async () => {
  const { server } = parse(await readFile(join(ROOT, 'config/server.yml'), 'utf8')) as {
    server: { http: { listen: string[] }; smtp: { listen: string[] } };
  };
  const socket = await readFile(join(ROOT, 'systemd/postern.socket'), 'utf8');
  const held = Array.from(socket.matchAll(/^ListenStream=(.*)$/gm), ([, address]) => address);
  expect(held.toSorted()).toEqual([...server.http.listen, ...server.smtp.listen].toSorted());
});

test('the user is made', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'etc'));
  const input = await readFile(join(ROOT, 'systemd/postern.sysusers'));
  execFileSync('systemd-sysusers', [`--root=${folder}`, '-'], { input, stdio: ['pipe', 'ignore', 'ignore'] });
  expect(await readFile(join(folder, 'etc/passwd'), 'utf8')).toMatch(
    /^postern:x:\d+:\d+:.*:\/var\/lib\/postern:\S*nologin$/m,
  );
});

const LISTENER = `
import socket, sys
told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
told.bind(sys.argv[1])
while True: print(told.recv(4096).decode(), flush=True)
`;

test('systemd hears that it is ready, reloads and stops, and that it is alive', async () => {
  const folder = await temporaryFolder();
  const socket = join(folder, 'notify');
  const file = join(folder, 'server.yml');
  const listener = await startChild('/usr/bin/python3', ['-c', LISTENER, socket]);
  onTestFinished(() => listener.stop());
  await until('somebody listens', () => existsSync(socket));
  const server = {
    hostname: 'mail.postern.test',
    operator: 'ops@postern.test',
    http: { listen: ['127.0.0.1:0'] },
    smtp: { listen: ['127.0.0.1:0'] },
    admin_socket: join(folder, 'admin.sock'),
  };
  const database = { url: `sqlite:${join(folder, 'postern.db')}` };
  await writeFile(file, stringify({ server, database, dns: { servers: ['127.0.0.1:1'] } }));
  const env = { ...process.env, NOTIFY_SOCKET: socket, WATCHDOG_USEC: '3000000' };
  const daemon = await startChild(join(ROOT, 'bin/postern'), ['serve', '--config', file], { env });
  onTestFinished(() => daemon.stop('SIGKILL'));
  await until('it is ready', () => listener.output().includes('READY=1\nSTATUS=0 domains served'));
  await until('it is alive', () => listener.output().includes('WATCHDOG=1'));
  process.kill(daemon.pid, 'SIGHUP');
  await until('it has reloaded', () => /RELOADING=1[^]*READY=1/.test(listener.output()));
  await daemon.stop();
  expect(await daemon.ended).toBe(0);
  await until('it has said that it stops', () => listener.output().includes('STOPPING=1'));
});
