/** Sockets that another program holds, as systemd does: while the daemon restarts nobody is refused. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { stringify } from 'yaml';
import { endWithUs, until } from '../harness/child.ts';
import { SmtpClient } from '../harness/inbound-smtp.ts';
import { temporaryFolder } from '../harness/store.ts';

const LAUNCHER = join(import.meta.dirname, '../../bin/postern');

/** Keeps descriptors 3 to 5 open, and starts the daemon on them for each line that it reads. */
const HOLDER = `
while read -r _; do
  sh -c 'echo "pid $$"; LISTEN_PID=$$ exec "$0" serve --config "$1"' "$0" "$1"
  echo "ended $?"
done`;

interface Holder {
  /** Starts the daemon and does not wait. */
  start(): void;
  /** Ends it, and waits until it has. */
  stop(): Promise<void>;
  output(): string;
}

test('the sockets of HTTP and mail are taken by their address; who comes during a restart is served after it', async () => {
  const sockets = await Promise.all([listening(), listening(), listening()]);
  const [http = 0, smtp = 0, other = 0] = sockets.map(portOf);
  const holder = await hold(sockets, {
    server: {
      http: { listen: [`127.0.0.1:${http}`] },
      smtp: { listen: [`127.0.0.1:${smtp}`] },
    },
  });
  const url = `http://127.0.0.1:${http}/healthz`;
  const early = fetch(url);
  holder.start();
  expect((await early).status).toBe(200);
  await until('it is ready', () => holder.output().includes('daemon.ready'));
  expect(holder.output()).toContain(`"event":"socket.unused","address":"127.0.0.1:${other}"`);
  await holder.stop();
  const late = fetch(url);
  const mail = SmtpClient.raw(smtp);
  holder.start();
  expect((await late).status).toBe(200);
  expect(await (await mail).reply()).toMatch(/^220 mail\.postern\.test/);
  await holder.stop();
});

async function listening(): Promise<Server> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function hold(sockets: readonly Server[], { server }: { server: object }): Promise<Holder> {
  const folder = await temporaryFolder();
  const file = join(folder, 'server.yml');
  const config = {
    server: {
      hostname: 'mail.postern.test',
      operator: 'ops@postern.test',
      admin_socket: join(folder, 'admin.sock'),
      ...server,
    },
    database: { url: `sqlite:${join(folder, 'postern.db')}` },
    dns: { servers: ['127.0.0.1:1'] },
  };
  await writeFile(file, stringify(config));
  const child = spawn('sh', ['-c', HOLDER, LAUNCHER, file], {
    env: { ...process.env, LISTEN_FDS: String(sockets.length) },
    stdio: ['pipe', 'pipe', 'inherit', ...sockets.map(descriptorOf)],
  });
  endWithUs(child);
  // The holder alone has them from now on.
  for (const socket of sockets) socket.close();
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('no pipes');
  let output = '';
  stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  onTestFinished(async () => {
    stdin.end();
    if (running()) process.kill(pid(), 'SIGKILL');
    if (child.exitCode === null) await once(child, 'exit');
  });

  function count(pattern: RegExp): number {
    return Array.from(output.matchAll(pattern)).length;
  }

  function running(): boolean {
    return count(/^pid /gm) > count(/^ended /gm);
  }

  function pid(): number {
    return Number(Array.from(output.matchAll(/^pid (\d+)$/gm)).at(-1)?.[1]);
  }

  return {
    output: () => output,
    start() {
      output = '';
      stdin.write('again\n');
    },
    async stop() {
      process.kill(pid(), 'SIGTERM');
      await until('it has ended', () => !running());
      expect(output).toContain('ended 0');
    },
  };
}

function descriptorOf(server: Server): number {
  return (server as unknown as { _handle: { fd: number } })._handle.fd;
}
