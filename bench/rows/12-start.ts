/** Row 12: from the start of the installed package until it is ready, with its code compiled before. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { buildTree } from '../../scripts/package/tree.ts';
import { endWithUs, freePort } from '../../test/harness/child.ts';
import { fillDatabase } from '../lib/fill.ts';
import type { Row } from '../lib/row.ts';

const ROWS = 1_000_000;
/** The first start after an installation compiles, and V8 keeps what it compiled lazily at the second. */
const STARTS_BEFORE = 2;

export const row: Row = {
  number: '12',
  measure: 'start until ready, ms',
  reference: '(a limit)',
  goals: [
    { name: 'empty', atMost: 600 },
    { name: `with ${ROWS} submissions and deliveries`, atMost: 1000 },
  ],
  async run({ rounds }) {
    const folder = await mkdtemp(join(tmpdir(), 'postern-bench-'));
    try {
      const program = join(folder, 'program');
      await buildTree({ folder: program, arch: process.arch === 'arm64' ? 'arm64' : 'amd64', time: 0 });
      const empty = await prepare(join(folder, 'empty'));
      const full = await prepare(join(folder, 'full'));
      await fillDatabase(`sqlite:${join(full, 'postern.db')}`, ROWS);
      for (let i = 0; i < STARTS_BEFORE; i++) for (const data of [empty, full]) await start(program, data);
      const times: [number[], number[]] = [[], []];
      for (let round = 0; round < rounds; round++) {
        times[0].push(await start(program, empty));
        times[1].push(await start(program, full));
      }
      return times.map((ours) => ({ ours, reference: [] }));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** A folder with the configuration of a daemon that takes posts and mail, with one form. */
async function prepare(folder: string): Promise<string> {
  await mkdir(join(folder, 'projects'), { recursive: true });
  const server = {
    server: {
      hostname: 'mail.postern.test',
      operator: 'ops@postern.test',
      http: { listen: [`127.0.0.1:${await freePort()}`] },
      admin_socket: join(folder, 'admin.sock'),
      smtp: { listen: [`127.0.0.1:${await freePort()}`] },
    },
    database: { url: `sqlite:${join(folder, 'postern.db')}` },
    // Nobody answers: a start waits for no name server.
    dns: { servers: ['127.0.0.1:1'] },
  };
  await writeFile(join(folder, 'server.yml'), stringify(server));
  const project = {
    project: { name: 'Bench', slug: 'bench' },
    domains: { 'forms.test': { forms: { contact: { name: 'Contact', to: 'office@owner.test' } } } },
  };
  await writeFile(join(folder, 'projects/bench.yml'), stringify(project));
  return folder;
}

/** Starts the daemon, and stops it; ms until it says that it is ready. */
async function start(program: string, folder: string): Promise<number> {
  const env = { PATH: process.env['PATH'], CACHE_DIRECTORY: join(folder, 'cache') };
  const began = performance.now();
  const child = spawn(join(program, 'bin/postern'), ['serve', '--config', join(folder, 'server.yml')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  endWithUs(child);
  const ended = once(child, 'exit');
  let said = '';
  let ms: number | undefined;
  for await (const text of child.stdout.setEncoding('utf8') as AsyncIterable<string>) {
    said += text;
    if (ms !== undefined || !said.includes('"event":"daemon.ready"')) continue;
    ms = performance.now() - began;
    child.kill();
  }
  await ended;
  if (ms === undefined) throw new Error(`the daemon did not start: ${said}`);
  return ms;
}
